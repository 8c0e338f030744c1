"""Ray as an executor, on a real cluster of several nodes on this machine: nothing depends on it, and nodes may die."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import stubborn
import tiny
from ray_nodes import Nodes
from stores import cells

from cisr import Execution, Fixed, Ray, Study, compare
from cisr.core.errors import CisrError, ConfigError
from cisr.core.seeding import derive_seed
from cisr.training import (
    Batch,
    BatchProgress,
    Checkpoint,
    Graduation,
    StudentSpec,
    TrainingSetup,
    default_observe,
    ray_actor,
)
from cisr.training.ray_cluster import RayWorkers
from cisr.training.worker import Job

pytest.importorskip("ray", reason="a cluster needs Ray: pip install 'cisr[ray]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def mischief(tmp_path_factory):
    """Where environments on all nodes look for what to do wrong."""
    return tmp_path_factory.mktemp("ray") / "mischief"


@pytest.fixture(scope="module")
def nodes(mischief):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MISCHIEF", str(mischief))
        nodes = Nodes(2, gpus=1)
    yield nodes
    assert nodes.close() == []


def job(task, *names, **setup):
    students = [
        StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=k) for k, name in enumerate(names)
    ]
    return Job(TrainingSetup(task=task, **setup), Batch(name=names[0], students=tuple(students)), None)


def children():
    """Of this process."""
    return [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def taught(executor, *jobs):
    try:
        return [event for _, event in executor.run(jobs)]
    finally:
        executor.close()


def test_a_study_whose_nodes_are_killed_and_replaced_equals_a_serial_one_cell_by_cell(tmp_path, nodes):
    kept = 0

    def kill_now_and_then(heard):
        nonlocal kept
        if isinstance(heard, BatchProgress) and isinstance(heard.event, Checkpoint):
            kept += 1
            if kept in (2, 9):
                nodes.kill()
                nodes.add()

    serial = Execution(executor="serial", batch=2)
    Study(tiny.task, store=tmp_path / "serial", execution=serial).run()
    on_ray = Execution(executor=Ray(address=nodes.address), batch=2)
    Study(tiny.task, store=tmp_path / "ray", execution=on_ray).run(kill_now_and_then)
    assert kept >= 5 * 3
    assert cells(tmp_path / "ray") == cells(tmp_path / "serial")
    assert nodes.without_workers()


def test_workers_that_die_and_environments_that_hang_mean_the_same_on_a_cluster(nodes, mischief):
    stubborn.tell(mischief, f"step after {derive_seed(1, 'unit 2 round 0', 'env', 1)}", "lock")
    executor = RayWorkers(Ray(address=nodes.address), 1, step_timeout=3.0)
    events = []
    for _, event in executor.run([job(stubborn.task, "a", "b")]):
        events.append(event)
        if isinstance(event, Checkpoint) and event.unit == 1:
            (worker,) = nodes.workers()
            os.kill(worker, signal.SIGKILL)
    executor.close()
    mischief.unlink()
    assert [e.unit for e in events if isinstance(e, Checkpoint)] == [1, 2, 3]
    assert isinstance(events[-1], Graduation) and events[-1].errors[0] is None
    message, failures = events[-1].errors[1]
    assert "took longer than 3 s" in message and failures is None


def test_a_worker_for_each_gpu_has_one_on_the_cluster_that_the_environment_names(nodes, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", nodes.address)

    def seen(unit):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0" and "JAX_PLATFORMS" not in os.environ
        return default_observe(unit)

    (*_, end) = taught(RayWorkers(Ray(gpus=True), None), job(tiny.task, "a", observe=seen))
    assert isinstance(end, Graduation) and end.errors == (None,)


def test_whoever_trains_elsewhere_must_have_the_same_packages():
    here = ray_actor.Surroundings.here(1.0, on_gpus=False)
    assert ray_actor._unlike(here.packages) == ""
    said = ray_actor._unlike({**here.packages, "numpy": "0.1"})
    assert "has numpy" in said and "the main process has 0.1: install the same packages" in said


def test_without_ray_there_is_one_line_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^Ray is not installed: pip install 'cisr\[ray\]'\.$"):
        Execution(executor="ray")


def test_where_there_is_no_cluster_one_line_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"^There is no connection to the Ray cluster at 127\.0\.0\.1:1: "):
        on_ray = Execution(executor=Ray(address="127.0.0.1:1"))
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=tmp_path / "s", execution=on_ray)


def test_a_cluster_that_ray_remembers_and_that_is_gone_is_told_at_once(tmp_path, monkeypatch):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    began = time.monotonic()
    with pytest.raises(CisrError, match="refused"):
        compare(
            tiny.task,
            {"SR1": Fixed("SR1")},
            n_students=1,
            store=tmp_path / "s",
            execution=Execution(executor=Ray(address="auto")),
        )
    assert time.monotonic() - began < 60  # Ray alone would try for a quarter of an hour


def test_a_lost_head_ends_the_run_with_one_line_and_the_same_command_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    nodes = Nodes(1)  # of its own: tests may run in any order, and this one takes the cluster along
    heads = [nodes]

    def kill_after_a_unit(heard):
        if isinstance(heard.event, Checkpoint) and heads:
            heads.pop().kill_head()
            end = time.monotonic() + 60  # until Ray has noticed: workers that live on might be done before
            while any(b"ray_driver" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children()):
                assert time.monotonic() < end
                time.sleep(0.1)

    options = {"n_students": 2, "store": tmp_path / "s"}
    on_ray = Execution(executor=Ray(address=nodes.address), batch=2)
    with pytest.raises(CisrError, match=r"^The connection to the Ray cluster at .* is lost, .* run the same command"):
        compare(tiny.task, {"SR1": Fixed("SR1")}, execution=on_ray, callback=kill_after_a_unit, **options)
    serial = Execution(executor="serial", batch=2)
    compare(tiny.task, {"SR1": Fixed("SR1")}, execution=serial, **options)
    compare(tiny.task, {"SR1": Fixed("SR1")}, execution=serial, n_students=2, store=tmp_path / "calm")
    assert cells(tmp_path / "s") == cells(tmp_path / "calm")
    assert nodes.without_workers() and nodes.close() == []
