"""`cisr export` as users and their mistakes meet it; stores from anywhere get one line and write nowhere else."""

import importlib.util
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from calls import call, refused
from damage import write_nonsense

from cisr import ComparisonElsewhere, Fixed, SB3Student, Store, compare, load_student, task_elsewhere
from cisr.export import optuna_study, students, table_files, tensorboard_log  # noqa: F401 (with their libraries)
from cisr.export.numpy_policy import NumpyPolicy

FORMATS = ("csv", "parquet", "optuna", "tensorboard")


def exported(*words):
    """Where a command said that it wrote."""
    code, out, err = call("export", *words)
    assert code == 0, err
    return Path(out.strip())


def test_exports_go_beside_the_store_unless_told_otherwise(trained, tmp_path):
    before = set(trained.parent.iterdir())
    for to in FORMATS:
        assert exported(trained, to).exists()
    assert {path.name for path in set(trained.parent.iterdir()) - before} == {
        "store-csv",
        "store-parquet",
        "store-optuna.db",
        "store-tensorboard",
    }
    assert exported(trained, "csv", "--out", tmp_path / "a" / "b") == tmp_path / "a" / "b"


@pytest.mark.parametrize("to", ["numpy", "onnx"])
def test_a_student_of_a_store_is_exported_and_acts_in_its_environment(trained, to):
    path = exported(trained, to, "compare/SR1/000", "--task", "tiny:task")
    assert path.name == f"store-compare-SR1-000.{'npz' if to == 'numpy' else 'onnx'}"
    with Store(trained, read_only=True) as store:
        known = load_student(store, tiny.task, "compare/SR1/000")
    env = tiny.task.make_env()
    seen, _ = env.reset(seed=1)
    if to == "numpy":
        policy = NumpyPolicy(path)
        act = lambda seen: policy.predict(seen, deterministic=True)  # noqa: E731
    else:
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        act = lambda seen: int(session.run(["action"], {"observation": np.asarray(seen)[None]})[0][0])  # noqa: E731
    for _ in range(20):
        action = act(seen)
        assert action == known.predict(seen, deterministic=True)
        seen, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            seen, _ = env.reset()


def test_a_student_of_stable_baselines3_is_exported_from_a_store(tmp_path):
    pytest.importorskip("stable_baselines3")
    import sb3_tasks

    path, student = tmp_path / "store.sqlite", sb3_tasks.students["A2C"]
    compare(sb3_tasks.beam, {"back": Fixed("back")}, student=student, n_students=1, store=path, execution=tiny.HERE)
    policy = NumpyPolicy(exported(path, "numpy", "compare/back/000", "--task", "sb3_tasks:beam"))
    with Store(path, read_only=True) as store:
        known = load_student(store, sb3_tasks.beam, "compare/back/000")
    seen = np.linspace(-2, 2, 30, dtype=np.float32)[:, None]
    np.testing.assert_allclose(policy.predict(seen, True), known.predict(seen, True), rtol=1e-5, atol=1e-5)
    assert isinstance(student, SB3Student)


def test_what_cannot_be_exported_is_told_in_a_line(trained, broken, elsewhere, tmp_path):
    own = ("--task", "tiny:task", "--out", tmp_path / "x.npz")
    assert "no student 'compare/SR1/009'" in refused("export", trained, "numpy", "compare/SR1/009", *own)
    assert "(compare/SR1/000, " in refused("export", trained, "numpy", "nobody", *own)
    assert "was ended by an error" in refused("export", broken, "numpy", "compare/SR1/000", *own)
    assert "is elsewhere: nothing here knows" in refused("export", elsewhere, "numpy", "study/000/00", *own)
    assert "has not finished" in refused("export", elsewhere, "numpy", "study/003/00", *own)
    assert "'tiny-lake', which is not built in" in refused("export", trained, "numpy", "compare/SR1/000")
    assert "give the student's name" in refused("export", trained, "onnx")
    assert "leave out the student" in refused("export", trained, "csv", "compare/SR1/000")
    assert "ends in .onnx" in refused("export", trained, "onnx", "compare/SR1/000", "--out", tmp_path / "x.npz")
    assert "is one of task 'tiny-lake', --task sb3_tasks:beam is 'beam'" in refused(
        "export", trained, "numpy", "compare/SR1/000", *own[2:], "--task", "sb3_tasks:beam"
    )
    assert "There is no store" in refused("export", tmp_path / "nowhere.sqlite", "csv")
    assert "'xml'" in refused("export", trained, "xml")
    assert list(tmp_path.glob("x*")) == []


