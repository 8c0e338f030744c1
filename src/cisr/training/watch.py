"""How long the user's code takes: a step or reset of an environment, or a question to a function of the task.

Whoever calls it says whose turn it is, and when that is over; so compilation and learning are never counted.
- A worker process says so on a page of memory that it shares with the main process. That one can read it and end the
  worker whatever goes on there, also where a library blocks and holds Python's lock.
- In the main process an alarm interrupts Python code. What blocks inside a library cannot be interrupted there.
"""

from __future__ import annotations

import mmap
import signal
import tempfile
import threading
import time
from types import FrameType
from typing import IO, NamedTuple

from cisr.core.checks import is_number, shown
from cisr.core.errors import ConfigError

STEP_TIMEOUT = 600.0
"""Seconds that a step or reset of an environment may take, unless told otherwise."""

PAGE = mmap.PAGESIZE
EVERYBODY = -1.0


def check_step_timeout(limit: float) -> float:
    if not is_number(limit) or limit <= 0:
        raise ConfigError(f"A step of an environment may take {shown(limit)} s: give a number of seconds above 0.")
    return float(limit)


def too_slow(task: str, limit: float) -> str:
    return (
        f"a step or reset of the environment of task '{task}' took longer than {limit:g} s; --step-timeout gives it "
        f"more time"
    )


class Overdue(NamedTuple):
    """A turn that takes too long."""

    student: int | None  # its place in the batch; None: it concerns all of them


class Watch:
    """Looks at nothing."""

    def over(self, student: int | None) -> None:
        """Code of this student's environment is called next; None: code that concerns all of the batch."""

    def rest(self) -> None:
        """The user's code has answered."""


NO_WATCH = Watch()


class SharedWatch(Watch):
    """A page of memory shared by the process that says whose turn it is and the one that looks."""

    def __init__(self, descriptor: int) -> None:
        self._cells = memoryview(mmap.mmap(descriptor, PAGE)).cast("d")  # since when (0: nobody's turn), whose turn

    def over(self, student: int | None) -> None:
        self._cells[1] = EVERYBODY if student is None else student
        self._cells[0] = time.monotonic()  # the same clock in all processes

    def rest(self) -> None:
        self._cells[0] = 0.0

    def overdue(self, limit: float) -> Overdue | None:
        since, student = self._cells[0], self._cells[1]
        if since == 0.0 or time.monotonic() - since <= limit:
            return None
        return Overdue(None if student == EVERYBODY else int(student))


def shared_page() -> IO[bytes]:
    """A file to be shared; it is nowhere to be seen and is gone with those who hold it."""
    page = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    page.write(bytes(PAGE))  # takes its place on the disk now: memory behind which there is none kills who touches it
    page.flush()
    return page


class Alarm(Watch):
    """Raises TimeoutError in the user's code when it takes too long. Use it as a context.

    Only the main thread can hear it.
    """

    rung = False
    """Whether it has."""

    def __init__(self, limit: float, complaint: str) -> None:
        self._limit = limit
        self._complaint = complaint
        self._heard = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Alarm:
        if self._heard:
            self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        if self._heard:
            self.rest()
            signal.signal(signal.SIGALRM, self._before)

    def over(self, student: int | None) -> None:
        if self._heard:
            signal.setitimer(signal.ITIMER_REAL, self._limit, self._limit)

    def rest(self) -> None:
        if self._heard:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self.rung = True
        raise TimeoutError(self._complaint)
