"""Contacts of the legs with the terrain as constraints on velocities and positions. All is (2, ...): legs do not meet.

Friction first, then both normals at once as a complementarity problem of two points. Impulses live in `Contact`;
a point that is not there has no mass, and so no impulse. Sums and products are in Box2D's order, see `joints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import (
    LEG_FRICTION,
    LEG_INV_INERTIA,
    LEG_INV_MASS,
    LINEAR_SLOP,
    MAX_CONDITION,
    MAX_LINEAR_CORRECTION,
    SKIN,
)
from cisr.tasks.lunar_lander.physics.manifolds import Manifold, Vec
from cisr.tasks.lunar_lander.physics.staging import rounded
from cisr.tasks.lunar_lander.physics.world import Body, Contact

Three = tuple[Array, Array, Array]


class Support(NamedTuple):
    """A contact's constraint on velocities."""

    normal: Vec  # towards the leg; the tangent is (n_y, −n_x)
    arm_1: Vec  # from the leg's centre to each point
    arm_2: Vec
    normal_mass: tuple[Array, Array]
    tangent_mass: tuple[Array, Array]
    block: Three  # the effective mass of both normals: 11, 12, 22
    inverse: Three
    two: Array  # solved as a block


def prepare(manifold: Manifold, legs: Body) -> Support:
    """The constraint at the legs' poses."""
    normal, points = _in_world(manifold, legs)
    tangent = (normal[1], -normal[0])
    there = manifold.id_1 >= 0, manifold.id_2 >= 0
    arms = [(x - legs.x, y - legs.y) for x, y in points]
    turns = [_cross(arm, normal) for arm in arms]
    k11, k22 = (LEG_INV_MASS + LEG_INV_INERTIA * turn * turn for turn in turns)
    k12 = LEG_INV_MASS + LEG_INV_INERTIA * turns[0] * turns[1]
    det = k11 * k22 - k12 * k12
    two = there[1] & (k11 * k11 < MAX_CONDITION * det)
    there = there[0], there[1] & two
    inverse = 1 / jnp.where(two, det, 1.0)
    return Support(
        normal=normal,
        arm_1=arms[0],
        arm_2=arms[1],
        normal_mass=_where_there(there, (1 / k11, 1 / k22)),
        tangent_mass=_where_there(there, [1 / _mass_along(arm, tangent) for arm in arms]),
        block=(k11, k12, k22),
        inverse=(inverse * k22, -inverse * k12, inverse * k11),
        two=two,
    )


def _mass_along(arm: Vec, direction: Vec) -> Array:
    turn = _cross(arm, direction)
    return LEG_INV_MASS + LEG_INV_INERTIA * turn * turn


def _cross(a: Vec, b: Vec) -> Array:
    return a[0] * b[1] - a[1] * b[0]


def _where_there(there: tuple[Array, Array], masses: Sequence[Array]) -> tuple[Array, Array]:
    first, second = masses
    return jnp.where(there[0], first, 0.0), jnp.where(there[1], second, 0.0)


def warm_start(support: Support, contact: Contact, legs: Body) -> Body:
    """Velocities after the impulses of the step before."""
    there = support.normal_mass[0] > 0, support.normal_mass[1] > 0
    normals = _where_there(there, (contact.normal_1, contact.normal_2))
    tangents = _where_there(there, (contact.tangent_1, contact.tangent_2))
    nx, ny = support.normal
    for arm, normal, tangent in zip((support.arm_1, support.arm_2), normals, tangents, strict=True):
        legs = _pushed(legs, arm, (normal * nx + tangent * ny, normal * ny - tangent * nx))
    return legs


def solve_velocity(support: Support, contact: Contact, legs: Body) -> tuple[Contact, Body]:
    """Friction of each point, then the normals."""
    nx, ny = support.normal
    tangents = []
    for arm, mass, normal, tangent in (
        (support.arm_1, support.tangent_mass[0], contact.normal_1, contact.tangent_1),
        (support.arm_2, support.tangent_mass[1], contact.normal_2, contact.tangent_2),
    ):
        x, y = _velocity_at(legs, arm)
        most = LEG_FRICTION * normal
        new = jnp.where(mass > 0, jnp.clip(tangent - mass * (x * ny - y * nx), -most, most), tangent)
        push = new - tangent
        legs = _pushed(legs, arm, (push * ny, -(push * nx)))
        tangents.append(new)

    (x1, y1), (x2, y2) = _velocity_at(legs, support.arm_1), _velocity_at(legs, support.arm_2)
    new_1, new_2 = _normal_impulses(support, contact.normal_1, contact.normal_2, x1 * nx + y1 * ny, x2 * nx + y2 * ny)
    p1, p2 = new_1 - contact.normal_1, new_2 - contact.normal_2
    p1x, p1y, p2x, p2y = p1 * nx, p1 * ny, p2 * nx, p2 * ny
    turn = _cross(support.arm_1, (p1x, p1y)) + _cross(support.arm_2, (p2x, p2y))
    legs = legs._replace(
        vx=legs.vx + LEG_INV_MASS * (p1x + p2x),
        vy=legs.vy + LEG_INV_MASS * (p1y + p2y),
        spin=legs.spin + LEG_INV_INERTIA * turn,
    )
    contact = contact._replace(normal_1=new_1, normal_2=new_2, tangent_1=tangents[0], tangent_2=tangents[1])
    return contact, legs


