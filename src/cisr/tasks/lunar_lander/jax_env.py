"""The lander as a compiled environment: the world of `physics`, with Gymnasium's observations and rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.intervention import Array
from cisr.core.task import Move
from cisr.students.networks import ObservationSpec
from cisr.tasks.lunar_lander.flight import (
    BODY_SIZE,
    CRASH_REWARD,
    HULL,
    LEFT_LEG,
    MAP,
    REST_REWARD,
    RIGHT_LEG,
    X_SCALE,
    Y_SCALE,
    X,
    shaping,
)
from cisr.tasks.lunar_lander.physics.constants import LEG_DOWN
from cisr.tasks.lunar_lander.physics.launch import LEFT, MAIN, RIGHT, put
from cisr.tasks.lunar_lander.physics.rows import begin_rows, step_rows
from cisr.tasks.lunar_lander.physics.step import centre, origin
from cisr.tasks.lunar_lander.physics.terrain import N_UNIFORMS
from cisr.tasks.lunar_lander.physics.world import Body, World, pack, unpack

FPS = 50
X_CENTRE, Y_ZERO = X_SCALE, Y_SCALE / 2 + LEG_DOWN
MAIN_COST, SIDE_COST = 0.3, 0.03


class LanderState(NamedTuple):
    """A lander in flight."""

    world: Array  # (..., n) packed
    potential: Array  # (...) Gymnasium's shaping at the last step
    sensed: Array  # (..., 2) what sensors add to x and y


@dataclass(frozen=True)
class LanderJaxEnv:
    """All randomness is uniforms: terrain and first push at a reset, dispersion of the engines at a step, and two more
    for sensors where they are noisy."""

    sensor_variance: float = 0.0
    n_actions: int = 4
    table: None = None
    params: tuple[()] = ()

    @property
    def observation(self) -> ObservationSpec:
        return ObservationSpec((HULL,))

    @property
    def n_reset_uniforms(self) -> int:
        return N_UNIFORMS + 2 + self._n_noise

    @property
    def n_step_uniforms(self) -> int:
        return 2 + self._n_noise

    @property
    def _n_noise(self) -> int:
        return 2 if self.sensor_variance else 0

    def reset_env(self, u: Array, params: Any) -> LanderState:
        u = jnp.asarray(u, jnp.float32)
        force = 2 * u[..., N_UNIFORMS : N_UNIFORMS + 2] - 1
        begun = begin_packed(u[..., :N_UNIFORMS], force)
        return self._shown(begun, u[..., N_UNIFORMS + 2 :])

    def step_env(self, u: Array, state: LanderState, action: Array, params: Any) -> Move:
        u = jnp.asarray(u, jnp.float32)
        numbers, crashed, asleep = step_packed(state.world, jnp.asarray(action, jnp.int32), 2 * u[..., :2] - 1)
        after = self._shown(numbers, u[..., 2:])
        costs = jnp.where(action == MAIN, MAIN_COST, jnp.where((action == LEFT) | (action == RIGHT), SIDE_COST, 0.0))
        failed = crashed | (abs(self.state_vector(after)[..., X]) >= MAP)
        paid = jnp.where(failed, CRASH_REWARD, after.potential - state.potential - costs)
        return Move(state=after, reward=jnp.where(asleep, REST_REWARD, paid), terminated=failed | asleep)

    def state_vector(self, state: LanderState) -> Array:
        return _vector(unpack(state.world))

    def set_state(self, state: LanderState, vector: Array) -> LanderState:
        vector = jnp.asarray(vector, jnp.float32)
        world = unpack(state.world)
        hull, *legs = (_body(vector, HULL + k * BODY_SIZE) for k in range(3))
        hull_x, hull_y = centre(hull.x, hull.y, hull.angle)
        both = jax.tree.map(lambda a, b: jnp.stack([a, b]), legs[0], legs[1])
        on_ground = jnp.stack([vector[..., LEFT_LEG], vector[..., RIGHT_LEG]])
        moved = put(world, hull._replace(x=hull_x, y=hull_y), both, on_ground)
        return LanderState(pack(moved), shaping(vector), state.sensed)

    def get_obs(self, state: LanderState, params: Any) -> Array:
        seen = self.state_vector(state)[..., :HULL]
        return jnp.concatenate([seen[..., :2] + state.sensed, seen[..., 2:]], axis=-1)

    def _shown(self, numbers: Array, u: Array) -> LanderState:
        """A state with its potential, and with what sensors add (Box and Muller's normals from two uniforms)."""
        sensed = jnp.zeros((*numbers.shape[:-1], 2), jnp.float32)
        if self.sensor_variance:
            radius = jnp.sqrt(-2 * self.sensor_variance * jnp.log1p(-jnp.maximum(u[..., 0], 0)))  # −1 where none begins
            angle = 2 * np.pi * u[..., 1]
            sensed = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=-1)
        return LanderState(numbers, shaping(_vector(unpack(numbers))), sensed)


