"""Recorded students: a table of `benchmarks/landscape.py` as a world that teachers can search in seconds.

The nearest recorded policy with the same interventions stands for a point of the search space, and each of its
students is one line of the table. `TABLE` is one of Frozen Lake with the paper's students: 240 policies, 16 students
each, the columns that are needed, rounded to 4 decimals.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from cisr.core.errors import ConfigError
from cisr.curricula import Switching
from cisr.curricula.space import Parameters, SearchSpace
from cisr.teachers.base import encode

TABLE = Path(__file__).parent / "landscapes" / "frozen-lake-cnn.csv.gz"
INTERVENTIONS = ("SR1", "SR2", "HR")


def lake_space(options: tuple[str, ...]) -> SearchSpace:
    """The paper's search space for Frozen Lake, with these for interventions."""
    return Switching.space(options, 2, return_range=(-0.5, 5.5), violation_range=(0.0, 0.2))


@dataclass(frozen=True)
class Policy:
    """A recorded policy and what its students' deployments returned."""

    parameters: Parameters
    returns: tuple[float, ...]


class Recorded:
    """The students of some policies, among which are all combinations of interventions."""

    def __init__(self, policies: list[Policy]) -> None:
        self.space = lake_space(INTERVENTIONS)
        self.policies = policies
        self.means = [fmean(policy.returns) for policy in policies]
        self.highest = max(self.means)
        self._same: dict[tuple[str, ...], list[int]] = {}  # the policies with these interventions
        for number, policy in enumerate(policies):
            self._same.setdefault(self._interventions(policy.parameters), []).append(number)
        self._rows = np.stack([encode(self.space, policy.parameters) for policy in policies])  # (P, d)
        for combination in itertools.product(*(choice.options for choice in self.space.choices)):
            if combination not in self._same:
                raise ConfigError(f"No policy with {', '.join(combination)} is recorded: record each combination.")

    @staticmethod
    def load(path: Path) -> Recorded:
        """A table with one line a student, as plain CSV or with gzip."""
        opened = gzip.open if path.suffix == ".gz" else open
        space = lake_space(INTERVENTIONS)
        parameters: dict[str, Parameters] = {}
        returns: dict[str, list[float]] = {}
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                reals: Parameters = {p.name: float(line[p.name]) for p in space.reals}
                parameters[line["policy"]] = reals | {p.name: line[p.name] for p in space.choices}
                returns.setdefault(line["policy"], []).append(float(line["return"]))
        return Recorded([Policy(point, tuple(returns[name])) for name, point in parameters.items()])

    def nearest(self, point: Parameters) -> int:
        """The recorded policy with the same interventions and the nearest thresholds, each scaled to its range."""
        same = self._same[self._interventions(point)]
        return same[int(np.argmin(np.linalg.norm(self._rows[same] - encode(self.space, point), axis=1)))]

    def truth(self, point: Parameters) -> float:
        return self.means[self.nearest(point)]

    def students(self, seed: int) -> Callable[[Parameters], tuple[Parameters, float]]:
        """Trains a student of a point: the policy that stood for it, and the student's return.

        The students of a policy come in an order that depends on the seed alone, and then in that order again.
        """
        orders = [
            itertools.cycle(np.random.default_rng([seed, number, 1]).permutation(policy.returns))
            for number, policy in enumerate(self.policies)
        ]

        def train(point: Parameters) -> tuple[Parameters, float]:
            number = self.nearest(point)
            return self.policies[number].parameters, float(next(orders[number]))

        return train

    def _interventions(self, point: Parameters) -> tuple[str, ...]:
        return tuple(str(point[choice.name]) for choice in self.space.choices)
