"""Students that start over, on both backends: they are new, and nobody else notices."""

import numpy as np
import pytest
import tiny

from cisr import Execution, Fixed, Patient, Schedule, Store, Switching, Threshold, compare
from cisr.core.seeding import derive_seed
from cisr.students.program import learners_to_arrays
from cisr.training import Batch, Progress, StudentSpec, TrainingSetup, compiled, gymnasium
from cisr.view.contents import read
from cisr.view.page import page

BACKENDS = {"compiled": compiled.train, "gymnasium": gymnasium.train}
TASK = tiny.compiled.with_training(n_units=4)
BEYOND = (Threshold(min_return=99.0, max_violation=0.0),)  # nobody passes
ANEW = Patient(interventions=("SR1", "HR"), thresholds=BEYOND, patience=2)  # in unit 3
ENDLESS = Switching(interventions=("SR1", "HR"), thresholds=BEYOND)
NEIGHBOURS = (Fixed("SR1"), Schedule(("SR2", "SR2", "HR")))
HER = 1
"""The place of the student that starts over, between its neighbours."""


def taught(backend, policy, checkpoint=None):
    """The checkpoints and the graduation of a student under the policy and its neighbours."""
    policies = (NEIGHBOURS[0], policy, NEIGHBOURS[1])
    students = tuple(StudentSpec(name=f"s{k}", policy=p, config=tiny.student, seed=k) for k, p in enumerate(policies))
    events = BACKENDS[backend](
        TrainingSetup(task=TASK, backend=backend), Batch(name="batch", students=students), checkpoint
    )
    return [event for event in events if not isinstance(event, Progress)]


@pytest.fixture(scope="module", params=list(BACKENDS))
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def anew(backend):
    return taught(backend, ANEW)


def same(one, other, place):
    return all(np.array_equal(one.weights[name][place], other.weights[name][place]) for name in one.weights)


def test_who_starts_over_is_another_student_from_then_on_and_its_neighbours_stay_the_same_bit_for_bit(backend, anew):
    endless = taught(backend, ENDLESS)
    for one, other in zip(anew[:-1], endless[:-1], strict=True):
        assert same(one, other, HER) == (one.unit < 3)
        for place in (0, 2):
            assert same(one, other, place)
            assert one.records[place] == other.records[place]
    for place in (0, 2):
        assert anew[-1].deployments[place] == endless[-1].deployments[place]


def test_a_fresh_start_begins_with_new_weights_a_new_optimiser_and_new_multipliers(backend, anew, monkeypatch):
    begun = {}
    kind = {"compiled": compiled.CompiledBackend, "gymnasium": gymnasium.GymnasiumBackend}[backend]
    train = kind._train

    def listen(self, unit, learners, interventions):
        begun[unit] = learners_to_arrays(learners.learners)
        return train(self, unit, learners, interventions)

    monkeypatch.setattr(kind, "_train", listen)
    taught(backend, ANEW)
    seeds = np.array([derive_seed(k, "weights anew in unit 3") for k in range(3)], np.uint32)
    new = learners_to_arrays(compiled.cohort_for(TASK, tiny.student.shape, ()).program.new(seeds))
    for name, array in begun[3].items():
        np.testing.assert_array_equal(array[HER], new[name][HER], err_msg=name)
        np.testing.assert_array_equal(array[0], anew[1].weights[name][0], err_msg=name)
    assert not np.array_equal(anew[1].weights["log_weights"][HER], new["log_weights"][HER])


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_going_on_from_a_checkpoint_before_or_after_a_fresh_start_changes_nothing(backend, anew, unit):
    rest = taught(backend, ANEW, anew[unit - 1])
    for one, other in zip(anew[unit:-1], rest[:-1], strict=True):
        assert all(same(one, other, place) for place in range(3))
        assert (one.unit, one.records) == (other.unit, other.records)
    assert anew[-1] == rest[-1]


class Impatient:
    """A user's own policy that starts its students over before every unit; its kind is known to nobody."""

    first_stage = None
    interventions_used = ("SR1",)

    def next_stage(self, stage, observed, rng):
        return {"fresh_starts": 0 if stage is None else stage["fresh_starts"] + 1}

    def intervention(self, stage):
        return "SR1"

    def to_json(self):
        return {"kind": "impatient"}


def test_a_users_own_policy_can_start_students_over():
    *checkpoints, _ = taught("compiled", Impatient())
    assert len({int(c.weights["adam.steps"][HER]) for c in checkpoints}) == 1


def test_a_store_and_its_page_tell_where_students_started_over(backend, tmp_path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        curricula = {"anew": ANEW, "SR1": Fixed("SR1"), "own": Impatient()}
        found = compare(TASK, curricula, n_students=1, store=store, execution=Execution(n_workers=0, backend=backend))
        assert [t.fresh_starts for (t,) in found.transcripts.values()] == [(3,), (), (2, 3, 4)]
    written = page(read(path))
    assert written.count("begun anew, with new weights") == 8  # a cell and a bar for each of four fresh starts
    assert "a black bar one that started over with new weights" in written
