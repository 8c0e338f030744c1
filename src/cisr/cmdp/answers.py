"""What environments answer, checked before anything is learned from it.

A student that learns from NaN, from an observation of another shape or from a truth value that is none learns nonsense
without a word. Checks of single answers are plain comparisons, because they are made at every step.

What is answered here is a copy: simulators often answer one array, which they write anew at every step.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cisr.core.checks import LARGEST, shown
from cisr.core.errors import AnswerError, TaskError, is_out_of_memory

PLAIN = gymnasium.spaces.Discrete | gymnasium.spaces.Box | gymnasium.spaces.MultiBinary


def check_environment(env: Any) -> None:
    """What `make_env` has made."""
    if not isinstance(env, gymnasium.Env):
        raise TaskError(f"make_env made {shown(env)}: return a gymnasium.Env.")


def concerns_all(error: BaseException) -> bool:
    """Whether an error is not that of one environment alone: a broken contract, or a lack of memory."""
    return is_out_of_memory(error) or (isinstance(error, TaskError) and not isinstance(error, AnswerError))


def is_flattened(space: gymnasium.Space[Any]) -> bool:
    """Whether observations of a space are made vectors of, by `gymnasium.spaces.flatten`: those of several parts."""
    return not isinstance(space, PLAIN) and _is_of_numbers(space)


def _is_of_numbers(space: gymnasium.Space[Any]) -> bool:
    """A text could be flattened too, into the numbers of its letters, which say nothing."""
    if isinstance(space, gymnasium.spaces.Dict):
        return all(map(_is_of_numbers, space.values()))
    if isinstance(space, gymnasium.spaces.Tuple):
        return all(map(_is_of_numbers, space))
    return isinstance(space, PLAIN | gymnasium.spaces.MultiDiscrete)


def copied(answer: Any) -> Any:
    """An answer whose arrays are nobody else's, in dictionaries, tuples and lists too; other objects are shared."""
    if isinstance(answer, np.ndarray):
        return answer.copy()
    if isinstance(answer, dict):
        return {name: copied(part) for name, part in answer.items()}
    return type(answer)(map(copied, answer)) if type(answer) in (tuple, list) else answer


class Answers:
    """What the environments of one observation space may answer."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space
        self._n = int(space.n) if isinstance(space, gymnasium.spaces.Discrete) else None
        self._first = int(space.start) if isinstance(space, gymnasium.spaces.Discrete) else 0
        self._box = isinstance(space, gymnasium.spaces.Box)
        self._flattened = is_flattened(space)
        self._allowed: set[np.dtype[Any]] = set()  # types of numbers seen to fit

    def observation(self, answer: Any, who: str) -> np.ndarray:
        """The observation as an array, flattened where the space has several parts; whether it is finite is asked of
        many at once, see `not_finite`."""
        if self._n is not None:
            number = np.array(answer)
            if number.shape != () or number.dtype.kind not in "iu" or not 0 <= number - self._first < self._n:
                raise AnswerError(self._complaint(who, answer))
            return number
        if not self._box:
            if not self._space.contains(answer):
                raise AnswerError(self._complaint(who, answer))
            if not self._flattened:
                return np.array(answer)
            return np.asarray(gymnasium.spaces.flatten(self._space, answer), np.float32)
        seen = np.array(answer)
        if seen.shape != self._space.shape or (seen.dtype not in self._allowed and not self._fits(seen.dtype)):
            raise AnswerError(self._complaint(who, answer))
        return seen

    def not_finite(self, observations: np.ndarray) -> list[int]:
        """Which of many observations (E, ...) hold NaN or infinity."""
        if observations.dtype.kind != "f":
            return []
        finite = np.isfinite(observations)
        if finite.all():
            return []
        return np.flatnonzero(~finite.reshape(len(finite), -1).all(axis=1)).tolist()

    def _fits(self, dtype: np.dtype[Any]) -> bool:
        if dtype.kind not in "biuf" or not np.can_cast(dtype, self._space.dtype or dtype, "same_kind"):
            return False
        self._allowed.add(dtype)
        return True

    def _complaint(self, who: str, answer: Any) -> str:
        what = shown(answer)
        if self._box:
            array = np.asarray(answer, dtype=object if answer is None or isinstance(answer, dict) else None)
            what = f"{array.dtype} of shape {array.shape}"
        return f"{who} answered the observation {what}: the observation space is {self._space}."


def as_actions(space: gymnasium.Space[Any], given: np.ndarray) -> np.ndarray | None:
    """Actions of any shape in the type that their space has them in; None for what cannot be."""
    dtype = space.dtype or given.dtype
    if not is_castable(given.dtype, dtype):
        return None
    with np.errstate(over="ignore"):
        return given.astype(dtype, copy=False)


def is_castable(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Whether numbers can become those of another type, if they are not too large for it."""
    return (given.kind in "iu" and dtype.kind in "iu") or np.can_cast(given, dtype, "same_kind")


def is_action(space: gymnasium.Space[Any], given: np.ndarray, action: np.ndarray) -> bool:
    """Whether an action lies in its space: as it was given, and in the space's type."""
    same = np.isfinite(action) if action.dtype.kind == "f" else action == given
    return bool(np.all(same)) and space.contains(action)


def checked_reward(given: Any) -> float:
    """A number that many others can be added to."""
    if not isinstance(given, float):
        number = np.asarray(given)
        if number.shape != () or number.dtype.kind not in "biuf":
            raise AnswerError(f"The environment's step paid the reward {given!r}: it must be a number.")
        given = float(number)
    if not abs(given) <= LARGEST:
        raise AnswerError(
            f"The environment's step paid a reward of {given:g}: give finite numbers from {-LARGEST:g} to {LARGEST:g}."
        )
    return float(given)


def checked_flag(given: Any, name: str) -> bool:
    """`terminated` or `truncated`."""
    if type(given) is bool or isinstance(given, np.bool_):
        return bool(given)
    array = np.asarray(given)
    if array.shape != () or array.dtype != bool:
        raise AnswerError(f"The environment's step answered {name} = {given!r}: it must be True or False.")
    return bool(array)


def checked_step(answer: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The five parts of a step."""
    if not isinstance(answer, tuple) or len(answer) != 5:
        what = f"{len(answer)} values" if isinstance(answer, tuple) else f"{type(answer).__name__}"
        raise AnswerError(
            f"The environment's step answered {what}: it must answer observation, reward, terminated, truncated, info."
        )
    return answer


def checked_state(state: Any, like: np.ndarray | None = None) -> np.ndarray:
    """What `read_state` answers: a vector of numbers, of the same length every time."""
    if like is not None and isinstance(state, np.ndarray) and state.shape == like.shape and state.dtype == like.dtype:
        return state.copy()
    if state is None:
        raise AnswerError("read_state answered None: it must answer the environment's state as a vector (d,).")
    vector = np.array(state)
    if vector.ndim != 1 or vector.dtype.kind not in "biuf" or not vector.size:
        raise AnswerError(
            f"read_state answered {vector.dtype} of shape {vector.shape}: it must answer a vector of numbers (d,)."
        )
    if like is not None and vector.shape != like.shape:
        raise AnswerError(f"read_state answered a vector of {vector.size} numbers, before it were {like.size}.")
    return vector
