"""What the backends of our own students share: a batch is one compiled program over learners stacked along S."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cisr.students.config import Hyperparameters, StudentConfig
from cisr.students.ppo import Learner
from cisr.students.program import Program, learners_from_arrays, learners_to_arrays, stack_hyperparameters
from cisr.training import candidates
from cisr.training.backend import Backend, Deployed
from cisr.training.candidates import Candidates
from cisr.training.records import Batch, Deployment, TrainingSetup


class Class(NamedTuple):
    """What the students of a batch carry from unit to unit."""

    learners: Learner
    best: Candidates | None = None
    """Of the policies tried so far, where they are candidates to be handed in."""


def configs_of(batch: Batch) -> list[StudentConfig]:
    """Of students that are ours, as those of these backends are."""
    return [student.config for student in batch.students if isinstance(student.config, StudentConfig)]


class OwnStudents(Backend[Class]):
    def __init__(self, setup: TrainingSetup, batch: Batch, program: Program) -> None:
        super().__init__(setup, batch)
        self.configs = configs_of(batch)
        self.config = self.configs[0]
        self.program = program
        self.hypers = self._hyperparameters(unit=1)

    def _hyperparameters(self, unit: int) -> Hyperparameters:
        return stack_hyperparameters(self.configs, unit, self.task.training.n_units)

    def _new(self) -> Class:
        return Class(self.program.new(self._seeds("weights")))

    def _to_arrays(self, learners: Class) -> dict[str, np.ndarray]:
        return learners_to_arrays(learners.learners) | candidates.to_arrays(learners.best)

    def _from_arrays(self, arrays: Mapping[str, Any]) -> Class:
        return Class(learners_from_arrays(dict(arrays)), candidates.from_arrays(arrays))

    def _switch(self, unit: int, learners: Class, switched: np.ndarray, anew: np.ndarray) -> Class:
        self.hypers = self._hyperparameters(unit)
        ready = self.program.transfer(learners.learners, switched)
        if anew.any():
            new = self.program.new(self._seeds(f"weights anew in unit {unit}"))
            ready = self.program.replace(ready, new, anew)
        return learners._replace(learners=ready)

    def _multipliers(self, learners: Class) -> np.ndarray:
        return np.asarray(self.program.multipliers(learners.learners, self.hypers), float)

    def _soundness(self, learners: Class) -> np.ndarray:
        arrays = learners.learners.params.values()
        return np.asarray(np.all([np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in arrays], axis=0))

    def _try_out(self, unit: int, learners: Class) -> Deployed:
        """The candidates of a unit in M_0, where the students have several and the task has an M_0."""
        n = self.config.n_candidates
        if n == 1 or unit <= self.task.training.n_units - n or self.task.safe_evaluation is None:
            return self._nobody()
        return self._deploy(learners, self.task.safe_evaluation, f"candidate {unit}")

    def _chosen(self, unit: int, learners: Class, tried: Sequence[Deployment | None]) -> Class:
        now = learners.learners
        best = candidates.best_of(learners.best, now, tried)
        if best is None or unit < self.task.training.n_units:
            return Class(now, best)
        return Class(candidates.hand_in(now, best))
