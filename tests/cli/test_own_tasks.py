"""Tasks of the user's own: found in the current folder or by the path of a file, also by worker processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cisr import ConfigError, Store, get_task

SUPPORT = Path(__file__).parents[1] / "support"

REGISTERS = """
import gymnasium
import tiny

gymnasium.register(id="Hidden-v0", entry_point=lambda **options: tiny.task.make_env(**options))
"""
TASK = """
import dataclasses
import functools

import gymnasium
import tiny
import {neighbour}

task = dataclasses.replace(tiny.task, name="{name}", make_env=functools.partial(gymnasium.make, "Hidden-v0"), version=1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def write_task(folder, module):
    folder.mkdir(exist_ok=True)
    (folder / f"{module}_neighbour.py").write_text(REGISTERS.replace("Hidden", module))
    text = TASK.format(name=module, neighbour=f"{module}_neighbour").replace("Hidden", module)
    (folder / f"{module}.py").write_text(text)


def test_a_module_in_the_current_folder_is_found(folder):
    write_task(folder, "here")
    assert get_task("here:task").name == "here"


def test_a_file_is_found_by_its_path_with_its_neighbours(folder):
    write_task(folder / "some where", "inside")
    assert get_task("some where/inside.py:task").name == "inside"
    assert get_task(f"{folder}/some where/inside.py:task").name == "inside"


def test_a_file_that_is_named_like_another_module_is_refused(folder):
    (folder / "json.py").write_text("task = 1")
    with pytest.raises(ConfigError, match=r"its name 'json' is that of another module .*; rename it"):
        get_task("json.py:task")


def test_worker_processes_find_the_module_and_what_it_registers(tmp_path):
    write_task(tmp_path / "inner", "elsewhere")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "cisr"  # as a console script is: its own folder is on the path, the current one is not
    script.write_text("from cisr.cli import main\nmain()\n")
    words = ["compare", "elsewhere.py:task", "SR1", "--students", "1", "--workers", "1", "--store", "s"]
    path = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, script, *words],
        cwd=tmp_path / "inner",
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "inner" / "s", read_only=True) as store:
        assert [t.deployment is not None for t in store.transcripts()] == [True]
