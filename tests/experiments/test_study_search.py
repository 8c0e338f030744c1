"""What a study tries, where it searches, and what it says of what it found; grown or killed, it is the same study."""

import dataclasses

import pytest
import tiny

from cisr import CisrError, Observation, Patient, Store, Study, Switching, Teaching, get_task, random_teacher
from cisr.curricula import policy_from_json
from cisr.experiments.search import search_space
from cisr.tasks import papers_kind
from cisr.teachers import GPUCB


def teaching(task=tiny.task, **changes):
    return task.with_teaching(**changes)


GIVEN = {"return_range": (-0.5, 5.5), "violation_range": (0.0, 0.2)}


@pytest.fixture
def spaces():
    """Where the teachers that `watched` makes were to search."""
    return []


@pytest.fixture
def watched(spaces):
    def make(space, seed):
        spaces.append(space)
        return random_teacher(space, seed)

    return make


def alone(past):
    """The one intervention of a policy; None if it has several."""
    named = {value for key, value in past.parameters.items() if key.startswith("intervention")}
    return named.pop() if len(named) == 1 else None


def test_unless_told_otherwise_a_teacher_tries_5_policies_and_25_of_its_models_where_the_first_students_were():
    usual = Teaching()
    assert (usual.n_initial, usual.n_rounds, usual.class_size, usual.at_once, usual.teacher) == (5, 25, 1, 1, "top-two")
    assert usual.return_range is usual.violation_range is usual.patience is None


@pytest.mark.parametrize("name", ["frozen-lake", "lunar-lander"])
def test_explorers_of_built_in_tasks_have_our_teacher_and_the_papers_students_the_papers(name):
    ours, papers = (get_task(name, student=kind).training.teaching for kind in (None, papers_kind(name, "paper")))
    assert (ours.teacher, ours.return_range, ours.violation_range) == ("top-two", None, None)
    assert papers.teacher == "gp-ucb" and papers.return_range and papers.hyperpriors


def test_the_first_students_meet_each_intervention_alone_and_thresholds_are_searched_where_they_were(spaces, watched):
    result = Study(tiny.task, teaching=tiny.teaching(n_rounds=0), teacher=watched, execution=tiny.HERE).run()
    assert [alone(past) for past in result.trials] == ["SR1", "SR2", "HR"]
    units = [unit for transcript in result.transcripts for unit in transcript.units]
    assert [unit.intervention for unit in result.transcripts[4].units] == ["HR"] * 3
    for real in spaces[-1].reals:
        shown = [unit.mean_return if real.name.startswith("return") else unit.violation for unit in units]
        assert (real.low, real.high) == (min(0.0, *shown), max(0.0, *shown))


def test_thresholds_are_searched_where_what_the_teacher_observes_was(spaces, watched):
    def in_cents(unit):
        return Observation(mean_return=100 * unit.mean_return, violation=unit.violation - 7)

    study = Study(tiny.task, teaching=tiny.teaching(n_rounds=0), observe=in_cents, teacher=watched, execution=tiny.HERE)
    units = [unit for t in study.run().transcripts for unit in t.units]
    return_1, violation_1 = spaces[-1].reals[:2]
    assert return_1.low == 100 * min(unit.mean_return for unit in units)
    assert (violation_1.low, violation_1.high) == (min(unit.violation - 7 for unit in units), 0.0)


def test_ranges_that_the_task_gives_are_kept_and_then_nothing_is_tried_for_their_sake(spaces, watched):
    given = tiny.teaching(**GIVEN, n_initial=1, n_rounds=0)
    (past,) = Study(tiny.task, teaching=given, teacher=watched, execution=tiny.HERE).run().trials
    assert alone(past) is None
    assert [(real.low, real.high) for real in spaces[-1].reals] == [(-0.5, 5.5), (0.0, 0.2)] * 2


def test_one_range_may_be_given_and_the_other_found():
    given = tiny.teaching(return_range=(1.0, 5.0), n_rounds=1)
    result = Study(tiny.task, teaching=given, execution=tiny.HERE).run()
    assert [alone(past) for past in result.trials[:3]] == ["SR1", "SR2", "HR"]
    assert all(1.0 <= past.parameters["return_1"] <= 5.0 for past in result.trials)


