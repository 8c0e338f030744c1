"""The transition model of a finite task: every move that the environment can make, with its probability.

A task may bring its own (`Task.model`); Gymnasium's toy-text environments show theirs in `env.unwrapped.P`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cisr.core.checks import check_whole, keep, shown
from cisr.core.errors import ConfigError

ROUNDING = 1e-9
"""How far probabilities may add up beside 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FiniteModel:
    """P(s' | s, a) with rewards, as m moves in flat arrays; states are numbered 0 … n − 1.

    Every state has every action, also a state that nobody acts in because episodes end there.
    """

    states: np.ndarray  # (n, d) the state vectors that triggers and resets see
    n_actions: int
    source: np.ndarray  # (m,) number of the state moved from
    action: np.ndarray  # (m,)
    probability: np.ndarray  # (m,) of this move, given source and action; above 0
    target: np.ndarray  # (m,) number of the state moved to
    reward: np.ndarray  # (m,)
    terminated: np.ndarray  # (m,) bool: the environment itself ends the episode with this move
    start: np.ndarray  # (n,) distribution of the first state
    time_limit: int | None = None
    """Steps after which the environment itself cuts an episode off, where it does."""

    def __post_init__(self) -> None:
        for name in ("states", *_FLAT, "start"):
            keep(self, **{name: _array(name, getattr(self, name))})
        keep(self, reward=self.reward.astype(float))  # as play has them
        keep(self, n_actions=check_whole("The number of a model's actions", self.n_actions))
        if self.time_limit is not None:
            keep(self, time_limit=check_whole("The time limit of a model", self.time_limit))
        n = self.n_states
        sizes = {name: np.shape(getattr(self, name)) for name in _FLAT}
        if self.states.ndim != 2 or len(set(sizes.values())) != 1 or len(sizes["source"]) != 1:
            raise ConfigError(
                f"A model has states of shape {self.states.shape} and moves of shapes {sizes}: "
                "give states (n, d) and all moves as flat arrays of one length."
            )
        for name, bound in (("source", n), ("target", n), ("action", self.n_actions)):
            numbers = getattr(self, name)
            if numbers.dtype.kind not in "iu" or (numbers < 0).any() or (numbers >= bound).any():
                raise ConfigError(f"A model's {name} holds {numbers.dtype}: give whole numbers from 0 to {bound - 1}.")
        if not (self.probability > 0).all():
            raise ConfigError("A model has moves of probability 0 or less: leave them out.")
        if not np.isfinite(self.reward).all():
            raise ConfigError("A model has rewards that are not finite: give finite numbers.")
        total = np.bincount(self.pair, self.probability, minlength=n * self.n_actions)  # (n * actions,)
        for pair in np.flatnonzero(np.abs(total - 1) > ROUNDING)[:1]:
            state, action = divmod(int(pair), self.n_actions)
            raise ConfigError(
                f"In state {said(self.vector(state))} the probabilities of action {action} add up to {total[pair]:g}: "
                "they must add up to 1 in every state, also where episodes end (let those lead to themselves)."
            )
        if self.start.shape != (n,) or (self.start < 0).any() or not abs(self.start.sum() - 1) <= ROUNDING:
            raise ConfigError(
                f"A model starts with {self.start.shape} probabilities that add up to {self.start.sum():g}: "
                f"give one for each of its {n} states, together 1."
            )
        if len(self.numbers) != n:
            raise ConfigError(f"A model has {n} states, of which {len(self.numbers)} differ: give each state once.")

    @property
    def n_states(self) -> int:
        return len(self.states) if self.states.ndim else 0

    @property
    def pair(self) -> np.ndarray:
        """Which (state, action) each move belongs to, (m,): state · actions + action."""
        return np.asarray(self.source * self.n_actions + self.action)

    @cached_property
    def numbers(self) -> dict[tuple[Any, ...], int]:
        """The number of each state vector."""
        return {tuple(row): number for number, row in enumerate(self.states.tolist())}

    def lasting(self, horizon: int) -> int:
        """Steps of an episode with this horizon: the environment's own time limit may be shorter."""
        return horizon if self.time_limit is None else min(horizon, self.time_limit)

    def vector(self, number: int | np.integer[Any]) -> tuple[float, ...]:
        """The state vector of a state number, as plain numbers."""
        return tuple(self.states[number].tolist())


def _array(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"A model's {name} is {shown(given)}: give an array of numbers.")
    return array


def said(state: tuple[float, ...]) -> str:
    """A state vector in words."""
    return "[" + ", ".join(f"{x:g}" for x in state) + "]"


_FLAT = ("source", "action", "probability", "target", "reward", "terminated")
