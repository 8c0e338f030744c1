"""What a handful of students can and cannot tell: estimates, intervals that cover, and tests that keep their level.

Students are mixtures: most end up alike, a few learn nothing. The percentile bootstrap, Student's t and Welch's test
assume otherwise and fail on them, so everything called 95 % or p here holds for *every* distribution:

- means of what lies in [0, 1]: betting intervals (Waudby-Smith and Ramdas, 2024), alone and for a difference;
- shares of students: Clopper and Pearson's exact intervals;
- differences: how often dealing the same values into two groups anew gives one as large, which is exact.

Other means (returns, counts) have no such interval, whatever the sample. What cannot be known is None everywhere: the
mean of nobody, the standard error of one student, an interval that would not hold. It is never a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVEL = 0.05
BETS = {**{k / 10: 0.5 / 9 for k in range(1, 10)}, 1.0: 0.5}
"""Stakes c and how much of the money is on each. Half goes on the boldest, which is best where students are alike."""
BISECTIONS = 30
"""Limits are found to 1e-9."""
ALL_DEALS = 200_000
"""Up to so many ways to deal values into two groups, all of them are tried (10 and 10 have 184,756)."""
DEALS = 20_000
"""Beyond, so many are drawn."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over independent values, its standard error, and the median, which a few that learned nothing do not move.

    `low` and `high` hold the mean with 95 % confidence whatever the distribution; None where nothing can be claimed.
    """

    mean: float | None = None
    sem: float | None = None
    low: float | None = None
    high: float | None = None
    median: float | None = None

    def to_json(self) -> dict[str, float | None] | None:
        """Null where there is no value at all."""
        return None if self.mean is None else asdict(self)


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many of some students, and the 95 % interval of their share of all such students; None where none holds."""

    count: int
    of: int
    low: float | None
    high: float | None

    @property
    def share(self) -> float | None:
        return self.count / self.of if self.of else None

    def to_json(self) -> dict[str, float | None]:
        return {"count": self.count, "of": self.of, "share": self.share, "low": self.low, "high": self.high}


def estimate(values: Sequence[float], within: tuple[float, float] | None = None) -> Estimate:
    """Sum up independent values; their mean has an interval where they are known to lie `within` two numbers.

    Nothing is known where there are none, or one of them is no number.
    """
    data = np.asarray(values, float)
    if not len(data) or not np.isfinite(data).all():
        return Estimate()
    low = high = None
    if within is not None:
        least, most = within
        low, high = (least + (most - least) * float(end) for end in mean_interval((data - least) / (most - least)))
    mean, median = float(data.mean()), float(np.median(data))
    return Estimate(mean=mean, sem=standard_error(data), low=low, high=high, median=median)


def standard_error(values: ArrayLike) -> float | None:
    """s / √n; None for a single value, which says nothing about its spread."""
    data = np.asarray(values, float)
    return float(data.std(ddof=1) / np.sqrt(len(data))) if len(data) > 1 else None


