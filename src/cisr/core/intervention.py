"""Interventions: when a student is rescued (trigger) and how (reset).

An intervention is the pair ⟨D_i, T_i⟩ of the paper with its tolerances τ_i and κ_i. Triggers and resets are
array code: they take states of shape `(..., d)` with any leading shape, index the *last* axis (`state[..., 0]`)
and work on numpy and jax arrays alike.

A student that has moved into D_i is put somewhere (`Rewind`, `Place`), sent back (`ToStart`) or driven out of it
(`Drive`). An `Override` comes before the move: D_i is then a set of states *and actions*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from cisr.core.checks import (
    check_function,
    check_kind,
    check_number,
    check_predicates,
    check_text,
    check_whole,
    keep,
    shown,
)
from cisr.core.errors import ConfigError

Array = Any
"""A numpy or jax array: code that names this type works on both."""
Trigger = Callable[..., Array]
"""Of states (..., d), or of states and actions."""


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
    """To a state that `fn(state, history, u)` computes; the episode goes on. The task must have a `place`.

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


@dataclass(frozen=True)
class Drive:
    """A controller drives the student out of danger, within the student's step; the episode goes on from there.

    The environment is stepped by `controller(state (..., d)) -> action (...)`, at least once, until `until(state) ->
    bool (...)` holds, which is by default that no trigger of the intervention fires any more; or until danger, the end
    of the episode, the horizon, or `max_steps`. Every driven step is judged for danger, and a danger is a failure of
    the student's step. Driven steps pay nothing, and the clock counts them.
    """

    controller: Callable[[Array], Array]
    until: Callable[[Array], Array] | None = None
    max_steps: int = 50

    def __post_init__(self) -> None:
        check_function("The controller of Drive", self.controller, "of states (..., d) that returns actions")
        if self.until is not None:
            check_function("The until of Drive", self.until, "of states (..., d), or None")
        limit = check_whole(f"Drive with max_steps={shown(self.max_steps)}: that", self.max_steps, 1, MOST_DRIVEN)
        keep(self, max_steps=limit)


@dataclass(frozen=True)
class Override:
    """Another action in the place of the student's; the episode goes on as ever, unless the override `ends` it.

    The intervention's triggers are asked about states (..., d) and the actions (...) that students are about to take;
    where one fires the environment gets `act(state, action) -> action` instead. A student that is merely overridden may
    come to lean on it; one whose episode ends with the step, as under `ToStart`, learns to do without.
    """

    act: Callable[[Array, Array], Array]
    ends: bool = False

    def __post_init__(self) -> None:
        check_function("The act of Override", self.act, "of states and actions that returns actions")
        check_kind("The ends of Override", self.ends, bool, "True or False")


Reset = Rewind | ToStart | Place | Drive | Override
PUTTING = (Rewind, Place)
"""Resets that put an environment into another state."""

MOST_DRIVEN = 10_000
"""Steps of one drive."""
MOST_OF_PLACE = 10_000
"""States or numbers that a reset is shown."""


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """A trigger set D_i, a reset T_i, and how much help a student may use."""

    name: str
    trigger: Trigger | Mapping[str, Trigger]
    """trigger(state (..., d)) -> bool (...): is the state in D_i? With an `Override` it is trigger(state, action).
    Several by name are united in D_i, and each is a constraint of its own to the student."""
    reset: Reset
    tau: float
    """Tolerance τ_i for rescues, in the units of the task's constraints (per step for means, per episode for sums)."""
    kappa: float = 0.0
    """Tolerance κ_i for failures."""
    horizon: int | None = None
    """Time limit of M_i, where it is not the task's own."""

    def __post_init__(self) -> None:
        check_text("The name of an intervention", self.name)
        if not isinstance(self.reset, Reset):
            raise ConfigError(
                f"Intervention '{self.name}' has the reset {self.reset!r}: give Rewind(steps), ToStart(), "
                f"Place(function), Drive(controller) or Override(act)."
            )
        if not self.name or self.name != self.name.strip():
            raise ConfigError(f"An intervention is called {self.name!r}: give it a name without blanks around it.")
        keep(
            self,
            tau=check_number(f"Intervention '{self.name}' has tau=", self.tau, 0),
            kappa=check_number(f"Intervention '{self.name}' has kappa=", self.kappa, 0),
        )
        about = "of states (..., d) and actions" if self.judges_actions else "of states (..., d)"
        check_predicates(f"The trigger of intervention '{self.name}'", self.trigger, about)
        if "failures" in self.triggers:
            raise ConfigError(
                f"Intervention '{self.name}' calls a trigger 'failures', as dangers are: choose another name."
            )
        if self.horizon is not None:
            keep(self, horizon=check_whole(f"Intervention '{self.name}' has horizon=", self.horizon))

    @property
    def triggers(self) -> dict[str, Trigger]:
        """The triggers by name."""
        return {"rescues": self.trigger} if callable(self.trigger) else dict(self.trigger)

    @property
    def ends_episodes(self) -> bool:
        """Whether a rescue ends the episode."""
        return isinstance(self.reset, ToStart) or (isinstance(self.reset, Override) and self.reset.ends)

    @property
    def judges_actions(self) -> bool:
        """Whether triggers are asked before the environment moves, about states and actions."""
        return isinstance(self.reset, Override)

    def triggered(self, state: Array, action: Array | None = None) -> Array:
        """Which states (..., d), with these actions where they are judged, are in D_i, (...)."""
        about = (state, action) if self.judges_actions else (state,)
        return reduce(or_, (trigger(*about) for trigger in self.triggers.values()))

    def safe(self, state: Array) -> Array:
        """Where a drive is over, (...)."""
        assert isinstance(self.reset, Drive)
        return ~self.triggered(state) if self.reset.until is None else self.reset.until(state)


def _never(state: Array) -> Array:
    return np.zeros(np.shape(state)[:-1], bool)


NONE = Intervention(name="none", trigger=_never, reset=Rewind(), tau=0.0)
"""No help at all: a trigger that never fires, so that M itself is one more M_i."""
