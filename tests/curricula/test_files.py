"""Curriculum policies as JSON files: what is written comes back, and what is wrong is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cisr.core.errors import ConfigError
from cisr.curricula import (
    Bandit,
    Fixed,
    Patient,
    Schedule,
    Switching,
    Threshold,
    load_policy,
    named_policy,
    policy_from_json,
    save_policy,
)

POLICIES = [
    Switching(
        interventions=("SR1", "SR2", "HR"),
        thresholds=(
            Threshold(min_return=2.1027, max_violation=0.05295),
            Threshold(min_return=-0.0582, max_violation=0.1597),
        ),
    ),
    Switching(interventions=("HR",), thresholds=()),
    Fixed("SR1"),
    Fixed("none"),
    Schedule(("SR1", "HR")),
    named_policy("Incremental-2", 5),
    Bandit(("SR1", "SR2", "HR")),
    Patient(interventions=("SR2", "HR"), thresholds=(Threshold(min_return=2.5, max_violation=0.1),), patience=3),
]
SWITCHING = {
    "kind": "switching",
    "interventions": ["SR1", "HR"],
    "thresholds": [{"min_return": 2.1, "max_violation": 0.05}],
}
PATIENT = {**SWITCHING, "kind": "patient", "patience": 3}

NAMES, NUMBERS = st.text(), st.floats(allow_nan=False, allow_infinity=False)
THRESHOLDS = st.lists(st.builds(Threshold, min_return=NUMBERS, max_violation=NUMBERS), max_size=4).map(tuple)


@st.composite
def switching(draw):
    thresholds = draw(THRESHOLDS)
    return Switching(interventions=tuple(draw(NAMES) for _ in range(len(thresholds) + 1)), thresholds=thresholds)


@st.composite
def patient(draw):
    one = draw(switching())
    patience = draw(st.integers(1, 2**31 - 1))
    return Patient(interventions=one.interventions, thresholds=one.thresholds, patience=patience)


LISTS = st.lists(NAMES, min_size=1).map(tuple)


@given(st.one_of(switching(), patient(), st.builds(Fixed, NAMES), st.builds(Schedule, LISTS), st.builds(Bandit, LISTS)))
def test_any_policy_comes_back_from_its_json_as_it_was(policy):
    assert policy_from_json(json.loads(json.dumps(policy.to_json()))) == policy


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.to_json()["kind"])
def test_a_policy_comes_back_from_its_file_as_it_was(policy, tmp_path):
    path = tmp_path / "curriculum.json"
    save_policy(policy, path)
    assert load_policy(path) == policy


def test_a_path_may_be_a_string(tmp_path):
    save_policy(Fixed("HR"), str(tmp_path / "curriculum.json"))
    assert load_policy(str(tmp_path / "curriculum.json")) == Fixed("HR")


def test_the_published_form_is_read():
    assert policy_from_json(SWITCHING) == Switching(
        interventions=("SR1", "HR"), thresholds=(Threshold(min_return=2.1, max_violation=0.05),)
    )
    assert policy_from_json({"kind": "none"}) == Fixed("none")
    assert policy_from_json({"kind": "fixed", "intervention": "HR"}) == Fixed("HR")
    assert policy_from_json({"kind": "schedule", "interventions": ["SR1", "HR"]}) == Schedule(("SR1", "HR"))
    assert policy_from_json({"kind": "bandit", "interventions": ["SR1", "HR"]}) == Bandit(("SR1", "HR"))


def test_whole_numbers_will_do_as_thresholds():
    fields = {**SWITCHING, "thresholds": [{"min_return": 2, "max_violation": 0}]}
    assert policy_from_json(fields).thresholds == (Threshold(min_return=2.0, max_violation=0.0),)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ([], r"A curriculum is \[\]"),
        ("SR1", 'A curriculum is "SR1"'),
        (None, "A curriculum is missing"),
        ({}, "'kind' is missing"),
        (
            {"kind": "swithcing"},
            """'kind' is "swithcing": give one of switching, patient, fixed, schedule, bandit, none""",
        ),
        ({"kind": 3}, "'kind' is 3"),
        ({"kind": ["fixed"]}, "'kind' is"),
        ({**SWITCHING, "treshold": 1}, "field 'treshold': it takes interventions, thresholds"),
        ({**SWITCHING, "patience": 3}, "field 'patience': it takes interventions, thresholds"),
        ({**SWITCHING, "kind": "patient"}, "A patient curriculum lacks the field 'patience'"),
        ({**PATIENT, "wait": 3}, "field 'wait': it takes interventions, thresholds, patience"),
        ({**PATIENT, "patience": 0}, "'patience' is 0"),
        ({**PATIENT, "patience": 2.5}, "'patience' is 2.5"),
        ({**PATIENT, "patience": "3"}, "'patience' is '3'"),
        ({**PATIENT, "then": "anew"}, "field 'then': it takes interventions, thresholds, patience"),
        ({**PATIENT, "thresholds": [2.1]}, r"'thresholds\[0\]' is 2.1"),
        ({**PATIENT, "interventions": ["SR1"]}, "1 interventions with 1 thresholds"),
        ({"kind": "none", "intervention": "HR"}, "field 'intervention': it takes no fields"),
        ({"kind": "fixed"}, "lacks the field 'intervention'"),
        ({"kind": "switching", "interventions": ["SR1"]}, "lacks the field 'thresholds'"),
        ({"kind": "bandit"}, "lacks the field 'interventions'"),
        ({"kind": "fixed", "intervention": ["HR"]}, "'intervention' is"),
        ({"kind": "schedule", "interventions": "HR"}, "'interventions' is"),
        ({"kind": "schedule", "interventions": []}, "'interventions' is"),
        ({"kind": "schedule", "interventions": ["HR", 3]}, "'interventions' is"),
        ({**SWITCHING, "interventions": ["SR1", "SR2", "HR"]}, "3 interventions with 1 thresholds"),
        ({**SWITCHING, "thresholds": {}}, "'thresholds' is"),
        ({**SWITCHING, "thresholds": [2.1]}, r"'thresholds\[0\]' is 2.1"),
        ({**SWITCHING, "thresholds": [{"min_return": 1}]}, r"'thresholds\[0\]' is"),
        ({**SWITCHING, "thresholds": [{"min_return": 1, "max_violation": 0, "x": 1}]}, r"'thresholds\[0\]' is"),
        ({**SWITCHING, "thresholds": [{"min_return": "1", "max_violation": 0}]}, r"thresholds\[0\]\.min_return' is"),
        ({**SWITCHING, "thresholds": [{"min_return": True, "max_violation": 0}]}, r"thresholds\[0\]\.min_return' is"),
        ({**SWITCHING, "thresholds": [{"min_return": None, "max_violation": 0}]}, r"thresholds\[0\]\.min_return' is"),
    ],
)
def test_the_wrong_field_is_named(fields, complaint):
    with pytest.raises(ConfigError, match=complaint):
        policy_from_json(fields)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["min_return", "max_violation"])
def test_a_threshold_that_is_not_finite_is_named_with_its_file(number, field, tmp_path):
    path = tmp_path / "curriculum.json"
    text = json.dumps(SWITCHING).replace('"min_return": 2.1' if field == "min_return" else '"max_violation": 0.05', "@")
    path.write_text(text.replace("@", f'"{field}": {number}'))
    with pytest.raises(ConfigError, match=rf"curriculum\.json: 'thresholds\[0\]\.{field}' is"):
        load_policy(path)


@pytest.mark.parametrize("text", ["", "{", "kind: none", "{'kind': 'none'}", '\ufeff{"kind": "none"}'])
def test_a_file_that_is_not_json_is_named(text, tmp_path):
    path = tmp_path / "curriculum.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"curriculum\.json is not JSON \(line 1"):
        load_policy(path)


def test_a_file_of_bytes_that_are_no_text_is_named(tmp_path):
    path = tmp_path / "curriculum.json"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ConfigError, match=r"Cannot read the curriculum file .*curriculum\.json"):
        load_policy(path)


def test_a_json_file_without_an_object_is_named(tmp_path):
    path = tmp_path / "curriculum.json"
    path.write_text("[1, 2]")
    with pytest.raises(ConfigError, match=r"curriculum\.json: A curriculum is \[1, 2\]"):
        load_policy(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"Cannot read the curriculum file .*nowhere\.json"):
        load_policy(tmp_path / "nowhere.json")


def test_a_directory_is_no_curriculum_file(tmp_path):
    with pytest.raises(ConfigError, match="Cannot read the curriculum file"):
        load_policy(tmp_path)
