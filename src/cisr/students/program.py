"""A batch of students as one compiled program: every function maps over a leading axis S of students."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.intervention import Array
from cisr.students import networks, normalisation, ppo
from cisr.students.config import CNN, Hyperparameters, StudentConfig
from cisr.students.distributions import Distribution, sample
from cisr.students.multipliers import exponentiated_gradient, multipliers
from cisr.students.networks import ObservationSpec
from cisr.students.normalisation import Perceived, Statistics
from cisr.students.ppo import Adam, Learner, Rollout


class Acts(NamedTuple):
    """What S students do in E environments each."""

    actions: jax.Array  # (S, E, ...)
    log_probs: jax.Array  # (S, E)
    values: jax.Array  # (S, E)


class Program:
    """The student's functions for students of one shape. Seeds are (S,) uint32; learners are stacked over S.

    Observations that students act on and learn from are those that `perceive` or `see` made of the environment's.
    """

    def __init__(
        self, config: StudentConfig, observation: ObservationSpec, distribution: Distribution, n_constraints: int
    ) -> None:
        on_cpu = jax.default_backend() == "cpu"
        # Small MLPs act faster side by side even on a CPU: a loop would cost more than the arithmetic.
        forward = networks.forward_for(config.network, observation)
        act_map = _one_by_one if on_cpu and isinstance(config.network, CNN) else jax.vmap

        def act(learner: Learner, observations: jax.Array, key: jax.Array, deterministic: bool) -> Acts:
            outputs = forward(learner.params, observations)
            actions = distribution.mode(outputs.policy) if deterministic else sample(distribution, key, outputs.policy)
            return Acts(actions, distribution.log_prob(outputs.policy, actions), outputs.value)

        def update(learner: Learner, rollout: Rollout, hyper: Hyperparameters, key: jax.Array) -> Learner:
            return ppo.update(learner, rollout, hyper, key, config, forward, distribution)

        self.perceive = _perceiving(config, observation)
        """perceive(statistics, observations (S, E, ...), rewards, ends, returns (S, E), gammas (S,)) -> (statistics,
        Perceived), in training, when a step has been made, or without rewards and ends when environments start"""
        self.see = _seeing(config, observation)
        """see(learners, observations (S, E, ...)) -> observations, by statistics that stay as they are"""
        self.new: Callable[..., Learner] = jax.jit(
            lambda seeds: jax.vmap(lambda key: ppo.new_learner(key, config, observation, distribution, n_constraints))(
                _keys(seeds)
            )
        )
        """new(seeds) -> learners"""
        self.act: Callable[..., Acts] = jax.jit(
            lambda learners, observations, seeds, count, deterministic: act_map(
                partial(act, deterministic=deterministic)
            )(learners, observations, _keys(seeds, count)),
            static_argnums=4,
        )
        """act(learners, observations (S, E, ...), seeds, count, deterministic) -> Acts; `count` numbers the draws"""
        self.value: Callable[..., jax.Array] = jax.jit(
            act_map(lambda learner, observations: forward(learner.params, observations).value)
        )
        """value(learners, observations (S, E, ...)) -> (S, E)"""
        self.update: Callable[..., Learner] = jax.jit(
            lambda learners, rollouts, hypers, seeds, count: over_students(update)(
                learners, rollouts, hypers, _keys(seeds, count)
            )
        )
        """update(learners, rollouts, hypers, seeds, count) -> learners"""
        self.respond: Callable[..., Learner] = jax.jit(jax.vmap(_respond))
        """respond(learners, violations (S, m), hypers) -> learners with their multipliers moved"""
        self.transfer: Callable[..., Learner] = jax.jit(
            jax.vmap(lambda learner, switched: _replace(learner, ppo.transfer(learner), switched))
        )
        """transfer(learners, switched (S,)) -> learners ready for another intervention"""
        self.replace: Callable[..., Learner] = jax.jit(jax.vmap(_replace))
        """replace(learners, others, chosen (S,)) -> learners, the chosen ones replaced by the others"""
        self.multipliers: Callable[..., jax.Array] = jax.jit(
            jax.vmap(lambda learner, hyper: multipliers(learner.log_weights, hyper.multiplier_bound))
        )
        """multipliers(learners, hypers) -> λ (S, m)"""


def _respond(learner: Learner, violations: jax.Array, hyper: Hyperparameters) -> Learner:
    moved = exponentiated_gradient(learner.log_weights, violations, hyper.multiplier_rate)
    return learner._replace(log_weights=moved)


def _replace(learner: Learner, other: Learner, chosen: jax.Array) -> Learner:
    return cast(Learner, jax.tree.map(partial(jnp.where, chosen), other, learner))


def _perceiving(config: StudentConfig, observation: ObservationSpec) -> Callable[..., tuple[Statistics, Perceived]]:
    def perceive(
        statistics: Statistics,
        observations: jax.Array,
        rewards: jax.Array | None,
        ends: jax.Array | None,
        returns: jax.Array,
        gamma: jax.Array,
    ) -> tuple[Statistics, Perceived]:
        statistics = normalisation.meet(statistics, observation, observations)
        statistics, paid, run_on = normalisation.earn(statistics, rewards, ends, returns, gamma)
        return statistics, Perceived(normalisation.see(statistics, observation, observations), paid, run_on)

    normalises = config.normalize_observations or config.normalize_rewards
    return jax.jit(jax.vmap(perceive)) if normalises else _as_it_is


def _seeing(config: StudentConfig, observation: ObservationSpec) -> Callable[..., jax.Array]:
    def see(learner: Learner, observations: Array) -> Array:
        return normalisation.see(learner.statistics, observation, observations)

    return jax.jit(jax.vmap(see)) if config.normalize_observations else lambda learners, observations: observations


@lru_cache(maxsize=16)
def program_for(
    shape: StudentConfig, observation: ObservationSpec, distribution: Distribution, n_constraints: int
) -> Program:
    """The program for a config's `shape`; made and compiled once."""
    return Program(shape, observation, distribution, n_constraints)


