"""The examples run: the scripts and the notebook that users begin with."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import tiny

import cisr

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = json.loads((EXAMPLES / "03_notebook.ipynb").read_text(encoding="utf-8"))


def test_every_example_is_run_here():
    assert sorted(os.listdir(EXAMPLES)) == ["01_frozen_lake.py", "02_bring_your_own.py", "03_notebook.ipynb"]


def test_a_teacher_is_trained_and_compared(in_this_process, monkeypatch, capsys, tmp_path):
    """With students that hardly learn anything, so that it takes seconds."""
    monkeypatch.setattr(cisr, "get_task", lambda name, scale: tiny.task)
    runpy.run_path(str(EXAMPLES / "01_frozen_lake.py"), run_name="__main__")
    said = re.findall(r"^(\w+): success \d\.\d\d, failures in training (\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert [curriculum for curriculum, _ in said] == ["optimized", "SR1", "none"]
    assert dict(said)["SR1"] == "0"
    assert cisr.load_policy(tmp_path / "runs" / "example-curriculum.json").interventions_used


def test_bring_your_own_fits_on_a_page_and_keeps_its_students_off_the_cliff(tmp_path):
    script = EXAMPLES / "02_bring_your_own.py"
    assert len(script.read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    falls = {name: int(number) for name, number in re.findall(r"(\w+): (\d+) falls in training", done.stdout)}
    assert falls["taught"] == 0
    assert falls["none"] > 20


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
