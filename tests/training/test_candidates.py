"""Students that try their last policies in M_0 and hand in the best, on both backends."""

import dataclasses

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from cisr import Deployment, Execution, Fixed, Intervention, Rewind, Store, Transcript, compare, explorer
from cisr.store.load_student import load_student
from cisr.students.ppo import Learner
from cisr.training import Batch, Checkpoint, StudentSpec, TrainingSetup, UnitLog, candidates, compiled, gymnasium

BACKENDS = {"gymnasium": gymnasium.train, "compiled": compiled.train}
SEVERAL = explorer(tiny.student, n_candidates=2, learning_rate=1e-2)
ONE = dataclasses.replace(SEVERAL, n_candidates=1)
IDLE = Intervention(name="idle", trigger=lambda s: s[..., 0] < 0, reset=Rewind(), tau=0.0)


def batch(config, n=4, under="SR1"):
    students = [StudentSpec(name=f"s{k}", policy=Fixed(under), config=config, seed=k) for k in range(n)]
    return Batch(name="batch", students=tuple(students))


def taught(backend, students, task=tiny.compiled, checkpoint=None, **setup):
    """Checkpoints and the graduation."""
    events = list(BACKENDS[backend](TrainingSetup(task=task, backend=backend, **setup), students, checkpoint))
    return [event for event in events if isinstance(event, Checkpoint)], events[-1]


def evaluations(checkpoints, k):
    return [checkpoint.records[k].log.evaluation for checkpoint in checkpoints]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def tried(backend):
    return taught(backend, batch(SEVERAL))


@pytest.fixture(scope="module")
def untried(backend):
    return taught(backend, batch(ONE))


def deployment(mean_return=0.0, **changes):
    fields = {"under": "HR", "steps": 10, "episodes": 1, "score": 0.0, "failures": 0, "rescues": 0, "outcomes": {}}
    return Deployment(mean_return=mean_return, **(fields | changes))


def unit(number, evaluation=None, **changes):
    fields = {"intervention": "SR1", "steps": 10, "episodes": 1, "mean_return": 0.0, "success": 0.0, "violation": 0.0}
    fields |= {"rescues": 0, "failures": 0, "multipliers": ()}
    return UnitLog(unit=number, evaluation=evaluation, **(fields | changes))


def transcript(*units, **changes):
    fields = {"name": "s", "curriculum": {}, "config": SEVERAL, "seed": 0, "deployment": deployment(under="none")}
    return Transcript(units=units, **(fields | changes))


# Which policy is handed in


def test_the_best_so_far_is_kept_for_each_student_and_of_equal_ones_the_later():
    def learner(number):
        return Learner(params={"w": jnp.full((3, 2), number)}, adam=None, log_weights=None)

    best = candidates.best_of(None, learner(1.0), [deployment(1.0), deployment(2.0), deployment(-3.0)])
    best = candidates.best_of(best, learner(2.0), [deployment(1.0), deployment(1.9), None])
    np.testing.assert_array_equal(best.params["w"], [[2, 2], [1, 1], [1, 1]])
    assert best.returns.tolist() == [1.0, 2.0, -3.0]
    again = candidates.from_arrays({"params/w": np.zeros(3)} | candidates.to_arrays(best))
    np.testing.assert_array_equal(again.params["w"], best.params["w"])
    assert again.returns.tolist() == best.returns.tolist()


def test_without_evaluations_there_are_no_candidates():
    learner = Learner(params={"w": jnp.zeros((1, 2))}, adam=None, log_weights=None)
    assert candidates.best_of(None, learner, [None]) is None
    assert candidates.to_arrays(None) == {} and candidates.from_arrays({"params/w": np.zeros(3)}) is None


def test_a_transcript_says_which_units_policy_was_handed_in():
    first, second, third = unit(1), unit(2, deployment(5.0)), unit(3, deployment(4.0))
    assert transcript(first, second, third).handed_in == 2
    assert transcript(first, second, unit(3, deployment(5.0))).handed_in == 3
    assert transcript(first, unit(2)).handed_in == 2
    assert transcript(first, second, deployment=None).handed_in is None


def test_returns_decide_and_not_the_score_that_a_student_which_stands_still_would_win():
    still, bold = deployment(-1.0, score=-1.0), deployment(3.0, score=-1000.0)
    assert transcript(unit(1, bold), unit(2, still)).handed_in == 1


