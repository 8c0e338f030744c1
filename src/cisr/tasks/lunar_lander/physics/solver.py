"""One step of all constraints, from velocities to poses, and falling asleep.

Each iteration: the second leg's joint, the first leg's, then contacts, of which a leg's newer one comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics import contacts, joints
from cisr.tasks.lunar_lander.physics.constants import (
    BAUMGARTE,
    DT,
    LINEAR_SLOP,
    MAX_ROTATION,
    MAX_TRANSLATION,
    POSITION_ITERATIONS,
    SIDES,
    SLEEP_SPEED,
    SLEEP_SPIN,
    TIME_TO_SLEEP,
    VELOCITY_ITERATIONS,
)
from cisr.tasks.lunar_lander.physics.iteration import State, iterated
from cisr.tasks.lunar_lander.physics.joints import Pull
from cisr.tasks.lunar_lander.physics.manifolds import Manifold
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.world import Body, Contact, Joint

T = TypeVar("T")

SOLVED_ORDER = (1, 0)
"""Numbers of the legs, as Box2D's island meets their joints."""


class Velocities(NamedTuple):
    """What the iterations change."""

    hull: Body  # (...)
    legs: tuple[Body, Body]  # apart, because joints are solved one after the other
    joints: tuple[Joint, Joint]
    contacts: tuple[Contact, Contact]  # (2, ...) the one that is solved first comes first


def pick(tree: T, number: int) -> T:
    """One of two, from the first axis."""
    picked: T = jax.tree.map(lambda leaf: leaf[number], tree)
    return picked


def stacked(one: T, other: T) -> T:
    both: T = jax.tree.map(lambda a, b: jnp.stack([a, b]), one, other)
    return settled(both)


def choose(condition: Array, one: T, other: T) -> T:
    chosen: T = jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
    return chosen


def solve_velocities(
    hull: Body, legs: Body, joint: Joint, touching: tuple[Contact, Manifold] | None
) -> tuple[Body, Body, Joint, Contact | None]:
    """Velocities and impulses at the end of the step; contacts (2, 2, ...) come in the order in which they are solved,
    or there are none."""
    supports = None
    each: tuple[Contact, ...] = ()
    if touching is not None:
        supports = settled(contacts.prepare(touching[1], legs))
        each = (pick(touching[0], 0), pick(touching[0], 1))
        for k, contact in enumerate(each):
            legs = contacts.warm_start(pick(supports, k), contact, legs)
    pulls, joint = settled(joints.prepare(hull, settled(legs), joint))
    two = [pick(legs, k) for k in (0, 1)]
    for k in SOLVED_ORDER:
        mine = pick(joint, k)
        hull, two[k] = joints.push(pick(pulls, k), hull, two[k], mine.x, mine.y, mine.motor, mine.limit)
    start = Velocities(hull, (two[0], two[1]), (pick(joint, 0), pick(joint, 1)), each)  # type: ignore[arg-type]
    ropes = [pick(pulls, k) for k in (0, 1)]

    alone = not hull.vx.ndim  # else whoever is done first would wait for the others

    def in_flight(now: Velocities) -> Velocities:
        return _solve_joints(ropes, now)

    if supports is None:
        end = _iterated(in_flight, alone, start)
        return end.hull, stacked(*end.legs), stacked(*end.joints), None
    grounds = [pick(supports, k) for k in (0, 1)]

    def on_ground(n_contacts: int, now: Velocities) -> Velocities:
        now = _solve_joints(ropes, now)
        legs, solved = stacked(*now.legs), list(now.contacts)
        for k in range(n_contacts):
            solved[k], legs = contacts.solve_velocity(grounds[k], solved[k], legs)
            solved[k], legs = settled((solved[k], legs))
        return now._replace(legs=(pick(legs, 0), pick(legs, 1)), contacts=(solved[0], solved[1]))

    first, second = ((touching[1].id_1[k] >= 0).any().astype(jnp.int32) for k in (0, 1))  # type: ignore[index]
    ways = [
        partial(_iterated, in_flight, alone),  # most often it repeats itself after six
        *(partial(_iterated, partial(on_ground, n), False) for n in (1, 2)),  # it hardly ever does
    ]
    end = jax.lax.switch(first + second, ways, start)
    return end.hull, stacked(*end.legs), stacked(*end.joints), stacked(*end.contacts)


def _iterated(solve: Callable[[Velocities], Velocities], repeats: bool, start: Velocities) -> Velocities:
    """After all of Box2D's iterations. Impulses that joints keep their points together with are summed up apart: they
    grow on when all else has settled, and nothing depends on them."""

    def step(state: State) -> tuple[State, State]:
        after = solve(_with(start, state))
        return _moving(after), _pulled(after)

    state, sums = iterated(step, _moving(start), _pulled(start), VELOCITY_ITERATIONS, repeats)
    end = _with(start, state)
    one, other = end.joints
    return end._replace(joints=(one._replace(x=sums[0], y=sums[1]), other._replace(x=sums[2], y=sums[3])))


