"""Box2D's tolerances, and the shapes and masses of Gymnasium's lander.

Box2D computes in single precision, so what it makes of these numbers is computed here as it does, and in its order: a
motor that works against a limit for hundreds of iterations makes a difference of the last digit grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from math import hypot
from operator import add
from typing import Any, NamedTuple

import numpy as np

Point = tuple[float, float]
SINGLE = np.float32

DT = 1 / 50
GRAVITY = -10.0
FALL = float(SINGLE(DT) * SINGLE(GRAVITY))
"""What a step adds to the vertical velocity."""
VELOCITY_ITERATIONS, POSITION_ITERATIONS = 180, 60
IMPACT_POSITION_ITERATIONS = 20

PI = SINGLE(3.14159265359)
LINEAR_SLOP, ANGULAR_SLOP = 0.005, float(SINGLE(2) / SINGLE(180) * PI)
SKIN = 2 * LINEAR_SLOP
"""Every shape is rounded by this radius."""
BAUMGARTE, IMPACT_BAUMGARTE = 0.2, 0.75
MAX_LINEAR_CORRECTION, MAX_ANGULAR_CORRECTION = 0.2, float(SINGLE(8) / SINGLE(180) * PI)
MAX_TRANSLATION, MAX_ROTATION = 2.0, float(SINGLE(0.5) * PI)
MAX_CONDITION = 1000.0
FAT, PREDICTED = 0.1, 2.0
"""How far boxes of the broad phase reach beyond a shape, and how many steps of its movement ahead."""
MAX_SUB_STEPS = 8
TIME_TO_SLEEP, SLEEP_SPEED, SLEEP_SPIN = 0.5, 0.01, ANGULAR_SLOP

SCALE = 30.0
WIDTH, HEIGHT = 600 / SCALE, 400 / SCALE
LEG_AWAY, LEG_DOWN = 20 / SCALE, 18 / SCALE
LEG_HALF_WIDTH, LEG_HALF_HEIGHT = 2 / SCALE, 8 / SCALE
SIDES = (-1.0, 1.0)
"""Gymnasium's i for each leg: the first stands on the right, the second on the left of the hull."""
REFERENCE_ANGLE = 0.05
MOTOR_SPEED, MAX_MOTOR_IMPULSE = 0.3, float(SINGLE(DT) * SINGLE(40))
LIMIT_NEAR, LIMIT_FAR = 0.9 - 0.5, 0.9
LEG_FRICTION = (0.2 * 0.1) ** 0.5
"""Of a leg on the terrain."""


class Mass(NamedTuple):
    mass: float
    centre: Point
    inertia: float
    """About the centre."""

    @property
    def inverse(self) -> float:
        return float(1 / SINGLE(self.mass))

    @property
    def inverse_inertia(self) -> float:
        return float(1 / SINGLE(self.inertia))


@dataclass(frozen=True)
class Polygon:
    """A convex polygon, counter-clockwise, with its uniform mass."""

    vertices: tuple[Point, ...]
    density: float

    @property
    def normals(self) -> tuple[Point, ...]:
        def outward(a: Point, b: Point) -> Point:
            dx, dy = b[0] - a[0], b[1] - a[1]
            length = hypot(dx, dy)
            return dy / length, -dx / length

        following = (*self.vertices[1:], self.vertices[0])
        return tuple(outward(a, b) for a, b in zip(self.vertices, following, strict=True))

    @cached_property
    def mass(self) -> Mass:
        """Summed up over the triangles between the edges and the mean of the vertices."""
        vertices = np.array(self.vertices, SINGLE)
        middle = _sum(vertices) * (SINGLE(1) / SINGLE(len(vertices)))
        third, density = SINGLE(1) / SINGLE(3), SINGLE(self.density)
        areas, moments, inertias = [], [], []
        for a, b in zip(vertices - middle, np.roll(vertices, -1, axis=0) - middle, strict=True):
            cross = a[0] * b[1] - a[1] * b[0]
            areas.append(SINGLE(0.5) * cross)
            moments.append(areas[-1] * third * (a + b))
            along = a * a + b * a + b * b
            inertias.append(SINGLE(0.25) * third * cross * (along[0] + along[1]))
        area = _sum(areas)
        mass, offset = density * area, _sum(moments) * (1 / area)
        centre = offset + middle
        about_origin = density * _sum(inertias) + mass * (_square(centre) - _square(offset))
        return Mass(float(mass), (float(centre[0]), float(centre[1])), float(about_origin - mass * _square(centre)))


def _sum(values: Any) -> Any:
    """One after the other."""
    return reduce(add, values)


def _square(v: Any) -> Any:
    return v[0] * v[0] + v[1] * v[1]


HULL = Polygon(
    tuple((x / SCALE, y / SCALE) for x, y in ((17, -10), (17, 0), (14, 17), (-14, 17), (-17, 0), (-17, -10))),
    density=5.0,
)
LEG = Polygon(
    tuple((x * LEG_HALF_WIDTH, y * LEG_HALF_HEIGHT) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))),
    density=1.0,
)
HULL_INV_MASS, HULL_INV_INERTIA = HULL.mass.inverse, HULL.mass.inverse_inertia
LEG_INV_MASS, LEG_INV_INERTIA = LEG.mass.inverse, LEG.mass.inverse_inertia
CENTRE_HEIGHT = HULL.mass.centre[1]
"""How far the hull's centre of mass is above its origin, in its own frame."""
