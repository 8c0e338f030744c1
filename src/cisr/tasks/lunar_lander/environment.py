"""Gymnasium's stock `LunarLander-v3`: reading its true state, putting a lander somewhere, and noisy sensors."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp import InducedCMDP
from cisr.seeding import derive_seed
from cisr.tasks.lunar_lander import lunar_lander
from cisr.tasks.lunar_lander.flight import BODY_SIZE, DIMENSION, HULL, LEFT_LEG, RIGHT_LEG, X_SCALE, Y_SCALE, shaping

FPS = 50
X_CENTRE, Y_ZERO = X_SCALE, Y_SCALE / 2 + 18 / 30
"""Where x = 0 and y = 0 are in Box2D's world."""


class NoisySensors(gymnasium.Wrapper[np.ndarray, int, np.ndarray, int]):
    """The student sees x and y with Gaussian noise; the true state is not touched."""

    def __init__(self, env: gymnasium.Env[np.ndarray, int], variance: float) -> None:
        super().__init__(env)
        self._deviation = variance**0.5
        self._noise = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._noise = np.random.default_rng(derive_seed(seed, "sensors"))
        observation, info = self.env.reset(seed=seed, options=options)
        return self.sense(observation), info

    def step(self, action: int) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.sense(observation), reward, terminated, truncated, info

    def sense(self, observation: np.ndarray) -> np.ndarray:
        noise = self._noise.normal(0.0, self._deviation, 2)
        return np.concatenate([observation[:2] + noise, observation[2:]]).astype(np.float32)


def make_env(horizon: int, sensor_variance: float, **options: Any) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("LunarLander-v3", max_episode_steps=horizon, disable_env_checker=True, **options)
    return NoisySensors(env, sensor_variance) if sensor_variance else env


def read_state(env: gymnasium.Env[Any, Any]) -> np.ndarray:
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


def place(env: gymnasium.Env[Any, Any], state: np.ndarray) -> np.ndarray:
    """Move hull and legs through Box2D's transforms; terrain, contacts and the joints' impulses stay as they are."""
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
    observation = state[:HULL].astype(np.float32)
    return env.sense(observation) if isinstance(env, NoisySensors) else observation


def make_induced_env(
    intervention: str = "none", student: str | None = None, render_mode: str | None = None
) -> InducedCMDP:
    """What `gymnasium.make("cisr/LunarLander-v0", intervention="Wide")` makes."""
    options = {} if render_mode is None else {"render_mode": render_mode}
    return InducedCMDP(lunar_lander(student=student), intervention, **options)
