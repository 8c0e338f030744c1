"""Ways in which a task's model, or its rescues, once earned certificates that real play refutes."""

import functools
import itertools
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import tiny
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

from cisr import (
    MLP,
    Fixed,
    InducedCMDP,
    Intervention,
    NobodyFinished,
    Override,
    Place,
    Rewind,
    Store,
    StudentConfig,
    Task,
    Training,
    compare,
    get_task,
)
from cisr.auditing import quick_audit
from cisr.auditing.counterexample import replay
from cisr.cmdp.finite import model_of
from cisr.core.model import FiniteModel
from cisr.testing import check_task

BACK = Rewind(1)
STUDENT = StudentConfig(network=MLP(hidden=(4,)), n_envs=2, n_steps=16, n_minibatches=2, n_epochs=1)


def walk(n, top):
    """A corridor 0 … top of deterministic moves left and right; states above it lead to themselves and end there."""
    moves = {(s, a): (min(max(s + 2 * a - 1, 0), top), 0.0, False) for s in range(top + 1) for a in (0, 1)}
    return moves | {(s, a): (s, 0.0, True) for s in range(top + 1, n) for a in (0, 1)}


class Walk(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, moves):
        self.moves = moves
        self.observation_space = gymnasium.spaces.Discrete(1 + max(s for s, _ in moves))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self.x, {}

    def step(self, action):
        self.x, reward, terminated = self.moves[self.x, int(action)]
        return self.x, reward, terminated, False, {}


def place(env, state):
    env.unwrapped.x = int(state[0])
    return env.unwrapped.x


def model(moves, **changes):
    source, action = (np.array(column) for column in zip(*moves, strict=True))
    target, reward, terminated = (np.array(column) for column in zip(*moves.values(), strict=True))
    n = 1 + source.max()
    fields = {
        "states": np.arange(n)[:, None],
        "n_actions": 2,
        "source": source,
        "action": action,
        "probability": np.ones(len(source)),
        "target": target,
        "reward": reward,
        "terminated": terminated,
        "start": np.eye(n)[0],
    }
    return FiniteModel(**(fields | changes))


def task(moves, env=Walk, trigger=2, reset=BACK, danger=3, **changes):
    fields = {
        "name": "walk",
        "make_env": lambda **_: env(moves),
        "danger": lambda move: move.state[..., 0] == danger,
        "success": lambda move: move.state[..., 0] < 0,
        "interventions": (Intervention(name="I", trigger=lambda s: s[..., 0] == trigger, reset=reset, tau=0.1),),
        "horizon": 20,
        "model": lambda: model(moves),
        "read_state": lambda env: np.array([env.unwrapped.x]),
        "place": place,
        "training": Training(student=STUDENT, n_units=1, deployment_steps=20),
    }
    return Task(**(fields | changes))


def certified(task):
    return quick_audit(task)["I"].status == "certified"


def test_the_walk_itself_is_certified():
    assert certified(task(walk(4, 2)))


def test_a_rescue_into_danger_is_a_failure_everywhere():
    moves = walk(4, 2) | {(3, a): (0, 0.0, False) for a in (0, 1)}  # D can be left again
    into = task(moves, reset=Place(lambda state, history, u: 0 * state + 3))
    assert [promise.what for promise in check_task(into)] == ["reset of 'I'"]
    verdict = quick_audit(into)["I"]
    assert verdict.status == "refuted" and "from where the rescue leads into danger, to [3]" in verdict.reason
    env = InducedCMDP(into, "I")
    env.reset(seed=0)
    env.step(1)
    _, _, terminated, _, info = env.step(1)
    assert terminated and info["cost"] == 1.0 and info["intervention"] == "I"
    (row,) = compare(into, {"I": Fixed("I")}, n_students=1, execution=tiny.HERE).rows
    assert row.training_failures.mean == row.rescues.mean > 0


def test_a_rescue_into_danger_is_a_failure_on_the_compiled_backend_too():
    lake = get_task("frozen-lake", "quick")
    hole = next(k for k, letter in enumerate("".join(lake.appearance.floor_plan["rows"])) if letter == "H")
    sr1 = replace(lake.intervention("SR1"), reset=Place(lambda state, history, u: 0 * state + hole))
    into = replace(lake, interventions=(sr1, *lake.interventions[1:]))
    into = into.with_training(student=STUDENT, n_units=1, deployment_steps=50)
    (row,) = compare(into, {"SR1": Fixed("SR1")}, n_students=1, execution=tiny.HERE).rows
    assert row.training_failures.mean == row.rescues.mean > 0


