"""When a student is helped, and how: triggers and controllers in array code over states (..., 18) of `scene`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cisr.core.intervention import Array
from cisr.tasks.highway.scene import (
    CLOSING,
    GAP,
    LANE,
    LANE_WIDTH,
    LEFT_LANE,
    N_LANES,
    OFFSET,
    OWN_LANE,
    RIGHT_LANE,
)

LEFT, IDLE, RIGHT, FASTER, SLOWER = range(5)

BRAKING = 5.0
"""What the ego's brakes are good for at least, in m/s²."""
REACTION = 0.4
"""Seconds until they are."""
STANDOFF, ROOM = 4.0, 3.0
"""Metres to keep to whoever is ahead, and to both sides of a gap that is changed into."""
MERGING = 1.0
"""Seconds that such a gap must last."""

POINT_OF_NO_RETURN = LANE_WIDTH / 2 + 0.5
"""Metres to the middle of the next lane, up to which a change of lanes can be broken off."""
CENTRED = 0.4


def stopping_gap(closing: Array) -> Array:
    """The gap ahead in which a closing speed can be braked away."""
    closing = _positive(closing)
    return STANDOFF + REACTION * closing + closing**2 / (2 * BRAKING)


def too_close(state: Array) -> Array:
    """Whoever is ahead will soon be hit."""
    return state[..., GAP] < stopping_gap(state[..., CLOSING])


def no_room(state: Array, lane: int) -> Array:
    """There is no gap to change into on that lane."""
    ahead, closing, behind, followed = (state[..., lane + k] for k in range(4))
    return (ahead < ROOM + MERGING * _positive(closing)) | (behind < ROOM + MERGING * _positive(followed))


def leaving(state: Array) -> Array:
    """The ego has begun to change lanes, and may still go back."""
    return abs(state[..., OFFSET]) > POINT_OF_NO_RETURN


def cutting_in(state: Array) -> Array:
    """The ego has begun to change into a lane where there is no room for it."""
    return leaving(state) & no_room(state, OWN_LANE)


def steered_clear(state: Array) -> Array:
    """What an instructor does: back from a lane without room, else brake as long as the gap is too small."""
    where = state.__array_namespace__().where
    back = where(state[..., OFFSET] > 0, RIGHT, LEFT)
    return where(cutting_in(state), back, where(too_close(state), SLOWER, IDLE))


def settled(state: Array) -> Array:
    """Out of danger, in the middle of a lane: who is put at the wheel before that turns into the same lane again, from
    where it is too late to go back."""
    return ~too_close(state) & ~cutting_in(state) & (abs(state[..., OFFSET]) < CENTRED)


def speeding_up_to(state: Array, action: Array) -> Array:
    """Too close to whoever is ahead, and the student does not brake."""
    return too_close(state) & ~cutting_in(state) & (action != SLOWER)


def turning_into(state: Array, action: Array) -> Array:
    """The student turns into a lane without room, or goes on into one."""
    left = (action == LEFT) & (state[..., LANE] > 0) & no_room(state, LEFT_LANE)
    right = (action == RIGHT) & (state[..., LANE] < N_LANES - 1) & no_room(state, RIGHT_LANE)
    return left | right | (cutting_in(state) & (action != steered_clear(state)))


def corrected(state: Array, action: Array) -> Array:
    """What the co-driver does in the place of such actions."""
    return steered_clear(state)


def state_plot(interventions: Sequence[str]) -> dict[str, Any]:
    """The gap ahead and how fast it closes, with the line under which whoever is ahead will soon be hit."""
    speeds = [-10.0, *(0.5 * k for k in range(41))]
    trigger = [[float(stopping_gap(np.float64(speed))), speed] for speed in speeds]
    return {
        "axes": ["gap ahead (m)", "closing speed (m/s)"],
        "limits": [[-5.0, 60.0], [-10.0, 20.0]],
        "lines": {"contact": [[[0.0, -10.0], [0.0, 20.0]]]},
        "interventions": {name: {"trigger": [trigger]} for name in interventions},
    }


def _positive(speed: Array) -> Array:
    return speed * (speed > 0)
