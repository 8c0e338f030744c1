"""Environments of gymnax's kind: the same episodes compiled, on the host and in Gymnasium, and students that learn."""

import runpy
from pathlib import Path
from typing import NamedTuple

import gymnasium
import gymnax_style
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import (
    ConfigError,
    Fixed,
    GymnaxEnv,
    Intervention,
    Rewind,
    StudentConfig,
    ToStart,
    Training,
    check_task,
    compare,
)
from cisr.cmdp.compiled import CompiledCMDP
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.tasks.gymnax import HostEnv

VECTOR = ("x", "x_dot", "theta", "theta_dot")
SMALL = StudentConfig(n_envs=2, n_steps=32, n_minibatches=2, n_epochs=2, updates_per_round=2)


def cart_poles():
    yield gymnax_style.CartPole()
    try:
        import gymnax
    except ImportError:
        return
    yield gymnax.make("CartPole-v1")[0]


def read_state(env):
    return np.array(env.unwrapped.state, float)


def place(env, state):
    env.unwrapped.state = np.array(state, float)
    return np.array(state, np.float32)


def cart_pole_task(env, **fields):
    """A hand that puts the cart back, should the pole lean too much."""
    return GymnaxEnv(env, vector=VECTOR).task(
        **{
            "name": "cart-pole",
            "danger": lambda move: (abs(move.state[..., 0]) > 2.4) | (abs(move.state[..., 2]) > 0.2095),
            "success": lambda move: move.reward > 9,
            "interventions": (
                Intervention(name="hand", trigger=lambda s: abs(s[..., 2]) > 0.1, reset=Rewind(1), tau=0.1),
                Intervention(name="far back", trigger=lambda s: abs(s[..., 2]) > 0.1, reset=Rewind(6), tau=0.0),
            ),
            "horizon": 60,
            "training": Training(n_units=2, deployment_steps=100, student=SMALL),
        }
        | fields
    )


@pytest.mark.parametrize("env", list(cart_poles()), ids=lambda env: type(env).__module__.partition(".")[0])
@pytest.mark.parametrize("name", ["none", "hand", "far back"])
def test_episodes_are_those_of_gymnasiums_cart_pole_step_by_step(env, name):
    """Both start where Gymnasium's start; the only difference is that JAX computes in single precision."""
    theirs = {"make_env": lambda **o: gymnasium.make("CartPole-v1", **o), "read_state": read_state, "place": place}
    task, n, steps = cart_pole_task(env, **theirs), 3, 150
    jax_env, intervention = task.jax_env(), task.intervention(name)
    params = jax.tree.map(jnp.asarray, jax_env.params)
    row = InducedCMDPs(task, intervention, [task.make_env() for _ in range(n)])
    row.seed([1, 2, 3])
    cmdp = CompiledCMDP(task, jax_env, task.interventions)
    rules, step = cmdp.rules(intervention), jax.jit(cmdp.step)
    nothing = jnp.zeros((n, cmdp.n_place_uniforms))

    def started(envs, k):
        """Environment k begins where Gymnasium's does."""
        vector = cmdp.jax_env.state_vector(envs.state).at[k].set(read_state(row.envs[k]))
        state = jax_env.set_state(envs.state, vector)
        return envs._replace(state=state, visited=envs.visited.at[k, 0].set(vector[k]))

    envs = cmdp.start(params, jnp.zeros((n, 2)))
    for k in range(n):
        envs = started(envs, k)
    actions = np.random.default_rng(0).integers(2, size=(steps, n)).astype(np.int32)
    ends = rescues = 0
    for t in range(steps):
        said = row.step(actions[t])
        envs, ours = step(params, rules, envs, actions[t], jnp.zeros((n, 2)), nothing)
        for field in ("terminated", "truncated", "rescued", "failed", "outcomes"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(said, field), err_msg=f"{field} at {t}")
        np.testing.assert_allclose(ours.reward, said.reward)
        np.testing.assert_allclose(ours.costs, said.costs, atol=1e-6)
        np.testing.assert_allclose(jax_env.get_obs(envs.state, params), row.observations, atol=1e-4)
        rescues += int(said.rescued.sum())
        for k in np.flatnonzero(said.terminated | said.truncated).tolist():
            ends += 1
            row.restart(k)
            envs = started(cmdp.restart(params, envs, jnp.arange(n) == k, jnp.zeros((n, 2))), k)
    assert ends
    assert bool(rescues) == (name != "none")