def test_a_time_limit_that_the_environment_does_not_keep_proves_nothing():
    moves = walk(31, 30)
    long = Intervention(name="I", trigger=lambda s: s[..., 0] < 0, reset=Rewind(1), tau=0.0, horizon=100)
    limited = task(moves, danger=30, horizon=10, interventions=(long,), model=lambda: model(moves, time_limit=10))
    assert not certified(limited)
    assert "went on after 10 steps" in str(check_task(limited))


def test_an_environment_that_changes_after_the_tasks_horizon_is_found():
    class Tired(Walk):
        def reset(self, **options):
            self.t = 0
            return super().reset(**options)

        def step(self, action):
            self.t += 1
            self.x, reward, terminated = (3, 0.0, True) if self.t > 40 else self.moves[self.x, int(action)]
            return self.x, reward, terminated, False, {}

    longer = Intervention(name="I", trigger=lambda s: s[..., 0] == 2, reset=Rewind(1), tau=0.0, horizon=100)
    assert not certified(task(walk(4, 2), env=Tired, horizon=10, interventions=(longer,)))


def test_where_only_rescues_lead_is_played_too():
    moves = walk(6, 2) | {(3, a): (4, 0.0, False) for a in (0, 1)} | {(4, a): (3, 0.0, False) for a in (0, 1)}
    real = moves | {(3, a): (5, 0.0, True) for a in (0, 1)}
    there = {"reset": Place(lambda state, history, u: 0 * state + 3), "danger": 5}
    assert certified(task(moves, **there))
    assert not certified(task(real, **there, model=lambda: model(moves)))


def test_a_place_that_is_wrong_where_rescues_land_is_named():
    def wrong(env, state):
        return place(env, state if state[0] != 3 else state - 2)

    moves = walk(6, 2) | {(3, a): (0, 0.0, False) for a in (0, 1)}
    broken = task(moves, danger=5, reset=Place(lambda state, history, u: 0 * state + 3), place=wrong)
    assert not certified(broken)
    assert "was asked for the state [3] and led to [1]" in str(check_task(broken))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_model_with_numbers_of_another_type_is_judged_as_the_environment_is(dtype):
    moves, scale = walk(6, 5), 1 if dtype == np.uint8 else 0.1
    states = np.array([[scale * s, scale * 5] for s in range(6)], int if dtype == np.uint8 else float)

    def read(env):
        return np.array([scale * env.unwrapped.x, scale * 5], dtype)

    def put(env, state):
        return place(env, np.round(state / scale))

    near = Intervention(
        name="I", trigger=lambda s: abs(s[..., 0] - s[..., 1]) <= np.asarray(scale), reset=Rewind(1), tau=0.1
    )
    typed = task(
        moves, interventions=(near,), danger=5, read_state=read, place=put, model=lambda: model(moves, states=states)
    )
    typed = replace(typed, danger=lambda move: move.state[..., 0] == move.state[..., 1])
    failed = 0
    env = InducedCMDP(typed, "I")
    for seed in range(20):
        env.reset(seed=seed)
        for _ in range(20):
            *_, terminated, truncated, info = env.step(1)
            failed += info["cost"]
            if terminated or truncated:
                break
    assert not (failed and certified(typed))


def test_a_reward_that_rounding_puts_on_the_other_side_of_danger_is_found():
    def falls(reward):
        return walk(4, 2) | {(2, 1): (0, reward, False)}

    cliff = {"danger": 9, "trigger": 3}
    real, told = task(falls(-0.1 * 3), **cliff), falls(-0.3)
    real = replace(real, danger=lambda move: move.reward < -0.3, model=lambda: model(told))
    assert not certified(real)


def test_starts_without_a_seed_and_rare_ones_are_looked_at():
    class Elsewhere(Walk):
        def reset(self, *, seed=None, options=None):
            out = super().reset(seed=seed)
            if seed is None and self.np_random.random() < 0.1:
                self.x = 3
                return 3, {}
            return out

    assert not certified(task(walk(4, 2), env=Elsewhere, horizon=3_000))


def test_environments_that_differ_from_one_to_the_next_are_found():
    made = itertools.count()
    moves = walk(4, 2)

    def make_env(**_):
        return Walk(moves | {(1, 1): (3, 0.0, True)} if next(made) % 5 == 4 else moves)

    assert not certified(task(moves, make_env=make_env))


