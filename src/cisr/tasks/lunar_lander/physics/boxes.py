"""The broad phase: a leg's fat box, and which contacts exist by it.

A box is kept until the leg leaves it, so that contacts last a little; of a leg's two contacts the newer comes first.
"""

from __future__ import annotations

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import FAT, LEG_HALF_HEIGHT, LEG_HALF_WIDTH, PREDICTED, SKIN
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.terrain import Edge, edges_near
from cisr.tasks.lunar_lander.physics.world import Body, Box, Contact, World


def around(x: Array, y: Array, angle: Array) -> Box:
    """The tight box of legs in a pose."""
    sine, cosine = abs(jnp.sin(angle)), abs(jnp.cos(angle))
    across = cosine * LEG_HALF_WIDTH + sine * LEG_HALF_HEIGHT + SKIN
    up = sine * LEG_HALF_WIDTH + cosine * LEG_HALF_HEIGHT + SKIN
    return Box(x - across, y - up, x + across, y + up)


def moved(fat: Box, before: Body, after: Body) -> Box:
    """The fat boxes after legs moved: the old ones as long as they cover the way."""
    start, end = around(before.x, before.y, before.angle), around(after.x, after.y, after.angle)
    way = Box(
        jnp.minimum(start.left, end.left),
        jnp.minimum(start.bottom, end.bottom),
        jnp.maximum(start.right, end.right),
        jnp.maximum(start.top, end.top),
    )
    covered = (fat.left <= way.left) & (fat.bottom <= way.bottom) & (fat.right >= way.right) & (fat.top >= way.top)
    dx, dy = PREDICTED * (after.x - before.x), PREDICTED * (after.y - before.y)
    new = Box(
        way.left - FAT + jnp.minimum(dx, 0.0),
        way.bottom - FAT + jnp.minimum(dy, 0.0),
        way.right + FAT + jnp.maximum(dx, 0.0),
        way.top + FAT + jnp.maximum(dy, 0.0),
    )
    return Box(*(jnp.where(covered, old, other) for old, other in zip(fat, new, strict=True)))


def overlap(fat: Box, edge: Edge) -> Array:
    margin = SKIN + FAT
    low, high = jnp.minimum(edge.y1, edge.y2) - margin, jnp.maximum(edge.y1, edge.y2) + margin
    beside = (fat.right < edge.x1 - margin) | (fat.left > edge.x2 + margin)
    return edge.real & ~beside & (fat.top >= low) & (fat.bottom <= high)


def find_contacts(world: World) -> World:
    """With the contacts that begin where boxes have come to overlap edges."""
    fat = settled(world.boxes)
    edges = edges_near(world.heights, world.legs.x)
    contacts = _of_edges(world.contacts, edges.number)
    even, odd = new = overlap(fat, edges) & (contacts.exists == 0)
    both = (edges.number[1] > edges.number[0]).astype(jnp.float32)  # begun together: the later edge counts as newer
    order = jnp.where(even, jnp.where(odd, both, 0.0), jnp.where(odd, 1.0, world.odd_first))
    contacts = contacts._replace(exists=jnp.where(new, 1.0, contacts.exists))
    return world._replace(contacts=contacts, odd_first=order)


def _of_edges(contacts: Contact, numbers: Array) -> Contact:
    """Contacts with these edges; with others there are none yet: a leg nearest to another vertex has long left them."""
    same = contacts.edge == numbers

    def kept(value: Array, none: float) -> Array:
        return jnp.where(same, value, none)

    return Contact(
        numbers,
        kept(contacts.exists, 0.0),
        kept(contacts.id_1, -1.0),
        kept(contacts.id_2, -1.0),
        *(kept(impulse, 0.0) for impulse in contacts[4:]),
    )
