"""Are a task's functions functions? Each is asked the same questions over and over: in other orders, batches and types
of numbers, by turns with the others, with its clocks ahead, and once more after play. Answers that differ name it.

Functions that may keep something from call to call (their fingerprint changes or cannot be read in full, or the
process's random generators change) are asked far more often: a counter, or rare luck, shows late. That alone is no
fault: a cache may be honest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np

from cisr.auditing.clocks import ahead
from cisr.auditing.functions import Asked, Cases
from cisr.cmdp.answers import is_castable
from cisr.core.errors import words_of
from cisr.core.intervention import Array
from cisr.core.moves import Move
from cisr.store.fingerprint import fingerprint
from cisr.system.interrupts import users_errors

N_ALONE = 50
"""Cases that functions are asked about one by one."""
N_ROUNDS, N_ROUNDS_OF_KEEPERS = 200, 20_000
"""Random batches that each function is asked about, and each that keeps something from call to call."""
MOST_TOGETHER = 64
"""Cases of such a batch."""
MOST_SECONDS = 5.0
"""For a function that keeps something, however slow it is."""
HOUR = 3_607.0
LATER = {
    "a second later": 1.37,
    **{f"{n} hour{'s' * (n > 1)} later": n * HOUR for n in range(1, 24)},
    **{f"{n} day{'s' * (n > 1)} later": n * 24 * HOUR for n in (1, 2, 3, 4, 5, 6, 30, 90, 180, 366)},
}
ROUNDING = 1e-4
"""Of answers that are no whole numbers, relative to the largest of their kind: sums are rounded otherwise in other
batches."""


class Fault(NamedTuple):
    what: str
    message: str
    state: np.ndarray | None = None  # (d,)


class Interrogation:
    """Functions with the first answers that they gave. Types are those of the numbers in states that occur, beside the
    cases' own."""

    def __init__(self, space: gymnasium.Space[Any], seed: int) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._held: list[_Held] = []

    def ask(self, functions: Iterable[Asked], types: Iterable[np.dtype[Any]]) -> Iterator[Fault]:
        """What is wrong with some functions; they will be asked `again`."""
        held = [_Held(asked, types, self._space) for asked in functions if len(_states(asked.cases))]
        kept = [_keeping(one.asked) for one in held]
        sound = []
        for one in held:
            fault = next(one.in_many_ways(), None)
            if fault is None:
                sound.append(one)
            else:
                yield fault
        if len(sound) < len(held):
            return
        for _ in range(N_ROUNDS):
            for one in sound:
                if fault := one.at_random(self._rng):
                    yield fault
                    return
        for one, before in zip(sound, kept, strict=True):
            if _keeping(one.asked) != before:
                yield from one.insistently(self._rng)
        self._held += sound

    def compiled(self, dtype: np.dtype[Any], xp: Any) -> Iterator[Fault]:
        """Those that answer otherwise where a JAX environment asks, about arrays of `xp` with numbers of a type."""
        for one in self._held:
            if one.asked.answers in ("bool", "action") and (fault := one.compiled(dtype, xp)):
                yield fault

    def again(self, types: Iterable[np.dtype[Any]]) -> Iterator[Fault]:
        """Those that answer otherwise by now."""
        for one in self._held:
            yield from one.once_more(types)


def _keeping(asked: Asked) -> tuple[Any, ...]:
    """What a function could have changed when it was asked; never the same where some of it cannot be read."""
    read, drawn = fingerprint(asked.fn), cast(Any, np.random.get_state(legacy=True))
    return read.content, random.getstate(), drawn[1].tobytes(), drawn[2], object() if read.unknown else None


