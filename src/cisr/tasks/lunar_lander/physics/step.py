"""A whole step of the world: collide, solve, sleep, broad phase, impacts.

The hull's contact ends an episode, so it is found and not solved: in the step in which the hull touches, only the
lander's final pose differs from Box2D's.
"""

from __future__ import annotations

from math import hypot
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.boxes import find_contacts, moved, overlap
from cisr.tasks.lunar_lander.physics.constants import CENTRE_HEIGHT, DT, FALL, FAT, HULL, LEG, SKIN
from cisr.tasks.lunar_lander.physics.impact import solve_impacts
from cisr.tasks.lunar_lander.physics.manifolds import Manifold, collide, inherit
from cisr.tasks.lunar_lander.physics.ordering import by_age, solved_first, told
from cisr.tasks.lunar_lander.physics.solver import integrate, rest, solve_positions, solve_velocities
from cisr.tasks.lunar_lander.physics.sweeps import TARGET, TOLERANCE
from cisr.tasks.lunar_lander.physics.terrain import Edge, edges_near, highest
from cisr.tasks.lunar_lander.physics.world import Body, World

MARGIN = 2 * (FAT + SKIN)
"""More than what boxes and skins reach beyond what they are around."""
HULL_REACH = max(hypot(x, y - CENTRE_HEIGHT) for x, y in HULL.vertices)
"""From the hull's centre of mass to its farthest vertex."""


class Stepped(NamedTuple):
    """The world after a step, with what ends an episode."""

    world: World
    crashed: Array  # the hull touched the ground
    asleep: Array


def step_world(world: World) -> Stepped:
    """One step of the world; impulses of engines are in the velocities already."""
    before, nobody = world.legs, jnp.zeros(world.hull.x.shape, bool)
    world, solved, crashed = jax.lax.cond(near_ground(world).any(), _solve_low, _solve_aloft, world)
    still, asleep = rest(world.still, world.hull, world.legs, solved)
    world = world._replace(
        hull=_stopped(asleep, world.hull),
        legs=_stopped(asleep, world.legs),
        still=still,
        boxes=moved(world.boxes, before, world.legs),
    )

    def meet(world: World) -> tuple[World, Array]:
        met = solve_impacts(find_contacts(world), before, ~asleep)
        return met, _hull_hits(met)

    world, hit = jax.lax.cond(near_ground(world).any(), meet, lambda same: (same, nobody), world)
    return Stepped(world, crashed | hit, asleep & ~crashed & ~hit)


def step_aloft(world: World, pushed: Body) -> World:
    """The same, far from the ground, and where other forces than gravity have changed the hull's velocity."""
    hull, legs, joints, _ = solve_velocities(pushed, _fallen(world.legs), world.joints, None)
    hull, legs, solved = solve_positions(integrate(hull, DT), integrate(legs, DT), None, joints.at)
    still, _ = rest(world.still, hull, legs, solved)
    boxes = moved(world.boxes, world.legs, legs)
    return world._replace(hull=hull, legs=legs, joints=joints, still=still, boxes=boxes)


def near_ground(world: World) -> Array:
    """Whether anything may touch the terrain, or is on record as touching it; where not, nothing of it is asked."""
    reach = HULL_REACH
    left = jnp.minimum(world.boxes.left.min(axis=0), world.hull.x - reach)
    right = jnp.maximum(world.boxes.right.max(axis=0), world.hull.x + reach)
    bottom = jnp.minimum(world.boxes.bottom.min(axis=0), world.hull.y - reach)
    on_record = ((world.contacts.exists > 0) | (world.contacts.id_1 >= 0)).any(axis=(0, 1))
    return on_record | (bottom <= highest(world.heights, left, right) + MARGIN)


