"""Patient curricula: what becomes of students that stay too long in one stage, worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.curricula import Observation, Patient, Threshold, fresh_starts
from cisr.view.words import in_words

GOOD, BAD = Observation(mean_return=3.0, violation=0.0), Observation(mean_return=1.0, violation=0.0)


def patient(patience=2, interventions=("SR1", "SR2", "HR"), min_return=2.0):
    thresholds = (Threshold(min_return=min_return, max_violation=0.1),) * (len(interventions) - 1)
    return Patient(interventions=interventions, thresholds=thresholds, patience=patience)


def stages(policy, observations):
    """The stages of a student's units; the first one is chosen on the observation (0, 0)."""
    stage, found, rng = policy.first_stage, [], np.random.default_rng(0)
    for observed in [Observation(), *observations]:
        stage = json.loads(json.dumps(policy.next_stage(stage, observed, rng)))  # a stage survives being stored
        found.append(stage)
    return found


def met(policy, observations):
    """The intervention of each unit, starred where the student starts over."""
    found, count = [], 0
    for stage in stages(policy, observations):
        found.append(policy.intervention(stage) + "*" * (fresh_starts(stage) > count))
        count = fresh_starts(stage)
    return found


def test_a_student_that_passes_in_time_meets_what_a_switching_curriculum_gives():
    assert met(patient(), [BAD, GOOD, BAD, GOOD]) == ["SR1", "SR1", "SR2", "SR2", "HR"]


def test_a_student_starts_over_from_the_first_stage_as_often_as_patience_ends():
    assert met(patient(), [GOOD, BAD, BAD, BAD, BAD, GOOD]) == ["SR1", "SR2", "SR2", "SR1*", "SR1", "SR1*", "SR2"]


def test_whoever_is_in_the_last_stage_stays_there():
    assert met(patient(), [GOOD, GOOD, *[BAD] * 4]) == ["SR1", "SR2", *["HR"] * 5]


@pytest.mark.parametrize("names", [("HR",), ("HR", "HR", "HR")])
def test_one_intervention_alone_never_runs_out_of_patience(names):
    assert met(patient(interventions=names), [BAD] * 4) == ["HR"] * 5


def test_a_last_intervention_that_is_named_twice_is_the_last_from_the_first_time_on():
    assert met(patient(interventions=("SR1", "HR", "HR")), [GOOD, *[BAD] * 4]) == ["SR1", *["HR"] * 5]


def test_a_student_that_starts_over_is_treated_as_a_new_one_and_may_skip_the_first_stage_again():
    eager = Patient(
        interventions=("SR1", "SR2", "HR"),
        thresholds=(Threshold(min_return=0.0, max_violation=0.0), Threshold(min_return=2.0, max_violation=0.1)),
        patience=2,
    )
    assert met(eager, [BAD] * 4) == ["SR2", "SR2", "SR2*", "SR2", "SR2*"]


def test_the_observation_before_the_first_unit_can_skip_the_first_intervention():
    assert met(patient(min_return=-0.1), []) == ["SR2"]


def test_patience_of_one_unit_ends_after_the_first_unit():
    assert met(patient(patience=1, interventions=("SR1", "HR")), [BAD]) == ["SR1", "SR1*"]


def test_a_stage_holds_its_number_its_units_and_the_fresh_starts():
    assert stages(patient(), [BAD, BAD, GOOD]) == [
        {"index": 0, "units": 1},
        {"index": 0, "units": 2},
        {"index": 0, "units": 1, "fresh_starts": 1},
        {"index": 1, "units": 1, "fresh_starts": 1},
    ]


@pytest.mark.parametrize("stage", [None, 0, "SR1", [1], {"chosen": "SR1"}])
def test_other_policies_stages_count_no_fresh_starts(stage):
    assert fresh_starts(stage) == 0


@pytest.mark.parametrize("patience", [0, -1, 2.0, True, "2", None])
def test_patience_is_a_whole_number_of_units(patience):
    with pytest.raises(ConfigError, match=r"'patience' is .*: give a whole number"):
        patient(patience=patience)


def test_every_switch_needs_one_threshold():
    with pytest.raises(ConfigError, match="2 interventions with 0 thresholds"):
        Patient(interventions=("SR1", "HR"), thresholds=(), patience=2)


@pytest.mark.parametrize(("patience", "units"), [(1, "1 unit"), (3, "3 units")])
def test_it_can_be_said_in_words(patience, units):
    policy = patient(patience=patience, interventions=("SR1", "HR"))
    words = f"After {units} in one stage but the last the student starts over, with new weights."
    assert in_words(policy.to_json()) == f"{in_words(policy.switching.to_json())} {words}"


def test_a_last_intervention_that_is_named_twice_is_said_once():
    rule = Threshold(min_return=4.0, max_violation=0.1)
    once = Patient(interventions=("SR2", "HA"), thresholds=(rule,), patience=4)
    twice = Patient(interventions=("SR2", "HA", "HA"), thresholds=(rule, rule), patience=4)
    assert in_words(twice.to_json()) == in_words(once.to_json())
    alone = Patient(interventions=("SR2", "SR2"), thresholds=(rule,), patience=4)
    assert in_words(alone.to_json()) == "SR2 in every unit."
