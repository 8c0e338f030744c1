"""Where batches are taught: in this process, or in worker processes, one thread each.

An executor yields (batch, event) pairs. The receiver keeps a checkpoint before it asks for the next pair.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cisr.classroom.records import Abandonment, Batch, Breakdown, Checkpoint, Event, Graduation, Lesson
from cisr.classroom.watch import Alarm, SharedWatch, shared_page
from cisr.classroom.worker import Broken, Grown, Job, Kept, Ready, events_of, receive, send
from cisr.errors import CisrError, described
from cisr.interrupts import users_errors

log = logging.getLogger(__name__)

STEP_TIMEOUT = 600.0
"""Seconds that a step or reset of an environment may take, unless told otherwise."""
LOOK_EVERY = 0.5
"""Seconds between looks at environments that may take too long."""

PATIENCE = 5.0
"""Seconds that a worker has to end once it has closed its pipe, and that its last words have to arrive."""

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
                    self._bury(busy)
                    continue
                if worker not in self._workers:  # the last words of one that was ended
                    continue
                if message is None:
                    cause = worker.clean_up()
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
            worker.kill()
            self._workers.remove(worker)
        return [(worker, found.student) for worker, found in late]

    def _bury(self, busy: Mapping[_Worker, Any]) -> None:
        """Workers that have died and are not heard to have: somebody whom they started holds their pipes."""
        for worker in busy:
            if not worker.alive:
                self._arrivals.put(_Arrival(worker, None))

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []
        self._arrivals = queue.SimpleQueue()


PROGRAM = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
except Exception:
    pass
if os.getppid() != {parent}:
    os._exit({not_started})
try:
    from {module} import main
except BaseException as error:
    print(f"cisr: a worker process cannot start: {{type(error).__name__}}: {{error}}", file=sys.stderr)
    os._exit({not_started})
main({argument})
"""
"""On Linux the system itself kills a process when the thread that started it ends: one that is stopped, or that blocks
and holds Python's lock, could not even notice. Elsewhere it ends when its standard input does."""


def start_process(module: str, *, page: int | None = None, **environment: str) -> subprocess.Popen[bytes]:
    """The `main` of a module in a process of its own, on one thread; messages go through its pipes, and `page` is a
    descriptor that it is given. It ends when the thread that calls this does, at the latest.

    Where it cannot import what it needs it says so in one line and exits with NOT_STARTED.
    """
    search_path = os.pathsep.join(path or os.getcwd() for path in sys.path)
    argument = "" if page is None else page
    program = PROGRAM.format(parent=os.getpid(), not_started=NOT_STARTED, module=module, argument=argument)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, **environment, "PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C is for this process alone
            pass_fds=() if page is None else (page,),
        )
    except OSError as error:
        raise CisrError(_cannot_start(error.strerror or str(error))) from error


class _Worker:
    def __init__(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        try:
            with shared_page() as page:
                self.watch = SharedWatch(page.fileno())
                self._process = start_process("cisr.classroom.worker", page=page.fileno())
        except OSError as error:
            raise CisrError(_cannot_start(error.strerror or str(error))) from error
        self._lesson: Lesson | None = None
        self._end = ""
        self.ready = False
        """Whether it has said that it is."""
        self.grown = False
        """Whether it has said that it goes because it has grown too much."""
        self._listener = threading.Thread(target=self._listen, args=(arrivals,), daemon=True)
        try:
            self._listener.start()
        except RuntimeError as error:  # no more threads to be had
            self._process.kill()
            self._process.communicate()
            raise CisrError(_cannot_start(str(error))) from error

    @property
    def alive(self) -> bool:
        if self._process.returncode is not None:
            return False
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is None
        try:  # it is left to be waited for: until then no other process and no other group has its number
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:  # an environment has this process ignore what becomes of its children
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
        """End it, with the processes that its environments have started."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._listener.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            if stream is self._process.stdin or not self._listener.is_alive():  # who still listens would be waited for
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._end = f"signal {-code}" if code < 0 else f"exit code {code}"

    def clean_up(self) -> str:
        """End what a worker that was heard to die has left behind; returns what it died of. One that lives, though it
        has closed its pipe, is ended."""
        end = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < end:
            time.sleep(0.01)
        self.kill()
        return self._end

    def _listen(self, arrivals: queue.SimpleQueue[_Arrival]) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # closed by `kill`
            for message in receive(self._process.stdout):
                arrivals.put(_Arrival(self, message))
        arrivals.put(_Arrival(self, None))


def _too_slow(job: Job, limit: float) -> str:
    assert job.lesson is not None
    return (
        f"a step or reset of the environment of task '{job.lesson.task.name}' took longer than {limit:g} s; "
        f"--step-timeout gives it more time"
    )


def _without(job: Job, k: int, complaint: str) -> Job:
    """The rest of a job, where student k has broken down. Nobody knows how often it failed in the unit that is lost."""
    assert job.lesson is not None
    start = job.checkpoint or Checkpoint.before_the_first(len(job.batch.enrolments))
    errors = list(start.errors)
    trained = start.unit == job.lesson.task.n_units
    errors[k] = Breakdown(f"Student '{job.batch.enrolments[k].name}': {complaint}", 0 if trained else None)
    return job._replace(checkpoint=start._replace(errors=tuple(errors)))


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
