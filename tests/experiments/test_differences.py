"""Which groups of students chance alone may explain."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from cisr.experiments.differences import Pair, against, against_the_others, differences
from cisr.experiments.statistics import holm


def tell(**groups):
    (found,) = against_the_others({"success": groups})
    return found


def test_holm_multiplies_by_how_many_are_left_and_never_falls():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_what_could_not_be_tested_does_not_count_in_the_correction():
    corrected = holm([0.01, None, 0.02])
    assert corrected[0] == pytest.approx(0.02) and corrected[1] is None and corrected[2] == pytest.approx(0.02)


def test_the_two_tests_are_those_they_are_called():
    a, b = [0.9, 0.95, 0.8, 0.97], [0.5, 0.7, 0.91, 0.4]
    found = tell(taught=a, none=b)
    assert (found.group, found.others, found.sizes) == ("taught", "none", (4, 4))
    means = stats.permutation_test((a, b), lambda x, y: np.mean(x) - np.mean(y), n_resamples=10_000)
    assert found.p_mean == pytest.approx(means.pvalue)
    assert found.p_rank == pytest.approx(stats.mannwhitneyu(a, b).pvalue)
    assert found.low < found.gain < found.high and found.gain == pytest.approx(np.mean(a) - np.mean(b))


def test_one_stuck_student_hides_a_difference_from_the_mean_but_not_from_the_ranks():
    good = [0.96, 0.97, 0.98, 0.95, 0.97, 0.96, 0.98, 0.97, 0.96, 0.0]
    fair = [0.85, 0.86, 0.84, 0.87, 0.85, 0.86, 0.84, 0.83, 0.85, 0.86]
    assert tell(good=good, fair=fair).told_apart == "by rank"


def test_students_of_one_kind_are_rarely_told_apart_and_of_two_kinds_mostly():
    rng = np.random.default_rng(0)
    same = differences("return", [Pair("a", rng.normal(size=10), "b", rng.normal(size=10)) for _ in range(100)])
    assert sum(d.told_apart != "no" for d in same) <= 1  # 100 tests at once, corrected
    apart = [differences("return", [Pair("a", rng.normal(2, 1, 10), "b", rng.normal(size=10))]) for _ in range(40)]
    assert sum(d.told_apart == "yes" for (d,) in apart) > 35
    assert all(d.low is None for d in same)  # no interval holds for what has no bounds


def test_groups_that_do_not_spread_are_told_apart_where_they_differ():
    equal = tell(HR=[0.0] * 10, none=[0.0] * 10)
    assert equal.p_mean == equal.p_rank == 1 and equal.told_apart == "no"
    different = tell(HR=[0.0] * 10, none=[1.0] * 10)
    assert different.p_mean == different.p_rank == pytest.approx(2 / 184_756) and different.told_apart == "yes"
    counts = against_the_others({"training_failures": {"HR": [0.0] * 5, "none": [5.0] * 5}})
    assert [d.told_apart for d in counts] == ["yes"]


def test_what_cannot_be_tested_is_never_told_apart():
    found = dataclasses.replace(tell(a=[0.1] * 10, b=[0.2] * 10), p_mean=None, p_rank=None)
    assert found.told_apart == "no" and found.to_json()["p_mean"] is None
    nobody = tell(a=[], b=[0.5] * 10)
    assert nobody.p_mean is nobody.low is None and nobody.told_apart == "too few"


def test_four_against_four_are_too_few_beside_another_pair():
    apart = {"a": [0.1, 0.2, 0.3, 0.15], "b": [0.7, 0.8, 0.9, 0.75]}
    assert tell(**apart).told_apart == "yes"  # 2 in 70 deals
    with_another = against_the_others({"success": {**apart, "c": [0.5, 0.6, 0.4, 0.55]}})
    assert [d.told_apart for d in with_another] == ["too few", "too few"]  # twice that is more than 0.05
    among_many = [Pair("a", apart["a"], "b", apart["b"]), Pair("c", [0.0] * 10, "d", [1.0] * 10)]
    assert [d.told_apart for d in differences("success", among_many)] == ["yes", "yes"]  # Holm: after d, once


def test_too_few_students_are_called_that():
    found = tell(a=[], b=[0.5])
    assert found.told_apart == "too few" and found.to_json()["means"] == [None, 0.5]
    assert tell(a=[0.1, 0.2, 0.3], b=[0.7, 0.8, 0.9]).told_apart == "too few"
    assert tell(a=[0.1, 0.2, 0.3, 0.15], b=[0.7, 0.8, 0.9, 0.75]).told_apart == "yes"


def test_each_measure_has_a_correction_of_its_own():
    rng = np.random.default_rng(1)
    groups = {name: rng.normal(size=10) for name in "abc"}
    alone = against_the_others({"training_failures": groups})
    both = against_the_others({"training_failures": groups, "return": groups})
    assert [d.p_mean for d in both] == [d.p_mean for d in alone] * 2
    assert [d.measure for d in both] == ["training_failures"] * 2 + ["return"] * 2


def test_curricula_are_matched_with_those_elsewhere_by_name_and_measure():
    ours = {"success": {"SR1": [0.8, 0.9], "HR": [0.0, 0.1]}, "return": {"SR1": [4.0, 5.0], "HR": [0.0, 0.0]}}
    found = against(ours, {"success": {"HR": [0.2, 0.1, 0.3], "SR2": [1.0]}})
    assert [(d.measure, d.group, d.others, d.sizes) for d in found] == [("success", "HR", "elsewhere", (2, 3))]