def share(count: int, of: int) -> Share:
    """Clopper and Pearson's interval: the shares p under which neither so few nor so many are rarer than 2.5 %.

    low = Beta⁻¹(α/2; k, n − k + 1), high = Beta⁻¹(1 − α/2; k + 1, n − k).
    """
    from scipy.stats import beta

    low = float(beta.ppf(LEVEL / 2, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(1 - LEVEL / 2, count + 1, of - count)) if count < of else 1.0
    return Share(count=count, of=of, low=low, high=high)


def mean_interval(x: ArrayLike, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Of the mean of values in [0, 1], (..., n): the m that nobody has got rich by betting against.

    Who bets that the mean is above m, with stake c ≤ 1, has ∏_i (1 − c + c x_i / m) in the end. If it is not, the
    expectation is at most 1, also of the average W(m) over stakes, so W(m) ≥ 2/α has a chance of at most α/2 (Markov).
    W falls in m, so low is the last m that is refuted in this way, and high is that of 1 − x, mirrored.
    """
    values = np.clip(np.asarray(x, float), 0.0, 1.0)  # rounding may lead out of it
    return _refuted(values, level), 1 - _refuted(1 - values, level)


def difference_interval(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Of mean(a) − mean(b), values in [0, 1], (..., n) and (..., m): two intervals of α/2 each hold at once with 1 − α.

    [low_a − high_b, high_a − low_b]. (The product of both bets is a single one, but no narrower: one of them loses.)
    """
    low, high = mean_interval(a, LEVEL / 2)
    other_low, other_high = mean_interval(b, LEVEL / 2)
    return low - other_high, high - other_low


def chance(a: Sequence[float], b: Sequence[float]) -> float | None:
    """How often dealing all values anew into groups of these sizes parts the means as far; None where one is empty,
    or a value is no number.

    p = P(|mean(a′) − mean(b′)| ≥ |mean(a) − mean(b)|) over deals. Where all values come from one distribution, every
    deal is as likely, so p ≤ α has a chance of at most α: with any distribution, any sizes, and ties.
    """
    values, n = np.concatenate([np.asarray(a, float), np.asarray(b, float)]), len(a)
    if not len(a) or not len(b) or not np.isfinite(values).all():
        return None
    # Sums of the first group say the same as differences of means: one is a growing function of the other.
    values = values - values.mean()
    seen = abs(values[:n].sum()) - 1e-9 * np.abs(values).sum()  # equal sums may differ by rounding
    if math.comb(len(values), n) <= ALL_DEALS:
        return float(np.mean(np.abs(values[_deals(len(values), n)].sum(axis=1)) >= seen))
    rng = np.random.default_rng(0)
    drawn = [rng.permuted(np.tile(values, (1000, 1)), axis=1)[:, :n].sum(axis=1) for _ in range(DEALS // 1000)]
    return float((1 + np.sum(np.abs(drawn) >= seen)) / (1 + DEALS))


def rank_chance(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The same of ranks: Mann and Whitney's test, exact with ties too."""
    return chance(*ranks(a, b))


def ranks(a: Sequence[float], b: Sequence[float]) -> tuple[list[float], list[float]]:
    """Of each value its rank among all; equal values share theirs."""
    values = np.concatenate([np.asarray(a, float), np.asarray(b, float)])
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    found = ((np.cumsum(counts) - (counts - 1) / 2)[which] + 0 * values).tolist()  # NaN where a value is none
    return found[: len(a)], found[len(a) :]


def least_chance(n: int, m: int) -> float:
    """The smallest p that n and m values can give: the groups do not overlap, and only two deals do that; with ties in
    groups of unequal sizes one."""
    return min(1.0, (2 if n == m else 1) / math.comb(n + m, n))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m - k + 1, and none falls below the last.

    What is unknown stays so and is not counted.
    """
    corrected: list[float | None] = [None] * len(p_values)
    order = sorted((p, k) for k, p in enumerate(p_values) if p is not None)
    least = 0.0
    for rank, (p, k) in enumerate(order):
        least = corrected[k] = max(least, min(1.0, (len(order) - rank) * p))
    return corrected


def _log_wealth(x: Floats, m: Floats) -> Floats:
    """log W(m) of values (..., n) for one m each (...)."""
    stakes, parts = (np.array(numbers)[:, None] for numbers in (list(BETS), list(BETS.values())))  # (bets, 1)
    ratio = (x / m[..., None])[..., None, :]  # (..., 1, n)
    with np.errstate(divide="ignore"):  # the boldest bet loses everything on a 0
        won = np.log(1 - stakes + stakes * ratio).sum(axis=-1)  # (..., bets)
    return np.asarray(np.logaddexp.reduce(np.log(parts[:, 0]) + won, axis=-1))


def _refuted(x: Floats, level: float) -> Floats:
    """The last m that is too low to be the mean, by bisection; 0 where none is."""
    low, high = np.zeros(x.shape[:-1]), np.ones(x.shape[:-1])
    for _ in range(BISECTIONS):
        m = (low + high) / 2
        refuted = _log_wealth(x, m) >= math.log(2 / level)
        low, high = np.where(refuted, m, low), np.where(refuted, high, m)
    return low


@lru_cache(maxsize=8)
def _deals(total: int, n: int) -> NDArray[np.int32]:
    """Every choice of n out of so many, (choices, n)."""
    return np.array(list(combinations(range(total), n)), np.int32)
