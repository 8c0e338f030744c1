"""A teacher that knows how sure it is: tries what may be best or its strongest rival, returns what it can vouch for.

What students of a curriculum may score is a model of what they show (`cisr.teachers.students_model`). Each proposal
comes from possible worlds drawn from it: half of the time the policy that is best in one world, otherwise the one that
is best in another world where the first is not (top-two Thompson sampling, Russo 2016). At first all policies compete;
as students add up it is more and more often those alone that were tried before, which so are raced with growing
classes. The policy returned has the highest lower confidence bound.

Thresholds are demanding at first: a student that leaves a stage before it has learned there what it can is lost in the
next one, a student that leaves it late has lost some units. Later every other new policy comes from anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from cisr.core.checks import check_whole
from cisr.core.errors import ConfigError
from cisr.curricula.space import Parameters, SearchSpace
from cisr.teachers.base import Belief, Teacher, Trial, random_point, scored
from cisr.teachers.paths import Floats, Path, path_of

if TYPE_CHECKING:  # scipy is imported where it is used
    from cisr.teachers.students_model import Posterior

Key = tuple[tuple[str, float | str], ...]

CONFIDENCE = 0.9
N_NEW = 100
"""New policies that compete with those tried."""
ONLY_SEARCH = 5
"""Students that new policies have for sure; of the k-th student they have a chance of this over k."""
N_DEMANDING = 10
"""Students whose policies all have demanding thresholds."""
DEMANDING = {"return": (0.5, 1.0), "violation": (0.0, 0.5)}
"""Which part of a range that is, by how the parameter's name begins."""
N_PROPOSED, N_JUDGED = 64, 2_000
"""Worlds drawn to propose, and to say how sure the teacher is."""


class Prospects(NamedTuple):
    """The policies tried, and what they may be worth."""

    points: list[Parameters]
    students: list[int]
    worth: Floats  # (points, worlds)

    @property
    def bounds(self) -> Floats:
        return np.asarray(np.quantile(self.worth, 1 - CONFIDENCE, axis=1))


