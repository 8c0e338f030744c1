"""Environments written to gymnax's interface: functions of one environment, keys, a dataclass or NamedTuple as state.

CartPole as gymnax has it; a lantern on a screen, pushed by vectors; a walker who sees the number of its tile.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnvState:
    x: Any
    x_dot: Any
    theta: Any
    theta_dot: Any
    time: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnvParams:
    gravity: float = 9.8
    force: float = 10.0
    tau: float = 0.02


class CartPole:
    num_actions = 2
    default_params = EnvParams()

    def reset_env(self, key, params):
        x, x_dot, theta, theta_dot = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        state = EnvState(x, x_dot, theta, theta_dot, jnp.int32(0))
        return self.get_obs(state, params), state

    def step_env(self, key, state, action, params):
        cart, pole, length = 1.0, 0.1, 0.5
        total, moment = cart + pole, pole * length
        force = params.force * (2 * action - 1)
        cos, sin = jnp.cos(state.theta), jnp.sin(state.theta)
        pushed = (force + moment * state.theta_dot**2 * sin) / total
        theta_acc = (params.gravity * sin - cos * pushed) / (length * (4 / 3 - pole * cos**2 / total))
        x_acc = pushed - moment * theta_acc * cos / total
        after = EnvState(
            x=state.x + params.tau * state.x_dot,
            x_dot=state.x_dot + params.tau * x_acc,
            theta=state.theta + params.tau * state.theta_dot,
            theta_dot=state.theta_dot + params.tau * theta_acc,
            time=state.time + 1,
        )
        done = (abs(after.x) > 2.4) | (abs(after.theta) > 12 * 2 * jnp.pi / 360)
        return self.get_obs(after, params), after, jnp.ones(()), done, {}

    def get_obs(self, state, params=None):
        return jnp.array([state.x, state.x_dot, state.theta, state.theta_dot])


class Box(NamedTuple):
    """As gymnax's: bounds may be one number for all."""

    low: float
    high: float
    shape: tuple[int, ...]


class Light(NamedTuple):
    at: Any  # (2,) from 0 to 1
    time: Any


class Lantern:
    """A light in the wind, seen as an image of bytes; it must not leave the screen."""

    default_params = {"wind": 0.02}  # noqa: RUF012
    size = 6

    def action_space(self, params):
        return Box(-1.0, 1.0, (2,))

    def reset_env(self, key, params):
        state = Light(jax.random.uniform(key, (2,), minval=0.4, maxval=0.6), jnp.int32(0))
        return self.get_obs(state, params), state

    def step_env(self, key, state, action, params):
        at = state.at + 0.1 * action + params["wind"] * jax.random.normal(key, (2,))
        after = Light(at, state.time + 1)
        return self.get_obs(after, params), after, 1 - abs(at - 0.5).sum(), ((at < 0) | (at > 1)).any(), {}

    def get_obs(self, state, params):
        row, column = jnp.clip(state.at * self.size, 0, self.size - 1).astype(int)
        return jnp.zeros((self.size, self.size, 1), jnp.uint8).at[row, column, 0].set(255)


class Tile(NamedTuple):
    tile: Any


class Walker:
    """Left or right on nine tiles, of which the last is in the water; a step slips now and then."""

    num_actions, default_params = 2, {"slip": 0.2}

    def observation_space(self, params):
        return gymnasium.spaces.Discrete(9)

    def reset_env(self, key, params):
        state = Tile(jax.random.randint(key, (), 3, 6))
        return self.get_obs(state, params), state

    def step_env(self, key, state, action, params):
        slips = jax.random.uniform(key) < params["slip"]
        tile = jnp.clip(state.tile + jnp.where(slips, -1, 1) * (2 * action - 1), 0, 8)
        return tile, Tile(tile), tile * 1.0, tile == 8, {}

    def get_obs(self, state, params):
        return state.tile
