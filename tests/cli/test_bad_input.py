"""Bad input gets one line that says what to do: on the command line with exit code 2, from Python as our own error."""

import os
import subprocess
import sys
from pathlib import Path

import bad_calls
import bad_input
import pytest

import cisr
from cisr.cli import main

SUPPORT = Path(__file__).parents[1] / "support"
SLOW = ("lunar-lander", "axes:task", "parts:task", "no_env:task", "actions:task")
"""Tasks that take seconds to be refused; `benchmarks/faults.py` has these too."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    bad_input.prepare(folder)
    return folder


@pytest.fixture
def there(folder, monkeypatch):
    """In the folder, with Python's search path as it was afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


@pytest.mark.parametrize(
    "case", [case for case in bad_input.COMMAND_LINES if not set(SLOW) & set(case.words)], ids=lambda case: ""
)
def test_wrong_command_lines_get_one_line(there, capfd, case):
    before = snapshot(there)
    with pytest.raises(SystemExit) as end:
        main(case.words)
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert end.value.code == 2, err
    assert len(lines) == 1 and lines[0].startswith("cisr: ") and case.says in lines[0], err
    assert len(lines[0]) < 1200 and lines[0].isprintable() and not out
    assert snapshot(there) == before, "no file is left behind, and none is changed"


def snapshot(folder):
    """Files, stores among them, but for what Python keeps of modules."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("case", bad_calls.CALLS, ids=lambda case: case.name)
def test_wrong_calls_from_python_get_our_own_errors(case):
    with pytest.raises(case.error) as raised:
        case.call()
    assert isinstance(raised.value, cisr.CisrError) and case.says in str(raised.value)


def in_shell(line, folder):
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={
            **os.environ,
            "CISR": f"{sys.executable} -m cisr",
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
        capture_output=True,
        timeout=100,
    )


QUICK = ("tasks <&-", "lava 2>/dev/full", "tasks >/dev/full", "head -1", "ascii:", "locked", "unloadable:", "unguarded")


@pytest.mark.parametrize(
    "case", [case for case in bad_input.SHELL_LINES if any(part in case.line for part in QUICK)], ids=lambda case: ""
)
def test_streams_and_workers_as_they_come(folder, case):
    done = in_shell(case.line, folder)
    said = done.stderr.decode()
    assert (done.returncode, case.says in said) == (case.code, True), said
    assert "Traceback" not in said and "Exception ignored" not in said and len(said.splitlines()) <= 1


def test_names_with_markup_are_printed_as_they_are(there, capfd):
    with pytest.raises(SystemExit) as end:
        main(["audit", "named:task", "--out", "[bold]out"])
    assert end.value.code == 0
    printed = capfd.readouterr().out
    assert "What the interventions of [/] lake [red] guarantee" in printed
    assert "Map: '[bold]out/map.png'" in printed and (there / "[bold]out" / "map.png").exists()


def test_a_table_may_begin_with_a_mark_of_its_byte_order_as_spreadsheets_write_it(there):
    from cisr.view.external_students import students_in

    found = students_in(Path("good.csv"), "tiny-lake", ["SR1"])
    assert {what: {k: sample.values for k, sample in groups.items()} for what, groups in found.items()} == {
        "success": {"SR1": [0.5, 0.25]}
    }
