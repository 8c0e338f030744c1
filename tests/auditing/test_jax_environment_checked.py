"""A JAX environment that is not the environment's twin is named by `check_task`; one that is, is not."""

import re
from dataclasses import dataclass

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import Intervention, Task, ToStart
from cisr.core.task import Move
from cisr.students.distributions import Categorical
from cisr.students.networks import ObservationSpec
from cisr.testing import check_task

END, WIND = 1.0, 0.1


def seen(x, xp):
    return xp.stack([x, 2 * x], -1).astype(np.float32)


class Drift(gymnasium.Env):
    """A point is blown about, and steered to the left or to the right, by actions 1 to 3."""

    def __init__(self, chaos=False, **options):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3, start=1)
        self.chaos = chaos

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.2 + 0.2 * self.np_random.random()
        return seen(np.float64(self.x), np), {}

    def step(self, action):
        u = self.np_random.random()
        self.x = 4 * self.x * (1 - self.x) if self.chaos else self.x + 0.05 * (action - 2) + WIND * (u - 0.5)
        return seen(np.float64(self.x), np), 10 * self.x, not self.chaos and abs(self.x) > END, False, {}


@dataclass
class JaxDrift:
    chaos: bool = False
    pay: float = 10.0
    end: float = END
    wind: float = WIND
    shown: float = 1.0
    noise: float = 0.0
    n_actions: object = Categorical(3, 1)
    observation = ObservationSpec(shape=(2,))
    table = None
    params = ()
    n_reset_uniforms = n_step_uniforms = 1

    def reset_env(self, u, params):
        return 0.2 + 0.2 * u[..., 0], self.noise * u[..., 0]

    def step_env(self, u, state, action, params):
        x, _ = state
        moved = 4 * x * (1 - x) if self.chaos else x + 0.05 * (action - 2) + self.wind * (u[..., 0] - 0.5)
        ended = (abs(moved) > self.end) & (not self.chaos)
        return Move((moved, self.noise * u[..., 0]), self.pay * moved, ended)

    def state_vector(self, state):
        return jnp.stack([state[0], jnp.full_like(state[0], jnp.inf)], -1)

    def set_state(self, state, vector):
        return vector[..., 0], state[1]

    def get_obs(self, state, params):
        return self.shown * seen(state[0] + state[1], jnp)


def draws(seed, n_steps):
    rng = np.random.default_rng(seed)
    return rng.random(1), rng.random((n_steps, 1))


def task(chaos=False, draws=draws, **differing):
    fence = Intervention(name="fence", trigger=lambda state: state[..., 0] > 1.5, reset=ToStart(), tau=0.1)
    return Task(
        name="drift",
        make_env=lambda **options: Drift(chaos, **options),
        danger=lambda move: move.state[..., 0] > 2,
        success=lambda move: move.terminated,
        interventions=(fence,),
        horizon=60,
        read_state=lambda env: np.array([env.unwrapped.x, np.inf]),
        jax_env=lambda: JaxDrift(chaos, **differing),
        jax_draws=draws,
    )


RIGHT = {
    "the same": {},
    "chaos": {"chaos": True},
    "noisy sensors": {"noise": 0.1},
    "draws unknown": {"draws": None, "wind": 9.0},
}


@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT)
def test_a_twin_is_not_accused_nor_what_cannot_be_known(right):
    assert not check_task(task(**right))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"pay": 11.0}, "the reward is"),
        ({"end": 0.6}, "the end of the episode is 1 instead of 0"),
        ({"end": 9.0}, "the end of the episode is 0 instead of 1"),
        ({"wind": 0.2}, r"state\[0\] is"),
        ({"shown": 2.0}, r"shows \[.*\], where the environment shows"),
        ({"n_actions": 3}, r"takes Categorical\(n_actions=3, start=0\), where the environment takes"),
        ({"n_actions": 4}, r"takes"),
        ({"pay": None}, "raised TypeError"),
        ({"draws": lambda seed, n_steps: (np.zeros(1), np.zeros((n_steps, 1)))}, "from seed"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_differs_is_named(wrong, says):
    (broken,) = check_task(task(**wrong))
    assert broken.what == "the JAX environment"
    assert re.search(says, broken.message), broken
