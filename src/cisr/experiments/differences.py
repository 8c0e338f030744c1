"""Are these students better than those, or may chance alone have made them so?

Two tests for every pair of groups, both by dealing their values anew: one of the means, which a few students that
learned nothing move, and one of the ranks (Mann–Whitney), which hardly minds them. Each test is corrected by Holm's
method over all rows of a table, pairs and measures alike: where chance alone is at work, a table says "yes" anywhere in
at most 5 % of cases. Values are those of single students, or of classes where each had a teacher of its own: see
`cisr.experiments.comparison.units`.

Students that did not finish are counted too, twice: as the lowest and as the highest that they could have been. The
answer is given where it is the same both times, so those that finished never speak for those that broke.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cisr.experiments.statistics import LEVEL, chance, difference_interval, estimate, holm, least_chance, ranks

SHARES = ("success",)
"""Measures that lie in [0, 1]: the difference of their means has an interval."""


class Value(NamedTuple):
    """A number of one student, and the lowest and highest that it could have been had the student finished."""

    known: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Sample:
    """One measure of the students under one curriculum."""

    units: tuple[tuple[Value, ...], ...]
    """What chance has drawn independently: a single student each, or the students of a class."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        """Students that all have finished."""
        return cls(tuple((Value(float(value), float(value), float(value)),) for value in values))

    @property
    def values(self) -> list[float]:
        """The mean over each unit's students that have a value, where there are any."""
        known = ([value.known for value in unit if value.known is not None] for unit in self.units)
        return [float(np.mean(values)) for values in known if values]

    @property
    def students(self) -> int:
        return sum(map(len, self.units))

    @property
    def unfinished(self) -> int:
        """Students whose value is not known, or may still have grown."""
        return sum(value.low != value.high for unit in self.units for value in unit)

    def filled(self, least: float, most: float) -> tuple[list[float], list[float]]:
        """The units' means where all that is open is as low, and as high, as it can be; two numbers stand for ∓∞."""
        lowest = [[least if value.low == -math.inf else value.low for value in unit] for unit in self.units]
        highest = [[most if value.high == math.inf else value.high for value in unit] for unit in self.units]
        return [float(np.mean(unit)) for unit in lowest], [float(np.mean(unit)) for unit in highest]


Measured = Mapping[str, Mapping[str, Sample]]
"""By measure (success, return, training_failures), then by curriculum."""