def test_an_environment_that_changes_with_its_own_age_is_found():
    class Old(Walk):
        age = 0

        def step(self, action):
            self.age += 1  # across resets
            self.x, reward, terminated = (3, 0.0, True) if self.age > 2_000 else self.moves[self.x, int(action)]
            return self.x, reward, terminated, False, {}

    assert not certified(task(walk(4, 2), env=Old))


def wrapping(**changes):
    """A veto at the edge that wraps around for the bytes of the environment, and not for the model's whole numbers."""
    moves = walk(6, 5)
    veto = Intervention(
        name="I",
        trigger=lambda s, a: (abs(s[..., 0] - s[..., 1]) <= 1) & (a == 1),
        reset=Override(lambda s, a: 0 * a),
        tau=0.0,
    )
    fields = {
        "interventions": (veto,),
        "read_state": lambda env: np.array([env.unwrapped.x, 5], np.uint8),
        "model": lambda: model(moves, states=np.array([[s, 5] for s in range(6)])),
        "danger": 5,
    }
    return task(moves, **(fields | changes))


def test_a_failure_in_the_audits_own_play_refutes_what_a_model_proves_and_is_shown():
    report = quick_audit(wrapping())
    verdict = report["I"]
    assert verdict.status == "refuted" and report.refuted and not verdict.eventual.given
    seen = verdict.own_play
    assert seen.failures > 0 and seen.danger == "failure" and seen.start == (0, 5)
    assert sum(2 * action - 1 for action in seen.actions[-5:]) == 5 and seen.states[-1] == (5, 5)
    assert "episodes that the audit played under it failed, the first from start [0., 5.]" in verdict.reason
    assert verdict.to_json()["own_play"]["actions"] == seen.actions
    (example,) = report.counterexamples
    assert replay(wrapping(), example)


def test_an_honest_veto_stays_certified():
    assert certified(wrapping(read_state=lambda env: np.array([env.unwrapped.x, 5])))


def test_a_step_that_goes_by_the_name_of_gymnasiums_is_not_gymnasiums():
    class Lake(FrozenLakeEnv):
        @functools.wraps(FrozenLakeEnv.step)
        def step(self, action):
            return super().step(action)

    lake = Task(
        name="lake",
        make_env=lambda **_: Lake(),
        danger=lambda move: move.terminated & (move.reward == 0),
        success=lambda move: move.reward > 0,
        interventions=(),
        horizon=10,
    )
    assert model_of(lake) is None
    assert model_of(replace(lake, make_env=lambda **_: FrozenLakeEnv())) is not None


def test_a_twin_of_another_world_is_a_broken_promise():
    from cisr.tasks.frozen_lake import lake_task
    from cisr.tasks.frozen_lake.lake import Lake

    here, elsewhere = lake_task(Lake(("SFF", "FHF", "FFG"))), lake_task(Lake(("SFF", "HFF", "FFG")))
    assert not check_task(here)
    assert "the JAX environment" in [promise.what for promise in check_task(replace(here, jax_env=elsewhere.jax_env))]


@pytest.mark.parametrize("how", ["raises", "pays infinity", "answers nonsense"])
def test_whoever_breaks_in_danger_has_failed(how):
    class Crash(Walk):
        def step(self, action):
            out = super().step(action)
            if self.x < 3:
                return out
            if how == "raises":
                raise RuntimeError("crashed")
            return (3, -np.inf, True, False, {}) if how == "pays infinity" else (99, 0.0, True, False, {})

    crashing = task(walk(4, 3), env=Crash, trigger=9)
    with Store(None) as store:
        with pytest.raises(NobodyFinished):
            compare(crashing, {"I": Fixed("I")}, n_students=1, store=store, execution=tiny.HERE)
        (student,) = store.transcripts()
    assert student.training_failures >= 1


def test_a_step_that_nobody_can_judge_leaves_the_failures_unknown():
    class Gone(Walk):
        def step(self, action):
            del self.x
            raise RuntimeError("gone")

    with Store(None) as store:
        with pytest.raises(NobodyFinished):
            compare(task(walk(4, 2), env=Gone), {"I": Fixed("I")}, n_students=1, store=store, execution=tiny.HERE)
        assert [t.training_failures for t in store.transcripts()] == [None]
