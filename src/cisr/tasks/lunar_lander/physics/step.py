"""A whole step of the world: collide, solve, sleep, broad phase, impacts.

The hull's contact ends an episode, so it is found and not solved: in the step in which the hull touches, only the
lander's final pose differs from Box2D's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.boxes import find_contacts, overlap
from cisr.tasks.lunar_lander.physics.constants import CENTRE_HEIGHT, DT, FALL, HULL, LEG
from cisr.tasks.lunar_lander.physics.impact import solve_impacts
from cisr.tasks.lunar_lander.physics.manifolds import Manifold, collide, inherit
from cisr.tasks.lunar_lander.physics.ordering import by_age, told
from cisr.tasks.lunar_lander.physics.solver import integrate, rest, solve_positions, solve_velocities
from cisr.tasks.lunar_lander.physics.sweeps import TARGET, TOLERANCE
from cisr.tasks.lunar_lander.physics.terrain import Edge, edges_near
from cisr.tasks.lunar_lander.physics.world import Body, World


class Stepped(NamedTuple):
    """The world after a step, with what ends an episode."""

    world: World
    crashed: Array  # the hull touched the ground
    asleep: Array


def step_world(world: World) -> Stepped:
    """One step of the world; impulses of engines are in the velocities already."""
    crashed = _hull_touches(world)
    world, manifolds = _meet(world)
    ordered = by_age(world.odd_first, manifolds)
    touching = by_age(world.odd_first, world.contacts), ordered
    hull, legs, joints, contacts = solve_velocities(_fallen(world.hull), _fallen(world.legs), world.joints, touching)
    assert contacts is not None
    hull, legs, solved = solve_positions(integrate(hull, DT), integrate(legs, DT), ordered, joints.at)
    still, asleep = rest(world.still, hull, legs, solved)
    before = world.legs
    world = world._replace(
        hull=_stopped(asleep, hull),
        legs=_stopped(asleep, legs),
        joints=joints,
        contacts=by_age(world.odd_first, contacts),
        still=still,
    )
    world = solve_impacts(find_contacts(world, before), before, ~asleep)
    crashed = crashed | _hull_hits(world)
    return Stepped(world, crashed, asleep & ~crashed)


def step_aloft(world: World, pushed: Body | None = None) -> World:
    """The same, far from the ground. `pushed` is the hull where other forces than gravity have changed its velocity."""
    before, hull = world.legs, _fallen(world.hull) if pushed is None else pushed
    hull, legs, joints, _ = solve_velocities(hull, _fallen(world.legs), world.joints, None)
    hull, legs, solved = solve_positions(integrate(hull, DT), integrate(legs, DT), None, joints.at)
    still, _ = rest(world.still, hull, legs, solved)
    return find_contacts(world._replace(hull=hull, legs=legs, joints=joints, still=still), before)


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