def _vector(world: World) -> Array:
    """The state vector that the Gymnasium task shows."""
    x, y = origin(world.hull)
    hull, legs = world.hull._replace(x=x, y=y), world.legs
    seen = [
        (x - X_CENTRE) / X_SCALE,
        (y - Y_ZERO) / Y_SCALE,
        hull.vx * (X_SCALE / FPS),
        hull.vy * (Y_SCALE / FPS),
        hull.angle,
        20.0 * hull.spin / FPS,
        world.on_ground[0],
        world.on_ground[1],
    ]
    return jnp.stack([*seen, *hull, *(part[0] for part in legs), *(part[1] for part in legs)], axis=-1)


def _body(vector: Array, start: int) -> Body:
    return Body(*(vector[..., start + k] for k in range(BODY_SIZE)))


@jax.custom_batching.custom_vmap
def step_packed(numbers: Array, action: Array, dispersion: Array) -> tuple[Array, Array, Array]:
    """One step of packed worlds (..., n)."""
    after, crashed, asleep = _by_rows(step_rows, action.shape, numbers, action, dispersion)
    return after, crashed > 0, asleep > 0


@jax.custom_batching.custom_vmap
def begin_packed(terrain: Array, force: Array) -> Array:
    """Packed worlds (..., n) after Gymnasium's first step."""
    (begun,) = _by_rows(begin_rows, force.shape[:-1], terrain, force)
    return begun


def _by_rows(function: Callable[..., tuple[Array, ...]], shape: tuple[int, ...], *arrays: Array) -> list[Array]:
    """A function of rows, whose landers stand on the last axis, of arrays (*shape, ...) of landers; a single lander has
    no axis at all there."""
    n = prod(shape)
    landers = () if n == 1 else (n,)
    axes = [array.shape[len(shape) :] for array in arrays]
    rows = [jnp.moveaxis(a.reshape(n, -1), 0, -1).reshape(*own, *landers) for a, own in zip(arrays, axes, strict=True)]
    results = function(*rows)
    return [jnp.moveaxis(r.reshape(-1, n), -1, 0).reshape(*shape, *_own(r.shape, landers)) for r in results]


def _own(shape: tuple[int, ...], landers: tuple[int, ...]) -> tuple[int, ...]:
    """The axes before that of the landers."""
    return shape[: len(shape) - len(landers)]


# Landers are independent of each other, so mapping over another axis is asking for all at once: whatever is skipped
# when nobody needs it must be able to see everybody.
def _all_at_once(function: Any) -> Any:
    def rule(axis_size: int, in_batched: list[bool], *arguments: Array) -> tuple[Any, Any]:
        spread = [
            a if batched else jnp.broadcast_to(a, (axis_size, *a.shape))
            for a, batched in zip(arguments, in_batched, strict=True)
        ]
        out = function(*spread)
        return out, jax.tree.map(lambda _: True, out)

    return rule


step_packed.def_vmap(_all_at_once(step_packed))
begin_packed.def_vmap(_all_at_once(begin_packed))
