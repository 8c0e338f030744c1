"""The compiled backend: a batch of students and their environments in one program. Needs jax, not gymnasium."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from cisr.cmdp.compiled import Rules
from cisr.cmdp.episodes import Sums
from cisr.core.errors import TaskError
from cisr.core.intervention import Intervention, Override
from cisr.core.task import Task
from cisr.students.config import StudentConfig
from cisr.system.compilation import set_up_jax
from cisr.training.cohort import Cohort
from cisr.training.own_students import Class, OwnStudents, configs_of
from cisr.training.records import Batch, Breakdown, Checkpoint, Event, Progress, TrainingSetup
from cisr.training.watch import NO_WATCH, Watch


def train(
    setup: TrainingSetup, batch: Batch, checkpoint: Checkpoint | None = None, watch: Watch = NO_WATCH
) -> Iterator[Event]:
    """Teach a batch from the start or from a checkpoint; the events are what happens, in order.

    There is nothing to watch: a compiled environment is no code that could block.
    """
    set_up_jax()
    return CompiledBackend(setup, batch).run(checkpoint)


class CompiledBackend(OwnStudents):
    def __init__(self, setup: TrainingSetup, batch: Batch) -> None:
        used = {name for student in batch.students for name in student.policy.interventions_used}
        extra = tuple(sorted(used - {*setup.task.intervention_names, "none"}))
        self.cohort = cohort_for(setup.task, configs_of(batch)[0].shape, extra, setup.episodes)
        super().__init__(setup, batch, self.cohort.program)

    def _train(
        self, unit: int, learners: Class, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Class, list[Sums]]]:
        now, sums = self.cohort.unit(
            learners.learners, self._rules(interventions), self.hypers, self._seeds(f"unit {unit}")
        )
        each = _of_each(sums)
        yield Progress(self.config.steps_per_unit * self.errors.count(None))
        self._check_rescues(each, interventions, f"in unit {unit}")
        self._check_rewards(each, f"in unit {unit}")
        return learners._replace(learners=now), each

    def _play(
        self, learners: Class, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        rules = self._rules([intervention] * len(self.students))
        sums, seen = self.cohort.deploy(learners.learners, rules, self._seeds(name), np.float32(violation_score))
        each, visits = _of_each(sums), np.asarray(seen, int)
        self._check_rescues(each, [intervention] * len(self.students), f"once deployed ({name})")
        self._check_rewards(each, f"once deployed ({name})")
        return [(one, tuple(visits[k].tolist()) if visits.size else None) for k, one in enumerate(each)]

    def _check_rescues(self, each: Sequence[Sums], interventions: Sequence[Intervention], when: str) -> None:
        """Complain about rescues that acted outside of the action space: of these `driven` is no number."""
        for sums, intervention in zip(each, interventions, strict=True):
            if np.isnan(sums.driven):
                what = "act" if isinstance(intervention.reset, Override) else "controller"
                raise TaskError(
                    f"The {what} of '{intervention.name}' of task '{self.task.name}' answered actions that its JAX "
                    f"environment does not have ({when}): answer actions of {self.cohort.distribution}."
                )

    def _check_rewards(self, each: Sequence[Sums], when: str) -> None:
        for k, student in enumerate(self.students):
            if not np.isfinite(each[k].total_reward) and self.errors[k] is None:
                self.errors[k] = Breakdown(
                    f"Student '{student.name}': its environment paid a reward that is not finite {when}: "
                    f"the JAX environment of task '{self.task.name}' must pay finite numbers."
                )

    def _rules(self, interventions: Sequence[Intervention]) -> Rules:
        each = [self.cohort.cmdp.rules(intervention) for intervention in interventions]
        return Rules(*(np.stack(column) for column in zip(*each, strict=True)))


def _of_each(sums: Sums) -> list[Sums]:
    """The sums of each student, from those of all (S, ...)."""
    return [Sums(*fields) for fields in zip(*(np.asarray(field, float) for field in sums), strict=True)]


_cohorts: dict[tuple[Any, ...], Cohort] = {}


def cohort_for(task: Task, shape: StudentConfig, extra: tuple[str, ...], episodes: int | None = None) -> Cohort:
    """The program for a task and students of one shape, made once for each task object; it keeps the task alive."""
    key = (id(task), shape, extra, episodes)
    if key not in _cohorts:
        _cohorts[key] = Cohort(task, shape, extra, episodes)
    return _cohorts[key]
