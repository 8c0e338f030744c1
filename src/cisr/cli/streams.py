"""Standard streams as users leave them: closed, full, a pipe that nobody reads, or for ASCII alone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cisr.core.errors import CisrError
from cisr.system.files import reason


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Whatever the streams are like, printing raises no error but that standard output cannot be written, and Python
    has nothing left to complain about when it ends."""
    _open_closed_ones()
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    out, err = Output(before[0]), Guarded(before[1])
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for guarded in (out, err):
            guarded.let_go_if_broken()


class Guarded(io.TextIOBase):
    """A standard stream that knows whether it could be written so far."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._broken = False

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, do: Callable[..., Any], *arguments: Any) -> None:
        try:
            do(*arguments)
        except OSError as error:
            self._broken = True
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        """Of standard error nobody is told: it does not matter whether anybody reads it."""

    def let_go_if_broken(self) -> None:
        """What could not be written is forgotten, or Python would try once more when it ends."""
        with suppress(CisrError, OSError):
            self.flush()
        if self._broken:
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)

    def close(self) -> None:
        """Do nothing: the stream belongs to Python, and a guard that is collected must not flush it once more."""

    def isatty(self) -> bool:
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        return int(self._stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(self._stream.encoding)


class Output(Guarded):
    """Standard output: what nobody can read need not be computed."""

    def _tell(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):  # whoever read it has seen enough, and is told nothing
            raise error
        raise CisrError(
            f"Cannot write to standard output: {reason(error)}. Finished units are kept; send the output elsewhere."
        ) from error


def _open_closed_ones() -> None:
    """A descriptor that is closed would be that of the next file to be opened, and results would be printed into it."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (for as long as Python runs)
