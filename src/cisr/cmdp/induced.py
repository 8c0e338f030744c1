"""A finite task M and the CMDP M_i that an intervention makes of it, as arrays over moves. D is a set of *moves*: some
environments show danger only in the reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cisr.core.errors import TaskError
from cisr.core.intervention import Intervention
from cisr.core.model import FiniteModel
from cisr.core.moves import Move

NOWHERE = -1
"""Where a student stands when its episode has ended."""


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """M: a model's moves with what the task makes of them."""

    model: FiniteModel
    horizon: int
    """T: steps of an episode, the task's or an intervention's, or fewer where the environment itself cuts it off."""
    move: Move
    failed: np.ndarray  # (m,) bool: the move is a visit to D
    succeeded: np.ndarray  # (m,) bool
    perilous: np.ndarray  # (n,) bool: whoever is put there, by a start or by a rescue, stands in D

    @property
    def doomed(self) -> np.ndarray:
        """Starts inside D, (n,) bool; the first step of their episodes is a failure, whatever it does."""
        return np.asarray((self.model.start > 0) & self.perilous)

    @property
    def starts(self) -> np.ndarray:
        """Where students can begin to act, (n,) bool."""
        return np.asarray((self.model.start > 0) & ~self.doomed)

    @property
    def over(self) -> np.ndarray:
        """Which moves end the episode in M, (m,) bool."""
        return np.asarray(self.failed | self.model.terminated)

    @property
    def dangerous(self) -> np.ndarray:
        """The states in D, (n,) bool: moves lead there, and every one of them is a failure.

        Where danger is a property of states this is that property; a state that CliffWalking carries the fallen to,
        and that can be entered by an ordinary step as well, is not dangerous.
        """
        n = self.model.n_states
        entered, entered_well = np.zeros(n, bool), np.zeros(n, bool)
        entered[self.model.target] = True
        entered_well[self.model.target[~self.failed]] = True
        return entered & ~entered_well


@dataclass(frozen=True, eq=False)
class Induced:
    """M_i: where each move of M leaves the student under an intervention."""

    judged: JudgedModel
    intervention: Intervention
    trigger: np.ndarray  # (n,) bool: D_i
    fired: np.ndarray  # (m, k) bool: by which of the k triggers a move is counted as a rescue, even where the episode
    # has ended and nobody is left to place
    failed: np.ndarray  # (m,) bool: the move is a visit to D, or the rescue after it leads there
    lands: np.ndarray  # (m,) state in which the student stands after the step; NOWHERE: the episode has ended
    put: np.ndarray  # (m,) state that a reset put the student into, where this can happen; NOWHERE elsewhere
    explored: np.ndarray  # (n,) bool: states that M can reach, or M_i after a reset
    unmodelled: str | None
    """Why rescues are beyond a finite graph, where they are; `lands` then treats them as the episode's end."""
    task: JudgedModel
    """M itself: `judged` has the moves of M_i, in which an override has replaced some, and a drive is one move after
    the other from states of its own."""
    base: np.ndarray  # (n,) number in M of the state that each state is

    @property
    def driven(self) -> np.ndarray:
        """Which moves a controller makes, (m,) bool; students have no say in them: each is there for every action."""
        return np.asarray(self.model.source >= self.task.model.n_states)

    def vector(self, state: int | np.integer[Any]) -> tuple[float, ...]:
        """The state vector of a state of M_i."""
        return self.task.model.vector(self.base[state])

    @property
    def model(self) -> FiniteModel:
        return self.judged.model

    @property
    def rescued(self) -> np.ndarray:
        """Which moves are counted as a rescue, (m,) bool."""
        return np.asarray(self.fired.any(axis=1))


def bools(answer: Any, n: int, what: str) -> np.ndarray:
    verdict = np.asarray(answer)
    if verdict.shape != (n,) or verdict.dtype != bool:
        raise TaskError(
            f"The {what} answered {verdict.dtype} of shape {verdict.shape} for {n} states: "
            "answer one bool for each; index the last axis of the state (state[..., 0])."
        )
    return verdict


def zones_of(model: FiniteModel, intervention: Intervention) -> np.ndarray:
    """Which triggers fire in which states, (n, k)."""
    asked = intervention.triggers.items()
    whose = f"of '{intervention.name}'"
    return np.stack(
        [bools(trigger(model.states.copy()), model.n_states, f"trigger '{name}' {whose}") for name, trigger in asked],
        axis=1,
    )
