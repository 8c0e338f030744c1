"""Small tasks with students of Stable-Baselines3 that hardly learn anything: PPO and DQN on the ice, SAC on a beam."""

import gymnasium
import numpy as np
import tiny

from cisr import Intervention, Rewind, SB3Student, Task, ToStart, Training


class Beam(gymnasium.Env):
    """A ball on a beam: an action pushes it, chance does too; beyond 1 it falls off. The middle pays."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return self._seen(), {}

    def step(self, action):
        self.x += 0.2 * float(action[0]) + self.np_random.normal(0.0, 0.05)
        return self._seen(), 1.0 - abs(self.x), False, False, {}

    def _seen(self):
        return np.array([self.x], np.float32)


def read_state(env):
    return np.array([env.unwrapped.x])


def place(env, state):
    env.unwrapped.x = float(state[0])
    return env.unwrapped._seen()


class Labelled(Beam):
    """The same, seen in two parts and pushed by labels: 5, 6 or 7."""

    observation_space = gymnasium.spaces.Dict({"x": Beam.observation_space, "right": gymnasium.spaces.Discrete(2)})
    action_space = gymnasium.spaces.Discrete(3, start=5)

    def step(self, action):
        assert action in self.action_space, action
        return super().step([float(action) - 6])

    def _seen(self):
        return {"x": super()._seen(), "right": int(self.x > 0)}


class TwoHands(Beam):
    """The same, seen as one of four numbers from 3 on and pushed by two hands, each -1, 0 or 1."""

    observation_space = gymnasium.spaces.Discrete(4, start=3)
    action_space = gymnasium.spaces.MultiDiscrete([3, 3], start=[-1, -1])

    def step(self, action):
        assert action in self.action_space, action
        return super().step([float(sum(action))])

    def _seen(self):
        return 3 + int(np.clip(2 + 2 * self.x, 0, 3))


settings = {
    "PPO": {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}},
    "DQN": {"learning_starts": 20, "batch_size": 16, "train_freq": 4, "policy_kwargs": {"net_arch": [8]}},
    "SAC": {"learning_starts": 20, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}},
    "A2C": {"policy_kwargs": {"net_arch": [8]}},
    "TD3": {"learning_starts": 20, "batch_size": 16, "action_noise": 0.1, "policy_kwargs": {"net_arch": [8]}},
    "DDPG": {"learning_starts": 20, "batch_size": 16, "action_noise": 0.1, "policy_kwargs": {"net_arch": [8]}},
}
students = {name: SB3Student(name, settings=of, n_envs=2, steps_per_round=64) for name, of in settings.items()}
beam = Task(
    name="beam",
    make_env=lambda **options: Beam(),
    danger=lambda move: abs(move.state[..., 0]) > 1,
    success=lambda move: abs(move.state[..., 0]) > 9,
    interventions=(
        Intervention(name="back", trigger=lambda s: abs(s[..., 0]) > 0.6, reset=Rewind(1), tau=0.1),
        Intervention(name="end", trigger=lambda s: abs(s[..., 0]) > 0.6, reset=ToStart(), tau=0.0),
    ),
    horizon=20,
    read_state=read_state,
    place=place,
    training=Training(n_units=3, deployment_steps=50),
)
lake = tiny.task.with_teaching(class_size=1, n_initial=2, n_rounds=0)
PPO = lake.with_training(student=students["PPO"])
DQN = lake.with_training(student=students["DQN"])
SAC = beam.with_training(student=students["SAC"])
