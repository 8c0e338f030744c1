"""Box2D's iterations over constraints: always so many, and never more work than they are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array

State = tuple[Array, ...]
Step = Callable[[State], tuple[State, tuple[Array, ...]]]
"""What an iteration makes of a state, and what it adds to sums that nothing depends on."""


class _Pairs(NamedTuple):
    """Iterations of a single lander, two at a time."""

    count: Array
    state: State
    added: tuple[tuple[Array, ...], tuple[Array, ...]]  # by the last two
    sums: tuple[Array, ...]
    repeated: Array


def iterated(
    step: Step, state: State, sums: tuple[Array, ...], times: int, repeats: bool
) -> tuple[State, tuple[Array, ...]]:
    """State and sums after so many iterations, an even number.

    Where they can be told to `repeats` themselves, they end when two of them have led back to where they began: all
    that are left would do the same again, and only sums go on. That is the same to the last bit.
    """
    if not repeats:
        whole: tuple[State, tuple[Array, ...]] = jax.lax.fori_loop(
            0, times, lambda _, now: _summed(step, *now), (state, sums)
        )
        return whole
    assert times % 2 == 0

    def twice(now: _Pairs) -> _Pairs:
        once, first = step(now.state)
        again, second = step(once)
        same = jnp.stack([(a == b).all() for a, b in zip(again, now.state, strict=True)]).all()
        return _Pairs(now.count + 1, again, (first, second), _plus(_plus(now.sums, first), second), same)

    def unfinished(now: _Pairs) -> Array:
        return (now.count < times // 2) & ~now.repeated

    none = tuple(jnp.zeros_like(each) for each in sums)
    end = jax.lax.while_loop(unfinished, twice, _Pairs(jnp.int32(0), state, (none, none), sums, jnp.bool_(False)))
    first, second = end.added
    return end.state, jax.lax.fori_loop(
        end.count, times // 2, lambda _, total: _plus(_plus(total, first), second), end.sums
    )


def _summed(step: Step, state: State, sums: tuple[Array, ...]) -> tuple[State, tuple[Array, ...]]:
    after, added = step(state)
    return after, _plus(sums, added)


def _plus(sums: tuple[Array, ...], added: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(a + b for a, b in zip(sums, added, strict=True))