def test_a_search_space_without_students_or_with_students_that_showed_nothing_has_room():
    for observed in ([], [Observation()]):
        assert [(real.low, real.high) for real in search_space(tiny.task, observed).reals] == [(0.0, 1.0)] * 4
    (low, high) = ((real.low, real.high) for real in search_space(tiny.task, [Observation(-2.0, 0.5)]).reals[:2])
    assert (low, high) == ((-2.0, 0.0), (0.0, 0.5))


def test_the_papers_teacher_finds_its_ranges_too():
    def papers(space, seed):
        return GPUCB(space, seed=seed, n_initial=3)

    result = Study(
        tiny.task, teaching=tiny.teaching(n_rounds=1, class_size=1), teacher=papers, execution=tiny.HERE
    ).run()
    assert [alone(past) for past in result.trials[:3]] == ["SR1", "SR2", "HR"]
    assert result.trials[3].model and not result.trials[2].model
    assert result.belief is None


def trials_of(store=None, **changes):
    teaching = tiny.teaching(**{"class_size": 1, "at_once": 3, "n_initial": 4, "n_rounds": 5} | changes)
    return Study(tiny.task, teaching=teaching, store=store, seed=2, execution=tiny.HERE).run().trials


@pytest.fixture(scope="module")
def at_once():
    """A study of 9 policies: 3 interventions alone, one at random, three and two chosen at once."""
    return trials_of()


def test_policies_are_chosen_in_groups(at_once):
    assert len(at_once) == 9 and all(past.told for past in at_once)
    assert trials_of(at_once=1)[:5] == at_once[:5]  # the first of a group is what is chosen alone


@pytest.mark.parametrize("steps", [(0, 1, 5), (3, 4, 5)])
def test_a_study_that_grows_equals_one_that_had_its_rounds_from_the_start(tmp_path, at_once, steps):
    for n_rounds in steps:
        grown = trials_of(tmp_path / "s", n_rounds=n_rounds)
    assert grown == at_once


@pytest.mark.parametrize("proposals", [1, 4, 6])
def test_a_study_killed_between_the_proposals_of_one_group_goes_on_with_the_same(
    tmp_path, monkeypatch, at_once, proposals
):
    propose = Store.propose

    def killed(self, study, number, *rest):
        if number == proposals:
            raise KeyboardInterrupt
        return propose(self, study, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "propose", killed)
        with pytest.raises(KeyboardInterrupt):
            trials_of(tmp_path / "s")
    with Store(tmp_path / "s", read_only=True) as store:
        assert len(store.trials("study")) == proposals
    assert trials_of(tmp_path / "s") == at_once


def test_what_the_teacher_believes_of_its_policy_is_in_the_result_and_in_the_store():
    with Store(None) as store:
        result = Study(tiny.task, seed=3, store=store, execution=tiny.HERE).run()
        found = store.findings()["study"]
    assert result.belief.bound <= result.belief.score
    assert (result.belief.confidence, result.belief.students % 2) == (0.9, 0)
    assert found["belief"] == dataclasses.asdict(result.belief)
    assert policy_from_json(found["policy"]) == result.best_policy == Switching.from_parameters(found["best"])
    assert {policy["students"] for policy in found["model"]["policies"]} >= {2}
    best = next(policy for policy in found["model"]["policies"] if policy["parameters"] == found["best"])
    assert best["bound"] == max(policy["bound"] for policy in found["model"]["policies"]) == found["belief"]["bound"]


def test_a_teacher_that_does_not_know_how_sure_it_is_has_no_belief():
    with Store(None) as store:
        result = Study(
            tiny.task,
            teaching=tiny.teaching(n_rounds=0, class_size=1),
            teacher=random_teacher,
            store=store,
            execution=tiny.HERE,
        ).run()
        assert result.belief is None and "belief" not in store.findings()["study"]


def test_patience_leads_to_patient_policies():
    with Store(None) as store:
        result = Study(teaching(patience=1), seed=3, store=store, execution=tiny.HERE).run()
        found = store.findings()["study"]
    assert isinstance(result.best_policy, Patient) and result.best_policy.patience == 1
    assert found["policy"] == result.best_policy.to_json()
    assert {t.curriculum["kind"] for t in result.transcripts} == {"patient"}


def test_patience_belongs_to_a_study(tmp_path):
    def study(**changes):
        teaching = tiny.teaching(n_rounds=0, class_size=1, **changes)
        return Study(tiny.task, teaching=teaching, store=tmp_path / "s", execution=tiny.HERE)

    study().run()
    with pytest.raises(CisrError, match="patience"):
        study(patience=1).run()
