"""Functions that read the time, asked at another time: copies of them whose clocks are ahead."""

from __future__ import annotations

import builtins
import copy
import datetime
import functools
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from cisr.core.timed import Timed
from cisr.store.fingerprint.origin import is_own_function

CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
DATES = ("localtime", "gmtime")  # of seconds


def ahead(fn: Callable[..., Any], seconds: float) -> Callable[..., Any] | None:
    """The function with all clocks that it reads so many seconds ahead; None where it reads none.

    Followed are the user's own functions in Python, through globals, closures, defaults, imports, `functools.partial`
    and what their objects keep.
    """
    moved = _Ahead(seconds)
    other = moved(fn)
    return None if other is fn else other


class _Ahead:
    def __init__(self, seconds: float) -> None:
        self._made: dict[int, Any] = {}  # by id, of what lives as long as the function does
        shifted: dict[str, Any] = {}
        for name in CLOCKS:
            shifted[name] = _later(getattr(time, name), seconds)
            shifted[f"{name}_ns"] = _later(getattr(time, f"{name}_ns"), int(seconds * 1e9))
        for name in DATES:
            shifted[name] = _dated(getattr(time, name), seconds)
        now = shifted["localtime"]
        shifted["ctime"] = lambda at=None: time.asctime(now(at))
        shifted["asctime"] = lambda date=None: time.asctime(now() if date is None else date)
        shifted["strftime"] = lambda form, date=None: time.strftime(form, now() if date is None else date)
        shifted["clock_gettime"] = lambda clock: time.clock_gettime(clock) + seconds
        shifted["clock_gettime_ns"] = lambda clock: time.clock_gettime_ns(clock) + int(seconds * 1e9)

        class Later(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                return datetime.datetime.now(tz) + datetime.timedelta(seconds=seconds)

            @classmethod
            def utcnow(cls) -> Any:
                return cls.now(datetime.UTC).replace(tzinfo=None)

            today = now

        class LaterDate(datetime.date):
            @classmethod
            def today(cls) -> Any:
                return Later.now().date()

        self._clocks = _module(time, shifted)
        self._dates = _module(datetime, {"datetime": Later, "date": LaterDate})
        for mine, others in ((time, self._clocks), (datetime, self._dates)):
            self._made[id(mine)] = others
            self._made |= {id(getattr(mine, n)): v for n, v in vars(others).items() if v is not getattr(mine, n, v)}

    def __call__(self, value: Any) -> Any:
        """The same, or what stands for it at the later time."""
        if id(value) in self._made:
            return self._made[id(value)]
        if is_own_function(value):
            self._made[id(value)] = value  # it may call itself
            self._made[id(value)] = made = self._function(value)
            return made
        if isinstance(value, types.MethodType):
            inner, whose = self(value.__func__), self._object(value.__self__)
            same = inner is value.__func__ and whose is value.__self__
            return value if same else types.MethodType(inner, whose)
        if isinstance(value, functools.partial):
            fn, args = self(value.func), tuple(map(self, value.args))
            same = fn is value.func and all(a is b for a, b in zip(args, value.args, strict=True))
            return value if same else functools.partial(fn, *args, **value.keywords)
        if isinstance(value, Timed):
            inner = self(value.function)
            return value if inner is value.function else Timed(inner)
        called = vars(type(value)).get("__call__")
        if is_own_function(called) and not isinstance(value, type):
            inner, whose = self(called), self._object(value)
            return value if inner is called and whose is value else types.MethodType(inner, whose)
        return value

    def _function(self, fn: types.FunctionType) -> types.FunctionType:
        names = set(_names(fn.__code__))
        changed: dict[str, Any] = {}
        for name in names & fn.__globals__.keys():
            now = fn.__globals__[name]
            if (other := self(now)) is not now:
                changed[name] = other
        if (names - fn.__globals__.keys()) & {"time", "datetime"}:  # imported in the function itself, it may be
            changed["__builtins__"] = vars(builtins) | {"__import__": self._imported}
        cells = tuple(map(self._cell, fn.__closure__ or ()))
        defaults = tuple(map(self, fn.__defaults__ or ()))
        named = {name: self(value) for name, value in (fn.__kwdefaults__ or {}).items()}
        before = (*(fn.__closure__ or ()), *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
        after = (*cells, *defaults, *named.values())
        if not changed and all(a is b for a, b in zip(after, before, strict=True)):
            return fn
        known = {**fn.__globals__, **changed} if changed else fn.__globals__
        made = types.FunctionType(fn.__code__, known, fn.__name__, defaults or None, cells or None)
        made.__kwdefaults__, made.__dict__ = named or None, fn.__dict__
        return made

    def _object(self, value: Any) -> Any:
        """A copy of an object of the user's that keeps a clock."""
        kept = getattr(value, "__dict__", None)
        if isinstance(value, type | types.ModuleType) or not isinstance(kept, dict):
            return value
        later = {name: self(part) for name, part in kept.items() if callable(part)}
        if all(part is kept[name] for name, part in later.items()):
            return value
        other = copy.copy(value)
        vars(other).update(later)
        return other

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            now = cell.cell_contents
        except ValueError:  # nothing was put there yet
            return cell
        other = self(now)
        return cell if other is now else types.CellType(other)

    def _imported(self, name: str, *about: Any, **options: Any) -> Any:
        return self(builtins.__import__(name, *about, **options))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _later(clock: Callable[[], Any], by: Any) -> Callable[[], Any]:
    return lambda: clock() + by


def _dated(date: Callable[[float], Any], by: float) -> Callable[..., Any]:
    return lambda seconds=None: date(time.time() + by if seconds is None else seconds)


def _module(real: types.ModuleType, changed: dict[str, Any]) -> types.ModuleType:
    made = types.ModuleType(real.__name__)
    vars(made).update(vars(real) | changed)
    return made