def stack_hyperparameters(configs: list[StudentConfig], unit: int, n_units: int) -> Hyperparameters:
    """Of students in one of their units."""
    columns = zip(*(config.hyperparameters(unit, n_units) for config in configs), strict=True)
    return Hyperparameters(*(np.asarray(column, np.float32) for column in columns))


def learners_to_arrays(learners: Learner) -> dict[str, np.ndarray]:
    """Stacked learners as named arrays, for safetensors."""
    arrays: dict[str, Any] = {"log_weights": learners.log_weights, "adam.steps": learners.adam.steps}
    for part, params in (
        ("params", learners.params),
        ("adam.mean", learners.adam.mean),
        ("adam.square", learners.adam.square),
        ("statistics", learners.statistics),
    ):
        arrays |= {f"{part}/{name}": array for name, array in params.items()}
    return {name: np.asarray(array) for name, array in arrays.items()}


def learners_from_arrays(arrays: dict[str, np.ndarray]) -> Learner:
    def part(prefix: str) -> dict[str, jax.Array]:
        return {
            name.removeprefix(prefix + "/"): jnp.asarray(array)
            for name, array in arrays.items()
            if name.startswith(prefix + "/")
        }

    adam = Adam(mean=part("adam.mean"), square=part("adam.square"), steps=jnp.asarray(arrays["adam.steps"]))
    return Learner(
        params=part("params"),
        adam=adam,
        log_weights=jnp.asarray(arrays["log_weights"]),
        statistics=part("statistics"),
    )


def _as_it_is(
    statistics: Statistics, observations: Any, rewards: Any, ends: Any, returns: Any, gammas: Any
) -> tuple[Statistics, Perceived]:
    """Where nothing is normalised, nothing is computed."""
    return statistics, Perceived(observations, rewards, returns)


def over_students(function: Callable[..., Any]) -> Callable[..., Any]:
    """Map heavy work over students: side by side on an accelerator; one after the other on a CPU, where XLA's batched
    matrix products are slower than single ones."""
    return _one_by_one(function) if jax.default_backend() == "cpu" else jax.vmap(function)


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: jax.lax.map(lambda each: function(*each), arguments)


def _keys(seeds: jax.Array, count: jax.Array | int = 0) -> jax.Array:
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), count))(seeds)
