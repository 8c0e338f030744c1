"""Functions of the user's that somebody has an eye on while they run; `cisr.training.watch` has the eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Eye(Protocol):
    def over(self, student: int | None) -> None: ...
    def rest(self) -> None: ...


_eyes: list[Eye] = []
"""The last one looks; none in processes that nobody has told to."""
_running: list[Callable[..., Any]] = []
"""The function that is looked at; those that it calls are part of it."""


@contextmanager
def looked_at_by(eye: Eye) -> Iterator[None]:
    _eyes.append(eye)
    try:
        yield
    finally:
        _eyes.pop()


class Timed:
    """A function that is looked at while it runs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not _eyes or _running:
            return self.function(*arguments, **options)
        _running.append(self.function)
        _eyes[-1].over(None)
        try:
            return self.function(*arguments, **options)
        finally:
            _eyes[-1].rest()
            _running.pop()
