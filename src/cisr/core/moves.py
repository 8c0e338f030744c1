"""Moves and whole steps, as danger, success and rewards see them. Fields are arrays over any leading shape (...).

Not everything is known everywhere: a student that was put somewhere did nothing to get there, and compiled or finite
environments tell nothing beside their moves. What is unknown is an `Unknown`, which may be passed on and not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cisr.core.errors import TaskError
from cisr.core.intervention import Array


class UnknownPart(TaskError):  # noqa: N818 (what was asked for, not what went wrong)
    """A predicate asked for a part of a move that nobody knows."""


class Unknown:
    """Stands for a part of a move that is not known; whoever makes use of it is told so."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __repr__(self) -> str:
        return f"Unknown({self.part!r})"

    def _refuse(self, *asked: Any, **options: Any) -> Any:
        raise UnknownPart(
            f"`move.{self.part}` is not known here: a start has no action, and models and compiled environments tell "
            f"no info; judge by the state, or train on the gymnasium backend."
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __getitem__ = __len__ = __iter__ = __array__ = __bool__ = __float__ = __int__ = __contains__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __neg__ = __invert__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __mod__ = __floordiv__ = __pow__ = __matmul__ = _refuse
    __hash__ = object.__hash__


class Infos:
    """What environments told beside their moves: `info["speed"]` is an array (..., *shape of one), made when asked for.

    A name that an environment did not tell is an error, unless `get` is given what to take in its place.
    """

    def __init__(self, each: Sequence[Mapping[str, Any]], shape: tuple[int, ...] | None = None) -> None:
        self._each = each
        self._shape = (len(each),) if shape is None else shape
        self.asked = False
        """Whether anybody wanted to know."""

    def __getitem__(self, name: str) -> np.ndarray:
        self.asked = True
        for info in self._each:
            if name not in info:
                known = ", ".join(map(str, info)) or "nothing"
                raise UnknownPart(f"`move.info` has no '{name}': the environment told {known}.")
        return self._array([info[name] for info in self._each])

    def get(self, name: str, default: Any) -> np.ndarray:
        self.asked = True
        return self._array([info.get(name, default) for info in self._each])

    def _array(self, values: list[Any]) -> np.ndarray:
        array = np.stack([np.asarray(value) for value in values])
        return array.reshape(self._shape + array.shape[1:])

    def at(self, index: Any) -> Infos:
        """Those of some of the moves."""
        chosen = np.arange(len(self._each)).reshape(self._shape)[index]
        return Infos([self._each[i] for i in np.ravel(chosen)], np.shape(chosen))


class Move(NamedTuple):
    """What one move of a student led to, before any rescue."""

    state: Array  # (..., d) the state moved to
    reward: Array  # (...) the environment's reward
    terminated: Array  # (...) whether the environment ended the episode
    action: Array = Unknown("action")  # (..., *shape of an action) what the environment was given
    info: Any = Unknown("info")  # by name, what the environment told beside it
    observation: Array = Unknown("observation")  # (..., *shape of an observation) what was seen of the state

    def at(self, index: Any) -> Move:
        """Some of the moves."""

        def some(part: Any) -> Any:
            if isinstance(part, Infos):
                return part.at(index)
            return part if isinstance(part, Unknown) else np.array(part[index])

        return Move(*map(some, self))


def unwritable(part: Any) -> Any:
    """A part of a move, or a whole record of such parts, that the user's code can read and not write to: what one
    function changes in place, others would go on with."""
    if isinstance(part, np.ndarray):
        view = part.view()
        view.flags.writeable = False
        return view
    return type(part)(*map(unwritable, part)) if isinstance(part, Move | Transition) else part


def stacked(moves: Sequence[Move]) -> Move:
    """Moves of one student each, whose infos are plain dictionaries, as one move of all."""

    def one(parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], Unknown):
            return parts[0]
        return Infos(parts) if isinstance(parts[0], Mapping) else np.array(parts)

    return Move(*map(one, zip(*moves, strict=True)))


def standing(state: Array, **known: Any) -> Move:
    """States (..., d) that nobody moved to, starts and ends of rescues, as moves: that is how danger judges them."""
    xp, shape = state.__array_namespace__(), state.shape[:-1]
    return Move(state=state, reward=xp.zeros(shape), terminated=xp.zeros(shape, dtype=bool), **known)


def holds_standing(danger: Callable[[Move], Array], move: Move) -> Array:
    """Whether a danger holds where nobody moved to, (...). One that is about actions, or about what an environment
    tells, is a danger of moves: there it does not."""
    try:
        return danger(move)
    except UnknownPart:
        return move.state.__array_namespace__().zeros(move.state.shape[:-1], dtype=bool)


class Transition(NamedTuple):
    """A whole step: the student's move and the rescue that followed, if any."""

    move: Move
    failed: Array  # (...)
    rescued: Array  # (...)
    after: Array  # (..., d) where the rescue leaves the student, or would, had the move not ended the episode
    timed_out: Array  # (...) the time limit ended the episode with this step