def lantern_task(**changes):
    """A rope that pulls the lantern back where it came from."""
    fields = {
        "name": "lantern",
        "danger": lambda move: ((move.state < 0) | (move.state > 1)).any(axis=-1),
        "success": lambda move: move.reward > 9,
        "interventions": (
            Intervention(
                name="rope",
                trigger=lambda s: (abs(s - 0.5) > 0.25).any(axis=-1),
                reset=Rewind(1),
                tau=0.1,
            ),
        ),
        "horizon": 20,
        "training": Training(n_units=1, deployment_steps=100, student=SMALL),
    }
    return GymnaxEnv(gymnax_style.Lantern(), vector=("at",)).task(**(fields | changes))


def walker_task():
    """Who comes near the water starts again."""
    return GymnaxEnv(gymnax_style.Walker(), vector=("tile",)).task(
        name="walker",
        danger=lambda move: move.state[..., 0] == 8,
        success=lambda move: move.reward > 9,
        interventions=(
            Intervention(name="end", trigger=lambda s: s[..., 0] == 7, reset=ToStart(), tau=0.0),
            Intervention(name="back", trigger=lambda s: s[..., 0] == 7, reset=Rewind(3), tau=0.0),
        ),
        horizon=25,
    )


@pytest.mark.parametrize(("make", "name"), [(lantern_task, "rope"), (walker_task, "back"), (walker_task, "end")])
def test_the_environment_on_the_host_gives_the_compiled_episodes_step_by_step(make, name, monkeypatch):
    """Vectors as actions and images of bytes; numbers to see and to act by. Both are given the same luck."""
    monkeypatch.setattr(HostEnv, "_uniforms", lambda self: jnp.asarray(self.luck))
    task, n, steps = make(), 3, 60
    jax_env, intervention, rng = task.jax_env(), task.intervention(name), np.random.default_rng(0)
    params = jax.tree.map(jnp.asarray, jax_env.params)
    row = InducedCMDPs(task, intervention, [task.make_env() for _ in range(n)])
    cmdp = CompiledCMDP(task, jax_env, task.interventions)
    rules, step = cmdp.rules(intervention), jax.jit(cmdp.step)

    def luck():
        drawn = rng.random((n, 2), np.float32)
        for env, one in zip(row.envs, drawn, strict=True):
            env.unwrapped.luck = one
        return drawn

    envs = cmdp.start(params, luck())
    row.seed([1, 2, 3])
    row.envs[0].action_space.seed(0)
    ends = rescues = 0
    for t in range(steps):
        actions = np.stack([row.envs[0].action_space.sample() for _ in range(n)])
        envs, ours = step(params, rules, envs, actions, luck(), jnp.zeros((n, cmdp.n_place_uniforms)))
        said = row.step(actions)
        for field in ("terminated", "truncated", "rescued", "failed", "outcomes"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(said, field), err_msg=f"{field} at {t}")
        np.testing.assert_allclose(ours.reward, said.reward, atol=1e-6)
        np.testing.assert_array_equal(jax_env.get_obs(envs.state, params), row.observations)
        assert np.asarray(row.observations).dtype == jax_env.observation.dtype
        rescues += int(said.rescued.sum())
        for k in np.flatnonzero(said.terminated | said.truncated).tolist():
            ends += 1
            envs = cmdp.restart(params, envs, jnp.arange(n) == k, luck())
            row.restart(k)
    assert ends and rescues


