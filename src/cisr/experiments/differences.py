"""Are these students better than those, or may chance alone have made them so?

Two tests for every pair of groups, both by dealing their values anew: one of the means, which a few students that
learned nothing move, and one of the ranks (Mann–Whitney), which hardly minds them. Both are corrected by Holm's method
over the pairs that are compared in one measure: success, return and training failures are three questions, not one
asked three times. Values are those of single students, or of classes where each had a teacher of its own: see
`cisr.experiments.compare.units`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cisr.experiments.statistics import LEVEL, chance, difference_interval, estimate, holm, least_chance, rank_chance

SHARES = ("success",)
"""Measures that lie in [0, 1]: the difference of their means has an interval."""
Measured = Mapping[str, Mapping[str, Sequence[float]]]
"""By measure (success, return, training_failures), then by curriculum, a number for each student."""


class Pair(NamedTuple):
    """Two groups, and a number for each student of both."""

    group: str
    values: Sequence[float]
    others: str
    other_values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much more the students of `group` have of a measure than `others`."""

    measure: str
    group: str
    others: str
    sizes: tuple[int, int]
    means: tuple[float | None, float | None]
    low: float | None
    """Of the 95 % interval of the means' difference, not corrected; None where none holds for every distribution."""
    high: float | None
    p_mean: float | None
    """How often chance parts the means as far; None where a group is empty."""
    p_rank: float | None
    """How often it parts the ranks as far; None where a group is empty."""
    least: float
    """The smallest p_rank that groups of these sizes could have had beside the other pairs."""

    @property
    def gain(self) -> float | None:
        ours, theirs = self.means
        return None if ours is None or theirs is None else ours - theirs

    @property
    def told_apart(self) -> str:
        """Yes or no, or by which of the tests alone; "too few" where the rank test could not say yes, come what may."""
        if self.least >= LEVEL:
            return "too few"
        by_mean, by_rank = (p is not None and p < LEVEL for p in (self.p_mean, self.p_rank))
        if by_mean and by_rank:
            return "yes"
        return "by mean" if by_mean else "by rank" if by_rank else "no"

    def to_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "group": self.group,
            "others": self.others,
            "sizes": list(self.sizes),
            "means": list(self.means),
            "low": self.low,
            "high": self.high,
            "p_mean": self.p_mean,
            "p_rank": self.p_rank,
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
    p_means = holm([chance(pair.values, pair.other_values) for pair in pairs])
    p_ranks = [rank_chance(pair.values, pair.other_values) for pair in pairs]
    found = []
    for k, (pair, p_mean, p_rank) in enumerate(zip(pairs, p_means, holm(p_ranks), strict=True)):
        sizes = (len(pair.values), len(pair.other_values))
        least = holm([*p_ranks[:k], least_chance(*sizes), *p_ranks[k + 1 :]])[k]
        assert least is not None
        low = high = None
        if measure in SHARES and all(sizes):
            low, high = (float(end) for end in difference_interval(pair.values, pair.other_values))
        found.append(
            Difference(
                measure=measure,
                group=pair.group,
                others=pair.others,
                sizes=sizes,
                means=(estimate(pair.values).mean, estimate(pair.other_values).mean),
                low=low,
                high=high,
                p_mean=p_mean,
                p_rank=p_rank,
                least=least,
            )
        )
    return tuple(found)
