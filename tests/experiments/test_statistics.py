"""Intervals and tests keep what they promise, on students like ours: most alike, a few that learned nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cisr.experiments import statistics
from cisr.experiments.statistics import (
    LEVEL,
    chance,
    difference_interval,
    estimate,
    holm,
    least_chance,
    mean_interval,
    rank_chance,
    share,
    standard_error,
)

SIZES = (3, 5, 10, 20)
STUCK = (0.0, 0.02, 0.07, 0.2)
LEARNERS = ((0.97, 0.02), (0.83, 0.08))
"""Mean and standard deviation of those that learned."""
KINDS = [(quality, stuck) for quality in LEARNERS for stuck in STUCK]


def students(rng, shape, quality, stuck):
    """Success of students of whom a share is stuck near 0, and the true mean."""
    mean, sd = quality
    k = mean * (1 - mean) / sd**2 - 1
    learned, failed = rng.beta(mean * k, (1 - mean) * k, shape), rng.beta(0.3, 30, shape)
    return np.where(rng.random(shape) < stuck, failed, learned), (1 - stuck) * mean + stuck * 0.3 / 30.3


def covered(low, high, truth):
    """The share of intervals with the truth inside, and three standard errors of a share of 0.95."""
    inside = (low <= truth) & (truth <= high)
    return inside.mean() + 3 * math.sqrt(LEVEL * (1 - LEVEL) / inside.size)


@pytest.mark.parametrize("n", SIZES)
def test_the_interval_of_a_mean_in_0_to_1_covers(n):
    rng = np.random.default_rng(n)
    for quality, stuck in KINDS:
        x, mean = students(rng, (400, n), quality, stuck)
        assert covered(*mean_interval(x), mean) >= 0.95, (quality, stuck)
    for p in (0.01, 0.05, 0.3, 0.7, 0.93, 0.99):  # the extreme: all or nothing
        assert covered(*mean_interval(rng.random((300, n)) < p), p) >= 0.95, p


def test_the_interval_of_the_mean_of_those_that_learned_covers():
    rng = np.random.default_rng(1)
    for n in SIZES:
        values = rng.beta(20, 1, (200, n)) * 0.7 + 0.3
        found = [estimate(x, (0.3, 1.0)) for x in values]
        low, high = np.array([(e.low, e.high) for e in found]).T
        assert covered(low, high, 0.3 + 0.7 * 20 / 21) >= 0.95


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 20), (10, 10), (20, 20)])
def test_the_interval_of_a_difference_covers(n, m):
    rng = np.random.default_rng(n)
    for (quality, stuck), (other, other_stuck) in zip(KINDS, KINDS[::-1], strict=True):
        (x, mean), (y, other_mean) = (
            students(rng, (200, n), quality, stuck),
            students(rng, (200, m), other, other_stuck),
        )
        assert covered(*difference_interval(x, y), mean - other_mean) >= 0.95, (quality, stuck)


def test_exact_shares_cover_whatever_the_share():
    for n in SIZES:
        ends = np.array([(share(k, n).low, share(k, n).high) for k in range(n + 1)])
        for p in np.linspace(0, 1, 101):
            inside = (ends[:, 0] <= p) & (p <= ends[:, 1])
            assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 4), (3, 20), (5, 5), (5, 20), (10, 10), (20, 20), (10, 90)])
def test_students_of_one_kind_are_told_apart_in_one_case_of_twenty_at_most(n, m, monkeypatch):
    """Welch's test says so in 0.28 of the cases with 3 and 20 such students, and in 0.38 with 10 and 90."""
    monkeypatch.setattr(statistics, "ALL_DEALS", 1000)  # any number of deals keeps the level
    monkeypatch.setattr(statistics, "DEALS", 1000)
    rng = np.random.default_rng(n)
    for stuck in (0.0, 0.07, 0.2):
        x, _ = students(rng, (300, n), LEARNERS[0], stuck)
        y, _ = students(rng, (300, m), LEARNERS[0], stuck)
        for test in (chance, rank_chance):
            p = np.array([test(a, b) for a, b in zip(x, y, strict=True)])
            assert np.mean(p < LEVEL) <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / len(p)), (test, stuck)


def test_counts_with_many_ties_keep_the_level_too():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (500, 14))
    p = [rank_chance(row[:4], row[4:]) for row in counts]
    assert np.mean(np.array(p) < LEVEL) <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / len(p))


def test_wins_of_all_are_bounded_almost_as_exactly_as_counts():
    """n of n: a betting interval may not be narrower than the exact one, and should not be much wider."""
    for n in SIZES:
        low, high = mean_interval(np.ones(n))
        exact = 0.025 ** (1 / n)
        assert high == 1 and exact - 0.06 <= low <= exact


SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(SHARES)
def test_an_interval_holds_its_mean_does_not_mind_the_order_and_mirrors(x):
    low, high = mean_interval(x)
    assert 0 <= low <= np.mean(x) + 1e-9 and np.mean(x) - 1e-9 <= high <= 1
    np.testing.assert_allclose(mean_interval(x[::-1]), (low, high), atol=1e-6)
    np.testing.assert_allclose(mean_interval([1 - v for v in x]), (1 - high, 1 - low), atol=0.001)


@given(SHARES, SHARES)
def test_the_interval_of_a_difference_holds_it_and_turns_with_its_sides(x, y):
    low, high = difference_interval(x, y)
    assert low - 1e-9 <= np.mean(x) - np.mean(y) <= high + 1e-9
    np.testing.assert_allclose(difference_interval(y, x), (-high, -low))


@given(st.lists(st.none() | st.floats(0, 1), max_size=12), st.randoms())
def test_holm_raises_p_values_keeps_their_order_and_does_not_mind_where_they_stand(p_values, chance):
    corrected = holm(p_values)
    known = sorted((p, c) for p, c in zip(p_values, corrected, strict=True) if p is not None)
    assert [c is None for c in corrected] == [p is None for p in p_values]
    assert all(p <= c <= 1 for p, c in known)
    assert [c for _, c in known] == sorted(c for _, c in known)
    order = chance.sample(range(len(p_values)), len(p_values))
    assert holm([p_values[k] for k in order]) == pytest.approx([corrected[k] for k in order])


def test_an_interval_shrinks_with_more_students_and_widens_with_a_stuck_one():
    widths = [np.subtract(*mean_interval(np.full(n, 0.97))[::-1]) for n in (1, *SIZES, 200, 2000)]
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.01
    assert mean_interval([0.97] * 9 + [0.0])[0] < mean_interval([0.97] * 10)[0] - 0.1


def test_every_deal_counts_once():
    # The deals of 1, 2 | 3: means 1.5 | 3; of the three deals 1, 2 and 2, 3 part as far, 1, 3 does not.
    assert chance([1.0, 2.0], [3.0]) == pytest.approx(2 / 3)
    a, b = [0.3, 0.9, 0.5], [0.1, 0.2, 0.4, 0.6]
    assert chance(a, a[::-1]) == 1
    assert rank_chance(a, b) == pytest.approx(stats.mannwhitneyu(a, b).pvalue)


def test_large_groups_are_dealt_by_chance_and_always_in_the_same_way():
    a, b = np.linspace(0, 1, 30), np.linspace(0.1, 1.3, 30)
    assert chance(a, b) == chance(a, b) == pytest.approx(stats.ttest_ind(a, b).pvalue, abs=0.015)
    assert chance(np.zeros(30), np.ones(30)) == pytest.approx(1 / 20_001)


def test_the_smallest_chance_is_that_of_groups_that_do_not_overlap():
    assert least_chance(3, 3) == rank_chance([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert least_chance(2, 5) == pytest.approx(rank_chance([1, 1], [0, 0, 0, 0, 0]))  # with ties
    assert rank_chance([1, 2], [3, 4, 5, 6, 7]) == pytest.approx(2 * least_chance(2, 5))
    assert least_chance(0, 4) == least_chance(1, 1) == 1


def test_values_that_are_no_numbers_have_no_chance():
    assert chance([0.0, math.nan], [0.0, 0.0]) is rank_chance([math.nan], [0.0]) is None
    assert estimate([0.0, math.nan]).to_json() is None
    assert all(map(math.isfinite, mean_interval([-1e-17, 0.5, 1 + 1e-16])))


def test_an_estimate_has_an_interval_only_where_its_values_have_bounds():
    free, bounded = estimate([0.25, 0.5, 0.75, 1.0]), estimate([0.25, 0.5, 0.75, 1.0], (0, 1))
    assert free.mean == bounded.mean == 0.625 and free.median == 0.625
    assert free.sem == pytest.approx(np.std([0.25, 0.5, 0.75, 1], ddof=1) / 2)
    assert free.low is free.to_json()["low"] is None
    assert 0 < bounded.low < 0.625 < bounded.high < 1
    assert estimate([]).to_json() is None


def test_a_single_student_has_no_standard_error():
    assert standard_error([1.0]) is estimate([1.0]).sem is estimate([1.0]).to_json()["sem"] is None
    assert estimate([1.0], (0, 1)).low < 0.05


def test_holm_ignores_what_does_not_exist():
    assert holm([None, 0.02]) == [None, 0.02]
