"""An environment that answers one observation, one state and one info, which it writes anew at every step, as many
simulators do; its twin answers new ones."""

import functools

import gymnasium
import numpy as np

from cisr import MLP, Intervention, StudentConfig, Task, Training

OUT, NEAR, DRIVEN = 1.0, 0.6, 0.1


class Ball(gymnasium.Env):
    """A ball on a plane, pushed about; its place is what is seen, told and read."""

    def __init__(self, *, fresh, box=True, **options):
        self.observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
        if not box:
            self.observation_space = gymnasium.spaces.Dict({"at": self.observation_space})
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.fresh, self.box = fresh, box
        self.at, self.seen = np.zeros(2), np.zeros(2, np.float32)
        self.info = {"at": np.zeros(2), "deep": [{"at": np.zeros(2)}]}

    def answer(self, array):
        return array.copy() if self.fresh else array

    def shown(self):
        self.seen[:] = self.at
        seen = self.answer(self.seen)
        return seen if self.box else {"at": seen}

    def told(self):
        self.info["at"][:] = self.info["deep"][0]["at"][:] = self.at
        if not self.fresh:
            return self.info
        return {"at": self.at.copy(), "deep": [{"at": self.at.copy()}]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at[:] = self.np_random.uniform(-0.2, 0.2, 2)
        return self.shown(), self.told()

    def step(self, action):
        np.clip(action, -0.9, 0.9, out=action)  # written in place, too
        self.at += 0.3 * action + self.np_random.uniform(-0.05, 0.05, 2)
        return self.shown(), -abs(self.at).sum(), bool(abs(self.at).max() > 3), False, self.told()


def place(env, state):
    env.unwrapped.at[:] = state
    return env.unwrapped.shown()


def restore(env, saved):
    return place(env, saved)


def far(state):
    return abs(state).max(axis=-1) > NEAR


STUDENT = StudentConfig(
    network=MLP(hidden=(4,)), n_envs=2, n_steps=16, n_minibatches=2, n_epochs=1, rounds_per_unit=1,
    updates_per_round=2,
)  # fmt: skip


def task(reset, *, fresh, box=True, trigger=far, **fields):
    return Task(
        **{
            "name": "ball",
            "make_env": functools.partial(Ball, fresh=fresh, box=box),
            "read_state": lambda env: env.unwrapped.answer(env.unwrapped.at),
            "danger": lambda move: (abs(move.observation).max(axis=-1) > 2) | (move.info["at"] > 2).any(axis=-1),
            "success": lambda move: abs(move.state).max(axis=-1) < 0.05,
            "reward": lambda transition: transition.move.info["at"].sum(axis=-1) + transition.after.sum(axis=-1),
            "interventions": (Intervention(name="rescue", trigger=trigger, reset=reset, tau=0.1),),
            "horizon": 20,
            "training": Training(n_units=1, deployment_steps=40, student=STUDENT),
        }
        | fields
    )