class Pair(NamedTuple):
    """Two groups and what was measured of them."""

    measure: str
    group: str
    sample: Sample
    others: str
    other_sample: Sample


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much more the students of `group` have of a measure than `others`."""

    measure: str
    group: str
    others: str
    sizes: tuple[int, int]
    """Values of each side."""
    students: tuple[int, int]
    unfinished: tuple[int, int]
    """Of these students, whose value is not known, or not to its end."""
    means: tuple[float | None, float | None]
    low: float | None
    """Of the 95 % interval of the means' difference, not corrected, whatever those that did not finish would have been;
    None where none holds for every distribution."""
    high: float | None
    p_mean: float | None
    """How often chance parts the means as far; None where a group is empty. The larger one of both ways to count those
    that did not finish, and 1 where these make now one side better and now the other."""
    p_rank: float | None
    """How often it parts the ranks as far, likewise."""
    depends: bool
    """Whether the answer depends on those that did not finish."""
    least: float
    """The smallest p_rank that groups of these sizes could have had beside the other rows."""

    @property
    def gain(self) -> float | None:
        ours, theirs = self.means
        return None if ours is None or theirs is None else ours - theirs

    @property
    def told_apart(self) -> str:
        """Yes or no, or by which of the tests alone; "too few" where the rank test could not say yes, come what may;
        "unknown" where it depends on students that did not finish."""
        if self.least >= LEVEL:
            return "too few"
        return "unknown" if self.depends else _answer(self.p_mean, self.p_rank)

    def to_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "group": self.group,
            "others": self.others,
            "sizes": list(self.sizes),
            "students": list(self.students),
            "unfinished": list(self.unfinished),
            "means": list(self.means),
            "low": self.low,
            "high": self.high,
            "p_mean": self.p_mean,
            "p_rank": self.p_rank,
            "told_apart": self.told_apart,
        }


def against_the_others(measured: Measured) -> tuple[Difference, ...]:
    """The first curriculum against each other one, in every measure."""
    pairs: list[Pair] = []
    for measure, groups in measured.items():
        (first, sample), *rest = groups.items()
        pairs += [Pair(measure, first, sample, label, others) for label, others in rest]
    return differences(pairs)


def against(measured: Measured, elsewhere: Measured) -> tuple[Difference, ...]:
    """Each curriculum against the students elsewhere under the same one, in every measure that is known there."""
    return differences(
        [
            Pair(measure, label, sample, "elsewhere", others[label])
            for measure, others in elsewhere.items()
            for label, sample in measured[measure].items()
            if label in others
        ]
    )


def differences(pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Test every pair, the rows of one table; the p-values are corrected for how many there are."""
    tests = [_tests(pair) for pair in pairs]
    means, ranked = [test.mean.p for test in tests], [test.rank.p for test in tests]
    found = []
    for k, (pair, p_mean, p_rank) in enumerate(zip(pairs, holm(means), holm(ranked), strict=True)):
        sides = (pair.sample, pair.other_sample)
        least = _beside(ranked, k, least_chance(*(len(side.units) for side in sides)))
        smallest = _beside(means, k, tests[k].mean.smallest), _beside(ranked, k, tests[k].rank.smallest)
        assert least is not None
        found.append(
            Difference(
                measure=pair.measure,
                group=pair.group,
                others=pair.others,
                sizes=(len(sides[0].values), len(sides[1].values)),
                students=(sides[0].students, sides[1].students),
                unfinished=(sides[0].unfinished, sides[1].unfinished),
                means=(estimate(sides[0].values).mean, estimate(sides[1].values).mean),
                low=tests[k].low,
                high=tests[k].high,
                p_mean=p_mean,
                p_rank=p_rank,
                depends=_answer(p_mean, p_rank) != _answer(*smallest),
                least=least,
            )
        )
    return tuple(found)


def _beside(p_values: Sequence[float | None], k: int, p: float | None) -> float | None:
    """What the k-th would be corrected to if it were p."""
    return holm([*p_values[:k], p, *p_values[k + 1 :]])[k]


def _answer(p_mean: float | None, p_rank: float | None) -> str:
    by_mean, by_rank = (p is not None and p < LEVEL for p in (p_mean, p_rank))
    if by_mean and by_rank:
        return "yes"
    return "by mean" if by_mean else "by rank" if by_rank else "no"


class _Chance(NamedTuple):
    """Of one test, over both ways to count those that did not finish."""

    p: float | None
    smallest: float | None


class _Tests(NamedTuple):
    mean: _Chance
    rank: _Chance
    low: float | None
    high: float | None


def _tests(pair: Pair) -> _Tests:
    """Both tests of a pair, not corrected, and the interval of the difference."""
    least, most = _bounds(pair)
    lowest, highest = pair.sample.filled(least, most)
    others_lowest, others_highest = pair.other_sample.filled(least, most)
    ways = [(lowest, others_highest), (highest, others_lowest)]
    low = high = None
    if pair.measure in SHARES and lowest and others_lowest:
        low, high = (float(difference_interval(*way)[end]) for end, way in enumerate(ways))
    ways = ways[:1] if ways[0] == ways[1] else ways
    return _Tests(_over(ways), _over([ranks(*way) for way in ways]), low, high)


def _bounds(pair: Pair) -> tuple[float, float]:
    """What a value without bounds lies between: as far beyond the lowest and the highest of both groups as these are
    from each other."""
    units = (*pair.sample.units, *pair.other_sample.units)
    ends = [end for unit in units for value in unit for end in value[1:] if math.isfinite(end)] or [0.0]
    beyond = max(ends) - min(ends) or 1.0
    return min(ends) - beyond, max(ends) + beyond


def _over(ways: Sequence[tuple[Sequence[float], Sequence[float]]]) -> _Chance:
    found = [chance(*way) for way in ways]
    known = [p for p in found if p is not None]
    if len(known) < len(found):
        return _Chance(None, None)
    gains = [np.mean(ours) - np.mean(theirs) for ours, theirs in ways]
    return _Chance(1.0 if min(gains) < 0 < max(gains) else max(known), min(known))
