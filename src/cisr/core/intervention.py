"""Interventions: when a student is rescued (trigger) and where it is put (reset).

An intervention is the pair ⟨D_i, T_i⟩ of the paper with its tolerances τ_i and κ_i. Triggers and resets are
array code: they take states of shape `(..., d)` with any leading shape, index the *last* axis (`state[..., 0]`)
and work on numpy and jax arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from cisr.core.checks import check_function, check_number, check_predicates, check_text, check_whole, keep, shown
from cisr.core.errors import ConfigError

Array = Any
"""A numpy or jax array: code that names this type works on both."""


@dataclass(frozen=True)
class Rewind:
    """Back to where the student was n steps ago, counted along this episode's non-trigger states.

    The episode goes on: the rescue is an ordinary transition. A rewind past the start ends at the start, and after a
    rescue the history ends at the state gone back to.
    """

    steps: int = 1

    def __post_init__(self) -> None:
        keep(self, steps=check_whole(f"Rewind({shown(self.steps)}): the number of steps", self.steps))


@dataclass(frozen=True)
class ToStart:
    """Back to the start: the episode ends, and nothing is bootstrapped beyond it."""


@dataclass(frozen=True)
class Place:
    """To a state that `fn(state, history, u)` computes; the episode goes on.

    `state` is the triggering state (..., d); `history` the last `n_history` non-trigger states (..., n_history, d),
    newest last, padded with the first; `u` are `n_uniforms` numbers from [0, 1), drawn beforehand, for resets that are
    random (numpy and jax cannot share a generator).
    """

    fn: Callable[[Array, Array, Array], Array]
    n_history: int = 1
    n_uniforms: int = 0

    def __post_init__(self) -> None:
        check_function("The function of Place", self.fn, "of state, history and u that returns a state")
        both = f"Place with n_history={shown(self.n_history)}, n_uniforms={shown(self.n_uniforms)}"
        keep(
            self,
            n_history=check_whole(f"{both}: the history", self.n_history, 1, MOST_OF_PLACE),
            n_uniforms=check_whole(f"{both}: the number of uniforms", self.n_uniforms, 0, MOST_OF_PLACE),
        )


Reset = Rewind | ToStart | Place

MOST_OF_PLACE = 10_000
"""States or numbers that a reset is shown."""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """A trigger set D_i, a reset T_i, and how much help a student may use."""

    name: str
    trigger: Callable[[Array], Array] | Mapping[str, Callable[[Array], Array]]
    """trigger(state (..., d)) -> bool (...): is the state in D_i? Several by name are united in D_i, and each is a
    constraint of its own to the student."""
    reset: Reset
    tau: float
    """Tolerance τ_i for rescues, in the units of the task's constraints (per step for means, per episode for sums)."""
    kappa: float = 0.0
    """Tolerance κ_i for failures."""
    horizon: int | None = None
    """Time limit of M_i, where it is not the task's own."""

    def __post_init__(self) -> None:
        check_text("The name of an intervention", self.name)
        if not isinstance(self.reset, Rewind | ToStart | Place):
            raise ConfigError(
                f"Intervention '{self.name}' has the reset {self.reset!r}: give Rewind(steps), ToStart() or "
                f"Place(function)."
            )
        if not self.name or self.name != self.name.strip():
            raise ConfigError(f"An intervention is called {self.name!r}: give it a name without blanks around it.")
        keep(
            self,
            tau=check_number(f"Intervention '{self.name}' has tau=", self.tau, 0),
            kappa=check_number(f"Intervention '{self.name}' has kappa=", self.kappa, 0),
        )
        check_predicates(f"The trigger of intervention '{self.name}'", self.trigger, "of states (..., d)")
        if self.horizon is not None:
            keep(self, horizon=check_whole(f"Intervention '{self.name}' has horizon=", self.horizon))

    @property
    def triggers(self) -> dict[str, Callable[[Array], Array]]:
        """The triggers by name."""
        return {"rescues": self.trigger} if callable(self.trigger) else dict(self.trigger)

    def triggered(self, state: Array) -> Array:
        """Which states (..., d) are in D_i, (...)."""
        return reduce(or_, (trigger(state) for trigger in self.triggers.values()))


def _never(state: Array) -> Array:
    return np.zeros(np.shape(state)[:-1], bool)


NONE = Intervention(name="none", trigger=_never, reset=Rewind(), tau=0.0)
"""No help at all: a trigger that never fires, so that M itself is one more M_i."""
