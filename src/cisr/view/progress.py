"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cisr.auditing.play import AuditProgress
from cisr.core.callback import Callback, ProgressEvent
from cisr.students.kinds import steps_per_unit
from cisr.training import Abandonment, BatchProgress, Checkpoint, Graduation, Transcript
from cisr.training import Progress as Steps

QUIET_SECONDS = 30.0
RATE_WINDOW = 20.0


class Lines:
    """Of progress, now and then, where there is no terminal to draw a bar on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        return not self._console.is_terminal and time.monotonic() - self._last >= QUIET_SECONDS

    def say(self, line: str) -> None:
        self._last = time.monotonic()
        self._console.print(line, soft_wrap=True, highlight=False)


class Meter:
    """Counts units of students, with the rate of the last seconds and the time left. Use it as a context.

    `sizes` are the units of each student and how many students there are, by part of the work.
    """

    def __init__(self, console: Console, title: str, sizes: Mapping[str, tuple[int, int]]) -> None:
        self._console = console
        self._title = title
        self._units_each = {part: n_units for part, (n_units, _) in sizes.items()}
        self._total = sum(n_units * n_students for n_units, n_students in sizes.values())
        self._done: dict[tuple[str, str], int] = {}  # by part and student
        self._begun: dict[tuple[str, str], float] = {}  # by part and batch: units since its last checkpoint
        self._note = ""
        self._recent: deque[tuple[float, int]] = deque()
        self._began = 0.0
        self._lines = Lines(console)
        self._done_before = 0
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("units · {task.fields[rate]} · left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._id = self._bar.add_task(title, total=self._total, rate="", note="")

    def __enter__(self) -> Meter:
        self._began = time.monotonic()
        self._lines = Lines(self._console)
        self._done_before = sum(self._done.values())
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def note(self, text: str) -> None:
        self._note = text

    def already(self, transcripts: Iterable[Transcript], part: str = "") -> None:
        """What students had done before this run. Those of different parts of the work may have the same names."""
        for t in transcripts:
            self._done[part, t.name] = self._units_each[part] if t.deployment else 0 if t.error else len(t.units)

    def __call__(self, heard: ProgressEvent, part: str = "") -> None:
        if not isinstance(heard, BatchProgress):
            return
        batch, event = heard.batch, heard.event
        now = time.monotonic()
        if isinstance(event, Steps):
            units = event.steps / steps_per_unit(batch.students[0].config)
            self._begun[part, batch.name] = self._begun.get((part, batch.name), 0.0) + units
            self._recent.append((now, event.steps))
            while self._recent and now - self._recent[0][0] > RATE_WINDOW:
                self._recent.popleft()
        elif isinstance(event, Checkpoint):
            self._begun.pop((part, batch.name), None)
            self._done |= {(part, student.name): event.unit for student in batch.students}
        elif isinstance(event, Graduation):
            self._begun.pop((part, batch.name), None)
            self._done |= {(part, student.name): self._units_each[part] for student in batch.students}
        done = sum(self._done.values())
        reached = done + sum(self._begun.values())
        window = max(now - max(self._began, now - RATE_WINDOW), 1e-9)
        rate = f"{sum(steps for _, steps in self._recent) / window:,.0f} steps/s"
        self._bar.update(self._id, completed=reached, rate=rate, note=self._note)
        if self._lines.due:
            parts = (f"{done} of {self._total} units", rate, self._left(now, reached), self._note)
            self._lines.say(f"{self._title}: {', '.join(part for part in parts if part)}")

    def _left(self, now: float, reached: float) -> str:
        """Time left, from what was done in this run alone."""
        gained = reached - self._done_before
        if not gained:
            return ""
        minutes = (self._total - reached) * (now - self._began) / gained / 60
        return f"about {minutes:.1f} minutes left"


@contextmanager
def counting(console: Console, title: str) -> Iterator[Callback]:
    """For work without a known end: shows what an audit does and its steps so far."""
    taken, lines = 0, Lines(console)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(title)

    def count(heard: ProgressEvent) -> None:
        nonlocal taken
        if not isinstance(heard, AuditProgress):
            return
        taken += heard.steps
        line = f"{title}: {heard.intervention}: {heard.attacker}, {taken:,} steps"
        bar.update(task, description=line)
        if lines.due:
            lines.say(line)

    with bar:
        yield count


@contextmanager
def counting_students(console: Console, title: str, n: int) -> Iterator[Callback]:
    """For work that is done with each of n students once: shows how many it is done with."""
    done, lines = 0, Lines(console)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(title, total=n)

    def count(heard: ProgressEvent) -> None:
        nonlocal done
        if isinstance(heard, BatchProgress) and isinstance(heard.event, Graduation | Abandonment):
            done += len(heard.batch.students)
            bar.update(task, completed=done)
            if lines.due:
                lines.say(f"{title}: {done} of {n}")

    with bar:
        yield count