def _solve_low(world: World) -> tuple[World, Array, Array]:
    """The world with velocities and poses solved, whose were within tolerances, and whose hull touched before."""
    crashed = _hull_touches(world)
    world, manifolds = _meet(world)
    first = solved_first(world.odd_first, manifolds.id_1 >= 0)
    ordered = by_age(first, manifolds)
    touching = by_age(first, world.contacts), ordered
    hull, legs, joints, contacts = solve_velocities(_fallen(world.hull), _fallen(world.legs), world.joints, touching)
    assert contacts is not None
    hull, legs, solved = solve_positions(integrate(hull, DT), integrate(legs, DT), ordered, joints.at)
    contacts = by_age(first, contacts)
    return world._replace(hull=hull, legs=legs, joints=joints, contacts=contacts), solved, crashed


def _solve_aloft(world: World) -> tuple[World, Array, Array]:
    hull, legs, joints, _ = solve_velocities(_fallen(world.hull), _fallen(world.legs), world.joints, None)
    hull, legs, solved = solve_positions(integrate(hull, DT), integrate(legs, DT), None, joints.at)
    return world._replace(hull=hull, legs=legs, joints=joints), solved, jnp.zeros_like(solved)


def origin(hull: Body) -> tuple[Array, Array]:
    """Where the hull's own frame is."""
    return hull.x + jnp.sin(hull.angle) * CENTRE_HEIGHT, hull.y - jnp.cos(hull.angle) * CENTRE_HEIGHT


def centre(x: Array, y: Array, angle: Array) -> tuple[Array, Array]:
    """The hull's centre of mass, of its frame."""
    return x - jnp.sin(angle) * CENTRE_HEIGHT, y + jnp.cos(angle) * CENTRE_HEIGHT


def _fallen(body: Body) -> Body:
    return body._replace(vy=body.vy + FALL)


def _stopped(asleep: Array, body: Body) -> Body:
    return Body(*body[:3], *(jnp.where(asleep, 0.0, speed) for speed in body[3:]))


def _meet(world: World) -> tuple[World, Manifold]:
    """Contacts at the poses that a step begins with, and what Gymnasium hears of them."""
    edges = edges_near(world.heights, world.legs.x)
    lasts = (world.contacts.exists > 0) & (world.contacts.edge == edges.number) & overlap(world.boxes, edges)
    manifolds = collide(LEG, world.legs.x, world.legs.y, world.legs.angle, edges)
    manifolds = manifolds._replace(
        id_1=jnp.where(lasts, manifolds.id_1, -1.0), id_2=jnp.where(lasts, manifolds.id_2, -1.0)
    )
    contacts = inherit(world.contacts, manifolds)._replace(exists=lasts.astype(jnp.float32))
    heard = told(world.on_ground, world.odd_first, world.contacts, contacts)
    return world._replace(contacts=contacts, on_ground=heard), manifolds


def _hull_touches(world: World) -> Array:
    x, y = origin(world.hull)
    manifolds = collide(HULL, x, y, world.hull.angle, edges_near(world.heights, x))
    return (manifolds.id_1 >= 0).any(axis=0)


def _hull_hits(world: World) -> Array:
    """Whether the hull came so near that Box2D would have found an impact."""
    x, y = origin(world.hull)
    return _near(world.hull, x, y, edges_near(world.heights, x)).any(axis=0)


def _near(hull: Body, x: Array, y: Array, edge: Edge) -> Array:
    """Whether the hull is within an impact's reach of an edge, by separating axes."""
    sine, cosine = jnp.sin(hull.angle), jnp.cos(hull.angle)
    within = TARGET + TOLERANCE
    vertices = [(x + cosine * a - sine * b, y + sine * a + cosine * b) for a, b in HULL.vertices]
    above = [(vx - edge.x1) * -edge.along_y + (vy - edge.y1) * edge.along_x for vx, vy in vertices]
    lowest, highest = above[0], above[0]
    for value in above[1:]:
        lowest, highest = jnp.minimum(lowest, value), jnp.maximum(highest, value)
    near = edge.real & (lowest < within) & (highest > -within)
    for (vx, vy), (a, b) in zip(vertices, HULL.normals, strict=True):
        nx, ny = cosine * a - sine * b, sine * a + cosine * b
        first, second = ((ex - vx) * nx + (ey - vy) * ny for ex, ey in ((edge.x1, edge.y1), (edge.x2, edge.y2)))
        near = near & (jnp.minimum(first, second) < within)
    return near
