"""Action distributions. A network's policy head gives the parameters; the distribution does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp


class Distribution(Protocol):
    """What PPO needs of an action distribution; hashable, so that programs can be cached by it."""

    @property
    def n_outputs(self) -> int: ...
    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """The noise of that many actions, drawn beforehand."""

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        """Samples, from noise of the same leading shape."""

    def mode(self, outputs: jax.Array) -> jax.Array: ...
    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array: ...
    def entropy(self, outputs: jax.Array) -> jax.Array: ...


def sample(distribution: Distribution, key: jax.Array, outputs: jax.Array) -> jax.Array:
    """Actions for outputs (..., n_outputs)."""
    return distribution.act(outputs, distribution.draw(key, outputs.shape[:-1]))


@dataclass(frozen=True)
class Categorical:
    """One of n actions, from logits (..., n)."""

    n_actions: int

    @property
    def n_outputs(self) -> int:
        return self.n_actions

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.gumbel(key, (*shape, self.n_actions))

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        return jnp.argmax(outputs + noise, axis=-1)

    def mode(self, outputs: jax.Array) -> jax.Array:
        return jnp.argmax(outputs, axis=-1)

    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array:
        chosen = jax.nn.one_hot(actions, self.n_actions)  # a product, not a gather: its gradient is one too
        return jnp.sum(jax.nn.log_softmax(outputs) * chosen, axis=-1)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(outputs)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
