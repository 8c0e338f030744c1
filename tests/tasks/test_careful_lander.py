"""Chimney and Funnel: rescues lead out of the trigger set from anywhere, and random play does not fail."""

import jax.numpy as jnp
import numpy as np
import pytest

from cisr import check_task, get_task
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.tasks.lunar_lander.flight import DIMENSION, HULL, X, Y

TASK = get_task("lunar-lander")
OURS = ("Chimney", "Funnel")


def anywhere(n=50_000):
    """States all over the map and beyond, at any speed and tilt."""
    rng = np.random.default_rng(0)
    states = np.zeros((n, DIMENSION))
    states[:, :HULL] = rng.normal(0, 2, (n, HULL))
    states[:, X], states[:, Y] = rng.uniform(-1.2, 1.2, n), rng.uniform(-0.5, 4, n)
    return states


@pytest.mark.parametrize("name", OURS)
def test_every_rescue_leads_out_of_the_trigger_set_and_keeps_to_its_side(name):
    one = TASK.intervention(name)
    rescued = anywhere()[one.triggered(anywhere())]
    placed = one.reset.fn(rescued, rescued[:, None], np.empty((len(rescued), 0)))
    assert len(rescued) > 10_000
    assert not one.triggered(placed).any()
    assert (placed[:, X] * rescued[:, X] >= 0).all()
    np.testing.assert_array_equal(placed[:, 2:6], 0.0)
    by_jax = one.reset.fn(jnp.asarray(rescued), jnp.asarray(rescued[:, None]), jnp.empty((len(rescued), 0)))
    np.testing.assert_allclose(by_jax, placed, atol=1e-4)


def test_the_papers_rescues_may_lead_back_into_the_trigger_set():
    wide = TASK.intervention("Wide")
    rescued = anywhere()[wide.triggered(anywhere())]
    assert wide.triggered(wide.reset.fn(rescued, rescued[:, None], np.empty((len(rescued), 0)))).mean() > 0.1


def failures_of_held_actions(name, n=40, steps=500):
    """Failures in as many environments, by play that holds an action chosen at random for a while."""
    row = InducedCMDPs(TASK, TASK.intervention(name), [TASK.make_env() for _ in range(n)])
    row.seed(range(n))
    rng, held, failures = np.random.default_rng(1), np.zeros(n, int), 0
    for t in range(steps):
        held = rng.integers(4, size=n) if t % 50 == 0 else held
        step = row.step(held)
        failures += step.failed.sum()
        for k in np.flatnonzero(step.terminated | step.truncated):
            row.restart(int(k))
    row.close()
    return failures


@pytest.mark.usefixtures("box2d")
def test_held_actions_fail_under_wide_but_not_under_ours():
    assert failures_of_held_actions("Wide") > 0
    assert [failures_of_held_actions(name) for name in (*OURS, "Hard-Funnel")] == [0, 0, 0]


def test_teachers_of_explorers_choose_from_careful_ones_and_the_papers_from_its_two():
    assert TASK.choices == ("Soft-Funnel", "Hard-Funnel")
    assert get_task("lunar-lander", student="two-layer").choices == ("Narrow", "Wide")
    assert TASK.intervention_names == ("Narrow", "Wide", *OURS, *TASK.choices)


@pytest.mark.parametrize("name", TASK.choices)
def test_the_soft_and_the_hard_funnel_trigger_where_funnel_does(name):
    everywhere = anywhere()
    one, funnel = TASK.intervention(name), TASK.intervention("Funnel")
    np.testing.assert_array_equal(one.triggered(everywhere), funnel.triggered(everywhere))


def test_noisy_sensors_are_no_broken_promise():
    """What is seen of one state differs from look to look."""
    whose = {promise.what for promise in check_task(get_task("lunar-lander", "quick", "noisy"))}
    assert whose == {"reset of 'Narrow'", "reset of 'Wide'"}
