"""Random search, and what it shares with every teacher."""

from __future__ import annotations

import math

import pytest

from cisr.core.errors import ConfigError
from cisr.curricula.space import Choice, Real, SearchSpace
from cisr.teachers import RandomSearch
from cisr.teachers.base import decode, encode

SPACE = SearchSpace(parameters=(Real(name="r", low=-2.0, high=2.0), Choice(name="c", options=("a", "b", "c"))))


def test_points_lie_in_the_space_and_reach_every_option():
    points = RandomSearch(SPACE, seed=0).ask(50)
    for point in points:
        SPACE.check(point)
    assert {point["c"] for point in points} == {"a", "b", "c"}
    assert min(float(point["r"]) for point in points) < -1.5 < 1.5 < max(float(point["r"]) for point in points)


def test_point_number_k_is_the_same_in_a_batch_and_one_by_one():
    batch = RandomSearch(SPACE, seed=4).ask(3)
    teacher = RandomSearch(SPACE, seed=4)
    for point in batch:
        assert teacher.ask() == [point] == teacher.ask()
        teacher.tell(point, 0.0)


def test_other_seeds_give_other_points():
    assert RandomSearch(SPACE, seed=1).ask() != RandomSearch(SPACE, seed=2).ask()


def test_the_best_observed_is_returned_and_a_failed_class_never_is():
    teacher = RandomSearch(SPACE, seed=0)
    teacher.tell({"r": 0.0, "c": "a"}, None)
    with pytest.raises(ConfigError, match="None of the 1 policies"):
        teacher.best()
    teacher.tell({"r": 0.0, "c": "b"}, -5.0)
    teacher.tell({"r": 0.0, "c": "c"}, -6)
    assert teacher.best() == {"r": 0.0, "c": "b"}


def test_a_policy_tried_twice_is_judged_by_its_mean():
    teacher = RandomSearch(SPACE, seed=0)
    for option, score in (("a", 3.0), ("a", 0.0), ("b", 2.0)):
        teacher.tell({"r": 0.0, "c": option}, score)
    assert teacher.best()["c"] == "b"


def test_what_was_told_does_not_change_with_the_callers_dictionary():
    teacher = RandomSearch(SPACE, seed=0)
    point = {"r": 0.0, "c": "a"}
    teacher.tell(point, 1.0)
    point["c"] = "b"
    assert teacher.best() == {"r": 0.0, "c": "a"}


def test_encoding_scales_reals_and_numbers_options_and_decoding_undoes_it():
    assert list(encode(SPACE, {"r": 1.0, "c": "c"})) == [0.75, 2.0]
    assert decode(SPACE, encode(SPACE, {"r": 1.0, "c": "c"})) == {"r": 1.0, "c": "c"}


@pytest.mark.parametrize(
    ("point", "score", "sem", "says"),
    [
        ({"r": 0.0, "c": "a"}, math.nan, None, "score is nan"),
        ({"r": 0.0, "c": "a"}, math.inf, None, "score is inf"),
        ({"r": 0.0, "c": "a"}, 1.0, -0.1, "standard error is -0.1"),
        ({"r": 0.0, "c": "a"}, 1.0, math.nan, "standard error is nan"),
        ({"r": 3.0, "c": "a"}, 1.0, None, "'r' is 3.0"),
        ({"r": 0.0}, 1.0, None, "give just these"),
    ],
)
def test_bad_scores_are_explained(point, score, sem, says):
    teacher = RandomSearch(SPACE, seed=0)
    with pytest.raises(ConfigError, match=says):
        teacher.tell(point, score, sem)
    assert teacher.trials == ()


def test_asking_for_no_policies_is_explained():
    with pytest.raises(ConfigError, match="asked for 0 policies"):
        RandomSearch(SPACE, seed=0).ask(0)
