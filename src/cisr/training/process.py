"""A process for code that may block or crash: how it is started, heard and ended."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from cisr.core.errors import CisrError
from cisr.system.loading import check_not_loading
from cisr.training.watch import SharedWatch, shared_page
from cisr.training.worker import pickles, receive, send

LOOK_EVERY = 0.5
"""Seconds between looks at processes that may be gone, or take too long."""

PATIENCE = 5.0
"""Seconds that a process has to end once it has closed its pipe."""

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Rounding depends on the number of threads, so that of a process is fixed; many of them use many cores."""

NOT_STARTED = 71
"""Exit code of a process that could not even import what it needs."""

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
    check_not_loading()
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
        raise CisrError(cannot_start(error.strerror or str(error))) from error


def cannot_start(cause: str) -> str:
    return (
        f"A worker process cannot start ({cause}): most often memory is short, or a package is broken. Finished units "
        f"are kept. Free memory or give fewer --workers, and run the same command again."
    )


class Child:
    """A process with a page of memory on which it says what it waits for."""

    def __init__(self, module: str, **environment: str) -> None:
        try:
            with shared_page() as page:
                self.watch = SharedWatch(page.fileno())
                self._process = start_process(module, page=page.fileno(), **environment)
        except OSError as error:
            raise CisrError(cannot_start(error.strerror or str(error))) from error

    @property
    def alive(self) -> bool:
        return _alive(self._process)

    def send(self, message: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its messages end
            send(self._process.stdin, message)

    def write(self, data: bytes) -> None:
        """Messages that somebody else has pickled."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def messages(self) -> Iterator[Any]:
        """What it says, until it is gone."""
        return receive(_LastWords(self._process))

    def pass_on(self, heard: queue.SimpleQueue[Any]) -> None:
        """The same into a queue, for a thread; None at the end."""
        for message in self.messages():
            heard.put(message)
        heard.put(None)

    def pickles(self) -> Iterator[bytes]:
        """The same, for somebody else to load."""
        return pickles(_LastWords(self._process))

    def kill(self) -> str:
        """End it, with the processes that its environments have started, also where it has died already; returns what
        it died of."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def died_of(self) -> str:
        """The same of one whose messages have ended: it is on its way, or has closed its pipe and lives on."""
        end = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < end:
            time.sleep(0.01)
        return self.kill()

    def close(self) -> None:
        """Let go of its pipes, once nobody listens any more."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _alive(process: subprocess.Popen[bytes]) -> bool:
    """It is left to be waited for: until then no other process and no other group has its number."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:  # this process ignores what becomes of its children
        return process.poll() is None


class _LastWords:
    """The standard output of a process, up to its own end: others that it has forked may hold the pipe for ever."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._pipe = process.stdout.fileno()
        self._ready = select.poll()
        self._ready.register(self._pipe, select.POLLIN)

    def read(self, n: int) -> bytes:
        """So many bytes; fewer where there are no more."""
        found = bytearray()
        while len(found) < n and self._has_more():
            if not (data := os.read(self._pipe, min(n - len(found), 2**20))):
                break
            found += data
        return bytes(found)

    def _has_more(self) -> bool:
        """Waits until there is something to read, or the process is gone."""
        while True:
            alive = _alive(self._process)
            if self._ready.poll(LOOK_EVERY * 1000 if alive else 0):
                return True
            if not alive:
                return False
