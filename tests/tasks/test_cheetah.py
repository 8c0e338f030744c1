"""The cheetah on MuJoCo: its state can be read and put back, its band, its three rescues, and its pay."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest

import cisr  # noqa: F401 (registers the environments)
from cisr import ConfigError, Move, Transition, get_task
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.tasks.cheetah import body
from cisr.testing import check_task

mujoco = pytest.importorskip("mujoco", reason="the cheetah needs MuJoCo: pip install 'cisr[mujoco]'")

TASK = get_task("cheetah")
STANDING = np.array([0.0, 0.58, *[0.0] * 16])


def started(seed=0):
    env = TASK.make_env()
    env.reset(seed=seed)
    return env


def random_steps(env, n, seed=0):
    actions = np.random.default_rng(seed).uniform(-1, 1, (n, 6))
    return [env.step(action)[:2] for action in actions]


def at(**numbers):
    """A robot that stands still, but for what is told."""
    state = STANDING.copy()
    for name, number in numbers.items():
        state[getattr(body, name)] = number
    return state


def moved_to(state, reward=0.0):
    return Move(state=state, reward=np.asarray(reward), terminated=np.zeros(state.shape[:-1], bool))


def test_the_state_is_where_mujoco_has_the_front_hip():
    env = started()
    random_steps(env, 10)
    before = TASK.read_state(env)
    robot = env.unwrapped
    mujoco.mj_forward(robot.model, robot.data)
    x, _, height = robot.data.body("fthigh").xpos
    assert before[[body.X, body.HEIGHT]] == pytest.approx([x - 0.5 * np.cos(before[body.PITCH]), height])
    moment = 1e-6
    robot.data.qpos[:] += moment * robot.data.qvel
    rise = TASK.read_state(env)[body.HEIGHT] - before[body.HEIGHT]
    assert rise / moment == pytest.approx(before[body.CLIMB], rel=1e-3)


def test_physics_put_back_goes_on_to_the_last_digit():
    env = started()
    random_steps(env, 10)
    saved, state = TASK.save(env), TASK.read_state(env)
    expected = random_steps(env, 20, seed=1)
    assert TASK.restore(env, saved) is None
    np.testing.assert_array_equal(TASK.read_state(env), state)
    for (seen, paid), (seen_then, paid_then) in zip(random_steps(env, 20, seed=1), expected, strict=True):
        np.testing.assert_array_equal(seen, seen_then)
        assert paid == paid_then


def test_the_task_keeps_its_promises():
    assert not check_task(TASK, n_steps=100)


@pytest.mark.parametrize(("height", "danger"), [(0.39, "fall"), (0.41, None), (0.99, None), (1.01, "rearing")])
def test_leaving_the_band_is_the_danger(height, danger):
    held = [name for name, holds in TASK.dangers.items() if holds(moved_to(at(HEIGHT=height)))]
    assert held == ([] if danger is None else [danger])


def test_triggers_fire_before_the_band_is_left():
    for intervention in TASK.interventions:
        fired = intervention.triggered(
            np.stack([STANDING, at(HEIGHT=0.45), at(HEIGHT=0.95), at(CLIMB=-3.0), at(CLIMB=8.0)])
        )
        assert fired.tolist() == [False, True, True, True, True]


def test_the_controller_is_array_code():
    import jax.numpy as jnp

    states = np.random.default_rng(0).normal(size=(3, 2, 18))
    actions = body.steadying(states)
    assert actions.shape == (3, 2, 6) and np.abs(actions).max() == 1.0
    np.testing.assert_array_equal(actions[1, 0], body.steadying(states[1, 0]))
    np.testing.assert_allclose(body.steadying(jnp.asarray(states)), actions, atol=1e-5)


def test_the_controller_steadies_a_robot_that_has_just_been_dropped():
    for seed in range(5):
        env = started(seed)
        for _ in range(20):
            env.step(body.steadying(TASK.read_state(env)))
        assert body.steady(TASK.read_state(env))


def played(name, n=250, n_envs=4):
    """Failures and steps of students that draw their actions blindly."""
    row = InducedCMDPs(TASK, TASK.intervention(name), [TASK.make_env() for _ in range(n_envs)])
    row.seed(range(n_envs))
    rng, failures, driven = np.random.default_rng(0), 0, 0
    for _ in range(n):
        step = row.step(np.clip(rng.normal(size=(n_envs, 6)), -1, 1).astype(np.float32))
        failures, driven = failures + int(step.failed.sum()), driven + int(step.driven.sum())
        for k in np.flatnonzero(step.terminated | step.truncated):
            row.restart(k)
    return failures / (n * n_envs + driven)


def test_blind_students_fall_all_the_time_and_hardly_ever_where_they_are_rescued():
    untaught = played("none")
    assert untaught > 0.015
    assert played("Rewind") == played("Stop") == 0
    assert 0 < played("Steady") < untaught / 4


def test_metres_that_a_rescue_takes_back_are_paid_once():
    def paid(there, back):
        move = moved_to(at(X=there), reward=2.0)
        nothing = np.zeros((), bool)
        return TASK.reward(Transition(move, nothing, ~nothing, at(X=back), nothing))

    assert paid(3.0, 3.0) == 2.0
    assert paid(3.0, 2.5) == pytest.approx(2.0 - 0.5 / 0.05)
    assert paid(3.0, 3.5) == 2.0  # what a controller drives is nobody's merit


def test_gymnasium_knows_it_by_name():
    env = gymnasium.make("cisr/Cheetah-v0", intervention="Stop")
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[1] != 0


def test_without_mujoco_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ConfigError, match=r"needs MuJoCo, which is not installed: pip install 'cisr\[mujoco\]'"):
        TASK.make_env()


def test_making_one_leaves_no_log_behind(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    TASK.make_env()
    assert not list(tmp_path.iterdir())
