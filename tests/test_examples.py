"""The examples run: the scripts and the notebook that users begin with."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

import cisr

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = json.loads((EXAMPLES / "03_notebook.ipynb").read_text(encoding="utf-8"))


def test_every_example_is_run_here():
    run_here = {
        "01_frozen_lake.py",
        "02_bring_your_own.py",
        "03_notebook.ipynb",
        "04_shield.py",
        "05_drive.py",
        "06_lava.py",
        "07_continuous_actions.py",
        "09_stable_baselines3.py",
        "11_deploy.py",
    }
    run_elsewhere = {"08_rig.py", "10_jax_environment.py"}  # in experiments/test_elsewhere.py, tasks/test_gymnax.py
    assert set(os.listdir(EXAMPLES)) == run_here | run_elsewhere


def test_every_example_fits_on_a_page():
    for script in EXAMPLES.glob("*.py"):
        assert len(script.read_text().splitlines()) <= 40, script


def test_a_teacher_is_trained_and_compared(in_this_process, monkeypatch, capsys, tmp_path):
    """With students that hardly learn anything, so that it takes seconds."""
    monkeypatch.setattr(cisr, "get_task", lambda name, scale: tiny.task)
    runpy.run_path(str(EXAMPLES / "01_frozen_lake.py"), run_name="__main__")
    said = re.findall(r"^(\w+): success \d\.\d\d, failures in training (\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert [curriculum for curriculum, _ in said] == ["optimized", "SR1", "none"]
    assert dict(said)["SR1"] == "0"
    assert cisr.load_policy(tmp_path / "runs" / "example-curriculum.json").interventions_used


def test_a_teacher_is_trained_over_students_of_another_library(in_this_process, monkeypatch, capsys):
    """With students that hardly learn anything, so that it takes seconds."""
    pytest.importorskip("stable_baselines3")
    from sb3_tasks import students

    monkeypatch.setattr(cisr, "get_task", lambda name, scale: tiny.task)
    monkeypatch.setattr(cisr, "SB3Student", lambda algorithm, **settings: students[algorithm])
    runpy.run_path(str(EXAMPLES / "09_stable_baselines3.py"), run_name="__main__")
    said = re.findall(r"^(\w+): success \d\.\d\d, failures (\d+) in training$", capsys.readouterr().out, re.MULTILINE)
    assert [curriculum for curriculum, _ in said] == ["optimized", "SR1", "none"]
    assert dict(said)["SR1"] == "0"


def test_a_student_is_taken_elsewhere(in_this_process, monkeypatch, capfd):
    """One that hardly learns anything, so that it takes seconds."""
    pytest.importorskip("onnx")
    monkeypatch.setattr(cisr, "get_task", lambda name, scale: tiny.task)
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(EXAMPLES / "11_deploy.py"), run_name="__main__")
    said = capfd.readouterr().out
    assert "without cisr and jax: True" in said
    assert re.search(r"^An episode of the exported policy: return -?\d+\.\d$", said, re.MULTILINE)


def test_bring_your_own_fits_on_a_page_and_keeps_its_students_off_the_cliff(tmp_path):
    script = EXAMPLES / "02_bring_your_own.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    falls = {name: int(number) for name, number in re.findall(r"(\w+): (\d+) falls in training", done.stdout)}
    assert falls["taught"] == 0
    assert falls["none"] > 20


def said_by(name, folder):
    script = EXAMPLES / name
    assert len(script.read_text().splitlines()) <= 40
    return subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_a_shield_is_proven_to_keep_its_students_off_the_cliff(tmp_path):
    said = said_by("04_shield.py", tmp_path)
    assert "No policy can fail within 100 steps, by Proposition 2." in said
    falls, shielded = map(int, re.search(r"(\d+) falls in training, (\d+) steps shielded", said).groups())
    assert falls == 0 and shielded > 0


def test_a_controller_keeps_the_pole_up(tmp_path):
    found = re.findall(r"(\w+): (\d+) falls in training, (\d+) steps driven", said_by("05_drive.py", tmp_path))
    (held, no_falls, driven), (alone, falls, nothing) = found
    assert (held, no_falls, alone, nothing) == ("held", "0", "none", "0")
    assert int(driven) > 0 and int(falls) > 5


def test_nobody_falls_into_the_lava_of_a_minigrid_that_is_put_back_by_copies(tmp_path):
    pytest.importorskip("minigrid")
    said = said_by("06_lava.py", tmp_path)
    assert re.search(r"^0 failures in training, [1-9]\d* rescues$", said, re.MULTILINE)
    assert "Not refuted" in said  # and so not proven


def test_continuous_actions_fit_on_a_page_and_stay_within_bounds(tmp_path):
    said = said_by("07_continuous_actions.py", tmp_path)
    failures = {name: int(number) for name, number in re.findall(r"(\w+): (\d+) too fast in training", said)}
    assert failures["taught"] == 0
    assert failures["none"] > 20


def test_the_notebook_runs_from_top_to_bottom(in_this_process, capsys):
    import matplotlib.pyplot as plt

    names = {"__name__": "__main__"}
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    plt.close("all")
    said = capsys.readouterr().out
    assert re.search(r"^taught: success [01]\.\d\d, failures in training 0$", said, re.MULTILINE)
    assert re.search(r"^none: success [01]\.\d\d, failures in training [1-9]\d+$", said, re.MULTILINE)
    assert re.search(r"^ended on: [GHF]$", said, re.MULTILINE)


def test_the_notebook_is_kept_without_outputs():
    for cell in NOTEBOOK["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
