"""Revolute joints between the hull and a leg, with motor and limits.

Both joints' constraints are made at once, on the axis of legs, and solved one after the other. Sums and products are in
Box2D's order, its Cramer's rule included: it is what single precision makes of them that is to be the same.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import (
    ANGULAR_SLOP,
    CENTRE_HEIGHT,
    HULL_INV_INERTIA,
    HULL_INV_MASS,
    LEG_AWAY,
    LEG_DOWN,
    LEG_INV_INERTIA,
    LEG_INV_MASS,
    LIMIT_FAR,
    LIMIT_NEAR,
    LINEAR_SLOP,
    MAX_ANGULAR_CORRECTION,
    MAX_MOTOR_IMPULSE,
    MOTOR_SPEED,
    REFERENCE_ANGLE,
    SIDES,
    SINGLE,
)
from cisr.tasks.lunar_lander.physics.staging import rounded
from cisr.tasks.lunar_lander.physics.world import Body, Joint

INV_MASS = float(SINGLE(HULL_INV_MASS) + SINGLE(LEG_INV_MASS))
INV_INERTIA = float(SINGLE(HULL_INV_INERTIA) + SINGLE(LEG_INV_INERTIA))
MOTOR_MASS = float(1 / SINGLE(INV_INERTIA))
LOWER = tuple(LIMIT_NEAR if side < 0 else -LIMIT_FAR for side in SIDES)
UPPER = tuple(LIMIT_FAR if side < 0 else -LIMIT_NEAR for side in SIDES)


class Pull(NamedTuple):
    """A joint's constraint on velocities: arms from the centres of mass, and the inverse of the effective mass, with
    and without the limit."""

    hull_x: Array
    hull_y: Array
    leg_x: Array
    leg_y: Array
    xx: Array
    xy: Array
    yy: Array
    xz: Array  # how the limit's impulse enters the point's constraint; zz is INV_INERTIA
    yz: Array
    cross: tuple[Array, Array, Array]  # of the second and the third column
    per_point: Array  # 1 / determinant for the point alone
    per_all: Array  # with the limit

    def solve_point(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The impulse that changes the point's velocity so."""
        return self.per_point * (self.yy * x - self.xy * y), self.per_point * (self.xx * y - self.xy * x)

    def solve(self, x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        """The impulse that changes the point's velocity and the limit's so."""
        xx, xy, yy, xz, yz, zz = self.xx, self.xy, self.yy, self.xz, self.yz, INV_INERTIA
        cx, cy, cz = self.cross
        return (
            self.per_all * (x * cx + y * cy + z * cz),
            self.per_all * (xx * (y * zz - z * yz) + xy * (z * xz - x * zz) + xz * (x * yz - y * xz)),
            self.per_all * (xx * (yy * z - yz * y) + xy * (yz * x - xy * z) + xz * (xy * y - yy * x)),
        )


def arms(side: Array | float, hull_angle: Array, leg_angle: Array) -> tuple[Array, Array, Array, Array]:
    """From the hull's and the leg's centre to the joint."""
    hull_sine, hull_cosine = jnp.sin(hull_angle), jnp.cos(hull_angle)
    sine, cosine = jnp.sin(leg_angle), jnp.cos(leg_angle)
    away = side * LEG_AWAY
    return (
        hull_sine * CENTRE_HEIGHT,
        -hull_cosine * CENTRE_HEIGHT,
        cosine * away - sine * LEG_DOWN,
        sine * away + cosine * LEG_DOWN,
    )


def _per_leg(values: tuple[float, ...], like: Array) -> Array:
    """Constants of both legs, to be used beside arrays (2, ...)."""
    return jnp.stack([jnp.full(like.shape[1:], value, like.dtype) for value in values])


def prepare(hull: Body, legs: Body, joints: Joint) -> tuple[Pull, Joint]:
    """The constraints (2, ...) at the poses that a step begins with, and the impulses to begin with."""
    hx, hy, lx, ly = arms(_per_leg(SIDES, legs.x), hull.angle, legs.angle)
    i, j = HULL_INV_INERTIA, LEG_INV_INERTIA
    xx = INV_MASS + hy * hy * i + ly * ly * j
    xy = -hy * hx * i - ly * lx * j
    yy = INV_MASS + hx * hx * i + lx * lx * j
    xz, yz, zz = -hy * i - ly * j, hx * i + lx * j, INV_INERTIA
    cross = cx, cy, cz = yy * zz - yz * yz, yz * xz - xy * zz, xy * yz - yy * xz
    pull = Pull(
        *(hx + 0 * lx, hy + 0 * lx, lx, ly),
        *(xx, xy, yy, xz, yz),
        cross=cross,
        per_point=1 / (xx * yy - xy * xy),
        per_all=1 / (xx * cx + xy * cy + xz * cz),
    )
    angle = legs.angle - hull.angle - _per_leg(tuple(side * REFERENCE_ANGLE for side in SIDES), legs.x)
    at = jnp.where(angle <= _per_leg(LOWER, angle), 1.0, jnp.where(angle >= _per_leg(UPPER, angle), -1.0, 0.0))
    return pull, joints._replace(at=at, limit=jnp.where((at == joints.at) & (at != 0), joints.limit, 0.0))


def push(pull: Pull, hull: Body, leg: Body, px: Array, py: Array, *turns: Array) -> tuple[Body, Body]:
    """Velocities after an impulse of one joint."""
    on_hull, on_leg = pull.hull_x * py - pull.hull_y * px, pull.leg_x * py - pull.leg_y * px
    for turn in turns:
        on_hull, on_leg = on_hull + turn, on_leg + turn
    hull = hull._replace(
        vx=hull.vx - HULL_INV_MASS * px, vy=hull.vy - HULL_INV_MASS * py, spin=hull.spin - HULL_INV_INERTIA * on_hull
    )
    leg = leg._replace(
        vx=leg.vx + LEG_INV_MASS * px, vy=leg.vy + LEG_INV_MASS * py, spin=leg.spin + LEG_INV_INERTIA * on_leg
    )
    return hull, leg


def solve_velocity(side: float, pull: Pull, joint: Joint, hull: Body, leg: Body) -> tuple[Joint, Body, Body]:
    """Motor, then point and limit, of one joint."""
    wanted = joint.motor - MOTOR_MASS * (leg.spin - hull.spin - MOTOR_SPEED * side)
    motor = jnp.clip(wanted, -MAX_MOTOR_IMPULSE, MAX_MOTOR_IMPULSE)
    turned = motor - joint.motor
    hull_spin, leg_spin = hull.spin - HULL_INV_INERTIA * turned, leg.spin + LEG_INV_INERTIA * turned

    x = leg.vx - leg_spin * pull.leg_y - hull.vx + hull_spin * pull.hull_y
    y = leg.vy + leg_spin * pull.leg_x - hull.vy - hull_spin * pull.hull_x
    z = leg_spin - hull_spin
    all_x, all_y, all_z = pull.solve(x, y, z)
    limit = joint.limit - all_z
    # Else the limit lets go, or there is none: its impulse is taken back.
    held = (joint.at != 0) & (limit * joint.at >= 0)
    alone_x, alone_y = pull.solve_point(joint.limit * pull.xz - x, joint.limit * pull.yz - y)
    px, py = jnp.where(held, -all_x, alone_x), jnp.where(held, -all_y, alone_y)
    turn = jnp.where(held, -all_z, -joint.limit)
    hull, leg = push(pull, hull._replace(spin=hull_spin), leg._replace(spin=leg_spin), px, py, turn)
    return Joint(joint.x + px, joint.y + py, jnp.where(held, limit, 0.0), motor, joint.at), hull, leg


def solve_position(number: int, at: Array, hull: Body, leg: Body) -> tuple[Body, Body, Array]:
    """The limit's angle, then the point, of one joint; and whether it was within its tolerances before."""
    side = SIDES[number]
    angle = leg.angle - hull.angle - side * REFERENCE_ANGLE
    below, above = angle - LOWER[number], angle - UPPER[number]
    error = jnp.where(at > 0, -below, jnp.where(at < 0, above, 0.0))
    correction = jnp.where(
        at > 0,
        jnp.clip(below + ANGULAR_SLOP, -MAX_ANGULAR_CORRECTION, 0.0),
        jnp.where(at < 0, jnp.clip(above - ANGULAR_SLOP, 0.0, MAX_ANGULAR_CORRECTION), 0.0),
    )
    back = rounded(MOTOR_MASS * correction)
    hull_angle, leg_angle = hull.angle + HULL_INV_INERTIA * back, leg.angle - LEG_INV_INERTIA * back

    hx, hy, lx, ly = arms(side, hull_angle, leg_angle)
    x, y = leg.x + lx - hull.x - hx, leg.y + ly - hull.y - hy
    i, j = HULL_INV_INERTIA, LEG_INV_INERTIA
    xx = INV_MASS + i * hy * hy + j * ly * ly
    xy = -i * hx * hy - j * lx * ly
    yy = INV_MASS + i * hx * hx + j * lx * lx
    det = 1 / (xx * yy - xy * xy)
    px, py = -det * (yy * x - xy * y), -det * (xx * y - xy * x)
    fine = (jnp.sqrt(x * x + y * y) <= LINEAR_SLOP) & (error <= ANGULAR_SLOP)
    hull = hull._replace(
        x=hull.x - HULL_INV_MASS * px,
        y=hull.y - HULL_INV_MASS * py,
        angle=hull_angle - i * (hx * py - hy * px),
    )
    leg = leg._replace(
        x=leg.x + LEG_INV_MASS * px,
        y=leg.y + LEG_INV_MASS * py,
        angle=leg_angle + j * (lx * py - ly * px),
    )
    return hull, leg, fine
