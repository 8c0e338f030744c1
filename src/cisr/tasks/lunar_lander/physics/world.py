"""What the world of one lander consists of.

Landers are the last axes (...); what both legs have is on an axis before them, (2, ...), in Gymnasium's order. A body's
position is that of its centre of mass, as in Box2D's solver.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array

N_HEIGHTS = 11


class Body(NamedTuple):
    """Pose and velocity."""

    x: Array
    y: Array
    angle: Array
    vx: Array
    vy: Array
    spin: Array


class Joint(NamedTuple):
    """Impulses of the last step, which the next begins with: (2, ...)."""

    x: Array
    y: Array
    limit: Array
    motor: Array
    at: Array
    """At which limit: 1 the lower, −1 the upper, 0 none."""


class Contact(NamedTuple):
    """Legs against edges of even and of odd number, (2 kinds, 2 legs, ...): a leg meets at most one of each. Points
    are on record by Box2D's ids, −1 where there is none."""

    edge: Array  # number of the edge
    exists: Array  # 1 while boxes overlap
    id_1: Array
    id_2: Array
    normal_1: Array  # impulses
    normal_2: Array
    tangent_1: Array
    tangent_2: Array


class Box(NamedTuple):
    """A fat box of the broad phase."""

    left: Array
    bottom: Array
    right: Array
    top: Array


class World(NamedTuple):
    """All that the next step depends on."""

    hull: Body  # (...)
    legs: Body  # (2, ...)
    joints: Joint  # (2, ...)
    contacts: Contact  # (2, 2, ...)
    boxes: Box  # (2, ...) of the legs
    odd_first: Array  # (2, ...) 1 where the contact with the odd edge is the newer one
    on_ground: Array  # (2, ...) Gymnasium's flag
    still: tuple[Array, Array]  # seconds that hull (...) and legs (2, ...) have been at rest
    heights: Array  # (11, ...) of the terrain's vertices


def pack(world: World) -> Array:
    """All numbers of a world in one array (..., n)."""
    return jnp.moveaxis(to_rows(world), 0, -1)


def unpack(numbers: Array) -> World:
    return of_rows(jnp.moveaxis(numbers, -1, 0))


def to_rows(world: World) -> Array:
    """All numbers of a world, (n, ...)."""
    shape = world.hull.x.shape
    return jnp.concatenate([jnp.reshape(leaf, (-1, *shape)) for leaf in jax.tree.leaves(world)])


def of_rows(rows: Array) -> World:
    leaves, start = [], 0
    for axes in _AXES:
        size = prod(axes)
        leaves.append(rows[start : start + size].reshape((*axes, *rows.shape[1:])))
        start += size
    world: World = jax.tree.unflatten(_STRUCTURE, leaves)
    return world


def _axes() -> World:
    """The axes that each part has before those of the landers."""

    def filled(kind: Any, *sizes: int) -> Any:
        return kind(*[sizes] * len(kind._fields))

    return World(
        hull=filled(Body),
        legs=filled(Body, 2),
        joints=filled(Joint, 2),
        contacts=filled(Contact, 2, 2),
        boxes=filled(Box, 2),
        odd_first=(2,),
        on_ground=(2,),
        still=((), (2,)),
        heights=(N_HEIGHTS,),
    )


def _is_axes(part: object) -> bool:
    return type(part) is tuple and all(isinstance(size, int) for size in part)


_AXES, _STRUCTURE = jax.tree.flatten(_axes(), is_leaf=_is_axes)
N_NUMBERS = sum(map(prod, _AXES))
