import dataclasses

import jax
import numpy as np
import pytest
import tiny

from cisr import ConfigError, Drive, Fixed, Intervention, Override, Schedule, Switching, TaskError, Threshold
from cisr.training import Batch, Checkpoint, Graduation, Progress, StudentSpec, TrainingSetup
from cisr.training.compiled import cohort_for, train
from cisr.training.setup import choose_backend

SETUP = TrainingSetup(task=tiny.compiled, backend="compiled")
POLICIES = {
    "SR1": Fixed("SR1"),
    "HR": Fixed("HR"),
    "none": Fixed("none"),
    "taught": Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-9, max_violation=0.5),)),
    "later": Schedule(("SR2", "SR1", "HR")),
}


def batch(*names, config=tiny.student):
    students = tuple(
        StudentSpec(name=n, policy=POLICIES.get(n, Fixed(n)), config=config, seed=k) for k, n in enumerate(names)
    )
    return Batch(name="batch", students=students)


def events(setup, of, checkpoint=None):
    return [event for event in train(setup, of, checkpoint) if not isinstance(event, Progress)]


@pytest.fixture(scope="module")
def taught():
    return events(SETUP, batch(*POLICIES))


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one.weights, other.weights)
    assert (one.unit, one.records, one.errors) == (other.unit, other.records, other.errors)


def test_the_same_seeds_give_the_same_students(taught):
    again = events(SETUP, batch(*POLICIES))
    for one, other in zip(taught[:-1], again[:-1], strict=True):
        assert_equal(one, other)
    assert taught[-1] == again[-1]


def test_going_on_from_a_checkpoint_changes_nothing(taught):
    rest = events(SETUP, batch(*POLICIES), taught[0])
    for one, other in zip(taught[1:-1], rest[:-1], strict=True):
        assert_equal(one, other)
    assert taught[-1] == rest[-1]


def test_nobody_fails_under_an_intervention_and_students_without_one_do(taught):
    for checkpoint in taught[:-1]:
        failures = {name: r.log.failures for name, r in zip(POLICIES, checkpoint.records, strict=True)}
        assert {name for name, n in failures.items() if n} == {"none"}


def test_students_follow_their_curricula(taught):
    met = [[c.records[k].log.intervention for c in taught[:-1]] for k in range(len(POLICIES))]
    assert met[0] == ["SR1"] * 3
    assert met[3] == ["HR"] * 3  # (0, 0) passes its threshold
    assert met[4] == ["SR2", "SR1", "HR"]


def test_units_and_deployments_are_counted_as_in_the_other_backend(taught):
    for checkpoint in taught[:-1]:
        for record in checkpoint.records:
            assert record.log.steps == tiny.student.steps_per_unit
            assert record.log.episodes >= 1
            assert record.log.violation >= -0.1
    for deployment in taught[-1].deployments:
        assert sum(deployment.outcomes.values()) == pytest.approx(1.0)
        assert deployment.failures == round(deployment.outcomes["failure"] * deployment.episodes)
        assert deployment.steps >= tiny.task.training.deployment_steps


def test_switching_curricula_compiles_nothing_new(taught):
    cohort = cohort_for(tiny.compiled, tiny.student.shape, ())
    compiled = cohort.unit._cache_size()
    events(SETUP, Batch(name="other", students=batch(*POLICIES).students[::-1]))
    assert cohort.unit._cache_size() == compiled


def test_longer_rewinds_train_too():
    policy = Schedule(("Back-2", "Back-4", "SR1"))
    student = StudentSpec(name="back", policy=policy, config=tiny.student, seed=1)
    *checkpoints, end = events(SETUP, Batch(name="back", students=(student,)))
    assert all(c.records[0].log.failures == 0 and c.records[0].log.rescues > 0 for c in checkpoints)
    assert isinstance(end, Graduation)


def test_both_backends_agree_on_what_random_students_meet():
    """Students that do not learn see the same distribution of episodes in both backends."""
    from cisr.training import gymnasium

    config = dataclasses.replace(tiny.student, learning_rate=0.0, n_steps=256, updates_per_round=4)
    task = tiny.compiled.with_training(n_units=1, deployment_steps=4000)
    students = tuple(StudentSpec(name=f"s{k}", policy=POLICIES["SR1"], config=config, seed=k) for k in range(4))
    found = []
    for backend in (train, gymnasium.train):
        checkpoint, end = (
            e
            for e in backend(TrainingSetup(task=task), Batch(name="b", students=students))
            if not isinstance(e, Progress)
        )
        assert isinstance(checkpoint, Checkpoint)
        rates = [r.log.rescues / r.log.steps for r in checkpoint.records]
        fell = [d.outcomes["failure"] for d in end.deployments]
        found.append((np.mean(rates), np.mean(fell)))
    assert found[0][0] == pytest.approx(found[1][0], abs=0.02)
    assert found[0][1] == pytest.approx(found[1][1], abs=0.05)


def test_a_task_without_a_twin_stays_on_the_gymnasium_backend():
    assert choose_backend(tiny.task, "auto") == "gymnasium"
    assert choose_backend(tiny.compiled, "auto") == "compiled"
    with pytest.raises(ConfigError, match="has no JAX environment"):
        choose_backend(tiny.task, "compiled")


def astray(act, controller):
    veto = Intervention(name="veto", trigger=lambda s, a: (s[..., 0] > 0) & (a == 1), reset=Override(act), tau=0.1)
    steer = Intervention(name="steer", trigger=lambda s: s[..., 0] > 0, reset=Drive(controller, max_steps=2), tau=0.1)
    short = tiny.compiled.with_training(n_units=1)
    return dataclasses.replace(short, interventions=(veto, steer), safe_evaluation=None)


ASTRAY = astray(lambda s, a: 4 + 0 * a, lambda s: -1 + 0 * s[..., 0])


@pytest.mark.parametrize("name", ["veto", "steer"])
def test_a_rescue_that_acts_outside_of_the_action_space_is_named(name):
    with pytest.raises(TaskError, match=f"of '{name}' of task 'compiled-lake' answered actions .*in unit 1"):
        events(TrainingSetup(task=ASTRAY, backend="compiled"), batch(name))


def test_a_rescue_whose_actions_are_of_another_type_is_refused_on_the_compiled_backend():
    task = astray(lambda s, a: 0.5 + a, lambda s: 0 * s[..., 0])
    with pytest.raises(TaskError, match="The act of an Override of task 'compiled-lake' answered float32"):
        events(TrainingSetup(task=task, backend="compiled"), batch("veto"))