MISBEHAVING = """
import dataclasses, sys, time, tiny
def leave(**options): sys.exit(0)
def hang(**options): time.sleep(1000)
def task(): return dataclasses.replace(tiny.task, make_env=leave)
def slow(): return dataclasses.replace(tiny.task, make_env=hang)
"""


@pytest.mark.parametrize(("task", "says"), [("task", "could not be played: SystemExit"), ("slow", "than 1 s")])
def test_an_environment_that_leaves_or_hangs_cannot_end_an_export(trained, tmp_path, task, says):
    (tmp_path / f"misbehaving_{task}.py").write_text(MISBEHAVING)
    words = ("compare/SR1/000", "--task", f"{tmp_path}/misbehaving_{task}.py:{task}", "--out", tmp_path / "x.npz")
    assert says in refused("export", trained, "numpy", *words, "--step-timeout", 1)
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize("to", ["parquet", "optuna", "tensorboard", "onnx"])
def test_a_library_that_is_missing_is_named_with_the_command_that_brings_it(to, trained, monkeypatch):
    module = "pyarrow" if to == "parquet" else to
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *of: None if name == module else real(name, *of))
    student = ("compare/SR1/000", "--task", "tiny:task") if to == "onnx" else ()
    assert "is not installed: pip install 'cisr[export]'" in refused("export", trained, to, *student)
    if to == "tensorboard":
        words = ("--store", trained, "--tensorboard", trained.parent / "log", "--workers", 0)
        assert "pip install 'cisr[export]'" in refused("compare", "tiny:task", "SR1", *words)


def test_labels_and_names_lead_to_no_other_folder(tmp_path):
    arm = task_elsewhere("arm", ["held"], n_units=1)
    store = tmp_path / "deep" / "down" / "arm.sqlite"
    store.parent.mkdir(parents=True)
    labels = ["../../../evil", "/tmp/evil", "..", "a\x00b"]
    comparison = ComparisonElsewhere(arm, {label: Fixed("held") for label in labels}, n_students=1, store=store)
    while (trial := comparison.ask()) is not None:
        trial.next_intervention({"mean_return": 1.0, "violation": 0.0})
        comparison.tell(trial, 1.0)
    before = set(tmp_path.rglob("*"))
    for to in ("csv", "parquet", "tensorboard"):
        exported(store, to)
    new = set(tmp_path.rglob("*")) - before
    assert new and all(store.parent in path.parents for path in new)
    assert len(list((store.parent / "arm-tensorboard").rglob("*tfevents*"))) == len(labels)
    refused("export", store, "numpy", "../../../evil")
    assert set(tmp_path.rglob("*")) - before == new


@pytest.mark.parametrize("seed", range(12))
def test_a_store_that_says_nonsense_gets_a_line_or_is_exported(seed, trained, tmp_path):
    done = write_nonsense(trained, random.Random(seed))
    before = set(tmp_path.rglob("*"))
    for to in FORMATS:
        code, _, err = call("export", trained, to, "--out", tmp_path / f"out.{to}")
        assert code in (0, 2), f"{done}: {err}"
        assert (len(err.strip().splitlines()) == 1) == (code == 2), f"{done}: {err}"
    assert {path for path in set(tmp_path.rglob("*")) - before if tmp_path / "own" in path.parents} == set()


def test_a_damaged_store_and_lost_weights_get_a_line(trained, tmp_path):
    student = ("compare/SR1/000", "--task", "tiny:task")
    shutil.rmtree(trained.with_name(trained.name + ".weights"))
    assert "are missing" in refused("export", trained, "numpy", *student)
    content = bytearray(trained.read_bytes())
    content[4096 * 3 : 4096 * 4] = bytes(4096)
    trained.write_bytes(content)
    for to in FORMATS:
        refused("export", trained, to)


def test_a_store_cannot_have_its_task_run(trained, tmp_path, monkeypatch):
    """The name of a task is a store's own word: only those that are built in are looked up."""
    (tmp_path / "evil.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(tmp_path)
    with Store(trained) as store:
        store.record({"task": "evil.py:task"})
    assert "which is not built in" in refused("export", trained, "numpy", "compare/SR1/000")


def test_cisr_stays_light(tmp_path):
    program = """
import sys
import cisr, cisr.cli.commands, cisr.export
assert not {"jax", "optuna", "onnx", "tensorboard", "pyarrow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
