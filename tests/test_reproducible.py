"""The same study gives the same store: twice, with one process or two, undisturbed or killed and resumed."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from kills import ENVIRONMENT, Killed, command, killed
from stores import cells, units_on_disk


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("undisturbed") / "gymnasium.sqlite"
    subprocess.run(command(store, workers=1), env=ENVIRONMENT, check=True, capture_output=True)
    return store


def test_a_study_with_two_processes_equals_one_with_a_single_process(tmp_path, finished):
    store = tmp_path / "study.sqlite"
    subprocess.run(command(store, workers=2), env=ENVIRONMENT, check=True, capture_output=True)
    assert cells(store) == cells(finished)


def test_a_study_killed_at_random_moments_and_resumed_equals_an_undisturbed_one(tmp_path, finished):
    """As `benchmarks/faults.py` does a thousand times."""
    shutil.copytree(finished.parent, tmp_path, dirs_exist_ok=True)
    outcomes = list(killed(tmp_path, "gymnasium", 3, seed=7))
    kills = [(kill.lost, kill.orphans) for kill in outcomes if isinstance(kill, Killed)]
    studies = [said for said in outcomes if isinstance(said, str)]
    assert kills == [(0, 0)] * 3
    assert studies and not any(studies)


def test_running_a_finished_study_again_changes_nothing(finished):
    before = cells(finished)
    subprocess.run(command(finished, workers=2), env=ENVIRONMENT, check=True, capture_output=True)
    assert cells(finished) == before


def test_the_compiled_backend_goes_on_after_a_kill_as_if_nothing_had_happened(tmp_path):
    """With explorers, whose candidates travel in checkpoints too."""
    calm, killed = tmp_path / "calm.sqlite", tmp_path / "killed.sqlite"
    task = ("tiny:compiled", "--student", "explorer")
    subprocess.run(command(calm, 1, *task), env=ENVIRONMENT, check=True, capture_output=True)
    process = subprocess.Popen(
        command(killed, 2, *task), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and units_on_disk(killed) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < units_on_disk(killed) < 30
    subprocess.run(command(killed, 2, *task), env=ENVIRONMENT, check=True, capture_output=True)
    assert cells(killed) == cells(calm)
