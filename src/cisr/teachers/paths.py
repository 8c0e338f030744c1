"""What students meet under a curriculum, and how much two curricula have in common.

Parameters name interventions and thresholds; students only notice some of them. A stage whose threshold the observation
(0, 0) passes is skipped, and two stages with the same intervention are one. What is left is the curriculum's *path*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cisr.curricula.base import Observation
from cisr.curricula.policies import Switching
from cisr.curricula.space import Parameters, SearchSpace

Floats = NDArray[np.float64]


class Path(NamedTuple):
    """The interventions that a student meets, no two alike in a row, and what it takes to get from one to the next."""

    interventions: tuple[str, ...]
    thresholds: tuple[tuple[float, float], ...]
    """(return, violation) for each switch, scaled so that the ranges of the search are [0, 1]."""


class Kernel(NamedTuple):
    """How alike the students of two paths are: a sum of variances, one for each thing that the paths have in common.

    k(x, x') = start · [first interventions equal] + opening · [first two equal] + end · [last equal]
             + path · [all equal] + point · [all equal] · exp(-½ d² / l²),

    with d the distance of the thresholds.
    """

    start: float
    opening: float
    end: float
    path: float
    point: float
    lengthscale: float = 0.3

    def __call__(self, one: Sequence[Path], other: Sequence[Path]) -> Floats:
        """(m, n)"""

        def same(part: slice) -> Floats:
            numbers: dict[tuple[str, ...], int] = {}
            codes = [numbers.setdefault(path.interventions[part], len(numbers)) for path in (*one, *other)]
            return np.equal.outer(codes[: len(one)], codes[len(one) :]).astype(float)

        alike = same(slice(None))
        near = np.exp(-0.5 * _distances(one, other) / self.lengthscale**2)
        return (
            self.start * same(slice(1))
            + self.opening * same(slice(2))
            + self.end * same(slice(-1, None))
            + alike * (self.path + self.point * near)
        )


def path_of(parameters: Parameters, space: SearchSpace) -> Path:
    """The path of the switching curriculum at a point of its search space.

    A student that must pass two thresholds to leave one intervention passes the stricter of the two.
    """
    policy = Switching.from_parameters(parameters)
    stages = list(zip(policy.interventions, [None, *policy.thresholds], strict=True))
    if len(stages) > 1 and policy.thresholds[0].passed(Observation()):
        stages = stages[1:]
    ranges = {real.name: real for real in space.reals}
    returns, violations = ranges.get("return_1"), ranges.get("violation_1")
    met, switches = [stages[0][0]], []
    strictest = (0.0, 1.0)
    for name, threshold in stages[1:]:
        assert threshold is not None and returns is not None and violations is not None
        asked = (
            (threshold.min_return - returns.low) / (returns.high - returns.low),
            (threshold.max_violation - violations.low) / (violations.high - violations.low),
        )
        strictest = (max(strictest[0], asked[0]), min(strictest[1], asked[1]))
        if name != met[-1]:
            met.append(name)
            switches.append(strictest)
            strictest = (0.0, 1.0)
    return Path(tuple(met), tuple(switches))


def _distances(one: Sequence[Path], other: Sequence[Path]) -> Floats:
    """Squared distances of the thresholds of paths (m, n); meaningful where the interventions are the same."""
    longest = max([1, *(len(path.thresholds) for path in (*one, *other))])

    def rows(paths: Sequence[Path]) -> Floats:
        numbers = np.zeros((len(paths), longest, 2))
        for row, path in zip(numbers, paths, strict=True):
            row[: len(path.thresholds)] = np.reshape(path.thresholds, (-1, 2))
        return numbers.reshape(len(paths), -1)

    difference = rows(one)[:, None] - rows(other)[None]
    return np.asarray((difference**2).sum(axis=-1))
