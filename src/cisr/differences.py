"""Are these students better than those, or may chance alone have made them so?

Two tests for every pair of groups: Welch's t-test compares means, which a few students that learned nothing move;
the rank test (Mann–Whitney) hardly minds them. Both are corrected by Holm's method over the pairs that are compared in
one measure: success, return and training failures are three questions, not one asked three times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

LEVEL = 0.05
Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""By measure (success, return, training_failures), then by curriculum, a number for each student."""


class Pair(NamedTuple):
    """Two groups, and a number for each student of both."""

    group: str
    values: Sequence[float]
    others: str
    other_values: Sequence[float]


class Tests(NamedTuple):
    """What the tests say of a pair, before any correction; NaN where they cannot."""

    p_mean: float
    p_rank: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much more the students of `group` have of a measure than `others`."""

    measure: str
    group: str
    others: str
    sizes: tuple[int, int]
    means: tuple[float, float]
    low: float
    """Of the 95 % interval of the means' difference, by Welch's test, not corrected."""
    high: float
    p_mean: float
    """Of Welch's test; NaN where neither group spreads."""
    p_rank: float
    """Of the rank test; NaN where a group is empty."""

    @property
    def gain(self) -> float:
        return self.means[0] - self.means[1]

    @property
    def told_apart(self) -> str:
        """Yes or no, or by which of the tests alone; "too few" where the rank test could not say yes, come what may."""
        if 2 / math.comb(sum(self.sizes), self.sizes[0]) > LEVEL:
            return "too few"
        seen = [p < LEVEL for p in (self.p_mean, self.p_rank) if not math.isnan(p)]
        if all(seen) or not any(seen):
            return "yes" if all(seen) else "no"
        return "by mean" if self.p_mean < LEVEL else "by rank"

    def to_json(self) -> dict[str, Any]:
        numbers = {"low": self.low, "high": self.high, "p_mean": self.p_mean, "p_rank": self.p_rank}
        return {
            "measure": self.measure,
            "group": self.group,
            "others": self.others,
            "sizes": list(self.sizes),
            "means": [_plain(mean) for mean in self.means],
            **{name: _plain(number) for name, number in numbers.items()},
            "told_apart": self.told_apart,
        }


def against_the_others(measured: Measured) -> tuple[Difference, ...]:
    """The first curriculum against each other one, in every measure."""
    found: list[Difference] = []
    for measure, groups in measured.items():
        (first, values), *rest = groups.items()
        found += differences(measure, [Pair(first, values, label, others) for label, others in rest])
    return tuple(found)


def against(measured: Measured, elsewhere: Measured) -> tuple[Difference, ...]:
    """Each curriculum against the students elsewhere under the same one, in every measure that is known there."""
    found: list[Difference] = []
    for measure, others in elsewhere.items():
        groups = measured[measure].items()
        found += differences(measure, [Pair(k, values, "elsewhere", others[k]) for k, values in groups if k in others])
    return tuple(found)


def differences(measure: str, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Test every pair; the p-values are corrected for how many there are."""
    tests = [_tests(np.asarray(p.values, float), np.asarray(p.other_values, float)) for p in pairs]
    p_means, p_ranks = holm([t.p_mean for t in tests]), holm([t.p_rank for t in tests])
    return tuple(
        Difference(
            measure=measure,
            group=pair.group,
            others=pair.others,
            sizes=(len(pair.values), len(pair.other_values)),
            means=(_mean(pair.values), _mean(pair.other_values)),
            low=test.low,
            high=test.high,
            p_mean=p_mean,
            p_rank=p_rank,
        )
        for pair, test, p_mean, p_rank in zip(pairs, tests, p_means, p_ranks, strict=True)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m - k + 1, and none falls below the last.

    NaN stays NaN and is not counted.
    """
    corrected = [math.nan] * len(p_values)
    order = sorted((p, k) for k, p in enumerate(p_values) if not math.isnan(p))
    least = 0.0
    for rank, (p, k) in enumerate(order):
        least = corrected[k] = max(least, min(1.0, (len(order) - rank) * p))
    return corrected


def _tests(a: np.ndarray, b: np.ndarray) -> Tests:
    from scipy import stats

    if not len(a) or not len(b):
        return Tests(math.nan, math.nan, math.nan, math.nan)
    p_rank = float(stats.mannwhitneyu(a, b).pvalue)
    if min(len(a), len(b)) < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return Tests(math.nan, p_rank, math.nan, math.nan)
    welch = stats.ttest_ind(a, b, equal_var=False)
    low, high = welch.confidence_interval(0.95)
    return Tests(float(welch.pvalue), p_rank, float(low), float(high))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _plain(number: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(number) else number
