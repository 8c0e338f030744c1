"""The student's learning: one PPO update on the Lagrangian of its CMDP, top to bottom.

Everything here is for one student; backends map it over many.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.students import networks
from cisr.students.config import Hyperparameters, StudentConfig
from cisr.students.distributions import Distribution
from cisr.students.multipliers import multipliers, uniform_log_weights
from cisr.students.networks import Forward, ObservationSpec, Params
from cisr.students.normalisation import Statistics, new_statistics

ADAM_DECAY, ADAM_SQUARE_DECAY, ADAM_EPSILON = 0.9, 0.999, 1e-5
ADVANTAGE_EPSILON = 1e-8


class Adam(NamedTuple):
    """The optimiser's state."""

    mean: Params  # first moments, shaped like the parameters
    square: Params  # second moments
    steps: jax.Array  # () gradient steps taken


class Learner(NamedTuple):
    """All that a student carries from unit to unit."""

    params: Params
    adam: Adam
    log_weights: jax.Array  # (m + 1,) of the multipliers and the slack
    statistics: Statistics = {}  # noqa: RUF012  # of what is normalised


class Rollout(NamedTuple):
    """Experience of one student: T steps in each of E environments."""

    observations: Array  # (T, E, ...) normalised, where they are, as when the actions were taken
    actions: Array  # (T, E, ...)
    log_probs: Array  # (T, E) when the actions were taken
    values: Array  # (T, E) likewise
    rewards: Array  # (T, E) the environment's, normalised where they are
    costs: Array  # (T, E, m) constraint increments
    ends: Array  # (T, E) 1 where the episode ended with this step
    end_values: Array  # (T, E) value of what lies beyond an end: 0, or V at a bootstrapped time limit
    last_values: Array  # (E,) V of the observations after the last step


class Sample(NamedTuple):
    """What the loss needs of each step; a minibatch is a Sample of arrays (n, ...)."""

    observations: jax.Array
    actions: jax.Array
    log_probs: jax.Array
    values: jax.Array
    advantages: jax.Array
    returns: jax.Array


def fresh_adam(params: Params) -> Adam:
    zeros = jax.tree.map(jnp.zeros_like, params)
    return Adam(mean=zeros, square=zeros, steps=jnp.zeros((), jnp.int32))


def new_learner(
    key: jax.Array, config: StudentConfig, observation: ObservationSpec, distribution: Distribution, n_constraints: int
) -> Learner:
    params = networks.initialise(key, config.network, observation, distribution.n_outputs, distribution.n_log_std)
    return Learner(
        params=params,
        adam=fresh_adam(params),
        log_weights=uniform_log_weights(n_constraints),
        statistics=new_statistics(config, observation),
    )


def transfer(learner: Learner) -> Learner:
    """Knowledge transfer at a switch: policy, values, multipliers and statistics carry over, the optimiser starts
    afresh."""
    return learner._replace(adam=fresh_adam(learner.params))


