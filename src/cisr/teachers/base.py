"""What every teacher does: propose curriculum policies (`ask`) and learn from their scores (`tell`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cisr.core.checks import MOST_STUDENTS, check_kind, check_whole, is_number, shown
from cisr.core.errors import ConfigError
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One curriculum policy that was tried on a class of students."""

    parameters: Parameters
    score: float | None
    """Mean score of the class; None when every student in it failed to finish."""
    sem: float | None
    """Standard error of that mean, where it is known."""
    each: tuple[float, ...] = ()
    """Scores of the single students, where they are known."""


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What a teacher believes of the policy that it would use."""

    score: float
    """Mean score that it expects of new students."""
    bound: float
    """Lower bound of that mean."""
    confidence: float
    """With which the bound holds, if the teacher's model does."""
    students: int
    """How many have tried this very policy."""


class Teacher(ABC):
    """Proposes points of a search space and learns from their scores; higher is better.

    `ask` is a pure function of the trials told so far and the seed: asking twice gives the same answer, and so does
    another teacher that was told the same trials. That is what lets a study be killed and resumed. Points have
    numbers: the first one that `ask` returns is number k = the number of trials told, the next k + 1, and so on.
    """

    def __init__(self, space: SearchSpace, *, seed: int) -> None:
        check_kind("The search space of a teacher", space, SearchSpace, "a search space, such as Switching.space(…)")
        self.space = space
        self.seed = check_whole("The teacher's seed", seed, 0)
        self._trials: list[Trial] = []

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Everything told so far, in order."""
        return tuple(self._trials)

    def tell(
        self,
        parameters: Mapping[str, float | str],
        score: float | None,
        sem: float | None = None,
        each: Sequence[float] = (),
    ) -> None:
        """Record the score of a point; None means that every student of that class failed.

        A point without a score counts as told, and `best` never returns it. `each` are the scores of the class's
        students, for teachers that look at more than the mean.
        """
        self.space.check(parameters)
        if score is not None and not is_number(score):
            raise ConfigError(f"A policy's score is {score}: give a finite number, or None if all its students failed.")
        if sem is not None and not (is_number(sem) and sem >= 0):
            raise ConfigError(f"A score's standard error is {sem}: give a finite number >= 0, or None if unknown.")
        if not isinstance(each, Iterable) or not all(map(is_number, each)):
            raise ConfigError(f"Students of a policy score {shown(each)}: give finite numbers.")
        self._trials.append(
            Trial(
                parameters=dict(parameters),
                score=None if score is None else float(score),
                sem=None if sem is None else float(sem),
                each=tuple(float(one) for one in each),
            )
        )

    def ask(self, n: int = 1) -> list[Parameters]:
        """The next n points to try; they may be tried at the same time."""
        n = check_whole(f"The teacher was asked for {shown(n)} policies: that", n, 1, MOST_STUDENTS)
        points = self._propose(n)
        if not isinstance(points, list | tuple) or len(points) != n:
            raise ConfigError(f"{type(self).__name__} proposed {shown(points)}: give {n} points of its search space.")
        for point in points:
            self.space.check(point)
        return list(points)

    @abstractmethod
    def _propose(self, n: int) -> list[Parameters]:
        """Points number len(trials), …, len(trials) + n - 1."""

    def best(self) -> Parameters:
        """The tried point that this teacher would use, the best observed; an error while nothing has a score."""
        return best_observed(self._trials)

    def belief(self) -> Belief | None:
        """What this teacher believes of its best policy; None for one that does not know how sure it is."""
        return None

    def describe(self) -> dict[str, Any]:
        """What this teacher has learned, as JSON for a report; empty without a model or data."""
        return {}

    def hyperparameters(self) -> dict[str, Any]:
        """What the model of this teacher has been fitted to, for the record; empty without a model or data."""
        return {}


def random_point(space: SearchSpace, seed: int, number: int) -> Parameters:
    """Point number `number` of a random design: uniform, and the same whenever it is asked for."""
    rng = np.random.default_rng([seed, number])
    return {
        p.name: p.options[rng.integers(len(p.options))] if isinstance(p, Choice) else float(rng.uniform(p.low, p.high))
        for p in space.parameters
    }


def unit(parameter: Real | Choice) -> float:
    """The length that becomes 1 in a model's inputs: a real's range, one step between the numbers of two options."""
    return 1.0 if isinstance(parameter, Choice) else parameter.high - parameter.low


def encode(space: SearchSpace, point: Mapping[str, float | str]) -> NDArray[np.float64]:
    """A point as a row of numbers, (d,): reals scaled to [0, 1], options numbered 0, 1, 2, …"""
    space.check(point)
    return np.array(
        [
            p.options.index(str(point[p.name])) if isinstance(p, Choice) else (float(point[p.name]) - p.low) / unit(p)
            for p in space.parameters
        ]
    )


def decode(space: SearchSpace, row: NDArray[np.float64]) -> Parameters:
    """The point that a row stands for; rounding does not leave the bounds."""
    return {
        p.name: p.options[round(v)] if isinstance(p, Choice) else min(max(p.low + float(v) * unit(p), p.low), p.high)
        for p, v in zip(space.parameters, row, strict=True)
    }


def scored(trials: Sequence[Trial]) -> list[tuple[Parameters, float]]:
    """The points with a score, among which a teacher finds its best."""
    found = [(trial.parameters, trial.score) for trial in trials if trial.score is not None]
    if not found:
        raise ConfigError(f"None of the {len(trials)} policies told so far has a score: tell the teacher one first.")
    return found


def best_observed(trials: Sequence[Trial]) -> Parameters:
    """The point with the highest mean score; a point tried several times is judged by its average."""
    scores: dict[tuple[tuple[str, float | str], ...], list[float]] = {}
    for parameters, score in scored(trials):
        scores.setdefault(tuple(sorted(parameters.items())), []).append(score)
    best = max(scores, key=lambda point: fmean(scores[point]))
    return dict(best)