def _velocity_at(legs: Body, arm: Vec) -> Vec:
    return legs.vx - legs.spin * arm[1], legs.vy + legs.spin * arm[0]


def _normal_impulses(support: Support, a1: Array, a2: Array, v1: Array, v2: Array) -> tuple[Array, Array]:
    """Total impulses x ≥ 0 with A x + b ≥ 0, one of the two zero for each point; b = v − A a. The first of Box2D's
    cases that holds, and no change where none does."""
    k11, k12, k22 = support.block
    m11, m12, m22 = support.inverse
    mass_1, mass_2 = support.normal_mass
    b1, b2 = v1 - (k11 * a1 + k12 * a2), v2 - (k12 * a1 + k22 * a2)
    both_1, both_2 = -(m11 * b1 + m12 * b2), -(m12 * b1 + m22 * b2)
    first, second = -mass_1 * b1, -mass_2 * b2
    both = (both_1 >= 0) & (both_2 >= 0)
    only_1 = (first >= 0) & (k12 * first + b2 >= 0)
    only_2 = (second >= 0) & (k12 * second + b1 >= 0)
    none = (b1 >= 0) & (b2 >= 0)
    x1 = jnp.where(both, both_1, jnp.where(only_1, first, jnp.where(only_2 | none, 0.0, a1)))
    x2 = jnp.where(both, both_2, jnp.where(only_1, 0.0, jnp.where(only_2, second, jnp.where(none, 0.0, a2))))
    alone = jnp.where(mass_1 > 0, jnp.maximum(a1 - mass_1 * v1, 0.0), a1)
    return jnp.where(support.two, x1, alone), jnp.where(support.two, x2, a2)


def _pushed(legs: Body, arm: Vec, push: Vec) -> Body:
    return legs._replace(
        vx=legs.vx + LEG_INV_MASS * push[0],
        vy=legs.vy + LEG_INV_MASS * push[1],
        spin=legs.spin + LEG_INV_INERTIA * _cross(arm, push),
    )


def solve_position(manifold: Manifold, legs: Body, baumgarte: float) -> tuple[Body, Array]:
    """Legs pushed out of the ground, point by point; and the least separation that was met, at most 0."""
    least = jnp.zeros_like(legs.x)
    for point, number in ((manifold.point_1, manifold.id_1), (manifold.point_2, manifold.id_2)):
        there = number >= 0
        touched = _touched(manifold, point, legs)
        separation = rounded(rounded(touched.gap - SKIN) - SKIN)
        least = jnp.where(there, jnp.minimum(least, separation), least)
        correction = jnp.clip(baumgarte * (separation + LINEAR_SLOP), -MAX_LINEAR_CORRECTION, 0.0)
        normal, arm = touched.towards_leg, (touched.point[0] - legs.x, touched.point[1] - legs.y)
        push = jnp.where(there, -correction / _mass_along(arm, normal), 0.0)
        px, py = push * normal[0], push * normal[1]
        legs = legs._replace(
            x=legs.x + LEG_INV_MASS * px,
            y=legs.y + LEG_INV_MASS * py,
            angle=legs.angle + LEG_INV_INERTIA * _cross(arm, (px, py)),
        )
    return legs, least


class _Touched(NamedTuple):
    """A point of a contact in the world."""

    normal: Vec  # of the plane, away from whose it is
    point: Vec
    gap: Array  # its distance from the plane
    on_polygon: Array

    @property
    def towards_leg(self) -> Vec:
        sign = jnp.where(self.on_polygon, -1.0, 1.0)
        return sign * self.normal[0], sign * self.normal[1]


def _touched(manifold: Manifold, point: Vec, legs: Body) -> _Touched:
    sine, cosine = jnp.sin(legs.angle), jnp.cos(legs.angle)

    def turned(v: Vec) -> Vec:
        return cosine * v[0] - sine * v[1], sine * v[0] + cosine * v[1]

    own, (tnx, tny), (tpx, tpy), (tx, ty) = (
        manifold.on_polygon,
        turned(manifold.normal),
        turned(manifold.plane),
        turned(point),
    )
    nx, ny = jnp.where(own, tnx, manifold.normal[0]), jnp.where(own, tny, manifold.normal[1])
    x, y = jnp.where(own, point[0], legs.x + tx), jnp.where(own, point[1], legs.y + ty)
    px, py = jnp.where(own, legs.x + tpx, manifold.plane[0]), jnp.where(own, legs.y + tpy, manifold.plane[1])
    return _Touched((nx, ny), (x, y), (x - px) * nx + (y - py) * ny, own)


def _in_world(manifold: Manifold, legs: Body) -> tuple[Vec, list[Vec]]:
    """The normal, and the points halfway between both skins."""
    both = [_touched(manifold, point, legs) for point in (manifold.point_1, manifold.point_2)]
    points = []
    for (nx, ny), (x, y), gap, _ in both:
        in_skin = SKIN - gap
        points.append((0.5 * ((x + in_skin * nx) + (x - SKIN * nx)), 0.5 * ((y + in_skin * ny) + (y - SKIN * ny))))
    return both[0].towards_leg, points
