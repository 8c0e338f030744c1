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
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cisr.classroom.records import Abandonment, Batch, Checkpoint, Event, Graduation, Lesson
from cisr.classroom.worker import Broken, Job, Kept, Ready, events_of, receive, send
from cisr.errors import CisrError, described

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Rounding depends on the number of threads, so a worker's is fixed; many workers use many cores."""

ATTEMPTS = 2
"""A worker that dies is replaced once from unit to unit. If it has crashed again in the same unit, as in a faulty
simulator, its batch is abandoned. If it was killed again, which only others do, above all a system short of memory, the
run stops and nobody has failed."""

KILLED = ("signal 9", "signal 15")
NOT_STARTED = 71
"""Exit code of a worker that could not even import what it needs."""


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
            except (Exception, SystemExit) as error:
                yield job.batch, Abandonment(described(error))

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
        waiting = deque((job, 1) for job in jobs)
        busy: dict[_Worker, tuple[Job, int]] = {}
        try:
            while waiting or busy:
                while waiting and (worker := self._free(busy)) is not None:
                    busy[worker] = waiting.popleft()
                    worker.teach(busy[worker][0])
                worker, message = self._arrivals.get()
                if message is None:
                    cause = worker.clean_up()
                    self._workers.remove(worker)
                    job, attempt = busy.pop(worker, (None, 0))  # one that was idle is missed by nobody
                    if job is not None and attempt < ATTEMPTS:
                        waiting.appendleft((job, attempt + 1))
                    elif job is not None:
                        yield job.batch, _given_up(job.batch, worker, cause)
                elif isinstance(message, Ready):
                    worker.ready = True
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

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []
        self._arrivals = queue.SimpleQueue()


def start_process(module: str, **environment: str) -> subprocess.Popen[bytes]:
    """The `main` of a module in a process of its own, on one thread; messages go through its pipes.

    Where it cannot import what it needs it says so in one line and exits with NOT_STARTED.
    """
    search_path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    program = (
        "import os, sys\n"
        f"try:\n    from {module} import main\n"
        "except BaseException as error:\n"
        "    print(f'cisr: a worker process cannot start: {type(error).__name__}: {error}', file=sys.stderr)\n"
        f"    os._exit({NOT_STARTED})\n"
        "main()"
    )
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, **environment, "PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C is for this process alone
        )
    except OSError as error:
        raise CisrError(_cannot_start(error.strerror or str(error))) from error


class _Worker:
    def __init__(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        self._process = start_process("cisr.classroom.worker")
        self._lesson: Lesson | None = None
        self.ready = False
        """Whether it has said that it is."""
        self._listener = threading.Thread(target=self._listen, args=(arrivals,), daemon=True)
        try:
            self._listener.start()
        except RuntimeError as error:  # no more threads to be had
            self._process.kill()
            self._process.communicate()
            raise CisrError(_cannot_start(str(error))) from error

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

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
        self.clean_up()

    def clean_up(self) -> str:
        """Close what a worker that has died left open; returns what it died of."""
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


def _given_up(batch: Batch, worker: _Worker, cause: str) -> Abandonment:
    """What becomes of a batch whose worker has died too often; the run stops where others are to blame."""
    if not worker.ready:
        raise CisrError(_cannot_start(cause))
    if cause in KILLED:
        raise CisrError(_killed(batch, cause))
    return Abandonment(f"its worker process died ({cause})")


def _killed(batch: Batch, cause: str) -> str:
    n = len(batch.enrolments)
    smaller = f", or make a new store with smaller batches: --store NEW --batch {n // 2}" if n > 1 else ""
    return (
        f"The worker process with a batch of {n} student{'s' * (n > 1)} was killed {ATTEMPTS} times ({cause}), as "
        "systems do when memory runs out. Finished units are kept. Free memory or give fewer --workers, and run the "
        f"same command again{smaller}."
    )


def _cannot_start(cause: str) -> str:
    return (
        f"A worker process cannot start ({cause}): most often memory is short, or a package is broken. Finished units "
        f"are kept. Free memory or give fewer --workers, and run the same command again."
    )
