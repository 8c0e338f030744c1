"""Where batches are taught: in this process, or in worker processes, one thread each.

An executor yields (batch, event) pairs. The receiver keeps a checkpoint before it asks for the next pair.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from cisr.classroom.records import Batch, Checkpoint, Event, Graduation, Lesson
from cisr.classroom.worker import Broken, Job, Kept, events_of, receive, send
from cisr.errors import CisrError

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Rounding depends on the number of threads, so a worker's is fixed; many workers use many cores."""

ATTEMPTS = 2
"""A worker that dies is replaced once. If it has crashed again, as in a faulty simulator, its students have failed. If
it was killed again, which only others do, above all a system short of memory, the run stops and nobody has failed."""

KILLED = "signal 9"


class Executor(Protocol):
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]: ...
    def close(self) -> None: ...


class InThisProcess:
    """Everything here, one batch after the other: for debugging and small things."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        for job in jobs:
            try:
                for event in events_of(job):
                    yield job.batch, event
            except CisrError:
                raise
            except Exception as error:
                yield job.batch, _all_failed(job.batch, f"{type(error).__name__}: {error}")

    def close(self) -> None:
        pass


class _Arrival(NamedTuple):
    worker: _Worker
    message: Any  # None when the worker is gone


class Processes:
    """Worker processes that live as long as the executor; each batch goes to the next one that is free."""

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self._arrivals: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
        self._workers: list[_Worker] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        waiting = [(job, 1) for job in jobs]
        while len(self._workers) < min(self._n_workers, len(waiting)):
            self._workers.append(_Worker(self._arrivals))
        idle = list(self._workers)
        busy: dict[_Worker, tuple[Job, int]] = {}
        try:
            while waiting or busy:
                while waiting and idle:
                    worker = idle.pop(0)
                    busy[worker] = waiting.pop(0)
                    worker.teach(busy[worker][0])
                worker, message = self._arrivals.get()
                job, attempt = busy[worker]
                if message is None:
                    cause = worker.bury()
                    self._workers.remove(worker)
                    del busy[worker]
                    self._workers.append(_Worker(self._arrivals))
                    idle.append(self._workers[-1])
                    if attempt < ATTEMPTS:
                        waiting.insert(0, (job, attempt + 1))
                    elif cause == KILLED:
                        raise CisrError(_killed(job.batch))
                    else:
                        yield job.batch, _all_failed(job.batch, f"its worker process died ({cause})")
                    continue
                if isinstance(message, Broken):
                    if message.users_fault:
                        raise CisrError(message.message)
                    message = _all_failed(job.batch, message.message)
                yield job.batch, message
                if isinstance(message, Checkpoint):
                    busy[worker] = (job._replace(checkpoint=message), attempt)
                    worker.send(Kept())
                elif isinstance(message, Graduation):
                    del busy[worker]
                    idle.append(worker)
        finally:
            if busy:  # the receiver stopped listening
                self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []
        self._arrivals = queue.SimpleQueue()


def start_process(module: str, **environment: str) -> subprocess.Popen[bytes]:
    """The `main` of a module in a process of its own, on one thread; messages go through its pipes."""
    search_path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", f"from {module} import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ONE_THREAD, **environment, "PYTHONPATH": search_path},
        start_new_session=True,  # Ctrl-C is for this process alone
    )


class _Worker:
    def __init__(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        self._process = start_process("cisr.classroom.worker")
        self._lesson: Lesson | None = None
        self._listener = threading.Thread(target=self._listen, args=(arrivals,), daemon=True)
        self._listener.start()

    def teach(self, job: Job) -> None:
        if job.lesson is not self._lesson:
            self._lesson = job.lesson
            self.send(job.lesson)
        self.send(job._replace(lesson=None))

    def send(self, message: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: the listener says so
            send(self._process.stdin, message)

    def kill(self) -> None:
        self._process.kill()
        self.bury()

    def bury(self) -> str:
        """Clean up after a worker that has died; returns what it died of."""
        code = self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _listen(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # closed by `kill`
            for message in receive(self._process.stdout):
                arrivals.put(_Arrival(self, message))
        arrivals.put(_Arrival(self, None))


def _killed(batch: Batch) -> str:
    n = len(batch.enrolments)
    smaller = f", or make a new store with smaller batches: --store NEW --batch {n // 2}" if n > 1 else ""
    return (
        f"The worker process with a batch of {n} student{'s' * (n > 1)} was killed {ATTEMPTS} times ({KILLED}), as "
        "systems do when memory runs out. Finished units are kept. Free memory or give fewer --workers, and run the "
        f"same command again{smaller}."
    )


def _all_failed(batch: Batch, why: str) -> Graduation:
    errors = tuple(f"Student '{enrolment.name}': {why}" for enrolment in batch.enrolments)
    return Graduation(deployments=(None,) * len(errors), errors=errors)
