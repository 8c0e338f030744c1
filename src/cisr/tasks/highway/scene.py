"""What a driver sees, in numbers: the state of the task, for triggers and controllers.

A state is (..., 18), in metres and metres per second. First how far it is to whoever is ahead on the ego's way and how
fast that gap closes. Then the same of whoever is nearest ahead and nearest behind on three lanes: the one to the left
of the lane that the ego heads for, that lane, the one to its right. Then the ego's speed, the speed that it heads for,
its distance from the middle of the lane that it heads for (to the right of it where positive), and that lane's number.

Others count on a lane as soon as they head for it, as their indicators would say. Where there is no lane, there is no
room either: the gap is that of a vehicle alongside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import gymnasium

GAP, CLOSING = 0, 1
LEFT_LANE, OWN_LANE, RIGHT_LANE = 2, 6, 10
"""Where the four numbers of each lane begin: gap and closing speed ahead, gap and closing speed behind."""
SPEED, WANTED_SPEED, OFFSET, LANE = 14, 15, 16, 17
DIMENSION = 18

N_LANES = 3
LANE_WIDTH, LENGTH, WIDTH = 4.0, 5.0, 2.0
ON_LANE = LANE_WIDTH / 2 + 1
"""How far from its middle a vehicle still counts as one on a lane, as highway-env's drivers see it."""
DECISIONS = 5
"""A second: the ego's, and steps of the simulation."""
FULL_PAY, CRASH_COST = 0.1, 5.0
"""What a step at full speed pays, and what a collision costs: half of what the fastest drive earns."""
SIGHT = 100.0
"""Metres beyond which nobody is seen."""
ELBOW_ROOM = 0.5
"""What is free of the ego's way sideways is at least so far away."""

_CENTRES = np.array([25.0, 0.0] * 7 + [20.0, 20.0, 0.0, 1.0])
_SCALES = np.array([25.0, 5.0] * 7 + [5.0, 5.0, LANE_WIDTH, 1.0])


def read_state(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    ego, *others = env.unwrapped.road.vehicles  # type: ignore[attr-defined]
    x, y = ego.position.tolist()
    speed, lane = float(ego.speed), int(ego.target_lane_index[2])
    leftmost, rightmost = sorted((y, lane * LANE_WIDTH))
    way = (SIGHT, 0.0)
    nobody = [(SIGHT if 0 <= lane + side < N_LANES else -LENGTH, 0.0) for side in (-1, 0, 1)]
    ahead, behind = nobody.copy(), nobody.copy()
    for other in others:
        other_x, other_y = other.position.tolist()
        gap = abs(other_x - x) - LENGTH
        if gap >= SIGHT:
            continue
        in_front = other_x >= x
        closing = speed - other.speed if in_front else other.speed - speed
        nearest = ahead if in_front else behind
        for k, its_lane in enumerate((lane - 1, lane, lane + 1)):
            on_it = abs(other_y - its_lane * LANE_WIDTH) <= ON_LANE or other.target_lane_index[2] == its_lane
            if on_it and gap < nearest[k][0]:
                nearest[k] = (gap, closing)
        beside = max(leftmost - other_y, other_y - rightmost)
        if in_front and gap < way[0] and beside <= WIDTH + ELBOW_ROOM:
            way = (gap, closing)
    lanes = [number for k in range(3) for number in (*ahead[k], *behind[k])]
    return np.array([*way, *lanes, speed, float(ego.target_speed), y - lane * LANE_WIDTH, float(lane)])


def seen(state: np.ndarray) -> np.ndarray:
    """The state as students see it, in numbers around 0."""
    observation: np.ndarray = ((state - _CENTRES) / _SCALES).astype(np.float32)
    return observation


def save(env: gymnasium.Env[Any, Any]) -> list[dict[str, Any]]:
    """Copies of all that vehicles remember. Their arrays are never changed, but replaced: there is no need to copy
    these, which is what takes a copy of the whole environment its time."""
    return [dict(vars(vehicle)) for vehicle in env.unwrapped.road.vehicles]  # type: ignore[attr-defined]


def restore(env: gymnasium.Env[Any, Any], saved: list[dict[str, Any]]) -> None:
    for vehicle, remembered in zip(env.unwrapped.road.vehicles, saved, strict=True):  # type: ignore[attr-defined]
        vars(vehicle).update(remembered)
