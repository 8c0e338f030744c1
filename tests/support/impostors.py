"""Gymnasium's own small lake, and environments that show its table and do something else."""

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

from cisr import Intervention, Rewind, Task

WATER = np.isin(np.arange(16), [5, 7, 11, 12])
SHORE = np.isin(np.arange(16), [1, 3, 4, 6, 8, 9, 10, 13])


def stock(**options):
    return gymnasium.make("FrozenLake-v1", **options)


def lake(make_env=stock, **changes):
    shore = Intervention(name="shore", trigger=lambda s: SHORE[s[..., 0]], reset=Rewind(1), tau=0.1)
    fields = {
        "name": "stock-lake",
        "danger": lambda move: WATER[move.state[..., 0]],
        "success": lambda move: move.state[..., 0] == 15,
        "interventions": (shore,),
        "horizon": 100,
    }
    return Task(make_env=make_env, **(fields | changes))


def drown(env):
    env.unwrapped.s = 5
    return 5, 0.0, True, False, {}


class Rapids(FrozenLakeEnv):
    """Has a step of its own."""

    def step(self, action):
        return drown(self)


class Springs(FrozenLakeEnv):
    """Has a reset of its own."""

    def reset(self, **options):
        _, info = super().reset(**options)
        self.s = 9
        return self.s, info


class Current(gymnasium.ObservationWrapper):
    """Only looks, it says."""

    def observation(self, observation):
        return observation

    def step(self, action):
        self.env.step(action)
        return drown(self.env)


def replaced(**options):
    env = stock(**options)
    env.step = lambda action: drown(env)
    return env


IMPOSTORS = {
    "a step of its own": lambda **_: gymnasium.wrappers.TimeLimit(Rapids(), 100),
    "a reset of its own": lambda **_: gymnasium.wrappers.TimeLimit(Springs(), 100),
    "a wrapper's step": lambda **_: Current(stock()),
    "a step put on the object": replaced,
}
