"""The Gymnasium backend: batches of tiny students on the lake, unit by unit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest

from cisr.core.errors import ConfigError, TaskError
from cisr.core.intervention import Intervention, Rewind
from cisr.curricula import Fixed, Schedule, Switching, Threshold
from cisr.students import MLP, StudentConfig
from cisr.students.distributions import Categorical, Categoricals, Gaussian
from cisr.students.networks import ObservationSpec
from cisr.students.program import learners_from_arrays, program_for
from cisr.tasks import get_task
from cisr.training import Batch, Checkpoint, Execution, Graduation, Progress, StudentSpec, TrainingSetup
from cisr.training.gymnasium import train
from cisr.training.setup import rehearse_setup
from cisr.training.spaces import specs_of

CONFIG = StudentConfig(
    network=MLP(hidden=(8,)),
    n_envs=2,
    n_steps=16,
    n_minibatches=2,
    n_epochs=2,
    rounds_per_unit=2,
    updates_per_round=2,
    learning_rate=5e-3,
)
TASK = get_task("frozen-lake", "quick").with_training(n_units=3, deployment_steps=60, student=CONFIG)
POLICIES = {
    "ana": Fixed("SR1"),
    "ben": Schedule(("SR1", "SR2", "HR")),
    "cleo": Switching(interventions=("HR", "SR2"), thresholds=(Threshold(min_return=-9.0, max_violation=9.0),)),
}
ALL = tuple(POLICIES)


def test_a_time_limit_below_the_horizon_is_said_before_training(caplog):
    make_env = partial(gymnasium.make, "CartPole-v1", max_episode_steps=30)
    task = replace(TASK, name="pole", make_env=lambda **options: make_env(**options), horizon=40)
    for _ in range(2):  # and once
        rehearse_setup(TrainingSetup(task=task), Execution(n_workers=0))
    (said,) = [record.message for record in caplog.records]
    assert "task 'pole' cuts its episodes off after 30 steps (TimeLimit), before the horizon of " in said


def batch(*names, **settings):
    """Students who are the same wherever they are taught: policy and seed follow from the name."""
    config = replace(CONFIG, **settings)
    return Batch(
        name=names[0],
        students=tuple(
            StudentSpec(name=name, policy=POLICIES[name], config=config, seed=100 + ALL.index(name)) for name in names
        ),
    )


def taught(students, task=TASK, checkpoint=None, **setup):
    """Checkpoints and the graduation."""
    events = list(train(TrainingSetup(task=task, **setup), students, checkpoint))
    assert all(isinstance(event, Progress | Checkpoint | Graduation) for event in events)
    return [e for e in events if isinstance(e, Checkpoint)], events[-1]


def timeless(checkpoints):
    """What is recorded of every unit, less the seconds that it took."""
    return [
        [record and (replace(record.log, seconds=0.0), record.stage) for record in checkpoint.records]
        for checkpoint in checkpoints
    ]


def assert_same(one, other):
    checkpoints, graduation = one
    other_checkpoints, other_graduation = other
    assert timeless(checkpoints) == timeless(other_checkpoints)
    assert graduation == other_graduation
    for a, b in zip(checkpoints, other_checkpoints, strict=True):
        assert a.weights.keys() == b.weights.keys()
        for name in a.weights:
            np.testing.assert_array_equal(a.weights[name], b.weights[name], err_msg=name)


@pytest.fixture(scope="module")
def class_of_three():
    return taught(batch(*ALL))


# What a batch yields


def test_every_unit_ends_with_a_checkpoint_and_the_batch_with_a_graduation(class_of_three):
    checkpoints, graduation = class_of_three
    assert [checkpoint.unit for checkpoint in checkpoints] == [1, 2, 3]
    assert graduation.errors == (None,) * 3
    assert all(deployment.under == "none" for deployment in graduation.deployments)


def test_every_student_meets_the_interventions_of_its_own_curriculum(class_of_three):
    met = zip(*([record.log.intervention for record in c.records] for c in class_of_three[0]), strict=True)
    assert list(met) == [("SR1",) * 3, ("SR1", "SR2", "HR"), ("SR2",) * 3]


def test_units_under_interventions_count_no_failures_and_some_rescues(class_of_three):
    logs = [record.log for checkpoint in class_of_three[0] for record in checkpoint.records]
    assert sum(log.failures for log in logs) == 0
    assert sum(log.rescues for log in logs) > 0
    assert all(log.steps == 2 * 2 * 2 * 16 for log in logs)
    assert all(0 <= sum(log.multipliers) <= CONFIG.multiplier_bound for log in logs)


def test_progress_counts_every_step_of_training():
    events = train(TrainingSetup(task=TASK.with_training(n_units=1)), batch(*ALL))
    assert sum(event.steps for event in events if isinstance(event, Progress)) == 3 * CONFIG.steps_per_unit


def test_a_deployment_lasts_at_least_its_steps_and_ends_with_whole_episodes(class_of_three):
    for deployment in class_of_three[1].deployments:
        assert deployment.steps >= TASK.training.deployment_steps
        assert sum(deployment.outcomes.values()) == pytest.approx(1.0)
        assert deployment.outcomes["other"] == 0.0


# Reproducibility


def test_the_same_seeds_give_the_same_transcripts_and_weights(class_of_three):
    assert_same(taught(batch(*ALL)), class_of_three)


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_going_on_from_a_checkpoint_gives_what_going_on_without_a_stop_would_have_given(unit, class_of_three):
    checkpoints, graduation = class_of_three
    assert_same(taught(batch(*ALL), checkpoint=checkpoints[unit - 1]), (checkpoints[unit:], graduation))


def test_students_of_a_batch_do_not_influence_each_other(class_of_three):
    checkpoints, graduation = class_of_three
    for k, name in enumerate(ALL):
        alone, alone_graduation = taught(batch(name))
        for together, apart in zip(checkpoints, alone, strict=True):
            mine, own = together.records[k].log, apart.records[0].log
            assert (mine.intervention, mine.rescues, mine.episodes) == (own.intervention, own.rescues, own.episodes)
            assert mine.mean_return == pytest.approx(own.mean_return, abs=1e-5)
            for key in together.weights:
                np.testing.assert_allclose(together.weights[key][k], apart.weights[key][0], atol=1e-5, err_msg=key)
        assert graduation.deployments[k].outcomes == alone_graduation.deployments[0].outcomes


def test_students_with_other_seeds_are_other_students():
    ana = batch("ana").students[0]
    class_of_anas = tuple(replace(ana, name=f"ana {seed}", seed=seed) for seed in (100, 7, 8))
    checkpoints, _ = taught(Batch(name="anas", students=class_of_anas), TASK.with_training(n_units=1))
    weight = checkpoints[0].weights["params/hidden0.weight"]
    assert np.abs(weight[0] - weight[1]).max() > 0.01


# Switching


def test_a_switch_clears_the_optimiser_and_staying_does_not(class_of_three):
    per_unit = 2 * 2 * 2 * 2  # rounds, updates, epochs, minibatches
    steps = [learners_from_arrays(checkpoint.weights).adam.steps.tolist() for checkpoint in class_of_three[0]]
    assert steps == [[per_unit * unit, per_unit, per_unit * unit] for unit in (1, 2, 3)]


def test_multipliers_carry_over_a_switch(class_of_three):
    # From SR1 to SR2 ben's weights move by the two rounds' violations alone: |Δ log λ| ≤ 2 · (1 + 0.1) · 2.
    before, after = (learners_from_arrays(c.weights).log_weights[1] for c in class_of_three[0][:2])
    start = np.full(3, -np.log(3.0))
    assert np.abs(np.asarray(before) - start).max() > 1e-3
    assert np.abs(np.asarray(after) - np.asarray(before)).max() < 4.4


def test_a_switch_compiles_nothing_new():
    config = replace(CONFIG, n_steps=8)  # a shape of its own, so that no other test has compiled it
    student = StudentSpec(name="ben", policy=POLICIES["ben"], config=config, seed=1)
    taught(Batch(name="ben", students=(student,)))
    program = program_for(config.shape, *specs_of(TASK), len(TASK.constraints))
    assert program.update._cache_size() == 1
    assert program.act._cache_size() == 1
    assert program.transfer._cache_size() == 1


# What the learner is told


def rollouts_of(monkeypatch, task, **settings):
    """The rollouts that one student under SR2 learns from in one unit."""
    student = StudentSpec(name="s", policy=Fixed("SR2"), config=replace(CONFIG, **settings), seed=3)
    program, heard = program_for(student.config.shape, *specs_of(task), len(task.constraints)), []
    update = program.update
    monkeypatch.setattr(program, "update", lambda *args: heard.append(args[1]) or update(*args))
    (checkpoint,), _ = taught(Batch(name="s", students=(student,)), task.with_training(n_units=1))
    return checkpoint.records[0].log, heard


def test_a_rescue_is_no_end_to_the_learner_and_the_time_limit_is_one_without_a_value(monkeypatch):
    log, rollouts = rollouts_of(monkeypatch, replace(TASK, horizon=13))
    assert log.rescues > 0
    # 32 steps in a round and episodes of 13 (nobody reaches the goal so soon): ends after steps 13 and 26.
    first, second = rollouts[0].ends[0], rollouts[1].ends[0]
    assert np.flatnonzero(first.all(axis=1)).tolist() == [12]
    assert np.flatnonzero(second.all(axis=1)).tolist() == [26 - 16 - 1]
    assert first.sum() + second.sum() == 4
    assert not any(rollout.end_values.any() for rollout in rollouts)


def test_a_student_may_bootstrap_the_time_limit(monkeypatch):
    _, rollouts = rollouts_of(monkeypatch, replace(TASK, horizon=13), bootstrap_time_limit=True)
    for rollout in rollouts:
        np.testing.assert_array_equal(rollout.end_values != 0, rollout.ends)


# Students who fail


class Fragile(gymnasium.Wrapper):
    """Breaks down for good when all environments together have taken `patience` steps."""

    steps = 0
    patience = 90

    def step(self, action):
        Fragile.steps += 1
        if Fragile.steps == Fragile.patience:
            raise RuntimeError("the motor is on fire")
        return super().step(action)


def test_an_environment_that_raises_fails_its_student_alone(class_of_three, monkeypatch):
    monkeypatch.setattr(Fragile, "steps", 0)
    task = replace(TASK, make_env=lambda **options: Fragile(TASK.make_env(**options)))
    checkpoints, graduation = taught(batch(*ALL), task)
    failed = [k for k, error in enumerate(graduation.errors) if error is not None]
    assert len(failed) == 1
    assert "the motor is on fire" in graduation.errors[failed[0]].message
    assert ALL[failed[0]] in graduation.errors[failed[0]].message
    assert graduation.deployments[failed[0]] is None
    whole, whole_graduation = class_of_three
    for k in set(range(3)) - set(failed):
        assert [unit[k] for unit in timeless(checkpoints)] == [unit[k] for unit in timeless(whole)]
        assert graduation.deployments[k] == whole_graduation.deployments[k]


def test_an_environment_that_cannot_be_made_fails_its_student_with_the_reason():
    made = []

    def make_env(**options):
        made.append(1)
        if len(made) > 2:  # the first ones are looked at
            raise OSError("no licence")
        return TASK.make_env(**options)

    _, graduation = taught(batch("ana"), replace(TASK, make_env=make_env))
    assert graduation.deployments == (None,)
    assert "no licence" in graduation.errors[0].message


def test_weights_that_are_no_numbers_fail_their_student_alone(class_of_three):
    students = list(batch(*ALL).students)
    students[1] = replace(students[1], config=replace(CONFIG, learning_rate=1e38))
    checkpoints, graduation = taught(Batch(name="ana", students=tuple(students)))
    assert [error is not None for error in graduation.errors] == [False, True, False]
    assert "'ben'" in graduation.errors[1].message
    assert "learning_rate" in graduation.errors[1].message
    assert graduation.deployments[1] is None
    assert checkpoints[0].records[1] is None
    for k in (0, 2):
        assert [unit[k] for unit in timeless(checkpoints)] == [unit[k] for unit in timeless(class_of_three[0])]


def test_a_failed_student_stays_failed_after_a_stop():
    students = batch(*ALL, learning_rate=1e38)
    checkpoints, graduation = taught(students)
    assert all(graduation.errors)
    assert taught(students, checkpoint=checkpoints[-1])[1] == graduation


def test_a_broken_trigger_is_the_tasks_fault_and_stops_everybody():
    broken = Intervention(name="SR1", trigger=lambda state: state > 3, reset=Rewind(), tau=0.0)
    with pytest.raises(TaskError, match="trigger 'rescues' of 'SR1'"):
        taught(batch("ana"), replace(TASK, interventions=(broken, *TASK.interventions[1:])))


# Evaluation


def test_final_policies_can_be_evaluated_where_nothing_can_go_wrong():
    _, graduation = taught(batch("ana"), TASK.with_training(n_units=1), evaluate_under="HR")
    (deployment,) = graduation.deployments
    assert (deployment.under, deployment.failures) == ("HR", 0)
    rescued = deployment.outcomes["rescue"]
    assert rescued > 0
    assert deployment.rescues == round(rescued * deployment.episodes)
    assert deployment.score <= -2 * 201 * 6.0 * rescued + 6.0


def test_periodic_deployment_is_a_switch_and_changes_nothing_else(class_of_three):
    checkpoints, graduation = taught(batch(*ALL), deploy_each_unit=True)
    assert graduation == class_of_three[1]
    for unit, other in zip(checkpoints, class_of_three[0], strict=True):
        for record, without in zip(unit.records, other.records, strict=True):
            assert record.log.deployment.under == "none"
            assert without.log.deployment is None
            assert replace(record.log, deployment=None, seconds=0.0) == replace(without.log, seconds=0.0)


# Spaces


class Spaces(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space


BOX, DISCRETE = gymnasium.spaces.Box(-1.0, 1.0, (3,)), gymnasium.spaces.Discrete(4)


def specs(seen, done):
    return specs_of(replace(TASK, make_env=lambda: Spaces(seen, done)))


SPACES = gymnasium.spaces
ONE = gymnasium.spaces.Dict(a=BOX, b=SPACES.Tuple((SPACES.Discrete(3, start=1), SPACES.MultiBinary(2))))


@pytest.mark.parametrize(
    ("seen", "spec"),
    [
        (BOX, ObservationSpec((3,))),
        (SPACES.Box(0, 9, (2,), np.int64), ObservationSpec((2,))),
        (SPACES.Box(0, 255, (5, 4, 3), np.uint8), ObservationSpec((5, 4, 3), image=True)),
        (SPACES.Box(0, 255, (128,), np.uint8), ObservationSpec((128,))),
        (SPACES.Discrete(9), ObservationSpec((), n_values=9)),
        (SPACES.Discrete(3, start=1), ObservationSpec((), n_values=3, start=1)),
        (SPACES.MultiBinary((2, 2)), ObservationSpec((2, 2))),
        (SPACES.MultiDiscrete([2, 5]), ObservationSpec((7,))),
        (ONE, ObservationSpec((8,))),
    ],
)
def test_students_see_spaces_of_all_kinds(seen, spec):
    assert specs(seen, DISCRETE)[0] == spec


@pytest.mark.parametrize(
    ("done", "distribution"),
    [
        (DISCRETE, Categorical(4)),
        (SPACES.Discrete(3, start=-1), Categorical(3, -1)),
        (SPACES.MultiDiscrete([[2, 5]], start=[[0, 1]]), Categoricals((2, 5), (0, 1), (1, 2))),
        (SPACES.MultiBinary(3), Categoricals((2, 2, 2), (0, 0, 0), (3,))),
        (SPACES.Box(-1.0, np.inf, (2, 1)), Gaussian((-1.0, -1.0), (np.inf, np.inf), (2, 1))),
    ],
)
def test_students_act_in_spaces_of_all_kinds(done, distribution):
    assert specs(BOX, done)[1] == distribution


@pytest.mark.parametrize(
    ("seen", "done", "complaint"),
    [
        (BOX, SPACES.Dict(a=BOX), "the action space Dict.*TransformAction"),
        (BOX, SPACES.Box(0, 9, (2,), np.int64), "the action space Box.*floating-point.*TransformAction"),
        (SPACES.Text(5), DISCRETE, "the observation space Text.*TransformObservation"),
        (SPACES.Sequence(BOX), DISCRETE, "the observation space Sequence.*TransformObservation"),
        (SPACES.Graph(BOX, None), DISCRETE, "the observation space Graph.*TransformObservation"),
        (SPACES.Dict(a=BOX, mission=SPACES.Text(5)), DISCRETE, "the observation space Dict.*FilterObservation"),
    ],
)
def test_spaces_that_students_cannot_handle_are_refused_with_the_wrapper_that_mends_it(seen, done, complaint):
    with pytest.raises(ConfigError, match=complaint):
        specs(seen, done)
