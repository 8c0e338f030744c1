"""Box2D's world as the physics of `physics` has it: poses, velocities, impulses of joints and contacts.

Its bindings show neither fat boxes nor how long bodies have been at rest, nor at which limit a joint was: boxes are
made anew, rest is the caller's to count, and the limit follows from the sign of its impulse.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from cisr.tasks.lunar_lander.physics.boxes import around
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.constants import DT, FAT
from cisr.tasks.lunar_lander.physics.manifolds import FACE, VERTEX
from cisr.tasks.lunar_lander.physics.terrain import SPACING, edges_near
from cisr.tasks.lunar_lander.physics.world import Body, Box, Contact, Joint, World


def read_world(game: Any, still: np.ndarray | None = None) -> World:
    """The world of one of Gymnasium's landers, without axes for landers."""
    terrain = [fixture.shape.vertices for fixture in game.moon.fixtures[1:]]  # after the floor
    heights = np.array([terrain[0][0][1], *(right for _, (_, right) in terrain)])
    hull, *legs = (_body(body) for body in (game.lander, *game.legs))
    both = Body(*np.stack(legs, axis=-1))
    joints = Joint(*np.stack([_joint(leg.joint) for leg in game.legs], axis=-1))
    with by_numpy():
        numbers = edges_near(heights, both.x).number
        tight = around(both.x, both.y, both.angle)
    contacts, odd_first = _contacts(game, numbers)
    boxes = Box(tight.left - FAT, tight.bottom - FAT, tight.right + FAT, tight.top + FAT)
    on_ground = np.array([float(leg.ground_contact) for leg in game.legs])
    rest = (np.zeros(()), np.zeros(2)) if still is None else (still[0], still[1:])
    world = World(Body(*hull), both, joints, contacts, boxes, odd_first, on_ground, rest, heights)
    single: World = jax.tree.map(np.float32, world)
    return single


def _body(body: Any) -> list[float]:
    centre, velocity = body.worldCenter, body.linearVelocity
    return [centre.x, centre.y, body.angle, velocity.x, velocity.y, body.angularVelocity]


def _joint(joint: Any) -> list[float]:
    force, limit = joint.GetReactionForce(1 / DT) * DT, joint.GetReactionTorque(1 / DT) * DT
    return [force.x, force.y, limit, joint.GetMotorTorque(1 / DT) * DT, float(np.sign(limit))]


def _contacts(game: Any, numbers: np.ndarray) -> tuple[Contact, np.ndarray]:
    """Contacts (2, 2), and whether the odd one is newer (2,): the bindings list the oldest first."""
    fields = [numbers.copy(), *(np.zeros((2, 2)) for _ in Contact._fields[1:])]
    fields[2] -= 1
    fields[3] -= 1
    newest: dict[int, int] = {}
    for contact in game.world.contacts:
        if contact.fixtureB.body not in game.legs:
            continue
        (x1, _), (x2, _) = contact.fixtureA.shape.vertices
        if x2 - x1 > SPACING * 1.5:
            continue  # the floor
        leg, number = game.legs.index(contact.fixtureB.body), round(x1 / SPACING)
        kind = number % 2
        if numbers[kind, leg] != number:
            continue
        newest[leg] = kind
        fields[1][kind, leg] = 1
        manifold = contact.manifold
        for k in range(manifold.pointCount):
            point = manifold.points[k]
            fields[2 + k][kind, leg] = _id(point.id)
            fields[4 + k][kind, leg] = point.normalImpulse
            fields[6 + k][kind, leg] = point.tangentImpulse
    return Contact(*fields), np.array([float(newest.get(leg, 0)) for leg in (0, 1)])


def _id(found: Any) -> float:
    key = found.key
    first, second, first_is_face = key & 255, (key >> 8) & 255, (key >> 16) & 255
    return float(first + 8.0 * second + (FACE if first_is_face else VERTEX))
