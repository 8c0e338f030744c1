"""Both backends make the same of a task that uses everything: named dangers and triggers, a reward, time limits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from cisr import Drive, Fixed, Intervention, Override, Place, Rewind, Transition
from cisr.cmdp.compiled import CompiledCMDP
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.training import Batch, StudentSpec, TrainingSetup, compiled, gymnasium

WIDTH = 10
N, STEPS = 4, 400


def row(state):
    return state[..., 0] // WIDTH


def column(state):
    return state[..., 0] % WIDTH


def reward(transition: Transition):
    """Paid by the distance moved back, −5 at the time limit; a rescue at a failure counts where it would have led."""
    state = transition.move.state
    where = state.__array_namespace__().where
    paid = where(transition.rescued, 0.1 * (state[..., 0] - transition.after[..., 0]), transition.move.reward)
    return where(transition.timed_out, -5.0, paid - transition.failed)


def in_column(k):
    return lambda state: column(state) == k


def lowest(state):
    return row(state) >= 3


def west_or_north(state):
    return 3 * (row(state) >= 3)


def east(state):
    return 2 + 0 * state[..., 0]


TRIGGERS = {"east": in_column(4), "south": lowest}
LAKE = dataclasses.replace(
    tiny.compiled,
    danger={
        "lake": tiny.compiled.danger,
        "south-east": lambda move: (row(move.state) >= 3) & (column(move.state) >= 4),
    },
    interventions=(
        Intervention(name="back", trigger=TRIGGERS, reset=Rewind(2), tau=0.1, kappa=0.05, horizon=25),
        Intervention(
            name="up",
            trigger={"east": in_column(3), "south": lowest},
            reset=Place(lambda state, history, u: state * 0 + state % WIDTH),
            tau=0.2,
            horizon=17,
        ),
        Intervention(name="drive", trigger=TRIGGERS, reset=Drive(west_or_north, max_steps=3), tau=0.2, horizon=23),
        Intervention(
            name="march",
            trigger={"east": in_column(3), "south": lowest},
            reset=Drive(east, until=in_column(5), max_steps=4),
            tau=0.2,
        ),
        Intervention(
            name="veto",
            trigger={"east": lambda s, a: (column(s) == 3) & (a == 2), "south": lambda s, a: (row(s) == 2) & (a == 1)},
            reset=Override(lambda s, a: 3 - a + 0 * s[..., 0]),
            tau=0.1,
        ),
    ),
    safe_evaluation=None,
    reward=reward,
    constraint_form="sum",
)


@pytest.mark.parametrize(
    ("name", "horizon", "form"),
    [
        ("back", 25, "sum"),
        ("back", 25, "mean"),
        ("up", 17, "sum"),
        ("drive", 23, "mean"),
        ("march", 40, "sum"),
        ("veto", 40, "mean"),
        ("none", 40, "sum"),
    ],
)
def test_every_quantity_of_every_step_is_the_same_in_both_backends(name, horizon, form):
    task = dataclasses.replace(LAKE, constraint_form=form)
    intervention, jax_env = task.intervention(name), task.jax_env()
    params = jax.tree.map(jnp.asarray, jax_env.params)
    envs = InducedCMDPs(task, intervention, [task.make_env() for _ in range(N)])
    envs.seed(range(N))
    cmdp = CompiledCMDP(task, jax_env, [*task.interventions, intervention])
    rules = cmdp.rules(intervention)
    step, restart = jax.jit(cmdp.step), jax.jit(cmdp.restart)
    compiled = cmdp.start(params, jnp.zeros((N, 0)))
    actions = np.random.default_rng(0).choice(4, p=[0.1, 0.4, 0.4, 0.1], size=(STEPS, N)).astype(np.int32)
    lengths, seen = np.zeros(N, int), np.zeros(len(task.outcomes) - 1, int)
    fired, driven = np.zeros(3), 0
    for t in range(STEPS):
        u = np.array([_next_uniforms(env, 1 + cmdp.max_driven) for env in envs.envs], np.float32)
        theirs = envs.step(actions[t])
        compiled, ours = step(params, rules, compiled, actions[t], u[:, :1], jnp.zeros((N, 0)), u[:, 1:, None])
        for field in ("terminated", "truncated", "rescued", "failed", "driven", "outcomes"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=f"{field} at {t}")
        for one, other in (
            (ours.reward, theirs.reward),
            (ours.costs, theirs.costs),
            (ours.constraint_values, theirs.constraint_values),
        ):
            np.testing.assert_allclose(one, other, atol=1e-5, err_msg=f"at {t}")
        np.testing.assert_array_equal(compiled.state, [env.unwrapped.s for env in envs.envs])
        lengths += 1 + theirs.driven.astype(int)
        driven += theirs.driven.sum()
        np.testing.assert_array_equal(theirs.truncated, (lengths == horizon) & ~theirs.terminated)
        fired += theirs.costs.sum(axis=0)
        seen += theirs.outcomes.sum(axis=0)
        ended = theirs.terminated | theirs.truncated
        lengths[ended] = 0
        for k in np.flatnonzero(ended):
            envs.restart(int(k))
        compiled = restart(params, compiled, ended, jnp.zeros((N, 0)))
    assert theirs.costs.shape == (N, 3) and task.outcomes[:2] == ("lake", "south-east")
    ends = {"none": ("south-east",), "march": ("lake", "south-east", "rescue"), "veto": ("lake",)}.get(
        name, ("timeout",)
    )
    assert all(seen[task.outcomes.index(end)] for end in ends), dict(zip(task.outcomes, seen, strict=False))
    assert (driven > 0) == (name in ("drive", "march"))
    assert form == "mean" or name == "none" or (fired[1:] > 0).all()


def test_a_start_inside_danger_is_a_failure_of_the_first_step_in_both_backends():
    home = {"lake": tiny.compiled.danger, "home": lambda move: move.state[..., 0] == 0}
    task = dataclasses.replace(LAKE, danger=home)
    intervention, jax_env = task.intervention("none"), task.jax_env()
    params = jax.tree.map(jnp.asarray, jax_env.params)
    envs = InducedCMDPs(task, intervention, [task.make_env() for _ in range(N)])
    envs.seed(range(N))
    u = np.array([_next_uniforms(env, 1) for env in envs.envs], np.float32)
    theirs = envs.step(np.full(N, 1))
    cmdp = CompiledCMDP(task, jax_env, [intervention])
    start = cmdp.start(params, jnp.zeros((N, 0)))
    rules = cmdp.rules(intervention)
    _, ours = cmdp.step(params, rules, start, jnp.full(N, 1), u, jnp.zeros((N, 0)))
    assert any(env.unwrapped.s != 0 for env in envs.envs)  # moving on does not help
    for step in (ours, theirs):
        assert step.failed.all() and step.terminated.all()
        assert [task.outcomes[k] for k in outcome_of(step.outcomes)] == ["home"] * N


@pytest.mark.parametrize("backend", ["gymnasium", "compiled"])
def test_in_safe_evaluation_a_failure_without_a_rescue_is_punished_by_its_own_horizon(backend):
    idle = Intervention(name="idle", trigger=lambda s: s[..., 0] < 0, reset=Rewind(), tau=0.0, horizon=30)
    brief = tiny.compiled.with_training(n_units=1)
    task = dataclasses.replace(brief, name="idle-lake", interventions=(idle,), safe_evaluation="idle")
    student = StudentSpec(name="student", policy=Fixed("idle"), config=tiny.student, seed=0)
    train = {"gymnasium": gymnasium.train, "compiled": compiled.train}[backend]
    setup = TrainingSetup(task=task, backend=backend, evaluate_under="idle")
    *_, graduation = train(setup, Batch(name="batch", students=(student,)))
    (deployment,) = graduation.deployments
    failed = deployment.outcomes["failure"]
    assert failed > 0.3 and not deployment.rescues
    assert deployment.score == pytest.approx(failed * -2 * 30 * task.max_reward, abs=1.0)  # others earn little


def _next_uniforms(env, n) -> np.ndarray:
    """The numbers that the environment will draw next; its generator is left as it is."""
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = env.unwrapped.np_random.bit_generator.state
    return generator.random(n)
