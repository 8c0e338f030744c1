"""A task's own functions, asked about E environments at once; answers of another shape or type name their function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp.answers import as_actions, is_action
from cisr.core.checks import shown
from cisr.core.errors import AnswerError, CisrError, TaskError, described
from cisr.core.intervention import Intervention
from cisr.core.moves import Move, Transition, holds_standing, unwritable
from cisr.core.task import Task
from cisr.system.interrupts import users_errors


class Questions:
    """What a task and one of its interventions say of n environments with this action space."""

    def __init__(self, task: Task, intervention: Intervention, n: int, space: gymnasium.Space[Any]) -> None:
        self._task = task
        self._intervention = intervention
        self._n = n
        self._space = space
        self._dangers = list(task.dangers.items())
        self._triggers = list(intervention.triggers.items())

    def fired(self, *about: np.ndarray) -> np.ndarray:
        """Which triggers fire at states, or at states and actions, (E, k)."""
        whose = f"of '{self._intervention.name}'"
        fired = [self._asked(f"trigger '{name}' {whose}", trigger, *about) for name, trigger in self._triggers]
        return np.stack(fired, axis=-1)

    def dangers(self, move: Move) -> np.ndarray:
        """Which dangers hold, (E, n)."""
        return np.stack([self._asked(f"danger '{name}'", danger, move) for name, danger in self._dangers], axis=-1)

    def standing_dangers(self, move: Move) -> np.ndarray:
        """Which dangers hold where nobody moved to, (E, n)."""
        asked = [partial(self._asked, f"danger '{name}'", danger) for name, danger in self._dangers]
        return np.stack([holds_standing(danger, move) for danger in asked], axis=-1)

    def success(self, move: Move) -> np.ndarray:
        return self._asked("success", self._task.success, move)

    def safe(self, state: np.ndarray) -> np.ndarray:
        """Where a drive is over, (E,)."""
        return self._asked(f"until of '{self._intervention.name}'", self._intervention.safe, state)

    def reward(self, transition: Transition) -> np.ndarray:
        """What the task itself pays, (E,)."""
        assert self._task.reward is not None
        return self._asked("reward", self._task.reward, transition, kinds="biuf", wanted="transitions: answer a number")

    def actions(self, what: str, function: Callable[..., Any], *about: np.ndarray, used: np.ndarray) -> np.ndarray:
        """What a rescue does, (E, ...): actions as the environments' space has them. Those that are `used` (E,) lie
        within it; what else a function says of states that it is not needed for is no concern of anybody's."""
        who = f"The {what} of '{self._intervention.name}' of task '{self._task.name}'"
        given = np.asarray(self._answered(who, function, *about))
        actions = as_actions(self._space, given)
        if given.shape != (self._n, *(self._space.shape or ())) or actions is None:
            raise TaskError(
                f"{who} answered {given.dtype} of shape {given.shape} for {self._n} states: answer an action of "
                f"{self._space} for each."
            )
        for k in np.flatnonzero(used):
            if not is_action(self._space, given[k], actions[k]):
                raise TaskError(
                    f"{who} answered {shown(given[k].tolist())} for the state {about[0][k].tolist()}: answer an action "
                    f"of {self._space} for each."
                )
        return actions

    def placed(self, fn: Callable[..., Any], state: np.ndarray, history: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Where a `Place` puts one student, (d,)."""
        who = f"The reset of '{self._intervention.name}'"
        try:
            placed = np.asarray(fn(*map(unwritable, (state, history, u))))
        except (CisrError, MemoryError):
            raise
        except users_errors() as error:
            raise AnswerError(f"{who} {raised(error)}, asked about the state {state.tolist()}.") from error
        if placed.shape != state.shape or placed.dtype.kind not in "biuf":
            raise TaskError(
                f"{who} answered shape {placed.shape} for a state of shape {state.shape}, as {placed.dtype}: answer a "
                f"state."
            )
        put = placed.astype(state.dtype)  # what an environment can be put into, and what memories hold
        if state.dtype.kind in "biu" and not np.array_equal(put, placed):
            raise TaskError(
                f"The reset of '{self._intervention.name}' answered {placed.tolist()} where states are {state.dtype}: "
                f"answer a state of that type."
            )
        return put

    def _asked(
        self,
        what: str,
        function: Callable[..., Any],
        *about: Any,
        kinds: str = "b",
        wanted: str = "states: answer one bool",
    ) -> np.ndarray:
        """A number of one of these kinds for each environment, (E,)."""
        who = f"The {what} of task '{self._task.name}'"
        array = np.asarray(self._answered(who, function, *about))
        if array.shape != (self._n,) or array.dtype.kind not in kinds:
            raise TaskError(
                f"{who} answered {array.dtype} of shape {array.shape} for {self._n} {wanted} for each; index the last "
                f"axis of the state (state[..., 0])."
            )
        return array

    def _answered(self, who: str, function: Callable[..., Any], *about: Any) -> Any:
        try:
            return function(*map(unwritable, about))
        except (CisrError, MemoryError):
            raise
        except users_errors() as error:
            raise TaskError(f"{who} {raised(error)}, asked about {self._n} states.") from error


def raised(error: BaseException) -> str:
    """What one of the user's functions raised, and how to mend what can be told."""
    said = f"raised {described(error)}"
    return f"{said}: it must leave what it is shown as it was, and write to a copy" if "read-only" in said else said
