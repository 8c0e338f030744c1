"""A point that is pushed about on a plane by two forces, on hosts and compiled: the smallest robot."""

from dataclasses import dataclass

import gymnasium
import jax.numpy as jnp
import numpy as np

from cisr import MLP, Intervention, Move, Rewind, StudentConfig, Task, Training
from cisr.students.distributions import Gaussian
from cisr.students.networks import ObservationSpec

BOUND, STEP, SCALE = 0.5, 0.4, 100.0
"""Of a force; how far it pushes; how large observations are."""
FORCES, SEEN = Gaussian((-BOUND,) * 2, (BOUND,) * 2, (2,)), ObservationSpec((2,))


class Drift(gymnasium.Env):
    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = gymnasium.spaces.Box(-BOUND, BOUND, (2,))
        self.given = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5, 2)
        return self.seen(), {}

    def seen(self):
        return (SCALE * self.x + SCALE).astype(np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        self.given.append(action)
        self.x = self.x + STEP * action
        return self.seen(), -SCALE * float(np.abs(self.x - 1).sum()), False, False, {}


@dataclass(frozen=True)
class DriftJaxEnv:
    n_actions: Gaussian = FORCES
    n_reset_uniforms: int = 2
    n_step_uniforms: int = 0
    observation: ObservationSpec = SEEN
    table: None = None
    params: tuple = ()

    def reset_env(self, u, params):
        return u - 0.5

    def step_env(self, u, state, action, params):
        moved = state + STEP * action
        reward = -SCALE * jnp.abs(moved - 1).sum(axis=-1)
        return Move(state=moved, reward=reward, terminated=jnp.zeros(moved.shape[:-1], bool))

    def state_vector(self, state):
        return state

    def set_state(self, state, vector):
        return vector

    def get_obs(self, state, params):
        return SCALE * state + SCALE


def place(env, state):
    env.unwrapped.x = np.array(state)
    return env.unwrapped.seen()


student = StudentConfig(
    network=MLP(hidden=(8,), separate_value=True),
    n_envs=2,
    n_steps=32,
    n_minibatches=2,
    n_epochs=2,
    rounds_per_unit=2,
    updates_per_round=2,
    ent_coef=0.0,
    normalize_observations=True,
    normalize_rewards=True,
    bootstrap_time_limit=True,
)
task = Task(
    name="drift",
    make_env=Drift,
    read_state=lambda env: np.array(env.unwrapped.x),
    place=place,
    jax_env=DriftJaxEnv,
    danger=lambda move: abs(move.state).max(axis=-1) > 2.0,
    success=lambda move: abs(move.state - 1).max(axis=-1) < 0.2,
    interventions=(Intervention(name="back", trigger=lambda s: abs(s).max(axis=-1) > 1.5, reset=Rewind(1), tau=0.1),),
    horizon=20,
    training=Training(n_units=2, deployment_steps=40, student=student),
)
