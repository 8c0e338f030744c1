"""Reading the true state of Gymnasium's lander and putting it somewhere, through Box2D's own bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.tasks.lunar_lander.flight import BODY_SIZE, DIMENSION, HULL, LEFT_LEG, RIGHT_LEG, X_SCALE, Y_SCALE, shaping

if TYPE_CHECKING:
    import gymnasium

    Env = gymnasium.Env[Any, Any]

FPS = 50
X_CENTRE, Y_ZERO = X_SCALE, Y_SCALE / 2 + 18 / 30
"""Where x = 0 and y = 0 are in Box2D's world."""


def read_state(env: Env) -> np.ndarray:
    game: Any = env.unwrapped
    left, right = game.legs
    hull, *_ = bodies = [_body(game.lander), _body(left), _body(right)]
    x, y, angle, vx, vy, spin = hull
    seen = [
        (x - X_CENTRE) / X_SCALE,
        (y - Y_ZERO) / Y_SCALE,
        vx * X_SCALE / FPS,
        vy * Y_SCALE / FPS,
        angle,
        20.0 * spin / FPS,
        float(left.ground_contact),
        float(right.ground_contact),
    ]
    return np.array(seen + bodies[0] + bodies[1] + bodies[2])


def _body(body: Any) -> list[float]:
    position, velocity = body.position, body.linearVelocity
    return [position.x, position.y, body.angle, velocity.x, velocity.y, body.angularVelocity]


def place(env: Env, state: np.ndarray) -> np.ndarray:
    """Move hull and legs through Box2D's transforms; terrain, contacts and the joints' impulses stay as they are.

    Returns what Gymnasium would show there.
    """
    game: Any = env.unwrapped
    for body, numbers in zip(
        (game.lander, *game.legs), state[HULL:DIMENSION].reshape(-1, BODY_SIZE).tolist(), strict=True
    ):
        x, y, angle, vx, vy, spin = numbers
        body.transform = ((x, y), angle)
        body.linearVelocity = (vx, vy)
        body.angularVelocity = spin
        body.awake = True
    for leg, contact in zip(game.legs, (state[LEFT_LEG], state[RIGHT_LEG]), strict=True):
        leg.ground_contact = bool(contact)
    game.prev_shaping = float(shaping(state))
    return state[:HULL].astype(np.float32)
