"""A JAX environment is played to the horizon, under every intervention and through its rescues: departures that come
late or only after a rescue earn no certificate."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import Drive, Intervention, Override, Place, Rewind, Task, ToStart
from cisr.auditing import quick_audit
from cisr.core.model import FiniteModel
from cisr.core.task import Move
from cisr.students.networks import ObservationSpec
from cisr.tasks.frozen_lake import lake_task
from cisr.tasks.frozen_lake.jax_env import LakeJaxEnv
from cisr.tasks.frozen_lake.lake import Lake
from cisr.testing import check_task

LAKE = Lake(("SFFF", "FFFF", "FFHF", "FFFG"))
WATER, UP, LEFT = 10, 3, 0
NEAR = LAKE.near_lakes(1)


class Marked(NamedTuple):
    tile: object
    mark: object
    """What the state vector does not show."""


@dataclass(frozen=True)
class MarkedLake(LakeJaxEnv):
    """The lake, with a mark that subclasses make something of."""

    def reset_env(self, u, params):
        tile = super().reset_env(u, params)
        return Marked(tile, jnp.zeros_like(tile))

    def step_env(self, u, state, action, params):
        move = super().step_env(u, state.tile, action, params)
        falls = self.falls(state)
        tile = jnp.where(falls, WATER, move.state)
        return Move(Marked(tile, self.marked(state)), params.rewards[tile], params.terminal[tile])

    def falls(self, state):
        return state.mark < 0

    def marked(self, state):
        return state.mark

    def state_vector(self, state):
        return state.tile[..., None]

    def set_state(self, state, vector):
        return Marked(vector[..., 0], state.mark)

    def get_obs(self, state, params):
        return state.tile


class Late(MarkedLake):
    """All is water after 40 steps."""

    def falls(self, state):
        return state.mark >= 40

    def marked(self, state):
        return state.mark + 1


class FallsNext(MarkedLake):
    """Whoever was put back falls with the next step."""

    def falls(self, state):
        return state.mark == 1

    def set_state(self, state, vector):
        return Marked(vector[..., 0], jnp.ones_like(state.mark))


class OtherTile(MarkedLake):
    """Puts everybody on another tile than the one that it is asked for."""

    def set_state(self, state, vector):
        return Marked((vector[..., 0] + 1) % 4, state.mark)


class Leaps(MarkedLake):
    """Leads elsewhere from the last tile before the goal, which is far away."""

    def falls(self, state):
        return state.tile == 11


class Stale(MarkedLake):
    """Shows what was seen before the rescue."""

    def step_env(self, u, state, action, params):
        move = super().step_env(u, state, action, params)
        return move._replace(state=Marked(move.state.tile, move.state.tile))

    def get_obs(self, state, params):
        return state.mark


class Shifted(MarkedLake):
    """Shows another tile to whoever was put back."""

    def set_state(self, state, vector):
        return Marked(vector[..., 0], jnp.ones_like(state.mark))

    def get_obs(self, state, params):
        return jnp.where(state.mark == 1, (state.tile + 1) % 16, state.tile)


def fence(reset, trigger=lambda s: s.__array_namespace__().asarray(NEAR)[s[..., 0]], **fields):
    return Intervention(**({"name": "fence", "trigger": trigger, "reset": reset, "tau": 0.1} | fields))


def risky(state, action):
    return state.__array_namespace__().asarray(~LAKE.safe_actions)[state[..., 0], action]


def safely(state, action):
    return state.__array_namespace__().asarray(LAKE.safe_actions.argmax(axis=-1))[state[..., 0]]


FENCES = {
    "rewind": fence(Rewind(1)),
    "long rewind": fence(Rewind(3)),
    "place": fence(Place(lambda state, history, u: 0 * state)),
    "start": fence(ToStart()),
    "drive": fence(Drive(lambda s: UP + 0 * s[..., 0], max_steps=5)),
    "override": fence(Override(safely), trigger=risky),
}


def task(env, *names, horizon=120):
    interventions = tuple(replace(FENCES[name], name=name) for name in names)
    return replace(
        lake_task(LAKE, horizon), interventions=interventions, safe_evaluation=None, jax_env=lambda: env(LAKE)
    )


def accused(task):
    return [str(promise) for promise in check_task(task) if promise.what == "the JAX environment"]


def test_the_lake_itself_is_not_accused_under_any_rescue():
    assert not accused(task(MarkedLake, *FENCES))
    assert not accused(task(LakeJaxEnv, *FENCES))


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (Late, "led to [10] with reward 0 and the episode's end, which the model does not have"),
        (FallsNext, "led to [10] with reward 0 and the episode's end, which the model does not have"),
        (OtherTile, "its set_state, asked by a rescue of 'rewind' for the state ["),
        (Leaps, "led to [10] with reward 0 and the episode's end, which the model does not have"),
        (Stale, " after a rescue of 'rewind', where ["),
        (Shifted, " after a rescue of 'rewind', where ["),
    ],
)
def test_a_departure_is_named_however_late_and_earns_no_certificate(env, said):
    names = ("rewind", "override")[: 2 if env in (Late, Leaps) else 1]
    (told,) = accused(task(env, *names))
    assert said in told


@pytest.mark.parametrize("name", ["long rewind", "place"])
@pytest.mark.parametrize("env", [FallsNext, OtherTile])
def test_what_only_rescues_show_is_found_under_each_rescue_that_puts(name, env):
    assert accused(task(env, name))


@pytest.mark.parametrize("name", ["drive", "override", "start"])
def test_a_clock_is_found_under_each_rescue_that_acts(name):
    assert accused(task(Late, name, horizon=60))


def test_the_certificate_is_withdrawn():
    report = quick_audit(task(Late, "rewind"))
    assert report["rewind"].status == "not audited" and report.exact is None
    assert quick_audit(task(MarkedLake, "rewind"))["rewind"].status == "certified"


END, BRAKE, ACTIONS = 12, 40, 64


class Walk(gymnasium.Env):
    """From 5 towards 0 by even actions, towards the end by odd ones."""

    action_space = gymnasium.spaces.Discrete(ACTIONS)
    observation_space = gymnasium.spaces.Discrete(END + 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 5
        return self.x, {}

    def step(self, action):
        self.x = max(self.x + 2 * (int(action) % 2) - 1, 0)
        return self.x, 0.0, self.x == END, False, {}


class JaxWalk:
    """The same, but that one action leads on from the last place before the end, where random play seldom takes it."""

    observation, n_actions, table = ObservationSpec((), END + 1), ACTIONS, None
    n_reset_uniforms = n_step_uniforms = params = 0

    def reset_env(self, u, params):
        return jnp.full(u.shape[:-1], 5, jnp.int32)

    def step_env(self, u, state, action, params):
        on = (action % 2 == 1) | ((state == END - 1) & (action == BRAKE))
        x = jnp.clip(jnp.where(on, state + 1, state - 1), 0, END).astype(jnp.int32)
        return Move(x, jnp.zeros(x.shape), x == END)

    def state_vector(self, state):
        return state[..., None]

    def set_state(self, state, vector):
        return vector[..., 0].astype(jnp.int32)

    def get_obs(self, state, params):
        return state


def walk_model(offset=0):
    x, action = (pairs.ravel() for pairs in np.indices((END + 1, ACTIONS)))
    target = np.where(x == END, END, np.maximum(x + 2 * (action % 2) - 1, 0))
    start = np.eye(END + 1)[5]
    states = np.arange(END + 1)[:, None] + offset
    return FiniteModel(
        states=states,
        n_actions=ACTIONS,
        source=x,
        action=action,
        probability=np.ones(len(x)),
        target=target,
        reward=0.0 * x,
        terminated=target == END,
        start=start,
    )


def walking(reset, jax_env=JaxWalk, offset=0):
    return Task(
        name="walk",
        make_env=lambda **_: Walk(),
        read_state=lambda env: np.array([env.unwrapped.x + offset]),
        place=lambda env, state: setattr(env.unwrapped, "x", int(state[0]) - offset) or env.unwrapped.x,
        danger=lambda move: move.state[..., 0] == END + offset,
        success=lambda move: move.terminated,
        interventions=(Intervention(name="I", trigger=lambda s: s[..., 0] == END - 1 + offset, reset=reset, tau=0.0),),
        model=lambda: walk_model(offset),
        jax_env=jax_env,
        horizon=40,
    )


def test_a_failure_in_a_jax_environment_refutes_what_a_model_proves():
    verdict = quick_audit(walking(Drive(lambda s: 0 * s[..., 0] + BRAKE)))["I"]
    assert verdict.status == "refuted" and not verdict.eventual.given
    assert "episodes that the audit played under it in the JAX environment failed" in verdict.reason
    assert verdict.own_play.on_jax and verdict.own_play.counterexample is None


def test_a_set_state_that_is_off_by_one_is_found_where_states_are_large_whole_numbers():
    class OneOff(JaxWalk):
        def state_vector(self, state):
            return state[..., None] + 2_000

        def set_state(self, state, vector):
            return vector[..., 0].astype(jnp.int32) - 1_999

    reset = Place(lambda state, history, u: np.array([2_003]) + 0 * state)
    assert any("set_state" in str(promise) for promise in check_task(walking(reset, OneOff, 2_000)))
