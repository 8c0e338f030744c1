"""Lagrange multipliers by exponentiated gradient (Kivinen and Warmuth; Le et al. 2019).

The m multipliers and one slack weight live on a simplex scaled to B. After each best response with mean
constraint values G (0 for the slack),

    w ← B · w ∘ exp(η G) / Σ w ∘ exp(η G).

The weights are kept as logarithms: exp overflows otherwise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

MAX_VIOLATION = 200.0


def uniform_log_weights(m: int) -> jax.Array:
    """Log-weights (m + 1,) of a student that has learned nothing: every multiplier is B / (m + 1)."""
    return jnp.full(m + 1, -jnp.log(m + 1), jnp.float32)


def multipliers(log_weights: jax.Array, bound: jax.Array) -> jax.Array:
    """λ (m,) with Σ λ ≤ B."""
    return bound * jnp.exp(log_weights[:-1])


def exponentiated_gradient(log_weights: jax.Array, violations: jax.Array, rate: jax.Array) -> jax.Array:
    """The weights after one best response with mean constraint values `violations` (m,)."""
    gradient = jnp.append(jnp.clip(violations, -MAX_VIOLATION, MAX_VIOLATION), 0.0)
    return jax.nn.log_softmax(log_weights + rate * gradient)
