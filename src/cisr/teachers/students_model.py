"""What a teacher believes about students it has not seen, from those it has.

Students are mixtures: most of a curriculum's end up alike, a few fail to learn. A mean of few students hides both, so
they are two models, each a Gaussian process over paths:

    P(a student under x fails to learn) = σ(m + g(x)),            g ~ GP(0, FAILING), by Laplace's method,
    score of one that learns            = μ + s sinh(h(x) + noise),   h ~ GP(0, QUALITY),

and what a curriculum is worth is p(x) · floor + (1 - p(x)) · q(x), with the mean score of those that failed as floor.
A student has failed to learn where its score is in the lowest three tenths of the range of all scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import expit

from cisr.teachers.paths import Floats, Kernel, Path

FAILED_BELOW = 0.3
"""Of the way from the worst score to the best."""
FAILING = Kernel(start=4.0, opening=0.25, end=0.0, path=0.25, point=0.25)
"""Of the log-odds of failing to learn: what comes first decides above all, but what comes then may mend it. How others
fared that ended alike says nothing: an intervention that alone teaches nobody may be the best to end with."""
USUAL_LOG_ODDS = -3.0
QUALITY = Kernel(start=0.1, opening=0.1, end=2.0, path=0.5, point=0.1)
"""Of the standardised score of those that learn: how a curriculum ends matters most."""
NOISE = 0.5
"""Variance of the standardised score from student to student."""
SMALLEST_SPREAD = 0.005
"""Of the range of all scores: differences far below it are not worth a student."""
FARTHEST = 30.0
"""Of the usual distance from the median of all scores: one that lies farther off counts as lying there, because the
range of all scores is the measure of much else."""
JITTER = 1e-6
"""Of the largest variance: paths that coincide leave a covariance without an inverse."""


@dataclass(frozen=True)
class Gaussian:
    mean: Floats  # (n,)
    covariance: Floats  # (n, n)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """(len(mean), n)"""
        jitter = JITTER * self.covariance.diagonal().max()
        root = np.linalg.cholesky(self.covariance + jitter * np.eye(len(self.mean)))
        return np.asarray(self.mean[:, None] + root @ rng.standard_normal((len(self.mean), n)))


@dataclass(frozen=True)
class Posterior:
    """Posteriors at some paths."""

    failing: Gaussian
    """Log-odds of failing to learn."""
    quality: Gaussian
    """Of those that learn: arsinh of how many spreads their score lies above the location."""
    location: float
    spread: float
    floor: float
    """Score of those that do not."""

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """What the students of each path may score on average, (paths, n): n possible worlds."""
        failing = expit(self.failing.draw(n, rng))
        quality = self.location + self.spread * np.sinh(self.quality.draw(n, rng))
        return np.asarray(failing * self.floor + (1 - failing) * quality)


def believe(paths: Sequence[Path], scores: Floats, at: Sequence[Path]) -> Posterior:
    """What students of `paths` with these scores (n,), one each, say about students at other paths."""
    scores = without_far_ones(scores)
    worst, best = float(scores.min()), float(scores.max())
    learned = scores >= worst + FAILED_BELOW * (best - worst)
    floor = worst if learned.all() else float(scores[~learned].mean())
    sound = [path for path, well in zip(paths, learned, strict=True) if well]
    location = float(np.median(scores[learned]))
    spread = max(usual_distance(scores[learned], location), SMALLEST_SPREAD * (best - worst)) if best > worst else 1.0
    return Posterior(
        failing=classified(FAILING, paths, (~learned).astype(float), at),
        quality=regressed(QUALITY, sound, np.arcsinh((scores[learned] - location) / spread), at),
        location=location,
        spread=spread,
        floor=floor,
    )


def without_far_ones(scores: Floats) -> Floats:
    """The scores, with those far from all others moved nearer."""
    median = float(np.median(scores))
    reach = FARTHEST * usual_distance(scores, median)
    return np.clip(scores, median - reach, median + reach) if reach > 0 else scores


def usual_distance(scores: Floats, location: float) -> float:
    """A standard deviation that a few odd scores do not move: 1.4826 times the median distance."""
    return 1.4826 * float(np.median(np.abs(scores - location)))


class Pooled(NamedTuple):
    """Students by their paths: n students of one path say what one says that has their mean, and an n-th of the
    variance. A race has many students and few paths."""

    paths: list[Path]
    counts: Floats  # (k,)
    sums: Floats  # (k,)

    @staticmethod
    def by_path(paths: Sequence[Path], values: Floats) -> Pooled:
        numbers: dict[Path, int] = {}
        which = [numbers.setdefault(path, len(numbers)) for path in paths]
        counts, sums = np.zeros(len(numbers)), np.zeros(len(numbers))
        np.add.at(counts, which, 1.0)
        np.add.at(sums, which, values)
        return Pooled(list(numbers), counts, sums)


def regressed(kernel: Kernel, paths: Sequence[Path], y: Floats, at: Sequence[Path]) -> Gaussian:
    """The posterior of h at some paths, from y = h + noise (n,)."""
    paths, counts, sums = Pooled.by_path(paths, y)
    y = sums / counts
    root = np.linalg.cholesky(kernel(paths, paths) + np.diag(NOISE / counts))
    half = solve_triangular(root, kernel(paths, at), lower=True)  # (n, m)
    mean = half.T @ solve_triangular(root, y, lower=True)
    return Gaussian(mean, kernel(at, at) - half.T @ half)


def classified(kernel: Kernel, paths: Sequence[Path], failed: Floats, at: Sequence[Path]) -> Gaussian:
    """The posterior of the log-odds at some paths, from who failed (n,): Laplace's approximation at the mode.

    Newton's steps towards the mode of log p(failed | g) - ½ gᵀK⁻¹g with g = K a and, of n students of a path of whom
    some failed, W = n p (1 - p):

        a ← (I + W K)⁻¹ (W g + failed - n p),

    each halved until it does not lead downhill: where odds are long, whole ones may go to and fro for ever.
    """
    paths, n, failed = Pooled.by_path(paths, failed)
    k = kernel(paths, paths)

    def height(a: Floats) -> float:
        log_odds = USUAL_LOG_ODDS + k @ a
        return float(failed @ log_odds - n @ np.logaddexp(0, log_odds) - 0.5 * a @ k @ a)

    a = np.zeros(len(failed))
    for _ in range(100):
        g = k @ a
        p = expit(USUAL_LOG_ODDS + g)
        root = np.sqrt(n * p * (1 - p))
        factor = cho_factor(np.eye(len(g)) + root[:, None] * k * root, lower=True)
        b = root**2 * g + failed - n * p
        step = b - root * cho_solve(factor, root * (k @ b)) - a
        before = height(a)
        while height(a + step) < before and np.abs(k @ step).max() > 1e-6:
            step /= 2
        a = a + step
        if np.abs(k @ step).max() <= 1e-6:
            break
    cross = kernel(paths, at)  # (n, m)
    half = solve_triangular(factor[0], root[:, None] * cross, lower=True)
    mean = USUAL_LOG_ODDS + cross.T @ (failed - n * expit(USUAL_LOG_ODDS + k @ a))
    return Gaussian(mean, kernel(at, at) - half.T @ half)
