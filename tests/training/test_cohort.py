"""A cohort whose steps are kernels, beside the same one as plain XLA."""

import dataclasses

import drift
import jax
import numpy as np
import pytest
import tiny

from cisr import Intervention, Place, Rewind, ToStart
from cisr.cmdp.compiled import Rules
from cisr.students.program import stack_hyperparameters
from cisr.training.cohort import Cohort

pytest.importorskip("llvmlite", reason="kernels of a CPU need llvmlite")

BEYOND = {
    "back": Rewind(1),
    "home": Place(lambda state, history, u: state * (0.5 + u[..., :1]) * 0.1, n_uniforms=1),
    "start": ToStart(),
    "none": None,
}
TASK = dataclasses.replace(
    drift.task,
    interventions=tuple(
        Intervention(name=name, trigger=lambda s: abs(s).max(axis=-1) > 0.8, reset=reset, tau=0.1)
        for name, reset in BEYOND.items()
        if reset is not None
    ),
)
PLAIN = dataclasses.replace(drift.student, normalize_observations=False, normalize_rewards=False)
SEEDS = np.arange(len(BEYOND), dtype=np.uint32)


def unit_and_deployment(cohort):
    each = [cohort.cmdp.rules(TASK.intervention(name)) for name in BEYOND]
    rules = Rules(*(np.stack(column) for column in zip(*each, strict=True)))
    hypers = stack_hyperparameters([PLAIN] * len(BEYOND), 1, 3)
    learners, sums = cohort.unit(cohort.program.new(SEEDS), rules, hypers, SEEDS)
    deployed, visits = cohort.deploy(learners, rules, SEEDS, np.float32(np.nan))
    return learners, sums, deployed, visits


@pytest.fixture(scope="module")
def cohort():
    return Cohort(TASK, PLAIN.shape, episodes=5)


@pytest.fixture(scope="module")
def found(cohort):
    return unit_and_deployment(cohort)


def test_kernels_and_plain_xla_train_and_deploy_the_same_students(cohort, found):
    without = Cohort(TASK, PLAIN.shape, episodes=5)
    without.__dict__["kernels"] = None
    assert cohort.on_host and not without.on_host
    expected = unit_and_deployment(without)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert np.allclose(a, b, rtol=2e-3, atol=2e-3)
    _, sums, deployed, _ = found
    assert (np.asarray(sums.rescues)[:3] > 0).all() and np.asarray(sums.rescues)[3] == 0
    assert np.array_equal(sums.rescues, expected[1].rescues) and np.array_equal(deployed.steps, expected[2].steps)


def test_a_number_of_episodes_is_that_number_in_kernels_too(found):
    _, _, deployed, _ = found
    assert (np.asarray(deployed.episodes) == 5).all()


def test_the_same_seeds_give_the_same_students_to_the_last_bit(cohort, found):
    jax.tree.map(np.testing.assert_array_equal, found, unit_and_deployment(cohort))


def test_environments_that_know_of_each_other_or_remember_much_are_no_kernels():
    far = dataclasses.replace(TASK, interventions=(dataclasses.replace(TASK.interventions[0], reset=Rewind(3)),))
    assert Cohort(TASK, drift.student.shape).kernels is None
    assert Cohort(far, PLAIN.shape).kernels is None
    assert Cohort(tiny.compiled, tiny.student.shape).kernels is None