def test_the_last_policies_are_tried_in_m0_and_the_earlier_ones_are_not(tried):
    for k in range(4):
        first, second, third = evaluations(tried[0], k)
        assert first is None and second.under == third.under == "HR"
        assert second.failures == third.failures == 0


def test_trying_policies_changes_nothing_in_training(tried, untried):
    for one, other in zip(tried[0], untried[0], strict=True):
        for k in range(4):
            assert dataclasses.replace(one.records[k].log, evaluation=None) == other.records[k].log
    for name, array in untried[0][1].weights.items():
        np.testing.assert_array_equal(tried[0][1].weights[name], array)


def test_the_weights_at_the_end_are_those_of_the_best_candidate(tried, untried):
    checkpoints, graduation = tried
    ends = [[c.records[k].log for c in checkpoints] for k in range(4)]
    units = [transcript(*ends[k], deployment=graduation.deployments[k]).handed_in for k in range(4)]
    assert set(units) == {2, 3}
    for name in (name for name in checkpoints[-1].weights if name.startswith("params/")):
        for k, chosen in enumerate(units):
            np.testing.assert_array_equal(checkpoints[-1].weights[name][k], untried[0][chosen - 1].weights[name][k])
    for k, chosen in enumerate(units):
        assert (graduation.deployments[k] == untried[1].deployments[k]) is (chosen == 3)


def test_a_policy_is_handed_in_with_the_statistics_that_it_saw_by():
    def taught_by(config):
        return taught("gymnasium", batch(dataclasses.replace(config, normalize_observations=True)))

    (checkpoints, graduation), (alone, _) = taught_by(SEVERAL), taught_by(ONE)
    logs = [[c.records[k].log for c in checkpoints] for k in range(4)]
    units = [transcript(*logs[k], deployment=graduation.deployments[k]).handed_in for k in range(4)]
    assert 2 in units
    statistics = [name for name in checkpoints[-1].weights if name.startswith("statistics/")]
    assert any((alone[1].weights[name] != alone[2].weights[name]).any() for name in statistics)
    for name in (name for name in checkpoints[-1].weights if name.startswith(("params/", "statistics/"))):
        for k, chosen in enumerate(units):
            np.testing.assert_array_equal(checkpoints[-1].weights[name][k], alone[chosen - 1].weights[name][k])


def test_candidates_travel_in_checkpoints_until_one_is_handed_in(tried):
    carried = [any(name.startswith("candidate") for name in checkpoint.weights) for checkpoint in tried[0]]
    assert carried == [False, True, False]


def test_a_student_of_a_store_acts_as_what_it_handed_in(tmp_path, backend):
    with Store(tmp_path / "s") as store:
        task = tiny.compiled.with_training(student=SEVERAL)
        compare(
            task, {"SR1": Fixed("SR1")}, n_students=3, store=store, execution=Execution(backend=backend, n_workers=0)
        )
        names = [t.name for t in store.transcripts()]
        weights = {}

        def listen(heard):
            event = heard.event
            if isinstance(event, Checkpoint):
                for k, student in enumerate(heard.batch.students):
                    weights[student.name, event.unit] = {name: array[k] for name, array in event.weights.items()}

        task = task.with_training(student=ONE)
        compare(
            task,
            {"SR1": Fixed("SR1")},
            n_students=3,
            callback=listen,
            execution=Execution(backend=backend, n_workers=0),
        )
        for name in names:
            handed_in = weights[name, store.transcript(name).handed_in]
            for key, array in load_student(store, task, name).params.items():
                np.testing.assert_array_equal(array, handed_in[f"params/{key}"])


@pytest.mark.parametrize("done", [1, 2, 3])
def test_going_on_between_candidates_from_what_a_store_kept_changes_nothing(tmp_path, backend, tried, done):
    checkpoints, graduation = tried
    with Store(tmp_path / "s") as store:
        (kept,) = store.register(batch(SEVERAL).students, lambda students: [batch(SEVERAL)][: len(students)])
        for checkpoint in checkpoints[:done]:
            store.keep_checkpoint(kept, checkpoint)
    with Store(tmp_path / "s") as store:
        rest, end = taught(backend, kept, checkpoint=store.checkpoint(kept))
    assert end == graduation
    for one, other in zip(checkpoints[done:], rest, strict=True):
        assert (one.unit, one.records, one.errors) == (other.unit, other.records, other.errors)
        assert one.weights.keys() == other.weights.keys()
        for name, array in one.weights.items():
            np.testing.assert_array_equal(array, other.weights[name], err_msg=name)


