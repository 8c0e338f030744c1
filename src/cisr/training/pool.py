"""The loop over workers, wherever they are: batches go out, events come back, workers that die are replaced."""

from __future__ import annotations

import logging
import queue
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cisr.core.errors import CisrError
from cisr.training.process import LOOK_EVERY, cannot_start
from cisr.training.records import Abandonment, Batch, Breakdown, Checkpoint, Event, Graduation
from cisr.training.watch import STEP_TIMEOUT, Overdue, too_slow
from cisr.training.worker import Broken, Grown, Job, Ready

log = logging.getLogger(__name__)

ATTEMPTS = 2
"""A worker that dies is replaced once from unit to unit. If it has crashed again in the same unit, as in a faulty
simulator, its batch is abandoned. If it was killed again, which only others do, above all a system short of memory, the
run stops and nobody has failed."""

KILLED = ("signal 9", "signal 15")


class Worker(Protocol):
    """A process that teaches one batch at a time, and how it is spoken to."""

    ready: bool
    """Whether it has said that it is."""
    grown: bool
    """Whether it has said that it goes because it has grown too much."""

    @property
    def lost(self) -> bool:
        """Whether it is gone because the machine is that it was on."""

    def teach(self, job: Job) -> None: ...
    def go_on(self) -> None:
        """Its last checkpoint is kept."""

    def overdue(self, limit: float) -> Overdue | None: ...
    def died_of(self) -> str:
        """Of one that is gone."""

    def end(self) -> None: ...


W = TypeVar("W", bound=Worker)


class Arrival(NamedTuple, Generic[W]):
    worker: W
    message: Any  # None when the worker is gone


class Pool(ABC, Generic[W]):
    """Workers that live as long as the executor; each batch goes to the next one that is free."""

    def __init__(self, step_timeout: float = STEP_TIMEOUT) -> None:
        self._step_timeout = step_timeout
        self._workers: list[W] = []

    @abstractmethod
    def _free(self, busy: Mapping[W, Any], n_jobs: int) -> W | None:
        """A worker without a batch, a new one where there are too few for so many jobs; None where all are busy."""

    @abstractmethod
    def _next(self, timeout: float) -> Arrival[W]:
        """What comes next; raises queue.Empty where nothing does in time."""

    def _missing(self, worker: W, cause: str) -> None:
        """One that had no batch is gone."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        waiting: deque[tuple[Job, int]] = deque((job, 1) for job in jobs)
        busy: dict[W, tuple[Job, int]] = {}
        try:
            while waiting or busy:
                while waiting and (worker := self._free(busy, len(waiting) + len(busy))) is not None:
                    busy[worker] = waiting.popleft()
                    worker.teach(busy[worker][0])
                for worker, student in self._overdue(busy):
                    job, _ = busy.pop(worker)
                    complaint = job_too_slow(job, self._step_timeout)
                    log.warning("%s", complaint)
                    if student is None:
                        yield job.batch, Abandonment(complaint)
                    else:
                        waiting.appendleft((_without(job, student, complaint), 1))
                try:
                    worker, message = self._next(LOOK_EVERY)
                except queue.Empty:
                    continue
                if worker not in self._workers:  # the last words of one that was ended
                    continue
                if message is None:
                    cause = worker.died_of()
                    self._workers.remove(worker)
                    if worker not in busy:
                        self._missing(worker, cause)
                        continue
                    job, attempt = busy.pop(worker)
                    if worker.grown:
                        waiting.appendleft((job, 1))
                    elif worker.lost:
                        waiting.appendleft((job, attempt))
                    elif attempt < ATTEMPTS:
                        waiting.appendleft((job, attempt + 1))
                    else:
                        yield job.batch, _given_up(job.batch, worker, cause)
                elif isinstance(message, Ready):
                    worker.ready = True
                elif isinstance(message, Grown):
                    worker.grown = True
                else:
                    job, _ = busy[worker]
                    if isinstance(message, Broken):
                        if message.users_fault:
                            raise CisrError(message.message)
                        message = Abandonment(message.message)
                    yield job.batch, message
                    if isinstance(message, Checkpoint):
                        busy[worker] = (job._replace(checkpoint=message), 1)
                        worker.go_on()
                    elif isinstance(message, Graduation | Abandonment):
                        del busy[worker]
        finally:
            if busy:  # the receiver stopped listening
                self.close()

    def _overdue(self, busy: Mapping[W, Any]) -> list[tuple[W, int | None]]:
        """Ends workers in which the user's code takes too long; returns them with the student whose turn it was, or
        None where that concerns all of the batch."""
        late = [(worker, found) for worker in busy if (found := worker.overdue(self._step_timeout))]
        for worker, _ in late:
            worker.end()
            self._workers.remove(worker)
        return [(worker, found.student) for worker, found in late]

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []


def job_too_slow(job: Job, limit: float) -> str:
    assert job.setup is not None
    return too_slow(job.setup.task.name, limit)


def _without(job: Job, k: int, complaint: str) -> Job:
    """The rest of a job, where student k has broken down. Nobody knows how often it failed in the unit that is lost."""
    assert job.setup is not None
    start = job.checkpoint or Checkpoint.before_the_first(len(job.batch.students))
    errors = list(start.errors)
    trained = start.unit == job.setup.task.training.n_units
    errors[k] = Breakdown(f"Student '{job.batch.students[k].name}': {complaint}", 0 if trained else None)
    return job._replace(checkpoint=start._replace(errors=tuple(errors)))


def _given_up(batch: Batch, worker: Worker, cause: str) -> Abandonment:
    """What becomes of a batch whose worker has died too often; the run stops where others are to blame."""
    if not worker.ready:
        raise CisrError(cannot_start(cause))
    if cause in KILLED:
        raise CisrError(_killed(batch, cause))
    return Abandonment(f"its worker process died ({cause})")


def _killed(batch: Batch, cause: str) -> str:
    n = len(batch.students)
    smaller = f", or make a new store with smaller batches: --store NEW --batch {n // 2}" if n > 1 else ""
    return (
        f"The worker process with a batch of {n} student{'s' * (n > 1)} was killed {ATTEMPTS} times ({cause}), as "
        "systems do when memory runs out. Finished units are kept. Free memory or give fewer --workers, and run the "
        f"same command again{smaller}."
    )
