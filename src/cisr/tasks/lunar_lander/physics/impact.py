"""Impacts within a step: a leg that would go into the ground is taken back to where it touches, and goes on from there.

Joints are not asked, so each leg is on its own: an island of a leg, the ground and their contacts. All is (2, ...).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics import contacts as constraints
from cisr.tasks.lunar_lander.physics.boxes import find_contacts, moved
from cisr.tasks.lunar_lander.physics.constants import (
    DT,
    IMPACT_BAUMGARTE,
    IMPACT_POSITION_ITERATIONS,
    LEG,
    LINEAR_SLOP,
    MAX_SUB_STEPS,
    VELOCITY_ITERATIONS,
)
from cisr.tasks.lunar_lander.physics.iteration import State, iterated
from cisr.tasks.lunar_lander.physics.manifolds import Manifold, collide, inherit
from cisr.tasks.lunar_lander.physics.ordering import by_age, told
from cisr.tasks.lunar_lander.physics.solver import choose, integrate, pick
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.sweeps import Sweep, time_of_impact
from cisr.tasks.lunar_lander.physics.terrain import edges_near
from cisr.tasks.lunar_lander.physics.world import Body, Contact, World

LATEST = 1 - 10 * 2.0**-23
"""Impacts after this part of a step are left to the next."""


class Flight(NamedTuple):
    """Legs in the middle of a step."""

    world: World
    start: Body  # where the rest of the step began
    begun: Array  # at which part of the step
    impacts: Array  # (2, 2, ...) of each contact so far
    times: Array  # (2, 2, ...) of each contact's next impact; 1 for none
    active: Array


def solve_impacts(world: World, before: Body, awake: Array) -> World:
    """The world after all impacts of legs that moved from `before` to where they are."""
    none = jnp.zeros_like(before.x)
    near = awake & (world.contacts.exists > 0).any(axis=0)
    flight = Flight(world, before, none, jnp.stack([none, none]), jnp.stack([none, none]), near)

    def advance(now: Flight) -> Flight:
        now = _look_ahead(now)
        after: Flight = jax.lax.cond(now.active.any(), _sub_step, lambda same: same, now)
        return after

    return jax.lax.while_loop(lambda now: now.active.any(), advance, flight).world


def _look_ahead(flight: Flight) -> Flight:
    """The times of the next impacts; a leg without any is done."""
    legs, start, contacts = flight.world.legs, flight.start, flight.world.contacts
    sweep = Sweep(start.x, start.y, start.angle, legs.x, legs.y, legs.angle)
    edges = edges_near(flight.world.heights, legs.x)
    asked = flight.active & (contacts.exists > 0) & (flight.impacts <= MAX_SUB_STEPS) & (contacts.edge == edges.number)
    part = settled(time_of_impact(sweep, edges, settled(asked)))
    times = jnp.where(part < 1, jnp.minimum(flight.begun + (1 - flight.begun) * part, 1.0), 1.0)
    return flight._replace(times=times, active=flight.active & (times.min(axis=0) <= LATEST))


def _sub_step(flight: Flight) -> Flight:
    """The first impact of each active leg, and its movement from there to the end of the step."""
    world, start, active = flight.world, flight.start, flight.active
    newer, older = by_age(world.odd_first, flight.times)
    odd = jnp.where(newer <= older, world.odd_first, 1 - world.odd_first) > 0
    hit = settled(jnp.stack([~odd, odd]))
    at = jnp.minimum(newer, older)
    part = (at - flight.begun) / (1 - flight.begun)
    back = settled(
        Body(
            (1 - part) * start.x + part * world.legs.x,
            (1 - part) * start.y + part * world.legs.y,
            (1 - part) * start.angle + part * world.legs.angle,
            *world.legs[3:],
        )
    )
    manifolds = collide(LEG, back.x, back.y, back.angle, edges_near(world.heights, world.legs.x))
    updated = inherit(world.contacts, manifolds)
    # An impact whose contact has no points is forgotten; the other contact is updated with a solid one only.
    solid = active & (jnp.where(hit, updated.id_1, -1.0).max(axis=0) >= 0)
    asked = (active & hit) | (solid & (world.contacts.exists > 0))
    contacts = settled(choose(asked, updated, world.contacts))
    first = odd.astype(jnp.float32)  # the contact that was hit comes first
    heard = told(world.on_ground, first, world.contacts, contacts)
    masked = manifolds._replace(
        id_1=jnp.where(asked, manifolds.id_1, -1.0), id_2=jnp.where(asked, manifolds.id_2, -1.0)
    )
    flown, there = _solved(back, by_age(first, masked), (1 - at) * DT, solid)
    from_there = choose(solid, there, start)
    world = world._replace(legs=choose(solid, flown, world.legs), contacts=contacts, on_ground=heard)
    found = find_contacts(world._replace(boxes=settled(moved(world.boxes, from_there, world.legs))))
    world = world._replace(
        boxes=choose(solid, found.boxes, world.boxes),
        contacts=choose(solid, found.contacts, world.contacts),
        odd_first=jnp.where(solid, found.odd_first, world.odd_first),
    )
    counted = jnp.where(solid, flight.impacts + 1, float(MAX_SUB_STEPS + 1))
    return flight._replace(
        world=world,
        start=from_there,
        begun=jnp.where(solid, at, flight.begun),
        impacts=jnp.where(active & hit, counted, flight.impacts),
    )


def _solved(back: Body, manifolds: Manifold, dt: Array, solid: Array) -> tuple[Body, Body]:
    """Legs at the end of the step, and where they were put at the impact."""

    def correct(state: tuple[Array, Body, Array]) -> tuple[Array, Body, Array]:
        count, legs, solved = state
        pushed, least = legs, jnp.zeros_like(legs.x)
        for k in (0, 1):
            pushed, separation = settled(constraints.solve_position(pick(manifolds, k), pushed, IMPACT_BAUMGARTE))
            least = jnp.minimum(least, separation)
        return count + 1, choose(solved, legs, pushed), solved | (least >= -1.5 * LINEAR_SLOP)

    def unsolved(state: tuple[Array, Body, Array]) -> Array:
        return (state[0] < IMPACT_POSITION_ITERATIONS) & ~state[2].all()

    _, there, _ = jax.lax.while_loop(unsolved, correct, (jnp.int32(0), back, ~solid))
    supports = settled(constraints.prepare(manifolds, there))
    grounds = [pick(supports, k) for k in (0, 1)]
    none = jnp.zeros_like(back.x)

    fresh = Contact(*[none] * len(Contact._fields))  # no warm start, and impulses are not kept

    def iterate(state: State) -> tuple[State, tuple[()]]:
        legs, solved = there._replace(vx=state[0], vy=state[1], spin=state[2]), list(_parted(fresh, state[3:]))
        for k in (0, 1):
            solved[k], legs = settled(constraints.solve_velocity(grounds[k], solved[k], legs))
        return (*legs[3:], *solved[0][4:], *solved[1][4:]), ()

    start = (*there[3:], *fresh[4:], *fresh[4:])
    (vx, vy, spin, *_), _ = iterated(iterate, start, (), VELOCITY_ITERATIONS, repeats=there.x.ndim == 1)
    return integrate(there._replace(vx=vx, vy=vy, spin=spin), dt), there


def _parted(contact: Contact, impulses: State) -> tuple[Contact, Contact]:
    """Two contacts with these impulses."""
    first, second = impulses[:4], impulses[4:]
    return Contact(*contact[:4], *first), Contact(*contact[:4], *second)
