"""The Lagrangian for learners of any kind: an environment whose costs are paid for, by multipliers that can learn.

A student of ours learns in best responses: its learner maximises r − λ·c against fixed multipliers λ, then these move
by exponentiated gradient. With these two, any other learner does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np

from cisr.core.checks import check_kind, check_names, check_number, shown
from cisr.core.errors import ConfigError
from cisr.students.multipliers import exponentiated_gradient, multipliers, uniform_log_weights

INCREMENTS = "constraint_increments"
"""What `info` calls the costs of a step that our students are charged."""


class Multipliers:
    """λ for each constraint by name, shared by the environments of one learner.

    >>> shared = Multipliers(("failures", "rescues"), bound=3.0)
    >>> {name: round(weight, 2) for name, weight in shared.weights.items()}
    {'failures': 1.0, 'rescues': 1.0}
    """

    def __init__(self, constraints: tuple[str, ...], *, bound: float = 0.5, rate: float = 1.0) -> None:
        check_names("The constraints of multipliers", constraints)
        self.constraints = tuple(constraints)
        if len(set(constraints)) < len(constraints):
            raise ConfigError(f"The constraints of multipliers are {', '.join(constraints)}: give each name once.")
        self.bound = check_number("The bound of multipliers", bound, 0)
        self.rate = check_number("The rate of multipliers", rate, 0)
        self.log_weights = uniform_log_weights(len(self.constraints))
        self._episodes: list[np.ndarray] = []

    @property
    def weights(self) -> dict[str, float]:
        return dict(zip(self.constraints, self.vector.tolist(), strict=True))

    @property
    def vector(self) -> np.ndarray:
        """λ (m,) in the order of the constraints."""
        return np.asarray(multipliers(self.log_weights, jnp.float32(self.bound)))

    def add(self, values: np.ndarray) -> None:
        """An episode has ended with these values of its constraints (m,)."""
        self._episodes.append(self._checked(values))

    def respond(self) -> dict[str, float]:
        """Move by the episodes since the last call, after a best response; returns the new multipliers."""
        if self._episodes:
            self.move(np.mean(self._episodes, axis=0))
            self._episodes = []
        return self.weights

    def move(self, violations: np.ndarray) -> None:
        """By mean constraint values (m,)."""
        moved = jnp.asarray(self._checked(violations))
        self.log_weights = exponentiated_gradient(self.log_weights, moved, jnp.float32(self.rate))

    def _checked(self, values: Any) -> np.ndarray:
        try:
            given = np.asarray(values)
        except ValueError:  # rows of several lengths
            given = np.asarray(None)
        m = len(self.constraints)
        if given.shape != (m,) or given.dtype.kind not in "biuf" or not np.isfinite(given).all():
            raise ConfigError(
                f"The values of constraints are {shown(values)}: give {m} finite numbers, those of "
                f"{', '.join(self.constraints)}."
            )
        return given


class Lagrangian(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An `InducedCMDP` that pays r − λ·c, with c the increments of its constraints; `info["reward"]` has r.

    `multipliers` are numbers by name, which stay, or `Multipliers`, which move when `respond` is called: by the
    episodes that have ended in this process, with their last step or, where a wrapper outside cuts them off, `reset`.

    >>> import gymnasium
    >>> from cisr.students.lagrangian import Lagrangian
    >>> env = Lagrangian(gymnasium.make("cisr/FrozenLake-v0", intervention="HR"), {"failures": 1.0, "rescues": 1.0})
    >>> observation, info = env.reset(seed=0)
    >>> env.step(1)[1]
    -1.01
    """

    def __init__(self, env: gymnasium.Env[Any, Any], multipliers: Multipliers | Mapping[str, float]) -> None:
        check_kind("What Lagrangian wraps", env, gymnasium.Env, "a cisr.InducedCMDP")
        super().__init__(env)
        check_kind("The multipliers", multipliers, (Multipliers, Mapping), "Multipliers, or numbers by name")
        known = env.get_wrapper_attr("constraints") if env.has_wrapper_attr("constraints") else None
        if known is None:
            raise ConfigError(f"The environment {env} tells no constraints: wrap a cisr.InducedCMDP.")
        given = multipliers.constraints if isinstance(multipliers, Multipliers) else tuple(multipliers)
        if set(given) != set(known):
            raise ConfigError(f"The multipliers are of {', '.join(given)}: give one for each of {', '.join(known)}.")
        if not isinstance(multipliers, Multipliers):
            multipliers = {name: check_number(f"The multiplier of {name}", x, 0) for name, x in multipliers.items()}
        self.multipliers = multipliers
        self._values: dict[str, float] = {}
        """Of each constraint, in the episode that is under way; empty before its first step."""

    @property
    def weights(self) -> Mapping[str, float]:
        return self.multipliers.weights if isinstance(self.multipliers, Multipliers) else self.multipliers

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._end()
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if INCREMENTS not in info:
            raise ConfigError(
                f"A step told no {INCREMENTS}: a wrapper between Lagrangian and InducedCMDP left them out."
            )
        increments: Mapping[str, float] = info[INCREMENTS]
        self._values = {name: self._values.get(name, 0.0) + cost for name, cost in increments.items()}
        if terminated or truncated:
            self._end()
        charged = float(reward) - sum(self.weights[name] * cost for name, cost in increments.items())
        return observation, charged, terminated, truncated, {**info, "reward": float(reward)}

    def _end(self) -> None:
        if self._values and isinstance(self.multipliers, Multipliers):
            self.multipliers.add(np.array([self._values[name] for name in self.multipliers.constraints]))
        self._values = {}