@final
class TopTwo(Teacher):
    """See the module. The first points take the interventions in turn, each as the first one once. Where students have
    met each intervention alone, they already show every beginning: then the one that did best is followed by each other
    one. Random points come after that, up to `n_initial`.

    A failed class (score None) counts as one student with the lowest score seen, and a policy with more failed classes
    than others is not returned unless all are like that.
    """

    def __init__(self, space: SearchSpace, *, seed: int, n_initial: int = 3) -> None:
        super().__init__(space, seed=seed)
        if not any(p.name == "intervention_1" for p in space.choices):
            raise ConfigError(
                f"This teacher searches switching curricula, the search space has {[p.name for p in space.parameters]}:"
                f" give Switching.space(…), or use GPUCB."
            )
        self.n_initial = check_whole("n_initial", n_initial, 0)

    def _propose(self, n: int) -> list[Parameters]:
        told = len(self._trials)
        points = self._first_design(told)[:n]
        points += [
            self._demanding(random_point(self.space, self.seed, k))
            for k in range(told + len(points), min(told + n, self.n_initial))
        ]
        if all(trial.score is None for trial in self._trials):
            points += [random_point(self.space, self.seed, k) for k in range(told + len(points), told + n)]
        tried = [dict(point) for point in dict.fromkeys(self._key(trial.parameters) for trial in self._trials)]
        for k in range(told + len(points), told + n):
            rng = np.random.default_rng([self.seed, k, 2])
            new: list[Parameters] = []
            if rng.random() < ONLY_SEARCH / (k + 1):
                new = [self._random(rng) for _ in range(N_NEW)]
                new = [self._demanding(p) if k < N_DEMANDING or i % 2 else p for i, p in enumerate(new)]
            candidates = tried + new
            worth = self._posterior(candidates).draw(N_PROPOSED, rng)
            best = worth.argmax(axis=0)  # (worlds,)
            rivals = best[best != best[0]]
            points.append(candidates[rivals[0] if len(rivals) and rng.random() < 0.5 else best[0]])
        return points

    def best(self) -> Parameters:
        prospects = self._prospects()
        return dict(prospects.points[int(prospects.bounds.argmax())])

    def belief(self) -> Belief | None:
        prospects = self._prospects()
        k = int(prospects.bounds.argmax())
        return Belief(
            score=float(prospects.worth[k].mean()),
            bound=float(prospects.bounds[k]),
            confidence=CONFIDENCE,
            students=prospects.students[k],
        )

    def describe(self) -> dict[str, Any]:
        """Every policy tried: how many students it had, what is expected of it, and the bound."""
        if all(trial.score is None for trial in self._trials):
            return {}
        prospects = self._prospects()
        rows = zip(prospects.points, prospects.students, prospects.worth.mean(axis=1), prospects.bounds, strict=True)
        return {
            "confidence": CONFIDENCE,
            "policies": [
                {"parameters": point, "students": n, "expected": float(expected), "bound": float(bound)}
                for point, n, expected, bound in rows
            ],
        }

    def _first_design(self, told: int) -> list[Parameters]:
        """What is left of it; see the class."""
        choices, options = self.space.choices, self.space.choices[0].options
        tried = [path_of(trial.parameters, self.space).interventions for trial in self._trials]
        if not all((name,) in tried for name in options):
            return self._in_turn(told)
        first = {name: self._trials[tried.index((name,))].score for name in options}
        known = {name: score for name, score in first.items() if score is not None}
        if not known or len(choices) == 1:
            return []
        best = max(known, key=known.__getitem__)
        middle = self._demanding({real.name: (real.low + real.high) / 2 for real in self.space.reals})
        names = [choice.name for choice in choices]
        then = [name for name in options if name != best and (best, name) not in tried]
        return [middle | dict.fromkeys(names, name) | {names[0]: best} for name in then]

    def _in_turn(self, told: int) -> list[Parameters]:
        """Interventions in turn, from each of them on, as far as not tried; thresholds are random."""
        choices = self.space.choices
        options = choices[0].options
        tried = {tuple(trial.parameters[p.name] for p in choices) for trial in self._trials}
        turns = [
            tuple(options[(first + k) % len(options)] for k in range(len(choices))) for first in range(len(options))
        ]
        left = [turn for turn in turns if turn not in tried]
        return [
            self._demanding(random_point(self.space, self.seed, told + k))
            | dict(zip([p.name for p in choices], turn, strict=True))
            for k, turn in enumerate(left)
        ]

    def _demanding(self, point: Parameters) -> Parameters:
        """The point, with each threshold moved to the same place of the demanding part of its range."""
        moved = dict(point)
        for real in self.space.reals:
            low, high = DEMANDING.get(real.name.partition("_")[0], (0.0, 1.0))
            place = (float(point[real.name]) - real.low) / (real.high - real.low)
            moved[real.name] = real.low + (low + place * (high - low)) * (real.high - real.low)
        return moved

    def _key(self, point: Parameters) -> Key:
        """The same for equal points, whatever the order of their entries."""
        return tuple((p.name, point[p.name]) for p in self.space.parameters)

    def _random(self, rng: np.random.Generator) -> Parameters:
        return random_point(self.space, int(rng.integers(2**63)), 0)

    def _prospects(self) -> Prospects:
        scored(self._trials)  # complains where nothing has a score
        students: dict[Key, int] = {}
        finished: dict[Key, int] = {}  # classes, less those in which nobody finished
        for trial in self._trials:
            key = self._key(trial.parameters)
            finished[key] = finished.get(key, 0) + (1 if trial.score is not None else -1)
            if trial.score is not None:
                students[key] = students.get(key, 0) + max(len(trial.each), 1)
        students = {key: n for key, n in students.items() if finished[key] >= 0} or students
        points = [dict(key) for key in students]
        rng = np.random.default_rng([self.seed, len(self._trials), 3])
        return Prospects(points, list(students.values()), self._posterior(points).draw(N_JUDGED, rng))

    def _posterior(self, at: list[Parameters]) -> Posterior:
        from cisr.teachers.students_model import believe

        worst = min(one for trial in self._trials for one in _scores(trial))
        paths: list[Path] = []
        scores: list[float] = []
        for trial in self._trials:
            each = _scores(trial) or [worst]
            paths += [path_of(trial.parameters, self.space)] * len(each)
            scores += each
        return believe(paths, np.array(scores), [path_of(point, self.space) for point in at])


def _scores(trial: Trial) -> list[float]:
    """Of the students of a class; of a class of which only the mean is known, that."""
    return list(trial.each) or ([] if trial.score is None else [trial.score])
