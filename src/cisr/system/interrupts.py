"""Who ends the program: the user, by a signal, and nobody else.

A command ends on Ctrl-C, on a request to terminate and on a hang-up: at once, at any moment, with one line. A thread
hears the signals, because an exception out of a signal handler would surface wherever the program happens to be: in an
import, a destructor, a compilation. Nothing is lost that way: stores are made to be killed at any moment, and worker
processes end with the process that started them.

SystemExit and KeyboardInterrupt that an environment raises are errors of that environment.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from cisr.system.first import is_command

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

CLEAR_LINE, SHOW_CURSOR = "\r\x1b[2K", "\x1b[?25h"

_kept: list[str] = [""]
"""What is left of the work that is being done, in words; the last one counts."""


class Interrupted(BaseException):
    """Ctrl-C by the user, where it is told apart from a KeyboardInterrupt that an environment raises."""


def users_errors() -> tuple[type[BaseException], ...]:
    """What the user's code may raise, to be caught around it. Where a KeyboardInterrupt may be the user's own it is not
    among them: Ctrl-C must work everywhere. Libraries written in other languages have errors of their own beside
    Exception: all that there are by now are among them. Nothing may be yielded where these are caught, since closing a
    generator raises there."""
    ambiguous = _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = (Interrupted, KeyboardInterrupt) if ambiguous else (Interrupted,)
    return tuple(kind for kind in BaseException.__subclasses__() if kind not in ours)


@contextmanager
def interrupts_told_apart() -> Iterator[None]:
    """In here a KeyboardInterrupt is not the user's: Ctrl-C raises `Interrupted`, which leaves as KeyboardInterrupt."""
    if not _in_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # Ctrl-C does not raise here
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


@contextmanager
def leaving(kept: str) -> Iterator[None]:
    """What a command that is ended now says of what it has done."""
    _kept.append(kept)
    try:
        yield
    finally:
        _kept.pop()


def stopped_line() -> str:
    return f"cisr: Stopped. {_kept[-1]}".rstrip()


def end_on_signals() -> None:
    """From now on a signal ends this process. What is ignored, as under nohup, stays ignored."""
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    try:
        threading.Thread(target=_end_when_told, args=(heard,), daemon=True).start()
    except RuntimeError:  # no thread to be had: signals raise, as usual
        return
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)  # the thread acts


def _end_when_told(heard: int) -> None:
    while (number := os.read(heard, 1)[0]) not in SIGNALS:
        pass
    before = CLEAR_LINE + SHOW_CURSOR if os.isatty(2) else ""
    with suppress(OSError):  # the terminal may be gone
        os.write(2, f"{before}{stopped_line()}\n".encode())
    os._exit(128 + number)


if is_command():
    end_on_signals()
