"""What counts as a number: whatever Python, numpy and others call one, kept as Python's own."""

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
import tiny

from cisr import (
    MLP,
    Execution,
    Fixed,
    Place,
    Population,
    Rewind,
    StudentConfig,
    Study,
    Teaching,
    Threshold,
    Training,
    compare,
)
from cisr.core.checks import check_number, check_whole
from cisr.core.errors import ConfigError
from cisr.curricula import Patient
from cisr.store.provenance import describe, describe_student


@pytest.mark.parametrize("three", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_whole_numbers_are_whoever_is_an_index(three):
    assert type(check_whole("n", three)) is int and check_whole("n", three) == 3


@pytest.mark.parametrize("wrong", [True, np.True_, 3.0, np.float64(3), "3", None, [3], np.array([3]), 0, np.int64(-1)])
def test_nothing_else_is(wrong):
    with pytest.raises(ConfigError, match=r"n is .*: give a whole number"):
        check_whole("n", wrong)


@pytest.mark.parametrize("half", [0.5, np.float32(0.5), np.float64(0.5), np.float16(0.5), Fraction(1, 2)])
def test_numbers_are_finite_reals(half):
    assert isinstance(check_number("x", half), float) and check_number("x", half) == 0.5
    assert type(check_number("x", np.int32(2))) is int


@pytest.mark.parametrize("wrong", [True, np.float32("nan"), np.inf, "1", None, 1j, np.array([1.0])])
def test_all_else_is_no_number(wrong):
    with pytest.raises(ConfigError, match=r"x is .*: give a finite number"):
        check_number("x", wrong)


def test_records_keep_numpys_numbers_as_pythons_own():
    config = StudentConfig(
        network=MLP(hidden=(np.int64(8),)),
        n_envs=np.int64(2),
        learning_rate=np.float32(0.5),
        last_learning_rate=np.float32(0.25),
    )
    teaching = Teaching(n_rounds=np.int64(2), patience=np.int16(3), return_range=(np.float32(0), np.int64(1)))
    population = Population(base=config, vary={"n_epochs": [np.int64(4)], "gamma": (np.float32(0.5), np.float32(1))})
    intervention = dataclasses.replace(
        tiny.task.interventions[0], tau=np.float32(0.5), horizon=np.int64(9), reset=Rewind(np.int64(2))
    )
    task = dataclasses.replace(
        tiny.task,
        horizon=np.int64(9),
        max_reward=np.float32(2),
        interventions=(intervention,),
        training=Training(n_units=np.uint8(1), teaching=teaching, student=population),
        safe_evaluation=None,
    )
    policy = Patient(
        interventions=("a", "b"),
        thresholds=(Threshold(min_return=np.float32(1), max_violation=np.int64(0)),),
        patience=np.int64(2),
    )
    written = [config.to_json(), describe(task), describe_student(task), policy.to_json(), dataclasses.asdict(teaching)]
    assert json.loads(json.dumps(written))[0]["learning_rate"] == 0.5
    assert type(Place(lambda s, h, u: s, np.int64(2)).n_history) is int


def test_calls_take_numpys_numbers(tmp_path):
    one = np.int64(1)
    execution = Execution(n_workers=np.int64(0), batch=np.int32(2), step_timeout=np.float32(60))
    options = {"store": tmp_path / "s", "execution": execution}
    task = tiny.task.with_training(n_units=1)
    assert compare(task, {"SR1": Fixed("SR1")}, n_students=one, seed=one, **options).rows[0].finished == 1
    teaching = tiny.teaching(n_initial=one, n_rounds=np.int64(0), class_size=one)
    found = Study(task, teaching=teaching, seed=one, **options).run()
    assert len(found.transcripts) == 1