class _Held:
    def __init__(self, asked: Asked, types: Iterable[np.dtype[Any]], space: gymnasium.Space[Any]) -> None:
        self.asked = asked
        self._space = space
        self._n = len(_states(asked.cases))
        self._first: np.ndarray | None = None
        self._cases = {str(_states(asked.cases).dtype): (asked.cases, np.arange(self._n))}
        self._own = next(iter(self._cases))
        self._know(types)

    def _know(self, types: Iterable[np.dtype[Any]]) -> None:
        """The same cases with numbers of other types, where these can hold them."""
        for dtype in types:
            if str(dtype) not in self._cases:
                numbers = np.flatnonzero(can_hold(dtype, _states(self.asked.cases)))
                self._cases[str(dtype)] = (_typed(self.asked.cases, dtype, self.asked.n_states), numbers)

    def in_many_ways(self) -> Iterator[Fault]:
        everything = np.arange(self._n)
        ways = [("in one batch", everything), ("in the same batch again", everything)]
        ways.append(("in reverse order", everything[::-1]))
        some = range(0, self._n, max(self._n // N_ALONE, 1))
        if self.asked.any_shape:
            ways.append(("in a batch of shape (n, 1)", everything[:, None]))
            ways.append(("in a batch of shape (2, n)", np.stack([everything, everything])))
            ways += [("alone", np.array(i)) for i in some]
        else:
            ways += [("alone", np.array([i])) for i in some]
        yield from (fault for way, chosen in ways if (fault := self._fault(way, chosen)))
        yield from self._in_other_types()
        for way, seconds in LATER.items():
            if (fn := ahead(self.asked.fn, seconds)) and (fault := self._fault(way, everything, fn=fn)):
                yield fault

    def at_random(self, rng: np.random.Generator) -> Fault | None:
        dtype = list(self._cases)[int(rng.integers(len(self._cases)))]
        numbers = self._cases[dtype][1]
        if not len(numbers):
            return None
        n, size = (int(MOST_TOGETHER ** rng.random()) for _ in range(2))
        few = numbers[rng.integers(len(numbers), size=n)]  # often fewer than students: they begin in the same states
        return self._fault(f"in a batch of {size}", few[rng.integers(n, size=size)], dtype)

    def insistently(self, rng: np.random.Generator) -> Iterator[Fault]:
        end = time.perf_counter() + MOST_SECONDS
        for _ in range(N_ROUNDS_OF_KEEPERS):
            if fault := self.at_random(rng):
                yield fault
                return
            if time.perf_counter() > end:
                return

    def compiled(self, dtype: np.dtype[Any], xp: Any) -> Fault | None:
        def arrays(part: Any) -> Any:
            if isinstance(part, Move):
                return Move(*map(arrays, part))
            return xp.asarray(part) if isinstance(part, np.ndarray) else part

        self._know([dtype])
        fn, numbers = self.asked.fn, self._cases[str(dtype)][1]
        return self._fault(f"on JAX arrays of {dtype}", numbers, str(dtype), lambda *about: fn(*map(arrays, about)))

    def once_more(self, types: Iterable[np.dtype[Any]]) -> Iterator[Fault]:
        self._know(types)
        if fault := self._fault("after play", np.arange(self._n)) or next(self._in_other_types(), None):
            yield fault

    def _in_other_types(self) -> Iterator[Fault]:
        for dtype, (_, numbers) in self._cases.items():
            if dtype != self._own and (fault := self._fault(f"about states of {dtype}", numbers, dtype)):
                yield fault

    def _fault(
        self, way: str, chosen: np.ndarray, dtype: str = "", fn: Callable[..., Array] | None = None
    ) -> Fault | None:
        """What is wrong with the answer about some of the cases."""
        asked = self.asked
        cases = self._cases[dtype or self._own][0]
        shown, given = _some(cases, chosen), _some(cases, chosen)
        states = _states(shown)
        try:
            answer = np.array((fn or asked.fn)(*given))  # a copy: some answer with a buffer of their own
        except users_errors() as error:
            where = f", when asked {way}"
            return Fault(asked.what, f"raised {type(error).__name__}: {words_of(error)}{where}", _shown(states))
        if wanted := self._wanted(answer, chosen, states):
            return Fault(
                asked.what,
                f"answered {answer.dtype} of shape {answer.shape} when asked {way}, for states of shape "
                f"{chosen.shape} × (d,): {wanted}",
            )
        for mine, theirs in zip(_arrays(shown), _arrays(given), strict=True):
            if (odd := _first_difference(mine, theirs, chosen.ndim)) is not None:
                return Fault(asked.what, "changed what it was shown", states[odd])
        self._first = answer if self._first is None else self._first
        expected, scale = self._first[chosen], None if asked.answers == "bool" else self._scale()
        if (odd := _first_difference(answer, expected, chosen.ndim, scale)) is None:
            return None
        said = f"answered {answer[odd]} when asked {way} and {expected[odd]} in one batch of {self._own}"
        return Fault(asked.what, f"{said}: the answer must follow from the state alone", states[odd])

    def _scale(self) -> np.ndarray:
        """How large the first answers are, number by number: what is small beside another number may still matter."""
        assert self._first is not None
        finite = np.where(np.isfinite(self._first), self._first, 0)
        return np.asarray(np.abs(finite.astype(float)).max(axis=0, initial=0.0))

    def _wanted(self, answer: np.ndarray, chosen: np.ndarray, states: np.ndarray) -> str | None:
        """What should have been answered; None where it was."""
        match self.asked.answers:
            case "bool":
                if answer.shape == chosen.shape and answer.dtype == bool:
                    return None
                return "answer one bool for each; index the last axis of the state (state[..., 0])"
            case "action":
                shape, dtype = (*chosen.shape, *(self._space.shape or ())), self._space.dtype or answer.dtype
                if answer.shape == shape and is_castable(answer.dtype, dtype):
                    return None
                return f"answer an action of {self._space} for each"
            case "number":
                return None if answer.shape == chosen.shape and answer.dtype.kind in "biuf" else "answer a number"
            case "state":
                return None if answer.shape == states.shape else "answer a state"


def _first_difference(
    one: np.ndarray, other: np.ndarray, n_axes: int, scale: np.ndarray | None = None
) -> tuple[int, ...] | None:
    """The first case in which two arrays differ that have a number for each, or several; by more than rounding on this
    scale, where there is one."""
    if one is other or (one.shape == other.shape and one.tobytes() == other.tobytes() and one.dtype == other.dtype):
        return None
    if scale is None or "f" not in (one.dtype.kind, other.dtype.kind):
        same = one == other
        if "f" in (one.dtype.kind, other.dtype.kind):
            same |= (one != one) & (other != other)
    else:
        same = np.isclose(one, other, rtol=0, atol=ROUNDING * scale, equal_nan=True)
    if same.all():
        return None
    return tuple(int(i) for i in np.argwhere(~same)[0][:n_axes])


def _states(cases: Cases) -> np.ndarray:
    first = cases[0].state if isinstance(cases[0], Move) else cases[0]
    return np.asarray(first)


def _shown(states: np.ndarray) -> np.ndarray:
    """One state of many."""
    return np.asarray(states.reshape(-1, states.shape[-1])[0])


def _some(cases: Cases, chosen: np.ndarray) -> Cases:
    return tuple(part.at(chosen) if isinstance(part, Move) else np.array(part[chosen]) for part in cases)


def _typed(cases: Cases, dtype: np.dtype[Any], n: int) -> Cases:
    with np.errstate(invalid="ignore"):
        return tuple(_cast(part, dtype) if k < n else part for k, part in enumerate(cases))


def _cast(part: Any, dtype: np.dtype[Any]) -> Any:
    return part._replace(state=part.state.astype(dtype)) if isinstance(part, Move) else part.astype(dtype)


def can_hold(dtype: np.dtype[Any], states: np.ndarray) -> np.ndarray:
    """Of which states (n, d) numbers of a type can be, (n,)."""
    with np.errstate(invalid="ignore", over="ignore"):
        back = states.astype(dtype).astype(states.dtype)
    return np.asarray(((back == states) | ((back != back) & (states != states))).all(axis=-1))


def _arrays(cases: Cases) -> list[np.ndarray]:
    """All parts of cases that a function could change."""
    parts = [inner for part in cases for inner in (part[:4] if isinstance(part, Move) else (part,))]
    return [part for part in parts if isinstance(part, np.ndarray)]
