"""Which of a leg's two contacts comes first, and what Gymnasium hears of them."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.world import Contact

T = TypeVar("T")


def by_age(odd_first: Array, tree: T) -> T:
    """The contacts (2, 2, ...) of each leg in the order in which they are solved; the same again puts them back."""
    ordered: T = jax.tree.map(lambda leaf: jnp.where(odd_first > 0, leaf[::-1], leaf), tree)
    return settled(ordered)


def solved_first(odd_first: Array, present: Array) -> Array:
    """1 where the contact with the odd edge comes first, of contacts (2, 2, ...) that are there: the newer of two, else
    the only one, so that the second is seldom there at all."""
    even, odd = present
    return jnp.where(even & odd, odd_first, odd.astype(jnp.float32))


def told(on_ground: Array, odd_first: Array, before: Contact, after: Contact) -> Array:
    """Gymnasium's flags: set when a contact begins, cleared when one ends, even if another goes on."""
    was, now = by_age(odd_first, (before.id_1 >= 0, after.id_1 >= 0))
    for k in (0, 1):
        on_ground = jnp.where(~was[k] & now[k], 1.0, jnp.where(was[k] & ~now[k], 0.0, on_ground))
    return on_ground
