"""Running normalisation of observations and rewards, as Stable-Baselines3's VecNormalize does it.

Every observation that students act on enters their mean and variance when it arrives, and is seen in these units from
then on; deployed students see in units that no longer move. Rewards are divided by the standard deviation of the
discounted returns so far. They are the environment's: constraint costs are added to what was scaled, so multipliers say
how much a cost weighs against scaled rewards, and the scale does not move with the multipliers.

For one student, in array code; what is not to be normalised has no statistics and passes through as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from cisr.core.errors import ConfigError
from cisr.core.intervention import Array
from cisr.students.config import StudentConfig
from cisr.students.networks import ObservationSpec, as_numbers, check_arrays

Statistics = dict[str, Array]
"""By name, as parameters are: `mean`, `var` and `count` of each of what is normalised; empty where nothing is."""

CLIP = 10.0
EPSILON = 1e-8
FIRST_COUNT = 1e-4
"""What the first guess, mean 0 and variance 1, counts for."""
OBSERVATION, RETURN = "observation", "return"


class Perceived(NamedTuple):
    """What E environments answered, as a student has it."""

    observations: Array  # (E, ...)
    rewards: Array | None  # (E,) None before the first step
    returns: Array | None  # (E,) discounted, of the episodes that are running; None where nobody needs them


def _shapes(config: StudentConfig, observation: ObservationSpec) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    if config.normalize_observations:
        if observation.n_values is not None:
            raise ConfigError(
                "normalize_observations is set, and the environment shows one of finitely many numbers: there is "
                "nothing to normalise in them; leave it out."
            )
        shapes[OBSERVATION] = observation.shape
    if config.normalize_rewards:
        shapes[RETURN] = ()
    return shapes


def new_statistics(config: StudentConfig, observation: ObservationSpec) -> Statistics:
    """Of a student that has seen nothing."""
    statistics: Statistics = {}
    for what, shape in _shapes(config, observation).items():
        statistics[f"{what}.mean"] = jnp.zeros(shape, jnp.float32)
        statistics[f"{what}.var"] = jnp.ones(shape, jnp.float32)
        statistics[f"{what}.count"] = jnp.full((), FIRST_COUNT, jnp.float32)
    return statistics


def check_statistics(statistics: Mapping[str, Any], config: StudentConfig, observation: ObservationSpec) -> None:
    """Complain about arrays that are no such statistics: they may come from anywhere."""
    expected: dict[str, tuple[int, ...]] = {}
    for what, shape in _shapes(config, observation).items():
        expected |= {f"{what}.mean": shape, f"{what}.var": shape, f"{what}.count": ()}
    check_arrays("statistics", statistics, expected, "its settings ask for")


def see(statistics: Statistics, observation: ObservationSpec, observations: Array) -> Array:
    """Observations (n, ...) in the units of statistics that stay as they are."""
    if f"{OBSERVATION}.mean" not in statistics:
        return observations
    numbers = as_numbers(observation, observations)
    return _scaled(numbers - statistics[f"{OBSERVATION}.mean"], statistics[f"{OBSERVATION}.var"])


def meet(statistics: Statistics, observation: ObservationSpec, observations: Array) -> Statistics:
    """The statistics after observations (E, ...) have arrived."""
    if f"{OBSERVATION}.mean" not in statistics:
        return statistics
    return _merged(statistics, OBSERVATION, as_numbers(observation, observations))


def earn(
    statistics: Statistics, rewards: Array | None, ends: Array | None, returns: Array | None, gamma: Array
) -> tuple[Statistics, Array | None, Array | None]:
    """Rewards (E,) of one step: the statistics after it, what is learned from, and the returns that run on.

    Where episodes have only been started nobody has earned anything (None), which is not a reward of 0.
    """
    if f"{RETURN}.var" not in statistics or returns is None or rewards is None or ends is None:
        return statistics, rewards, returns
    returns = returns * gamma + rewards
    statistics = _merged(statistics, RETURN, returns)
    return statistics, _scaled(rewards, statistics[f"{RETURN}.var"]), jnp.where(ends, 0.0, returns)


def _scaled(x: Array, var: Array) -> Array:
    return jnp.clip(x / jnp.sqrt(var + EPSILON), -CLIP, CLIP)


def _merged(statistics: Statistics, what: str, batch: Array) -> Statistics:
    """Moments of two samples taken together (Chan et al.); the batch is (n, ...)."""
    mean, var, count = (statistics[f"{what}.{name}"] for name in ("mean", "var", "count"))
    n = batch.shape[0]
    total, apart = count + n, batch.mean(axis=0) - mean
    squares = var * count + batch.var(axis=0) * n + jnp.square(apart) * count * n / total
    return {
        **statistics,
        f"{what}.mean": mean + apart * n / total,
        f"{what}.var": squares / total,
        f"{what}.count": total,
    }
