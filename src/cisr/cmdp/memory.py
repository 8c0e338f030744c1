"""Where the students of several environments were in their episodes, and how they get back there.

A rewind needs to know more than the numbers that triggers see. Who gives the task a `save` says what; a task with a
`place` and no `save` is put back by its state vector alone; otherwise `cisr.cmdp.saving` knows a way. Nothing is saved
where no rewind can ask for it, and nothing is kept longer than one can.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cisr.cmdp.saving import Env, Saving, saving_for
from cisr.core.intervention import NONE, Intervention, Rewind
from cisr.core.task import Task


class Saved(NamedTuple):
    """An environment as it was."""

    what: Any  # as `save` has it
    observation: np.ndarray  # what was seen then


def way_back(task: Task, env: Env) -> Saving | None:
    """How an environment of the task is saved; None where its state vector says it all."""
    if task.save is not None and task.restore is not None:
        return Saving(task.save, task.restore)
    return None if task.place is not None else saving_for(env)


class Memory:
    """The non-trigger states of the episodes that E environments are in."""

    def __init__(self, task: Task, intervention: Intervention, envs: list[Env]) -> None:
        rewinds = isinstance(intervention.reset, Rewind) and intervention.name != NONE.name
        self._ways = [way_back(task, env) if rewinds else None for env in envs]
        self._envs = envs
        self._n = intervention.reset.steps if isinstance(intervention.reset, Rewind) else 1
        self.states: list[list[np.ndarray]] = [[] for _ in envs]  # (d,) each, newest last
        self._saved: list[list[Saved]] = [[] for _ in envs]  # as many, where environments are saved

    def saves(self, k: int) -> bool:
        return self._ways[k] is not None

    def begin(self, k: int, state: np.ndarray, observation: np.ndarray) -> None:
        """A new episode."""
        self.states[k], self._saved[k] = [], []
        self.add(k, state, observation)

    def add(self, k: int, state: np.ndarray, observation: np.ndarray, steps_left: float = np.inf) -> None:
        """The student stands in another non-trigger state, and may be rescued in each of the steps left."""
        self.states[k].append(state)
        if (way := self._ways[k]) is not None:
            self._saved[k].append(Saved(way.save(self._envs[k]), observation))
            depth = 1 if self._n == 1 else 1 + (self._n - 1) * steps_left  # each rescue leads n − 1 states further back
            for past in (self._saved[k], self.states[k]):
                del past[: int(max(len(past) - depth, 0))]

    def rewind(self, k: int, steps: int) -> np.ndarray:
        """Forget what came after the state to go back to; returns that state (d,)."""
        for past in (self.states[k], self._saved[k]):
            del past[max(len(past) - steps, 0) + 1 :]
        return self.states[k][-1]

    def restore(self, k: int) -> Any:
        """Put environment k back to the newest state; returns what `restore` answers."""
        way = self._ways[k]
        assert way is not None
        return way.restore(self._envs[k], self._saved[k][-1].what)

    def seen(self, k: int) -> np.ndarray:
        """What was seen in the newest state of environment k, where it was saved."""
        return self._saved[k][-1].observation

    def history(self, k: int, n: int) -> np.ndarray:
        """The last n states (n, d), padded with the first."""
        past = self.states[k]
        return np.stack([past[max(i, 0)] for i in range(len(past) - n, len(past))])
