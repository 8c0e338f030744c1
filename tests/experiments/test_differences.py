"""Which groups of students chance alone may explain."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from cisr.experiments.differences import Pair, Sample, Value, against, against_the_others, differences
from cisr.experiments.statistics import LEVEL, holm


def measured(groups):
    return {label: values if isinstance(values, Sample) else Sample.of(values) for label, values in groups.items()}


def told(**measures):
    return against_the_others({measure: measured(groups) for measure, groups in measures.items()})


def tell(**groups):
    (found,) = told(success=groups)
    return found


def pair(a, b, measure="return"):
    return Pair(measure, "a", Sample.of(a), "b", Sample.of(b))


def broken(values, n, least=0.0, most=1.0):
    """Students that finished with these values, and so many that broke."""
    return Sample((*Sample.of(values).units, *[(Value(None, least, most),)] * n))


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
    same = differences([pair(rng.normal(size=10), rng.normal(size=10)) for _ in range(100)])
    assert sum(d.told_apart != "no" for d in same) <= 1  # 100 tests at once, corrected
    apart = [differences([pair(rng.normal(2, 1, 10), rng.normal(size=10))]) for _ in range(40)]
    assert sum(d.told_apart == "yes" for (d,) in apart) > 35
    assert all(d.low is None for d in same)  # no interval holds for what has no bounds


def test_groups_that_do_not_spread_are_told_apart_where_they_differ():
    equal = tell(HR=[0.0] * 10, none=[0.0] * 10)
    assert equal.p_mean == equal.p_rank == 1 and equal.told_apart == "no"
    different = tell(HR=[0.0] * 10, none=[1.0] * 10)
    assert different.p_mean == different.p_rank == pytest.approx(2 / 184_756) and different.told_apart == "yes"
    counts = told(training_failures={"HR": [0.0] * 5, "none": [5.0] * 5})
    assert [d.told_apart for d in counts] == ["yes"]


def test_what_cannot_be_tested_is_never_told_apart():
    found = dataclasses.replace(tell(a=[0.1] * 10, b=[0.2] * 10), p_mean=None, p_rank=None)
    assert found.told_apart == "no" and found.to_json()["p_mean"] is None
    nobody = tell(a=[], b=[0.5] * 10)
    assert nobody.p_mean is nobody.low is None and nobody.told_apart == "too few"


def test_four_against_four_are_too_few_beside_another_pair():
    apart = {"a": [0.1, 0.2, 0.3, 0.15], "b": [0.7, 0.8, 0.9, 0.75]}
    assert tell(**apart).told_apart == "yes"  # 2 in 70 deals
    with_another = told(success={**apart, "c": [0.5, 0.6, 0.4, 0.55]})
    assert [d.told_apart for d in with_another] == ["too few", "too few"]  # twice that is more than 0.05
    among_many = [pair(apart["a"], apart["b"]), pair([0.0] * 10, [1.0] * 10)]
    assert [d.told_apart for d in differences(among_many)] == ["yes", "yes"]  # Holm: after d, once


def test_too_few_students_are_called_that():
    found = tell(a=[], b=[0.5])
    assert found.told_apart == "too few" and found.to_json()["means"] == [None, 0.5]
    assert tell(a=[0.1, 0.2, 0.3], b=[0.7, 0.8, 0.9]).told_apart == "too few"
    assert tell(a=[0.1, 0.2, 0.3, 0.15], b=[0.7, 0.8, 0.9, 0.75]).told_apart == "yes"


def test_all_measures_of_a_table_share_one_correction():
    rng = np.random.default_rng(1)
    groups = {name: rng.normal(size=10) for name in "ab"}
    (alone,) = told(training_failures=groups)
    both = told(training_failures=groups, success={name: values - 10 for name, values in groups.items()})
    assert [d.p_mean for d in both] == [min(1.0, 2 * alone.p_mean)] * 2
    assert [d.measure for d in both] == ["training_failures", "success"]


def test_by_chance_alone_a_table_of_three_measures_says_yes_anywhere_in_one_case_of_twenty_at_most():
    """Corrected for each measure by itself it would in 11 %."""
    rng = np.random.default_rng(2)
    n_tables, yes = 400, 0
    for _ in range(n_tables):
        tables = {what: {k: rng.normal(size=5) for k in "ab"} for what in ("success", "return", "failures")}
        yes += any(d.told_apart == "yes" for d in told(**tables))
    assert yes / n_tables <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / n_tables)


HALF = [0.0] * 10 + [1.0] * 10


@pytest.mark.parametrize("measure", ["success", "return"])
def test_those_that_finish_do_not_speak_for_those_that_break(measure):
    """Half succeed under either curriculum; under B the others break."""
    least, most = (0.0, 1.0) if measure == "success" else (-np.inf, np.inf)
    (found,) = told(**{measure: {"A": HALF, "B": broken([1.0] * 10, 10, least, most)}})
    assert found.means == (0.5, 1.0) and found.unfinished == (0, 10) and found.students == (20, 20)
    assert found.told_apart == "unknown" and found.to_json()["told_apart"] == "unknown"
    assert found.to_json()["unfinished"] == [0, 10]
    (alone,) = told(**{measure: {"A": HALF, "B": [1.0] * 20}})
    assert alone.told_apart == "yes"


def test_what_holds_whatever_the_broken_would_have_been_is_told():
    assert tell(A=[0.1] * 20, B=broken([0.9] * 18, 2)).told_apart == "yes"
    assert tell(A=broken([0.1] * 18, 2), B=broken([0.9] * 18, 2)).told_apart == "yes"
    assert tell(A=[0.5, 0.6] * 10, B=broken([0.5, 0.6] * 9 + [0.5], 1)).told_apart == "no"
    assert tell(A=[0.5] * 10, B=broken([], 10)).told_apart == "unknown"
    bounded = tell(A=HALF, B=broken([1.0] * 10, 10))
    assert bounded.low < -0.5 < 0.0 < bounded.high


def test_who_broke_early_has_not_failed_less():
    (found,) = told(training_failures={"A": [8.0] * 20, "B": broken([8.0] * 10, 10, 0.0, np.inf)})
    assert found.told_apart == "unknown"
    (found,) = told(training_failures={"A": [8.0] * 20, "B": broken([40.0] * 16, 4, 30.0, np.inf)})
    assert found.told_apart == "yes"


def test_a_row_without_broken_students_does_not_depend_on_those_of_another():
    alone = {"a": [0.1, 0.2, 0.3, 0.15, 0.25], "b": [0.2, 0.7, 0.8, 0.9, 0.6]}
    both = told(success=alone, training_failures={"a": [0.0] * 5, "b": broken([], 5, 0.0, np.inf)})
    assert [d.told_apart for d in both] == ["no", "unknown"]
    assert [d.depends for d in both] == [False, True]


def test_broken_members_of_a_class_count_in_its_mean():
    class_ = (*(Value(1.0, 1.0, 1.0),) * 5, *(Value(None, 0.0, 1.0),) * 5)
    found = tell(A=[0.5, 0.6, 0.4] * 3, B=Sample((class_,) * 9))
    assert found.means[1] == 1.0 and found.sizes == (9, 9) and found.students == (9, 90)
    assert found.told_apart == "unknown" and found.unfinished == (0, 45)


def test_curricula_are_matched_with_those_elsewhere_by_name_and_measure():
    returns = measured({"SR1": [4.0, 5.0], "HR": [0.0, 0.0]})
    ours = {"success": measured({"SR1": [0.8, 0.9], "HR": [0.0, 0.1]}), "return": returns}
    found = against(ours, {"success": measured({"HR": [0.2, 0.1, 0.3], "SR2": [1.0]})})
    assert [(d.measure, d.group, d.others, d.sizes) for d in found] == [("success", "HR", "elsewhere", (2, 3))]
