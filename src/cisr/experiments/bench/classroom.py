"""How fast a classroom teaches."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from cisr.core.callback import ProgressEvent
from cisr.core.errors import CisrError
from cisr.core.seeding import derive_seed
from cisr.curricula import Fixed
from cisr.experiments.bench.work import Work
from cisr.store import Store
from cisr.training import Batching, BatchProgress, Checkpoint, Classroom, Progress, StudentSpec, TrainingSetup


def classroom_rate(work: Work, backend: Literal["compiled", "gymnasium"], n_batches: int, size: int) -> float:
    """Steps per second of a classroom, after the first unit of each batch."""
    students = [
        StudentSpec(
            name=f"student {k}",
            policy=Fixed(work.intervention),
            config=work.config,
            seed=derive_seed(work.seed, k),
        )
        for k in range(n_batches * size)
    ]
    watch = _Stopwatch(n_batches, work.seconds)
    setup = TrainingSetup(task=work.task, backend=backend)
    with (
        Store(None) as store,
        _workers_on_cpu(),
        Classroom(setup, store, batching=Batching(n_batches, size), n_workers=n_batches, callback=watch) as classroom,
        contextlib.suppress(_TimeIsUp),
    ):
        for transcript in classroom.teach(students):
            raise CisrError(
                f"The {backend} backend cannot be measured: {transcript.error or 'a student ended too early.'}"
            )
    return watch.rate()


@contextlib.contextmanager
def _workers_on_cpu() -> Iterator[None]:
    """Worker processes that are started inside leave the accelerator alone. This one has chosen its device already."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        del os.environ["JAX_PLATFORMS"]
        os.environ.update({} if before is None else {"JAX_PLATFORMS": before})


class _TimeIsUp(Exception):  # noqa: N818
    """How the stopwatch ends a classroom."""


class _Mark(NamedTuple):
    """A batch has reported progress."""

    time: float
    steps: int  # since the mark before


class _Stopwatch:
    """Listens to a classroom. Its time begins when every batch has finished a unit, so when all has been compiled.

    It ends when every batch has been watched for long enough, from one of its reports to another: on the compiled
    backend these come once a unit.
    """

    def __init__(self, n_batches: int, seconds: float) -> None:
        self._n_batches = n_batches
        self._seconds = seconds
        self._warm: set[str] = set()
        self._marks: dict[str, list[_Mark]] = {}

    def __call__(self, heard: ProgressEvent) -> None:
        if not isinstance(heard, BatchProgress):
            return
        batch, event = heard.batch, heard.event
        if isinstance(event, Checkpoint):
            self._warm.add(batch.name)
            for error in event.errors:
                if error is not None:
                    raise CisrError(f"A student failed while it was measured: {error}")
        elif isinstance(event, Progress) and len(self._warm) == self._n_batches:
            self._marks.setdefault(batch.name, []).append(_Mark(time.perf_counter(), event.steps))
            spans = [marks[-1].time - marks[0].time for marks in self._marks.values()]
            if len(spans) == self._n_batches and min(spans) >= self._seconds:
                raise _TimeIsUp

    def rate(self) -> float:
        """Sum over batches of the steps between their first and last mark, over the time between these."""
        return sum(
            sum(mark.steps for mark in marks[1:]) / (marks[-1].time - marks[0].time) for marks in self._marks.values()
        )
