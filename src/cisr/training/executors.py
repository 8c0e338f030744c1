"""Where batches are taught: in this process, or in worker processes, one thread each.

An executor yields (batch, event) pairs. The receiver keeps a checkpoint before it asks for the next pair.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from cisr.core.errors import CisrError, described
from cisr.system.interrupts import users_errors
from cisr.training.pool import Arrival, Pool, job_too_slow
from cisr.training.process import Child, cannot_start
from cisr.training.records import Abandonment, Batch, Event, TrainingSetup
from cisr.training.watch import STEP_TIMEOUT, Alarm, Overdue
from cisr.training.worker import Job, Kept, events_of


class Executor(Protocol):
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]: ...
    def close(self) -> None: ...


class InThisProcess:
    """Everything here, one batch after the other: for debugging and small things."""

    def __init__(self, step_timeout: float = STEP_TIMEOUT) -> None:
        self._step_timeout = step_timeout

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        for job in jobs:
            with Alarm(self._step_timeout, job_too_slow(job, self._step_timeout)) as watch:
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


class Processes(Pool["_Worker"]):
    """Worker processes on this machine."""

    def __init__(self, n_workers: int, step_timeout: float = STEP_TIMEOUT) -> None:
        super().__init__(step_timeout)
        self._n_workers = n_workers
        self._arrivals: queue.SimpleQueue[Arrival[_Worker]] = queue.SimpleQueue()

    def _free(self, busy: Mapping[_Worker, Any], n_jobs: int) -> _Worker | None:
        for worker in self._workers:
            if worker not in busy and worker.child.alive:
                return worker
        if sum(worker.child.alive for worker in self._workers) >= self._n_workers:
            return None
        self._workers.append(_Worker(self._arrivals))
        return self._workers[-1]

    def _next(self, timeout: float) -> Arrival[_Worker]:
        return self._arrivals.get(timeout=timeout)

    def close(self) -> None:
        super().close()
        self._arrivals = queue.SimpleQueue()


class _Worker:
    lost = False

    def __init__(self, arrivals: queue.SimpleQueue[Arrival[_Worker]]) -> None:
        self.child = Child("cisr.training.worker")
        self._setup: TrainingSetup | None = None
        self.ready = self.grown = False
        self._listener = threading.Thread(target=self._listen, args=(arrivals,), daemon=True)
        try:
            self._listener.start()
        except RuntimeError as error:  # no more threads to be had
            self.child.kill()
            self.child.close()
            raise CisrError(cannot_start(str(error))) from error

    def teach(self, job: Job) -> None:
        if job.setup is not self._setup:
            self._setup = job.setup
            self.child.send(job.setup)
        self.child.send(job._replace(setup=None))

    def go_on(self) -> None:
        self.child.send(Kept())

    def overdue(self, limit: float) -> Overdue | None:
        return self.child.watch.overdue(limit)

    def end(self) -> None:
        self.child.kill()
        self._listener.join()
        self.child.close()

    def died_of(self) -> str:
        cause = self.child.died_of()
        self.end()
        return cause

    def _listen(self, arrivals: queue.SimpleQueue[Arrival[_Worker]]) -> None:
        for message in self.child.messages():
            arrivals.put(Arrival(self, message))
        arrivals.put(Arrival(self, None))
