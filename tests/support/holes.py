"""Worlds whose interventions have a hole of known size."""

import gymnasium
import numpy as np

from cisr import MLP, Intervention, Place, Rewind, StudentConfig, Task, Training

STUDENT = StudentConfig(network=MLP(hidden=(16,)), n_envs=4, n_minibatches=2, learning_rate=3e-3)


class World(gymnasium.Env):
    """State and observation are one vector; subclasses say where it goes."""

    def __init__(self, d, n_actions):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (d,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(n_actions)

    def seen(self):
        return np.asarray(self.state, np.float32)


class Brink(World):
    """x is drawn anew from [0, 1) at every step, but action 1 on the brink x ≥ 0.9 goes over the edge, to 1.5."""

    def __init__(self):
        super().__init__(1, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([0.5])
        return self.seen(), {}

    def step(self, action):
        over = self.state[0] >= 0.9 and action == 1
        self.state = np.array([1.5 if over else self.np_random.random()])
        return self.seen(), 0.0, False, False, {}


def read(env):
    return env.unwrapped.state.copy()


def place(env, state):
    env.unwrapped.state = state.copy()
    return env.unwrapped.seen()


BRINK_HORIZON = 5


def brink_failure(missed=0.02):
    """How often random play fails: after every step but the last it is in the hole with probability `missed`, and then
    it steps over half of the time."""
    return 1 - (1 - missed / 2) ** (BRINK_HORIZON - 1)


def brink(missed=0.02):
    """The trigger misses the last part of the brink."""
    return Task(
        name="brink",
        make_env=lambda **options: Brink(),
        danger={"over the edge": lambda move: move.state[..., 0] >= 1},
        success=lambda move: move.terminated,
        interventions=(
            Intervention(
                name="rail",
                trigger=lambda s: (s[..., 0] >= 0.9) & (s[..., 0] < 1 - missed),
                reset=Place(lambda s, history, u: 0 * s + 0.5),
                tau=0.0,
            ),
        ),
        horizon=BRINK_HORIZON,
        read_state=read,
        place=place,
        training=Training(student=STUDENT),
    )


class Sled(World):
    """Position and speed on a line; friction leaves speed only to who pushes the same way again and again."""

    def __init__(self, render_mode=None):
        super().__init__(2, 3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-0.1, 0.1), 0.0])
        return self.seen(), {}

    def step(self, action):
        x, v = self.state
        v = 0.9 * v + 0.015 * (action - 1)
        self.state = np.array([x + v, v])
        return self.seen(), 0.0, False, False, {}


def sled(thickness=0.07, edge=4.0):
    """The trigger is a band before the edge. At full speed a sled moves 0.15 a step: it jumps over a thin band.

    Within the horizon random play moves by about 1, and a push held for 36 steps reaches the edge.
    """
    return Task(
        name="sled",
        make_env=lambda **options: Sled(**options),
        danger=lambda move: move.state[..., 0] >= edge,
        success=lambda move: move.terminated,
        interventions=(
            Intervention(
                name="band",
                trigger=lambda s: (s[..., 0] >= edge - thickness) & (s[..., 0] < edge),
                reset=Rewind(20),
                tau=0.1,
            ),
        ),
        horizon=60,
        read_state=read,
        place=place,
        training=Training(student=STUDENT),
    )