def test_where_there_is_no_m0_the_last_policy_is_handed_in(backend):
    task = dataclasses.replace(tiny.compiled, safe_evaluation=None)
    checkpoints, graduation = taught(backend, batch(SEVERAL, n=2), task)
    plain, plain_graduation = taught(backend, batch(ONE, n=2), task)
    assert evaluations(checkpoints, 0) == [None] * 3
    assert graduation == plain_graduation
    for name, array in plain[-1].weights.items():
        np.testing.assert_array_equal(checkpoints[-1].weights[name], array)


# How a student is deployed


def test_a_deterministic_student_is_deployed_by_its_most_likely_actions(backend, untried):
    """As a stochastic one that is sure of them: the logits are a million times larger."""
    *_, last = untried[0]
    sure = {
        name: array * np.float32(1e6 if name.startswith("params/policy") else 1) for name, array in last.weights.items()
    }
    stochastic = dataclasses.replace(ONE, deterministic=False)
    _, drawn = taught(backend, batch(stochastic), checkpoint=last)
    _, certain = taught(backend, batch(stochastic), checkpoint=last._replace(weights=sure))
    assert certain.deployments == untried[1].deployments != drawn.deployments


# What evaluations cost


def test_failures_of_evaluations_are_counted_apart_from_those_of_training(backend):
    tried = unit(2, deployment(failures=3, rescues=5), failures=10, rescues=20)
    student = transcript(unit(1, failures=1, rescues=2), tried)
    assert (student.training_failures, student.safe_evaluation_failures, student.rescues) == (11, 3, 27)
    assert transcript(unit(1)).safe_evaluation_failures == 0
    interventions = (*tiny.compiled.interventions, IDLE)
    task = dataclasses.replace(tiny.compiled, interventions=interventions, safe_evaluation="idle")
    checkpoints, _ = taught(backend, batch(SEVERAL), task)
    students = [transcript(*(checkpoint.records[k].log for checkpoint in checkpoints)) for k in range(4)]
    assert {student.training_failures for student in students} == {0}
    in_m0 = [sum(unit.evaluation.failures for unit in student.units[1:]) for student in students]
    assert [student.safe_evaluation_failures for student in students] == in_m0 and sum(in_m0) > 0


class Fragile(gym.Wrapper):
    """Counts falls, and breaks down when all environments together have taken `patience` steps."""

    steps, patience, falls = 0, 0, 0

    def step(self, action):
        Fragile.steps += 1
        if Fragile.steps >= Fragile.patience:
            raise RuntimeError("the ice broke")
        result = super().step(action)
        Fragile.falls += self.unwrapped.desc.ravel()[self.unwrapped.s] == b"H"
        return result


@pytest.mark.parametrize("under", ["SR1", "none"])
def test_a_student_that_breaks_in_an_evaluation_takes_the_failures_of_the_unit_and_the_evaluation_along(
    monkeypatch, under
):
    task = dataclasses.replace(
        tiny.task.with_training(n_units=1),
        interventions=(*tiny.task.interventions, IDLE),
        safe_evaluation="idle",
        make_env=lambda **options: Fragile(tiny.task.make_env(**options)),
    )
    monkeypatch.setattr(gymnasium, "check_state_functions", lambda task, ask: None)  # it would step the environment
    monkeypatch.setattr(Fragile, "steps", 0)
    monkeypatch.setattr(Fragile, "falls", 0)
    monkeypatch.setattr(Fragile, "patience", SEVERAL.steps_per_unit + 90)
    drawing = dataclasses.replace(SEVERAL, deterministic=False)  # it falls sooner
    (checkpoint,), graduation = taught("gymnasium", batch(drawing, n=1, under=under), task)
    assert checkpoint.records == (None,) and graduation.deployments == (None,)
    (error,) = graduation.errors
    assert "the ice broke" in error.message
    assert error.failures == Fragile.falls > 0