def test_students_train_on_the_compiled_backend_and_stay_safe_under_the_rope():
    comparison = compare(lantern_task(), {"rope": Fixed("rope"), "none": Fixed("none")}, n_students=1)
    safe, alone = (comparison.transcripts[label][0] for label in ("rope", "none"))
    assert (safe.training_failures, safe.error) == (0, None)
    assert safe.rescues > 0 and alone.training_failures > 0


def test_spaces_that_nobody_knows_get_one_line():
    class Mute(gymnax_style.Walker):
        observation_space = None

    class Odd(gymnax_style.Walker):
        def action_space(self, params):
            return gymnasium.spaces.Text(3)

    class Blind(gymnax_style.Walker):
        def get_obs(self, state, params):
            return {"tile": state.tile}

    for env, said in ((Mute(), "observation space of Mute"), (Odd(), "action space of Odd"), (Blind(), "one array")):
        with pytest.raises(ConfigError, match=said):
            GymnaxEnv(env, vector=("tile",))


def test_the_environment_on_the_host_is_the_compiled_one():
    task = cart_pole_task(gymnax_style.CartPole())
    assert not check_task(task)
    jax_env, env = task.jax_env(), task.make_env()
    first, _ = env.reset(seed=4)
    again, _ = env.reset(seed=4)
    np.testing.assert_array_equal(first, again)
    u = jnp.asarray(np.random.default_rng(0).random((5, 2), np.float32))
    states = jax_env.reset_env(u, jax_env.params)
    each = [jax_env.reset_env(one, jax_env.params) for one in u]
    np.testing.assert_array_equal(jax_env.state_vector(states), jnp.stack([jax_env.state_vector(one) for one in each]))
    assert len(np.unique(np.asarray(states.x))) == 5


def test_a_vector_of_fields_that_are_not_there_gets_one_line():
    with pytest.raises(ConfigError, match="the state of CartPole has x, x_dot, theta, theta_dot, time"):
        GymnaxEnv(gymnax_style.CartPole(), vector=("x", "speed"))


def test_the_example_keeps_its_promises():
    example = Path(__file__).parent.parent.parent / "examples" / "10_jax_environment.py"
    task = runpy.run_path(str(example), run_name="example")["task"]
    assert not check_task(task)
    rows = compare(
        task.with_training(n_units=1, deployment_steps=100, student=SMALL), {"rope": Fixed("rope")}, n_students=1
    ).rows
    assert rows[0].training_failures.mean == 0


def test_whole_numbers_of_a_state_are_rounded_where_floats_fall_short_of_them():
    env = walker_task().jax_env()
    state = env.reset_env(jnp.zeros(2), env.params)
    put = env.set_state(state, jnp.asarray([5.9999]))
    assert env.state_vector(put)[..., 0] == 6


class Counted(NamedTuple):
    x: object
    n: object


@pytest.mark.parametrize(
    ("other", "kind", "exact"),
    [
        ("float32", "int32", False),
        ("float32", "uint32", False),
        ("float32", "int16", True),
        ("float32", "bool", True),
        ("float16", "int16", False),
        ("int32", "uint32", False),
        ("int32", "uint8", True),
        ("int32", "int32", True),
    ],
)
def test_a_state_vector_holds_every_number_exactly_or_is_refused(other, kind, exact):
    most = 1 if kind == "bool" else np.iinfo(kind).max

    class Walk(gymnax_style.Walker):
        def reset_env(self, key, params):
            return jnp.int32(3), Counted(jnp.ones((), other), jnp.asarray(most, kind))

        def get_obs(self, state, params):
            return jnp.int32(3)

    if not exact:
        with pytest.raises(ConfigError, match=r"does not hold every number of '[xn]' \(u?int\d\d\) exactly: keep"):
            GymnaxEnv(Walk(), vector=("x", "n"))
        GymnaxEnv(Walk(), vector=("n",))
        return
    env = GymnaxEnv(Walk(), vector=("x", "n"))
    state = env.reset_env(jnp.zeros(2), env.params)
    vector = env.state_vector(state)
    assert int(vector[1]) == most
    assert int(env.set_state(state, vector).n) == most
