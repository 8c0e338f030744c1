"""A JAX environment that is not the environment's twin is named by `check_task`; one that is, is not."""

import re
from dataclasses import dataclass

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import Drive, Intervention, Place, Rewind, Task, ToStart
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
    bound: float = np.inf
    late: int = 999
    falls: bool = False
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
        x = 0.2 + 0.2 * u[..., 0]
        return x, self.noise * u[..., 0], jnp.zeros_like(x)

    def step_env(self, u, state, action, params):
        x, _, mark = state
        moved = 4 * x * (1 - x) if self.chaos else x + 0.05 * (action - 2) + self.wind * (u[..., 0] - 0.5)
        moved = jnp.where(mark >= self.late, moved + 1, moved)  # after so many steps, or once somebody was put back
        ended = (abs(moved) > self.end) & (not self.chaos)
        mark = mark if self.falls else mark + 1
        return Move((moved, self.noise * u[..., 0], mark), self.pay * moved, ended)

    def state_vector(self, state):
        return jnp.stack([state[0], jnp.full_like(state[0], self.bound)], -1)

    def set_state(self, state, vector):
        return vector[..., 0], state[1], state[2] + 1000 * self.falls

    def get_obs(self, state, params):
        return self.shown * seen(state[0] + state[1], jnp)


def draws(seed, n_steps):
    rng = np.random.default_rng(seed)
    return rng.random(1), rng.random((n_steps, 1))


def place(env, state):
    env.unwrapped.x = float(state[0])
    return seen(np.float64(env.unwrapped.x), np)


TO_START = Intervention(name="fence", trigger=lambda state: state[..., 0] > 1.5, reset=ToStart(), tau=0.1)
FIRST = np.array([1.0, 0.0])
RESCUES = {
    "rewind": Rewind(1),
    "long rewind": Rewind(4),
    "place": Place(lambda s, history, u: s * 0 + (0.3 + 0.1 * u[..., :1]) * FIRST, n_uniforms=1),
    "drive": Drive(lambda s: s.__array_namespace__().where(s[..., 0] > 0, 1, 3), max_steps=4),
}


def walls(*names):
    """Rescues from what lies far from the middle."""
    return tuple(
        Intervention(name=name, trigger=lambda s: abs(s[..., 0] - 0.3) > 0.25, reset=RESCUES[name], tau=0.1)
        for name in names
    )


def task(chaos=False, draws=draws, interventions=(TO_START,), bound=np.inf, **differing):
    return Task(
        name="drift",
        make_env=lambda **options: Drift(chaos, **options),
        danger=lambda move: move.state[..., 0] > 2,
        success=lambda move: move.terminated,
        interventions=interventions,
        place=place,
        horizon=60,
        read_state=lambda env: np.array([env.unwrapped.x, bound]),
        jax_env=lambda: JaxDrift(chaos, bound=bound, **differing),
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


def test_a_twin_is_not_accused_under_any_rescue_to_the_horizon():
    assert not check_task(task(interventions=walls(*RESCUES), bound=0.0))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"late": 30}, r"under 'none' from seed \d+ and by the same actions, state\[0\] is .* after move 31"),
        ({"late": 30, "falls": True}, "under 'rewind' from seed"),
    ],
    ids=["late", "after a rescue"],
)
def test_what_departs_late_or_after_a_rescue_is_named(wrong, says):
    (broken,) = check_task(task(interventions=walls("rewind"), **wrong))
    assert broken.what == "the JAX environment"
    assert re.search(says, broken.message), broken
