"""Where batches are taught: in this process, or in worker processes, one thread each.

An executor yields (batch, event) pairs. The receiver keeps a checkpoint before it asks for the next pair.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cisr.core.errors import CisrError, described
from cisr.system.interrupts import users_errors
from cisr.training.process import LOOK_EVERY, Child, cannot_start
from cisr.training.records import Abandonment, Batch, Breakdown, Checkpoint, Event, Graduation, TrainingSetup
from cisr.training.watch import STEP_TIMEOUT, Alarm, too_slow
from cisr.training.worker import Broken, Grown, Job, Kept, Ready, events_of

log = logging.getLogger(__name__)

ATTEMPTS = 2
"""A worker that dies is replaced once from unit to unit. If it has crashed again in the same unit, as in a faulty
simulator, its batch is abandoned. If it was killed again, which only others do, above all a system short of memory, the
run stops and nobody has failed."""

KILLED = ("signal 9", "signal 15")


class Executor(Protocol):
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]: ...
    def close(self) -> None: ...


class InThisProcess:
    """Everything here, one batch after the other: for debugging and small things."""

    def __init__(self, step_timeout: float = STEP_TIMEOUT) -> None:
        self._step_timeout = step_timeout

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        for job in jobs:
            with Alarm(self._step_timeout, _too_slow(job, self._step_timeout)) as watch:
                events = events_of(job, watch)
                while (event := self._next(events)) is not None:
                    yield job.batch, event

    def _next(self, events: Iterator[Event]) -> Event | None:
        try:
            return next(events, None)
        except CisrError:
            raise
        except users_errors() as error:
            return Abandonment(described(error))

    def close(self) -> None:
        pass


class _Arrival(NamedTuple):
    worker: _Worker
    message: Any  # None when the worker is gone


class Processes:
    """Worker processes that live as long as the executor; each batch goes to the next one that is free."""

    def __init__(self, n_workers: int, step_timeout: float = STEP_TIMEOUT) -> None:
        self._n_workers = n_workers
        self._step_timeout = step_timeout
        self._arrivals: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
        self._workers: list[_Worker] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        waiting: deque[tuple[Job, int]] = deque((job, 1) for job in jobs)
        busy: dict[_Worker, tuple[Job, int]] = {}
        try:
            while waiting or busy:
                while waiting and (worker := self._free(busy)) is not None:
                    busy[worker] = waiting.popleft()
                    worker.teach(busy[worker][0])
                for worker, student in self._overdue(busy):
                    job, _ = busy.pop(worker)
                    complaint = _too_slow(job, self._step_timeout)
                    log.warning("%s", complaint)
                    if student is None:
                        yield job.batch, Abandonment(complaint)
                    else:
                        waiting.appendleft((_without(job, student, complaint), 1))
                try:
                    worker, message = self._arrivals.get(timeout=LOOK_EVERY)
                except queue.Empty:
                    continue
                if worker not in self._workers:  # the last words of one that was ended
                    continue
                if message is None:
                    cause = worker.died_of()
                    self._workers.remove(worker)
                    if worker not in busy:  # nobody misses it
                        continue
                    job, attempt = busy.pop(worker)
                    if worker.grown:
                        waiting.appendleft((job, 1))
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
                        worker.send(Kept())
                    elif isinstance(message, Graduation | Abandonment):
                        del busy[worker]
        finally:
            if busy:  # the receiver stopped listening
                self.close()

    def _free(self, busy: Mapping[_Worker, Any]) -> _Worker | None:
        """A worker without a batch, a new one where there are too few; None where all are busy."""
        for worker in self._workers:
            if worker not in busy and worker.alive:
                return worker
        if sum(worker.alive for worker in self._workers) >= self._n_workers:
            return None
        self._workers.append(_Worker(self._arrivals))
        return self._workers[-1]

    def _overdue(self, busy: Mapping[_Worker, Any]) -> list[tuple[_Worker, int | None]]:
        """Ends workers in which the user's code takes too long; returns them with the student whose turn it was, or
        None where that concerns all of the batch."""
        late = [(worker, found) for worker in busy if (found := worker.watch.overdue(self._step_timeout))]
        for worker, _ in late:
            worker.end()
            self._workers.remove(worker)
        return [(worker, found.student) for worker, found in late]

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
        self._arrivals = queue.SimpleQueue()


class _Worker:
    def __init__(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        self._child = Child("cisr.training.worker")
        self.watch = self._child.watch
        self._setup: TrainingSetup | None = None
        self.ready = False
        """Whether it has said that it is."""
        self.grown = False
        """Whether it has said that it goes because it has grown too much."""
        self._listener = threading.Thread(target=self._listen, args=(arrivals,), daemon=True)
        try:
            self._listener.start()
        except RuntimeError as error:  # no more threads to be had
            self._child.kill()
            self._child.close()
            raise CisrError(cannot_start(str(error))) from error

    @property
    def alive(self) -> bool:
        return self._child.alive

    def teach(self, job: Job) -> None:
        if job.setup is not self._setup:
            self._setup = job.setup
            self.send(job.setup)
        self.send(job._replace(setup=None))

    def send(self, message: Any) -> None:
        self._child.send(message)

    def end(self) -> None:
        self._child.kill()
        self._listener.join()
        self._child.close()

    def died_of(self) -> str:
        """Of one that is gone."""
        cause = self._child.died_of()
        self.end()
        return cause

    def _listen(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        for message in self._child.messages():
            arrivals.put(_Arrival(self, message))
        arrivals.put(_Arrival(self, None))


def _too_slow(job: Job, limit: float) -> str:
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


def _given_up(batch: Batch, worker: _Worker, cause: str) -> Abandonment:
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
