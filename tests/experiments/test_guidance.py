"""What is said of students' records, and what is not."""

import dataclasses

import pytest
import tiny

from cisr import Fixed, Store, StudentConfig, Study, Switching, Threshold, Transcript, compare, get_task
from cisr.curricula import Patient
from cisr.experiments.guidance import SURVIVING, of_comparison, of_study
from cisr.store.provenance import describe
from cisr.training import Deployment, UnitLog
from cisr.view.contents import contents_of
from cisr.view.page import page

LAKE = describe(get_task("frozen-lake"))  # means; SR1 tolerates 0.1 rescues a step, HR none
ROAD = describe(get_task("highway"))  # sums over two triggers; Brake tolerates 1 of each


def unit(n, intervention, *, returned=1.0, violation=0.0, rescues=0, success=0.5, episodes=10, steps=500):
    return UnitLog(
        unit=n,
        intervention=intervention,
        steps=steps,
        episodes=episodes,
        mean_return=returned,
        success=success,
        violation=violation,
        rescues=rescues,
        failures=0,
        multipliers=(),
    )


def student(*units, policy=None, success=0.5, done=True):
    outcomes = {"failure": 0.0, "success": success, "timeout": 1 - success}
    deployment = Deployment(
        under="none", steps=9, episodes=9, mean_return=0, score=0, failures=0, rescues=0, outcomes=outcomes
    )
    return Transcript(
        name="compare/mine/000",
        curriculum=(policy or Fixed("HR")).to_json(),
        config=StudentConfig(),
        seed=0,
        units=units,
        deployment=deployment if done else None,
    )


def switching(min_return, max_violation, kind=Switching, **more):
    threshold = Threshold(min_return=min_return, max_violation=max_violation)
    return kind(interventions=("SR1", "HR"), thresholds=(threshold,), **more)


@pytest.mark.parametrize(
    ("definition", "intervention", "rescues", "said"),
    [
        (LAKE, "HR", 4, None),  # in 10 episodes
        (LAKE, "HR", 8, "under HR 0.8 in an episode (0 tolerated)"),
        (LAKE, "SR1", 100, None),  # 10 in an episode of 50 steps, of which 5 are tolerated
        (LAKE, "SR1", 200, "under SR1 20.0 in an episode (5 tolerated)"),
        (ROAD, "Brake", 40, None),
        (ROAD, "Brake", 50, "under Brake 5.0 in an episode (2 tolerated)"),
        ({}, "HR", 8, None),  # a store that does not tell tolerances
        (LAKE, "none", 8, None),
    ],
)
def test_rescues_far_above_the_tolerance_are_told(definition, intervention, rescues, said):
    found = of_comparison({"mine": [student(unit(1, intervention, rescues=rescues))]}, definition)
    assert found == () if said is None else len(found) == 1 and said in found[0] and "multiplier_bound" in found[0]


def test_rescues_count_where_training_ends_and_by_the_median_student():
    weaned = student(unit(1, "HR", rescues=10), unit(2, "HR", rescues=1))
    leaning = student(unit(1, "HR", rescues=1), unit(2, "HR", rescues=10))
    assert of_comparison({"mine": [weaned, weaned, leaning]}, LAKE) == ()
    assert of_comparison({"mine": [weaned, leaning, leaning]}, LAKE) != ()
    unfinished = student(unit(1, "HR", rescues=10), done=False)
    assert of_comparison({"mine": [weaned, unfinished, unfinished]}, LAKE) == ()


def test_what_a_student_elsewhere_did_not_tell_is_no_ground_for_a_warning():
    silent = unit(1, "HR", rescues=None, episodes=None, steps=None, success=None)
    assert of_comparison({"mine": [student(silent, success=0.0)]}, LAKE) == ()


@pytest.mark.parametrize("kind", [{}, {"kind": Patient, "patience": 9}])
def test_a_threshold_above_all_returns_is_told_with_the_best_of_them(kind):
    policy = switching(5.0, 0.1, **kind)
    stuck = student(*(unit(n, "SR1", returned=n) for n in (1, 2, 3)), policy=policy)
    (said,) = of_comparison({"mine": [stuck, stuck]}, LAKE)
    assert "'mine': threshold 1 asks for a return of 5.00" in said and "never returned more than 2.00" in said
    passed = student(unit(1, "SR1", returned=5.5), unit(2, "HR"), policy=policy)
    assert of_comparison({"mine": [stuck, passed]}, LAKE) == ()


def test_a_violation_that_nobody_gets_down_to_is_told():
    stuck = student(*(unit(n, "SR1", returned=9, violation=0.3) for n in (1, 2)), policy=switching(5.0, 0.1))
    (said,) = of_comparison({"mine": [stuck]}, LAKE)
    assert "allows a violation of 0.100" in said and "never had less than 0.300" in said


def test_a_threshold_that_is_passed_before_the_first_unit_is_told():
    skipping = student(unit(1, "HR"), unit(2, "HR"), policy=switching(-300.0, 0.1))
    (said,) = of_comparison({"mine": [skipping]}, LAKE)
    assert "passed before the first unit" in said and "SR1 is never used" in said


def test_who_never_had_both_at_once_may_have_been_unlucky():
    units = (unit(1, "SR1", returned=9, violation=0.3), unit(2, "SR1", returned=1), unit(3, "SR1", returned=2))
    assert of_comparison({"mine": [student(*units, policy=switching(5.0, 0.1))]}, LAKE) == ()


def test_a_teacher_observing_something_else_is_not_second_guessed():
    early = student(unit(1, "SR1", returned=1), unit(2, "HR", returned=1), policy=switching(5.0, 0.1))
    assert of_comparison({"mine": [early]}, LAKE) == ()


def test_of_a_search_thresholds_are_told_where_none_of_them_decides_anything():
    stuck = student(*(unit(n, "SR1") for n in (1, 2)), policy=switching(50.0, 0.1))
    other = student(*(unit(n, "SR1") for n in (1, 2)), policy=switching(60.0, 0.1))
    passed = student(unit(1, "SR1", returned=50.0), unit(2, "HR"), policy=switching(40.0, 0.1))
    (said,) = of_study([stuck, other, stuck], LAKE)
    assert "The search: threshold 1 asks for a return of 50.00" in said and "return_range" in said
    assert of_study([stuck, other, passed], LAKE) == ()


def test_a_success_that_nobody_ever_had_is_told_with_how_to_write_survival():
    never = student(unit(1, "HR", success=0.0), success=0.0)
    (said,) = of_comparison({"mine": [never, never]}, LAKE)
    assert "100% of those deployed ended in timeout" in said and SURVIVING in said
    assert of_comparison({"mine": [never], "other": [student(unit(1, "HR"))]}, LAKE) == ()
    assert of_comparison({"mine": [student(unit(1, "HR", success=0.1), success=0.0)]}, LAKE) == ()


def test_warnings_reach_python_json_and_the_page(caplog):
    hopeless = dataclasses.replace(tiny.task, success=lambda move: move.reward > 1e9).with_training(n_units=1)
    with Store(None) as store:
        comparison = compare(hopeless, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        (said,) = [sentence for sentence in comparison.guidance if "No episode ended in success" in sentence]
        assert said in caplog.text and said in comparison.to_json()["guidance"]
        caplog.clear()
        teaching = tiny.teaching(n_initial=1, n_rounds=0, class_size=1)
        study = Study(hopeless, teaching=teaching, store=store, execution=tiny.HERE).run()
        assert any(sentence in caplog.text for sentence in study.guidance if "ended in success" in sentence)
        assert page(contents_of(store, "s")).count("No episode ended in success") == 2