def _moving(now: Velocities) -> State:
    """All that an iteration depends on and changes."""
    bodies = [part for body in (now.hull, *now.legs) for part in body[3:]]
    held = [part for joint in now.joints for part in (joint.limit, joint.motor)]
    return (*bodies, *held, *(part for contact in now.contacts for part in contact[4:]))


def _with(start: Velocities, state: State) -> Velocities:
    """The same back in its place; impulses of the joints begin at 0."""
    left = iter(state)
    hull, *legs = (Body(*body[:3], next(left), next(left), next(left)) for body in (start.hull, *start.legs))
    none = jnp.zeros_like(start.hull.vx)
    each = [Joint(none, none, next(left), next(left), joint.at) for joint in start.joints]
    touching = tuple(Contact(*contact[:4], *(next(left) for _ in contact[4:])) for contact in start.contacts)
    return Velocities(hull, (legs[0], legs[1]), (each[0], each[1]), touching)  # type: ignore[arg-type]


def _pulled(now: Velocities) -> State:
    one, other = now.joints
    return one.x, one.y, other.x, other.y


def _solve_joints(pulls: list[Pull], now: Velocities) -> Velocities:
    hull, legs, each = now.hull, list(now.legs), list(now.joints)
    for k in SOLVED_ORDER:
        each[k], hull, legs[k] = joints.solve_velocity(SIDES[k], pulls[k], each[k], hull, legs[k])
        each[k], hull, legs[k] = settled((each[k], hull, legs[k]))
    return now._replace(hull=hull, joints=(each[0], each[1]), legs=(legs[0], legs[1]))


def integrate(body: Body, dt: Array | float) -> Body:
    """Poses after dt at the velocities, which are capped."""
    dx, dy, turn = dt * body.vx, dt * body.vy, dt * body.spin
    far = jnp.sqrt(dx * dx + dy * dy)
    slower = jnp.where(far > MAX_TRANSLATION, MAX_TRANSLATION / jnp.maximum(far, 1e-9), 1.0)
    steadier = jnp.where(abs(turn) > MAX_ROTATION, MAX_ROTATION / jnp.maximum(abs(turn), 1e-9), 1.0)
    vx, vy, spin = slower * body.vx, slower * body.vy, steadier * body.spin
    return Body(body.x + dt * vx, body.y + dt * vy, body.angle + dt * spin, vx, vy, spin)


class _Poses(NamedTuple):
    count: Array  # ()
    hull: Body
    legs: tuple[Body, Body]
    solved: Array  # (...)


def solve_positions(hull: Body, legs: Body, manifolds: Manifold | None, at: Array) -> tuple[Body, Body, Array]:
    """Poses after corrections, each lander's until it is within the tolerances; and whose were."""

    def correct(now: _Poses) -> _Poses:
        pulled, each, fine = now.hull, list(now.legs), ~now.solved
        if manifolds is not None:
            pushed = stacked(*now.legs)
            least = jnp.zeros_like(pushed.x)
            for k in (0, 1):
                pushed, separation = settled(contacts.solve_position(pick(manifolds, k), pushed, BAUMGARTE))
                least = jnp.minimum(least, separation)
            fine = fine & (least >= -3 * LINEAR_SLOP).all(axis=0)
            each = [pick(pushed, k) for k in (0, 1)]
        for k in SOLVED_ORDER:
            pulled, each[k], joint_fine = settled(joints.solve_position(k, at[k], pulled, each[k]))
            fine = fine & joint_fine
        return _Poses(
            now.count + 1,
            choose(now.solved, now.hull, pulled),
            choose(now.solved, now.legs, (each[0], each[1])),
            now.solved | fine,
        )

    def unsolved(now: _Poses) -> Array:
        return (now.count < POSITION_ITERATIONS) & ~now.solved.all()

    start = _Poses(jnp.int32(0), hull, (pick(legs, 0), pick(legs, 1)), jnp.zeros(hull.x.shape, bool))
    end = jax.lax.while_loop(unsolved, correct, start)
    return end.hull, stacked(*end.legs), end.solved


def rest(still: tuple[Array, Array], hull: Body, legs: Body, solved: Array) -> tuple[tuple[Array, Array], Array]:
    """For how long bodies have been at rest, and who falls asleep."""

    def counted(seconds: Array, body: Body) -> Array:
        fast = body.vx * body.vx + body.vy * body.vy > SLEEP_SPEED * SLEEP_SPEED
        return jnp.where(fast | (body.spin * body.spin > SLEEP_SPIN * SLEEP_SPIN), 0.0, seconds + DT)

    hull_still, legs_still = counted(still[0], hull), counted(still[1], legs)
    asleep = solved & (hull_still >= TIME_TO_SLEEP) & (legs_still >= TIME_TO_SLEEP).all(axis=0)
    return (hull_still, legs_still), asleep
