"""Worlds that begin, engines that fire, and landers that are put somewhere."""

from __future__ import annotations

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.boxes import around, find_contacts, moved
from cisr.tasks.lunar_lander.physics.constants import (
    DT,
    FAT,
    GRAVITY,
    HEIGHT,
    HULL_INV_INERTIA,
    HULL_INV_MASS,
    LEG_AWAY,
    REFERENCE_ANGLE,
    SCALE,
    SIDES,
    WIDTH,
)
from cisr.tasks.lunar_lander.physics.staging import rounded
from cisr.tasks.lunar_lander.physics.step import centre, origin, step_aloft
from cisr.tasks.lunar_lander.physics.terrain import edges_near
from cisr.tasks.lunar_lander.physics.world import Body, Box, Contact, Joint, World

INITIAL_FORCE = 1000.0
MAIN_POWER, MAIN_DOWN = 13.0, 4 / SCALE
SIDE_POWER, SIDE_AWAY, SIDE_HEIGHT, SIDE_QUIRK = 0.6, 12 / SCALE, 14 / SCALE, 17 / SCALE
LEFT, MAIN, RIGHT = 1, 2, 3


def launched(heights: Array, force_x: Array, force_y: Array) -> World:
    """A lander after its first step, in which a force pushes it; forces are uniforms of ±1."""
    world = _at_the_top(heights, jnp.zeros_like(force_x))
    vx = DT * rounded(HULL_INV_MASS * rounded(INITIAL_FORCE * force_x))
    vy = DT * (GRAVITY + HULL_INV_MASS * rounded(INITIAL_FORCE * force_y))
    return step_aloft(world, world.hull._replace(vx=vx, vy=vy))


def _at_the_top(heights: Array, zero: Array) -> World:
    x, y = centre(zero + WIDTH / 2, zero + HEIGHT, zero)
    hull = Body(x, y, zero, zero, zero, zero)
    none = jnp.stack([zero, zero])
    side = jnp.stack([zero + side for side in SIDES])
    legs = Body(WIDTH / 2 - side * LEG_AWAY, none + HEIGHT, side * REFERENCE_ANGLE, none, none, none)
    tight = around(legs.x, legs.y, legs.angle)
    four = jnp.stack([none, none])
    numbers = edges_near(heights, legs.x).number
    contacts = Contact(numbers, four, four - 1, four - 1, four, four, four, four)
    return World(
        hull=hull,
        legs=legs,
        joints=Joint(none, none, none, none, none),
        contacts=contacts,
        boxes=Box(tight.left - FAT, tight.bottom - FAT, tight.right + FAT, tight.top + FAT),
        odd_first=none,
        on_ground=none,
        still=(zero, none),
        heights=heights,
    )


def fire(hull: Body, action: Array, dispersion: tuple[Array, Array]) -> Body:
    """Velocities after the engine's impulse; dispersions are uniforms of ±1."""
    sine, cosine = jnp.sin(hull.angle), jnp.cos(hull.angle)
    d0, d1 = dispersion[0] / SCALE, dispersion[1] / SCALE
    main = action == MAIN
    side = (action == LEFT) | (action == RIGHT)
    direction = (action - MAIN).astype(jnp.float32)
    down = jnp.where(main, MAIN_DOWN + 2 * d0, d0)
    across = jnp.where(main, d1, 3 * d1 + direction * SIDE_AWAY)
    ox, oy = sine * down - cosine * across, -cosine * down - sine * across
    power = jnp.where(main, MAIN_POWER, jnp.where(side, SIDE_POWER, 0.0))
    px, py = -power * ox, -power * oy
    x, y = origin(hull)
    # Gymnasium computes in double precision, and only the point itself is rounded: offsets are added up first.
    at_x = x + (ox - jnp.where(main, 0.0, SIDE_QUIRK * sine))
    at_y = y + (oy + jnp.where(main, 0.0, SIDE_HEIGHT * cosine))
    return hull._replace(
        vx=hull.vx + HULL_INV_MASS * px,
        vy=hull.vy + HULL_INV_MASS * py,
        spin=hull.spin + HULL_INV_INERTIA * ((at_x - hull.x) * py - (at_y - hull.y) * px),
    )


def put(world: World, hull: Body, legs: Body, on_ground: Array) -> World:
    """Bodies moved through Box2D's transforms: joints, contacts and sleep go on as they were."""
    boxes = moved(world.boxes, legs, legs)
    return find_contacts(world._replace(hull=hull, legs=legs, boxes=boxes, on_ground=on_ground))
