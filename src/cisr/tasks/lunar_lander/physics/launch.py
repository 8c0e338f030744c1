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
from cisr.tasks.lunar_lander.physics.staging import in_doubles, rounded
from cisr.tasks.lunar_lander.physics.step import centre, origin, step_aloft
from cisr.tasks.lunar_lander.physics.terrain import edges_near
from cisr.tasks.lunar_lander.physics.world import Body, Box, Contact, Joint, World

INITIAL_FORCE = 1000.0
MAIN_POWER, MAIN_DOWN = 13.0, 4 / SCALE
SIDE_POWER, SIDE_AWAY, SIDE_HEIGHT, SIDE_QUIRK = 0.6, 12, 14, 17
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
    """Velocities after the engine's impulse; dispersions are uniforms of ±1.

    Gymnasium computes in double precision what it hands to Box2D.
    """
    main, side = action == MAIN, (action == LEFT) | (action == RIGHT)
    with in_doubles():
        angle, d0, d1, x, y = (
            number.astype(jnp.float64) for number in (hull.angle, dispersion[0], dispersion[1], *origin(hull))
        )
        sine, cosine, d0, d1 = jnp.sin(angle), jnp.cos(angle), d0 / SCALE, d1 / SCALE
        direction = (action - MAIN).astype(jnp.float64)
        down = jnp.where(main, MAIN_DOWN + 2 * d0, d0)
        across = jnp.where(main, d1, 3 * d1 + direction * SIDE_AWAY / SCALE)
        ox, oy = sine * down - cosine * across, -cosine * down - sine * across
        power = jnp.where(main, MAIN_POWER, jnp.where(side, SIDE_POWER, 0 * sine))
        off_x, off_y = jnp.where(main, 0, sine * SIDE_QUIRK / SCALE), jnp.where(main, 0, cosine * SIDE_HEIGHT / SCALE)
        px, py, at_x, at_y = (
            number.astype(jnp.float32) for number in (-ox * power, -oy * power, x + ox - off_x, y + oy + off_y)
        )
    return hull._replace(
        vx=hull.vx + HULL_INV_MASS * px,
        vy=hull.vy + HULL_INV_MASS * py,
        spin=hull.spin + HULL_INV_INERTIA * ((at_x - hull.x) * py - (at_y - hull.y) * px),
    )


def put(world: World, hull: Body, legs: Body, on_ground: Array) -> World:
    """Bodies moved through Box2D's transforms: joints, contacts and sleep go on as they were."""
    boxes = moved(world.boxes, legs, legs)
    return find_contacts(world._replace(hull=hull, legs=legs, boxes=boxes, on_ground=on_ground))
