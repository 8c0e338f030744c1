"""Worker processes that die: killed from outside, while idle, again and again, or before they could start."""

import os
import signal

import pytest
import tiny

from cisr.core.errors import CisrError
from cisr.curricula import Fixed
from cisr.training import Abandonment, Batch, Checkpoint, Graduation, StudentSpec, TrainingSetup
from cisr.training import process as module
from cisr.training.executors import Processes
from cisr.training.worker import Job


def job(name):
    student = StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=1)
    return Job(SETUP, Batch(name=name, students=(student,)), None)


SETUP = TrainingSetup(task=tiny.task)


@pytest.fixture
def workers():
    pool = Processes(1)
    yield pool
    pool.close()


def pid(pool):
    return pool._workers[0].child._process.pid


def test_a_worker_may_be_killed_at_every_unit_because_progress_forgives(workers):
    units = []
    for _, event in workers.run([job("a")]):
        if isinstance(event, Checkpoint):
            units.append(event.unit)
            os.kill(pid(workers), signal.SIGKILL)
    assert units == [1, 2, 3]
    assert isinstance(event, Graduation) and event.errors == (None,)


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM])
def test_an_idle_worker_that_is_killed_is_replaced(workers, death):
    assert isinstance(list(workers.run([job("a")]))[-1][1], Graduation)
    os.kill(pid(workers), death)
    workers._workers[0].child._process.wait()
    assert isinstance(list(workers.run([job("b")]))[-1][1], Graduation)


def test_an_idle_worker_may_die_while_another_one_works():
    pool = Processes(2)
    list(pool.run([job("a"), job("b")]))
    assert len(pool._workers) == 2
    events = pool.run([job("c")])
    next(events)
    idle = [worker for worker in pool._workers if worker.child.alive][-1]
    os.kill(idle.child._process.pid, signal.SIGKILL)
    assert isinstance(list(events)[-1][1], Graduation)
    pool.close()


def test_workers_that_cannot_import_stop_the_run_with_one_line(workers, monkeypatch, capfd):
    start = module.start_process
    monkeypatch.setattr(module, "start_process", lambda name, page: start("cisr.no_such_module"))
    with pytest.raises(CisrError, match=r"A worker process cannot start \(exit code 71\): most often memory is short"):
        list(workers.run([job("a")]))
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_the_system_refuses_stops_the_run_with_one_line(workers, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(module.subprocess, "Popen", refuse)
    with pytest.raises(CisrError, match=r"A worker process cannot start \(Cannot allocate memory\)"):
        list(workers.run([job("a")]))


def test_a_batch_whose_worker_crashes_twice_in_one_unit_is_abandoned(workers):
    student = job("a").batch
    events = [event for _, event in workers.run([Job(TrainingSetup(task=tiny.suicidal), student, None)])]
    assert events == [Abandonment("its worker process died (signal 6)")]
