"""The compiled lake and Gymnasium's are one lake: every state, action and slip, and whole supervised episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import get_task
from cisr.cmdp.compiled import CompiledCMDP
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.tasks.frozen_lake.jax_env import LakeJaxEnv
from cisr.tasks.frozen_lake.lake import PAPER_MAP, Lake

TASK = get_task("frozen-lake")
LAKE = LakeJaxEnv(Lake(PAPER_MAP))
PARAMS = jax.tree.map(jnp.asarray, LAKE.params)


def test_every_state_action_and_slip_leads_where_gymnasiums_table_says():
    table = TASK.make_env().unwrapped.P
    for tile in range(100):
        if LAKE.params.terminal[tile]:
            continue
        for action in range(4):
            low = 0.0
            for probability, destination, reward, terminated in table[tile][action]:
                middle = np.array([low + probability / 2], np.float32)
                moved = LAKE.step_env(middle, jnp.int32(tile), jnp.int32(action), PARAMS)
                assert int(moved.state) == destination
                assert float(moved.reward) == pytest.approx(reward)
                assert bool(moved.terminated) == terminated
                low += probability


def test_what_a_student_sees_is_what_gymnasiums_shows():
    env = TASK.make_env()
    observation, _ = env.reset(seed=0)
    start = LAKE.reset_env(jnp.zeros((1, 0)), PARAMS)
    np.testing.assert_array_equal(LAKE.table[int(LAKE.get_obs(start, PARAMS)[0])], observation)


@pytest.mark.parametrize("name", ["none", "SR1", "SR2", "HR", "HA", "Back-3"])
def test_supervised_episodes_are_the_same_in_both_backends(name):
    """Gymnasium's environments draw one uniform a step; the JAX environment is given the same ones."""
    intervention = TASK.intervention(name)
    n, steps = 4, 600
    row = InducedCMDPs(TASK, intervention, [TASK.make_env() for _ in range(n)])
    row.seed([11, 12, 13, 14])
    cmdp = CompiledCMDP(TASK, LAKE, [*TASK.interventions, intervention])
    rules = cmdp.rules(intervention)
    envs = cmdp.start(PARAMS, jnp.zeros((n, 0)))
    step = jax.jit(cmdp.step)
    restart = jax.jit(cmdp.restart)
    actions = np.random.default_rng(0).choice(4, p=[0.15, 0.35, 0.35, 0.15], size=(steps, n)).astype(np.int32)
    ended_how = set()
    for t in range(steps):
        u = np.array([[_next_uniform(env)] for env in row.envs], np.float32)
        theirs = row.step(actions[t])
        envs, ours = step(PARAMS, rules, envs, actions[t], u, jnp.zeros((n, 0)))
        for field in ("terminated", "truncated", "rescued", "failed", "outcomes"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=f"{field} at {t}")
        np.testing.assert_allclose(ours.reward, theirs.reward, rtol=1e-6)
        np.testing.assert_allclose(ours.costs, theirs.costs, atol=1e-6)
        np.testing.assert_allclose(ours.constraint_values, theirs.constraint_values, atol=1e-6)
        np.testing.assert_array_equal(LAKE.table[np.asarray(envs.state)], row.observations)
        ended = theirs.terminated | theirs.truncated
        ended_how |= {field for field in ("terminated", "truncated") if getattr(theirs, field).any()}
        for k in np.flatnonzero(ended):
            row.restart(int(k))
        envs = restart(PARAMS, envs, ended, jnp.zeros((n, 0)))
    assert ended_how


def _next_uniform(env) -> float:
    """The number that the environment will draw next; its generator is left as it is."""
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = env.unwrapped.np_random.bit_generator.state
    return generator.random()
