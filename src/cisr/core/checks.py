"""What a user may give where a number, a function or one of cisr's own values is expected."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any, TypeGuard

from cisr.core.errors import ConfigError

MOST_STUDENTS = 100_000
"""Students of one run, and all else that is counted by students or policies: more would be a slip of the keyboard."""
MOST_STEPS = 2**31 - 1
"""Time limits and other counts of steps: what compiled programs count with."""

LARGEST = 1e100
"""Of rewards and scores: squares and sums of it are still numbers."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: Any) -> str:
    """A value in a message: in full where it is short."""
    return _short.repr(value)


def _given(what: str, value: Any) -> str:
    """`what` says whose value it is; where it ends in "=", the value follows."""
    return f"{what}{'' if what.endswith('=') else ' is '}{shown(value)}"


def check_whole(what: str, number: Any, least: int = 1, most: int = MOST_STEPS) -> int:
    """A whole number within bounds, numpy's and others' too, as Python has it; `what` begins the complaint about any
    other."""
    given = as_python(number)
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise ConfigError(f"{_given(what, number)}: give a whole number from {least:,} to {most:,}.")
    return given


def as_python(number: Any) -> Any:
    """A number that Python can write as JSON; what is none stays what it is."""
    if isinstance(number, bool | int | float):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return float(number) if isinstance(number, Real) else number


def keep(record: Any, **values: Any) -> None:
    """Have a frozen record hold values as they were understood."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def check_in_all(each: int, groups: int, what: str) -> None:
    """Students of all groups together; `what` calls the groups."""
    if each * groups > MOST_STUDENTS:
        given = f"{each * groups} students in all, {each} for each of {groups} {what}"
        raise ConfigError(f"{given}: give at most {MOST_STUDENTS:,} in all.")


def is_number(value: Any) -> TypeGuard[int | float]:
    """A finite number."""
    given = as_python(value)
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(_float(given))


def is_one_of(value: Any, texts: Collection[str]) -> bool:
    """One of these texts; arrays would be compared element by element."""
    return isinstance(value, str) and value in texts


def check_number(what: str, number: Any, least: float = -math.inf) -> float:
    """A finite number, at least `least`, as Python has it."""
    given = as_python(number)
    if not is_number(given):
        raise ConfigError(f"{_given(what, number)}: give a finite number.")
    if given < least:
        raise ConfigError(f"{_given(what, number)}: give a finite number ≥ {least:g}.")
    return given


def check_text(what: str, text: Any) -> str:
    """A text that can be written to a file."""
    if not isinstance(text, str):
        raise ConfigError(f"{_given(what, text)}: give a text.")
    if not _is_written(text):
        raise ConfigError(f"{_given(what, text)}: give a text in UTF-8.")
    return text


def check_kind(what: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """One of the classes `kind`; `expected` says in words what to give."""
    if not isinstance(value, kind):
        raise ConfigError(f"{_given(what, value)}: give {expected}.")


def check_function(what: str, value: Any, of: str) -> None:
    """Something that can be called; `of` shows how."""
    if not callable(value):
        raise ConfigError(f"{_given(what, value)}: give a function {of}.")


def check_predicates(what: str, value: Any, of: str) -> None:
    """One predicate, or several by name."""
    if callable(value):
        return
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{_given(what, value)}: give a function {of}, or several in a dictionary by name.")
    for name, predicate in value.items():
        check_text(f"A name in {what[0].lower()}{what[1:]}", name)
        check_function(f"{what} has '{name}', which", predicate, of)


def check_names(what: str, names: Any) -> None:
    """A tuple or list of texts; a single text is none."""
    check_no_text(what, names)
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{what} are {shown(names)}: give a list or tuple of names.")
    if not all(map(_is_written, names)):
        raise ConfigError(f"{what} are {shown(names)}: give names in UTF-8.")


def check_no_text(what: str, names: Any) -> None:
    """A single text, of which Python would make as many names as it has letters."""
    if isinstance(names, str | bytes):
        raise ConfigError(f"{what} are {shown(names)}: give a list or tuple of names, such as [{shown(names)}].")


def _is_written(text: str) -> bool:
    """Bytes that were no UTF-8 where they were read are half characters, which nothing can write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
