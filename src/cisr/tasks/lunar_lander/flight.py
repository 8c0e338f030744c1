"""The lander's state vector and the paper's interventions on it, in array code.

A state is (..., 26): Gymnasium's eight numbers, without the student's sensor noise, then the pose and velocity of the
hull and of each leg in Box2D's own units: position, angle, velocity, angular velocity. Triggers see the eight numbers;
all 26 are needed to put a lander back where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cisr.core.intervention import Array
from cisr.core.task import Move, Transition

X, Y, VX, VY, ANGLE, SPIN, LEFT_LEG, RIGHT_LEG = range(8)
HULL, BODY_SIZE = 8, 6
N_BODIES = 3
DIMENSION = HULL + N_BODIES * BODY_SIZE

X_SCALE, Y_SCALE = 10.0, 20 / 3
"""World units in a unit of x and y."""

PAD = 0.2
"""Half the width of the landing pad."""
LEG_HEIGHT = 0.09
"""How far the feet are below the lander's y."""
EDGE = 0.9
MAP = 1.0
LIFT = 0.1
SHORTEST_RESCUE = 0.1
SKY = 1.7
"""How high pictures reach; landers start at 1.4."""

CRASH_REWARD, REST_REWARD, TIMEOUT_REWARD = -100.0, 100.0, -100.0


def out_of_map(move: Move) -> Array:
    return abs(move.state[..., X]) >= MAP


def crashed(move: Move) -> Array:
    """The hull touched the ground."""
    return move.terminated & (move.reward == CRASH_REWARD) & ~out_of_map(move)


def at_rest(move: Move) -> Array:
    """The lander came to rest, wherever that is."""
    return move.terminated & (move.reward == REST_REWARD)


def shaping(state: Array) -> Array:
    """Gymnasium's potential: near the pad, slow, upright, with the feet on the ground."""
    root = state.__array_namespace__().sqrt
    return (
        -100 * root(state[..., X] ** 2 + state[..., Y] ** 2)
        - 100 * root(state[..., VX] ** 2 + state[..., VY] ** 2)
        - 100 * abs(state[..., ANGLE])
        + 10 * state[..., LEFT_LEG]
        + 10 * state[..., RIGHT_LEG]
    )


def reward(transition: Transition) -> Array:
    """Gymnasium's reward; at a rescue the change of potential from where it triggered to where the student is put, and
    at the time limit that of a crash."""
    state = transition.move.state
    where = state.__array_namespace__().where
    paid = where(transition.rescued, shaping(transition.after) - shaping(state), transition.move.reward)
    return where(transition.timed_out, TIMEOUT_REWARD, paid)


def over_the_pad(state: Array) -> Array:
    """Over the pad: too fast or too tilted for the height."""
    height = 10 * state[..., Y]
    reckless = (abs(state[..., VY]) >= 0.3 + height) | (abs(state[..., ANGLE]) >= 0.5 + height)
    return (abs(state[..., X]) <= PAD) & reckless


def off_the_pad(slope: float) -> Callable[[Array], Array]:
    """Beside the pad: the feet are under a funnel of that slope, or the edge of the map is near."""

    def trigger(state: Array) -> Array:
        outside = abs(state[..., X]) - PAD
        return (outside > 0) & ((state[..., Y] - LEG_HEIGHT <= slope * outside) | (abs(state[..., X]) >= EDGE))

    return trigger


def funnel_line(slope: float, pad: float, foot: float, edge: float) -> list[list[list[float]]]:
    """The line y = foot + a(|x| − pad), left and right, from the pad up to the sky or the edge of the map."""
    outside = min((SKY - foot) / slope, edge - pad)
    up = [[edge, SKY]] if outside == edge - pad else []
    return both_sides([[pad, 0.0], [pad, foot], [pad + outside, foot + slope * outside], *up])


def both_sides(right: list[list[float]]) -> list[list[list[float]]]:
    return [[[-x, y] for x, y in right], right]


def papers_lines(slope: float, reset_slope: float) -> dict[str, Any]:
    """Where an intervention of the paper triggers, and where its rescues lead."""
    reset = [[PAD, 0.0], [PAD + min(SKY / reset_slope, MAP - PAD), min(SKY, reset_slope * (MAP - PAD))]]
    return {"trigger": funnel_line(slope, PAD, LEG_HEIGHT, EDGE), "reset": both_sides(reset)}


def state_plot(lines: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The pad, and the lines of each intervention, in units of x and y."""
    return {
        "axes": ["x", "y"],
        "limits": [[-1.1, 1.1], [-0.3, SKY]],
        "lines": {"landing pad": [[[-PAD, 0.0], [PAD, 0.0]]]},
        "interventions": dict(lines),
    }


def steadied(slope: float) -> Callable[[Array, Array, Array], Array]:
    """Where a rescue puts the lander: upright, without any speed.

    Over the pad it is lifted by 0.1. Beside it, it moves by t upwards and inwards, to the line y = a'(|x| − 0.2):

        t = |a'(|x| − 0.2) − y| / (1 + a'),  doubled until the way, √2·t, is at least 0.1.

    The paper's construction has t without the magnitude and then mirrors the way where it would lead outwards and
    down, above that line; this is the same.
    """

    def reset(state: Array, history: Array, u: Array) -> Array:
        xp = state.__array_namespace__()
        x, y = state[..., X], state[..., Y]
        outside = abs(x) - PAD
        way = 2**0.5 * abs(slope * outside - y) / (1 + slope)
        doublings = xp.ceil(xp.log2(SHORTEST_RESCUE / xp.maximum(way, 1e-6)))
        way = way * 2 ** xp.maximum(doublings, 0.0)
        way = xp.maximum(way, SHORTEST_RESCUE)  # where it was zero
        beside = outside > 0
        across = xp.where(beside, -xp.sign(x) * way / 2**0.5, 0.0)
        up = xp.where(beside, way / 2**0.5, LIFT)
        return moved(state, across, up)

    return reset


def moved(state: Array, across: Array, up: Array) -> Array:
    """The state shifted as a whole, upright and without speed; what the feet feel stays as it was."""
    xp = state.__array_namespace__()
    nothing = xp.zeros_like(across)
    numbers = [state[..., X] + across, state[..., Y] + up, *[nothing] * 4, state[..., LEFT_LEG], state[..., RIGHT_LEG]]
    for body in range(HULL, DIMENSION, BODY_SIZE):
        position = [state[..., body] + across * X_SCALE, state[..., body + 1] + up * Y_SCALE]
        numbers += [*position, *[nothing] * 4]
    return xp.stack(numbers, axis=-1)
