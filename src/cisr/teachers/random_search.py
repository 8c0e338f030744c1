"""Random search: the baseline that a teacher with a model must beat."""

from __future__ import annotations

from typing import final

from cisr.curricula.space import Parameters
from cisr.teachers.base import Teacher, random_point


@final
class RandomSearch(Teacher):
    """Tries uniformly random points and returns the one with the best observed mean score."""

    def _propose(self, n: int) -> list[Parameters]:
        told = len(self._trials)
        return [random_point(self.space, self.seed, told + i) for i in range(n)]
