"""Two interventions of our own, after what `cisr audit lunar-lander` finds wrong with the paper's.

- Hills beside the pad can rise by 0.82 for each unit of x, so a funnel of slope 0.5 leads into them: ours is steeper.
- A lander that rests near the edge of the pad has a foot on a slope and tips over: the funnel ends at |x| = 0.1.
- Upside down or spinning, the hull hits the ground before the feet do: tilt, spin and speed are limited by the height.
- After a hard touchdown the legs give way until the hull touches: a lander that squats is lifted.
- From high up, the paper's rescue throws the lander across the map: ours keeps to its side, and there is a ceiling.

These are not certified either; `docs/results/lunar-lander.md` says how they stood up to the same attacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.flight import ANGLE, LIFT, SPIN, VX, VY, X, Y, funnel_line, moved

INNER_PAD = 0.1
EDGE, WITHIN_EDGE = 0.8, 0.7
CEILING, BELOW_CEILING = 1.7, 1.4
LOWEST = 0.2
"""Height over the funnel that a lander must keep beside the pad."""
ENOUGH = 0.35
"""Height over the funnel to which a rescue leads, at least."""
SHORTEST_RESCUE = 0.15


def trigger_line(slope: float) -> dict[str, Any]:
    """Where a careful funnel triggers."""
    return {"trigger": funnel_line(slope, INNER_PAD, LOWEST, EDGE)}


def lines(slope: float) -> dict[str, Any]:
    """Where a careful funnel triggers, and how high over it rescues lead."""
    return {**trigger_line(slope), "reset": funnel_line(slope, INNER_PAD, ENOUGH, WITHIN_EDGE)}


def height(slope: float, state: Array) -> Array:
    """Over the pad, or over the funnel beside it."""
    xp = state.__array_namespace__()
    return state[..., Y] - slope * xp.maximum(abs(state[..., X]) - INNER_PAD, 0.0)


def reckless(state: Array, h: Array) -> Array:
    """Too fast, too tilted or spinning too much for the height."""
    xp = state.__array_namespace__()
    room = xp.clip(h, 0.0, 0.4)
    return (
        (abs(state[..., VY]) >= 0.3 + 4 * room)
        | (abs(state[..., VX]) >= 0.4 + 4 * room)
        | (abs(state[..., ANGLE]) >= 0.35 + 2 * room)
        | (abs(state[..., SPIN]) >= 0.8 + 4 * room)
    )


def squatting(state: Array) -> Array:
    """The legs give way so far, or will, that the hull comes near the ground: the lower the more it tilts."""
    return state[..., Y] - 0.1 * abs(state[..., ANGLE]) - 0.05 * abs(state[..., VY]) <= -0.03


def over_the_pad(slope: float) -> Callable[[Array], Array]:
    def trigger(state: Array) -> Array:
        wrong = reckless(state, height(slope, state)) | squatting(state) | (state[..., Y] >= CEILING)
        return (abs(state[..., X]) <= INNER_PAD) & wrong

    return trigger


def off_the_pad(slope: float) -> Callable[[Array], Array]:
    def trigger(state: Array) -> Array:
        h = height(slope, state)
        away = (abs(state[..., X]) >= EDGE) | (state[..., Y] >= CEILING)
        return (abs(state[..., X]) > INNER_PAD) & ((h <= LOWEST) | away | reckless(state, h))

    return trigger


def steadied(slope: float) -> Callable[[Array, Array, Array], Array]:
    """Over the pad up by 0.1. Beside it by w upwards and inwards, with

        w = max(0.15, (0.35 − h) / (1 + a)),

    but not past the middle, not above 1.4, within 0.7, and to a height over the funnel of at least 0.35 in any case.
    """

    def reset(state: Array, history: Array, u: Array) -> Array:
        xp = state.__array_namespace__()
        x, y = state[..., X], state[..., Y]
        way = xp.maximum(SHORTEST_RESCUE, (ENOUGH - height(slope, state)) / (1 + slope))
        high = xp.clip(y + way, ENOUGH, BELOW_CEILING)
        far = xp.clip(abs(x) - way, 0.0, xp.minimum(INNER_PAD + (high - ENOUGH) / slope, WITHIN_EDGE))
        beside = abs(x) > INNER_PAD
        across = xp.where(beside, xp.sign(x) * far - x, 0.0)
        up = xp.where(beside, high, xp.clip(y + LIFT, LIFT / 2, BELOW_CEILING)) - y
        return moved(state, across, up)

    return reset
