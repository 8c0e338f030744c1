"""What long work says of itself where there is no terminal."""

import io

import pytest
import tiny
from rich.console import Console

from cisr import Fixed, Store, compare
from cisr.auditing.play import AuditProgress
from cisr.experiments.compare import register
from cisr.training import Batch, BatchProgress, Checkpoint, Graduation, Progress
from cisr.view.progress import QUIET_SECONDS, Meter, counting


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when told to."""
    now = [0.0]
    monkeypatch.setattr("cisr.view.progress.time.monotonic", lambda: now[0])
    return now


def said_after(clock, seconds, meter, batch, steps):
    with meter:
        clock[0] += seconds
        meter(BatchProgress(batch, Progress(steps)))
    return meter._console.file.getvalue()


@pytest.fixture
def batch():
    return Batch(name="one", students=tuple(register(tiny.task, {"SR1": Fixed("SR1")}, 2, 0, "compare")["SR1"]))


def test_the_time_left_counts_steps_of_units_that_are_not_over(clock, batch):
    each = tiny.task.training.student.steps_per_unit
    meter = Meter(Console(file=io.StringIO()), "Comparing", {"": (4, 2)})
    said = said_after(clock, 60.0, meter, batch, each)  # one unit of eight in a minute
    assert "Comparing: 0 of 8 units" in said and "about 7.0 minutes left" in said


def test_what_was_done_before_does_not_make_this_run_look_faster(clock, batch, tmp_path):
    with Store(tmp_path / "s") as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        before = store.transcripts()
    each = tiny.task.training.student.steps_per_unit
    meter = Meter(Console(file=io.StringIO()), "Comparing", {"": (3, 3)})
    meter.already(before)
    clock[0] += 500.0  # spent before the work began
    said = said_after(clock, 60.0, meter, batch, 2 * each)  # two units of the six left
    assert "Comparing: 3 of 9 units" in said and "about 2.0 minutes left" in said


def test_students_of_one_name_in_two_parts_are_two_and_each_part_is_timed_by_itself(clock, batch):
    each = tiny.task.training.student.steps_per_unit
    meter = Meter(Console(file=io.StringIO()), "Reproducing", {"paper": (2, 2), "ours": (2, 2)})
    for part in ("paper", "ours"):
        with meter:
            clock[0] += 60.0
            meter(BatchProgress(batch, Checkpoint(1, {}, (), ())), part)
            meter(BatchProgress(batch, Progress(each)), part)
            meter(BatchProgress(batch, Graduation((), ())), part)
    first, second = (line for line in meter._console.file.getvalue().splitlines())
    assert "2 of 8 units" in first and "about 3.0 minutes left" in first
    assert "6 of 8 units" in second and "about 1.0 minutes left" in second


def test_nothing_is_said_more_often_than_now_and_then(clock, batch):
    meter = Meter(Console(file=io.StringIO()), "Comparing", {"": (4, 2)})
    assert said_after(clock, QUIET_SECONDS / 2, meter, batch, 1) == ""


def test_a_terminal_shows_a_bar_with_what_is_done(batch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Meter(terminal, "Comparing", {"": (2, 2)}) as meter:
        meter(BatchProgress(batch, Checkpoint(1, {}, (), ())))
    assert "Comparing" in terminal.file.getvalue() and "2/4" in terminal.file.getvalue()


def test_a_terminal_shows_what_an_audit_does():
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with counting(terminal, "Auditing") as callback:
        callback(AuditProgress("SR1", "random", 1_000))
    assert "Auditing: SR1: random, 1,000 steps" in terminal.file.getvalue()
