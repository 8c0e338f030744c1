"""Which groups of students chance alone may explain."""

import math

import numpy as np
import pytest
from scipy import stats

from cisr.differences import Pair, against, against_the_others, differences, holm


def tell(**groups):
    (found,) = against_the_others({"success": groups})
    return found


def test_holm_multiplies_by_how_many_are_left_and_never_falls():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_what_could_not_be_tested_does_not_count_in_the_correction():
    corrected = holm([0.01, math.nan, 0.02])
    assert corrected[0] == pytest.approx(0.02) and math.isnan(corrected[1]) and corrected[2] == pytest.approx(0.02)


def test_the_two_tests_are_those_they_are_called():
    a, b = [0.9, 0.95, 0.8, 0.97], [0.5, 0.7, 0.9, 0.4, 0.6]
    found = tell(taught=a, none=b)
    assert (found.group, found.others, found.sizes) == ("taught", "none", (4, 5))
    assert found.p_mean == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert found.p_rank == pytest.approx(stats.mannwhitneyu(a, b).pvalue)
    assert found.low < found.gain < found.high and found.gain == pytest.approx(np.mean(a) - np.mean(b))


def test_one_stuck_student_hides_a_difference_from_the_mean_but_not_from_the_ranks():
    good = [0.96, 0.97, 0.98, 0.95, 0.97, 0.96, 0.98, 0.97, 0.96, 0.0]
    fair = [0.85, 0.86, 0.84, 0.87, 0.85, 0.86, 0.84, 0.83, 0.85, 0.86]
    assert tell(good=good, fair=fair).told_apart == "by rank"


def test_students_of_one_kind_are_rarely_told_apart_and_of_two_kinds_mostly():
    rng = np.random.default_rng(0)
    same = differences("success", [Pair("a", rng.normal(size=10), "b", rng.normal(size=10)) for _ in range(300)])
    assert sum(d.told_apart != "no" for d in same) <= 1  # 300 tests at once, corrected
    apart = [tell(a=rng.normal(2, 1, 10), b=rng.normal(0, 1, 10)) for _ in range(100)]
    assert sum(d.told_apart == "yes" for d in apart) > 90
    alone = [tell(a=rng.normal(size=10), b=rng.normal(size=10)) for _ in range(300)]
    assert 3 <= sum(d.p_mean < 0.05 for d in alone) <= 30


def test_groups_that_do_not_spread_are_compared_by_rank_alone():
    equal = tell(HR=[0.0] * 10, none=[0.0] * 10)
    assert math.isnan(equal.p_mean) and equal.p_rank == 1 and equal.told_apart == "no"
    different = tell(HR=[0.0] * 10, none=[1.0] * 10)
    assert different.p_rank < 0.001 and different.told_apart == "yes"
    assert different.to_json()["p_mean"] is None


def test_too_few_students_are_called_that():
    found = tell(a=[], b=[0.5])
    assert found.told_apart == "too few" and found.to_json()["means"] == [None, 0.5]
    assert tell(a=[0.1, 0.2, 0.3], b=[0.7, 0.8, 0.9]).told_apart == "too few"
    assert tell(a=[0.1, 0.2, 0.3, 0.15], b=[0.7, 0.8, 0.9, 0.75]).told_apart == "yes"


def test_each_measure_has_a_correction_of_its_own():
    rng = np.random.default_rng(1)
    groups = {name: rng.normal(size=10) for name in "abc"}
    alone = against_the_others({"success": groups})
    both = against_the_others({"success": groups, "return": groups})
    assert [d.p_mean for d in both] == [d.p_mean for d in alone] * 2
    assert [d.measure for d in both] == ["success", "success", "return", "return"]


def test_curricula_are_matched_with_those_elsewhere_by_name_and_measure():
    ours = {"success": {"SR1": [0.8, 0.9], "HR": [0.0, 0.1]}, "return": {"SR1": [4.0, 5.0], "HR": [0.0, 0.0]}}
    found = against(ours, {"success": {"HR": [0.2, 0.1, 0.3], "SR2": [1.0]}})
    assert [(d.measure, d.group, d.others, d.sizes) for d in found] == [("success", "HR", "elsewhere", (2, 3))]
