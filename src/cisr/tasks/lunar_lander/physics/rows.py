"""A step and a beginning as functions of plain arrays: what runs as XLA's program or as a kernel.

Numbers of a world are rows (n, ...), and landers stand on the axes after them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.launch import fire, launched
from cisr.tasks.lunar_lander.physics.step import step_world
from cisr.tasks.lunar_lander.physics.terrain import heights
from cisr.tasks.lunar_lander.physics.world import N_NUMBERS, of_rows, to_rows


def step_rows(numbers: Array, action: Array, dispersion: Array) -> tuple[Array, Array, Array]:
    """One step of worlds (n, ...) with actions (...) and dispersions (2, ...): the worlds, 1 for who crashed, 1 for who
    sleeps."""
    world = of_rows(numbers)
    stepped = step_world(world._replace(hull=fire(world.hull, action, (dispersion[0], dispersion[1]))))
    return to_rows(stepped.world), stepped.crashed.astype(jnp.float32), stepped.asleep.astype(jnp.float32)


def begin_rows(terrain: Array, force: Array) -> tuple[Array]:
    """Worlds (n, ...) after their first step, from uniforms (12, ...) and a push (2, ...). Where uniforms are negative
    nobody begins; where that is so everywhere, nothing is computed."""
    wanted = (terrain[0] >= 0).any()

    def begin(terrain: Array, force: Array) -> Array:
        return to_rows(launched(heights(terrain), force[0], force[1]))

    def leave(terrain: Array, force: Array) -> Array:
        return jnp.zeros((N_NUMBERS, *force.shape[1:]), jnp.float32)

    return (jax.lax.cond(wanted, begin, leave, terrain, force),)