def update(
    learner: Learner,
    rollout: Rollout,
    hyper: Hyperparameters,
    key: jax.Array,
    config: StudentConfig,
    forward: Forward,
    distribution: Distribution,
) -> Learner:
    """`n_epochs` passes over the rollout in shuffled minibatches; `forward` is the student's network."""
    rewards = lagrangian(rollout.rewards, rollout.costs, multipliers(learner.log_weights, hyper.multiplier_bound))
    advantages = advantage(rollout, rewards, hyper)
    batch = Sample(
        rollout.observations,
        rollout.actions,
        rollout.log_probs,
        rollout.values,
        advantages,
        returns=advantages + rollout.values,
    )
    n = config.n_envs * config.n_steps
    batch = jax.tree.map(lambda x: x.reshape(n, *x.shape[2:]), batch)

    def loss_of(params: Params, sample: Sample) -> jax.Array:
        return loss(forward(params, sample.observations), sample, hyper, distribution)

    def step(state: tuple[Params, Adam], indices: jax.Array) -> tuple[tuple[Params, Adam], None]:
        params, adam = state
        gradient = jax.grad(loss_of)(params, jax.tree.map(lambda x: x[indices], batch))
        return adam_step(params, adam, clip_norm(gradient, hyper.max_grad_norm), hyper.learning_rate), None

    shuffles = jax.vmap(lambda k: shuffle(k, n))(jax.random.split(key, config.n_epochs))
    minibatches = shuffles.reshape(config.n_epochs * config.n_minibatches, n // config.n_minibatches)
    (params, adam), _ = jax.lax.scan(step, (learner.params, learner.adam), minibatches)
    return learner._replace(params=params, adam=adam)


def shuffle(key: jax.Array, n: int) -> jax.Array:
    """The numbers 0 … n − 1 in random order, (n,).

    Each number gets random high bits and all are sorted; the rare ones with equal bits keep their order. XLA sorts
    single words many times faster on CPUs than the pairs of `jax.random.permutation`, which large n fall back to.
    """
    width = (n - 1).bit_length()
    if width > 14:
        return jax.random.permutation(key, n)
    own = jnp.uint32((1 << width) - 1)
    words = (jax.random.bits(key, (n,), jnp.uint32) & ~own) | jnp.arange(n, dtype=jnp.uint32)
    shuffled: jax.Array = jnp.sort(words) & own
    return shuffled.astype(jnp.int32)


def lagrangian(rewards: jax.Array, costs: jax.Array, weights: jax.Array) -> jax.Array:
    """r − λ·c: what the student really maximises. (...), (..., m), (m,) -> (...)"""
    return rewards - costs @ weights


def advantage(rollout: Rollout, rewards: jax.Array, hyper: Hyperparameters) -> jax.Array:
    """Generalised advantage estimates, (T, E).

    δ_t = r_t + γ V_{t+1} − V_t and A_t = δ_t + γλ A_{t+1}; at an end V_{t+1} is `end_values` and A_{t+1} is 0.
    A rescue inside an episode is no end.
    """
    next_values = jnp.concatenate([rollout.values[1:], rollout.last_values[None]])
    next_values = jnp.where(rollout.ends, rollout.end_values, next_values)
    deltas = rewards + hyper.gamma * next_values - rollout.values

    def back(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, end = now
        current = delta + hyper.gamma * hyper.gae_lambda * jnp.where(end, 0.0, later)
        return current, current

    _, advantages = jax.lax.scan(back, jnp.zeros_like(rollout.last_values), (deltas, rollout.ends), reverse=True)
    return advantages


def loss(outputs: networks.Outputs, sample: Sample, hyper: Hyperparameters, distribution: Distribution) -> jax.Array:
    """Clipped surrogate + vf_coef · clipped value error − ent_coef · entropy.

    With ρ = π(a|s)/π_old(a|s) and Â the advantages normalised within the minibatch:
    L_π = mean max(−Â ρ, −Â clip(ρ, 1 ± ε)),  L_V = mean max((V − R)², (V_old + clip(V − V_old, ± ε_V) − R)²).
    """
    advantages = sample.advantages - sample.advantages.mean()
    advantages = advantages / (sample.advantages.std() + ADVANTAGE_EPSILON)
    ratio = jnp.exp(distribution.log_prob(outputs.policy, sample.actions) - sample.log_probs)
    clipped_ratio = jnp.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range)
    policy_loss = jnp.maximum(-advantages * ratio, -advantages * clipped_ratio).mean()

    moved = jnp.clip(outputs.value - sample.values, -hyper.clip_range_vf, hyper.clip_range_vf)
    errors = jnp.square(outputs.value - sample.returns)
    clipped_errors = jnp.square(sample.values + moved - sample.returns)
    value_loss = jnp.maximum(errors, clipped_errors).mean()

    entropy = distribution.entropy(outputs.policy).mean()
    total: jax.Array = policy_loss + hyper.vf_coef * value_loss - hyper.ent_coef * entropy
    return total


def clip_norm(gradient: Params, max_norm: jax.Array) -> Params:
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(gradient)))
    shrink = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return {name: g * shrink for name, g in gradient.items()}


def adam_step(params: Params, adam: Adam, gradient: Params, learning_rate: jax.Array) -> tuple[Params, Adam]:
    """m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², θ ← θ − α m̂ / (√v̂ + ε)."""
    steps = adam.steps + 1
    mean = jax.tree.map(lambda m, g: ADAM_DECAY * m + (1 - ADAM_DECAY) * g, adam.mean, gradient)
    square = jax.tree.map(lambda v, g: ADAM_SQUARE_DECAY * v + (1 - ADAM_SQUARE_DECAY) * g * g, adam.square, gradient)
    mean_scale, square_scale = 1 / (1 - ADAM_DECAY**steps), 1 / (1 - ADAM_SQUARE_DECAY**steps)
    moved = jax.tree.map(
        lambda p, m, v: p - learning_rate * (m * mean_scale) / (jnp.sqrt(v * square_scale) + ADAM_EPSILON),
        params,
        mean,
        square,
    )
    return moved, Adam(mean=mean, square=square, steps=steps)
