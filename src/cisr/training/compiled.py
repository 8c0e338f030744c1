"""The compiled backend: a batch of students and their environments in one program. Needs jax, not gymnasium."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from cisr.cmdp.compiled import Rules
from cisr.core.constraints import violation
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.students.config import StudentConfig
from cisr.students.ppo import Learner
from cisr.training.backend import Backend, Deployed, UnitSummary
from cisr.training.cohort import Cohort
from cisr.training.records import Batch, Breakdown, Checkpoint, Deployment, Event, Progress, TrainingSetup
from cisr.training.watch import NO_WATCH, Watch


def train(
    setup: TrainingSetup, batch: Batch, checkpoint: Checkpoint | None = None, watch: Watch = NO_WATCH
) -> Iterator[Event]:
    """Teach a batch from the start or from a checkpoint; the events are what happens, in order.

    There is nothing to watch: a compiled environment is no code that could block.
    """
    return CompiledBackend(setup, batch).run(checkpoint)


class CompiledBackend(Backend):
    def __init__(self, setup: TrainingSetup, batch: Batch) -> None:
        used = {name for student in batch.students for name in student.policy.interventions_used}
        extra = tuple(sorted(used - {*setup.task.intervention_names, "none"}))
        self.cohort = cohort_for(setup.task, batch.students[0].config.shape, extra)
        super().__init__(setup, batch, self.cohort.program)

    def _train(
        self, unit: int, learners: Learner, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Learner, list[UnitSummary]]]:
        learners, sums = self.cohort.unit(
            learners, self._rules(interventions), self.hypers, self._seeds(f"unit {unit}")
        )
        total = jax.tree.map(lambda x: np.asarray(x, float), sums)
        yield Progress(self.config.steps_per_unit * self.errors.count(None))
        self._check_rewards(total.total_reward, f"in unit {unit}")
        violations = violation(total.constraint_values)
        successes = total.outcomes[:, self.task.outcomes.index("success")]
        return learners, [
            UnitSummary(
                episodes=int(n),
                mean_return=float(total.total_reward[k] / n),
                success=float(successes[k] / n),
                violation=float(violations[k] / n),
                rescues=int(total.rescues[k]),
                failures=int(total.failures[k]),
            )
            for k, n in enumerate(total.episodes)
        ]

    def _deploy(self, learners: Learner, under: str, name: str) -> Deployed:
        if all(self.errors):
            return Deployed.nobody(len(self.students))
        rules = self._rules([self.task.intervention(under)] * len(self.students))
        violation_score = self.task.violation_score(under)
        score = np.float32(np.nan if violation_score is None else violation_score)
        sums, seen = self.cohort.deploy(learners, rules, self._seeds(name), score)
        total = jax.tree.map(lambda x: np.asarray(x, float), sums)
        self._check_rewards(total.total_reward, f"once deployed ({name})")
        visits = np.asarray(seen, int)
        deployments = [
            Deployment(
                under=under,
                steps=int(total.steps[k]),
                episodes=int(n),
                mean_return=float(total.total_reward[k] / n),
                score=float(total.score[k] / n),
                failures=int(total.failures[k]),
                rescues=int(total.rescues[k]),
                outcomes={outcome: float(total.outcomes[k, i] / n) for i, outcome in enumerate(self.task.outcomes)},
                visits=tuple(visits[k].tolist()) if visits.size else None,
            )
            for k, n in enumerate(total.episodes)
        ]
        return Deployed(
            deployments=tuple(None if error else d for error, d in zip(self.errors, deployments, strict=True)),
            failures=tuple(d.failures for d in deployments),
        )

    def _check_rewards(self, totals: np.ndarray, when: str) -> None:
        for k, student in enumerate(self.students):
            if not np.isfinite(totals[k]) and self.errors[k] is None:
                self.errors[k] = Breakdown(
                    f"Student '{student.name}': its environment paid a reward that is not finite {when}: "
                    f"the JAX environment of task '{self.task.name}' must pay finite numbers."
                )

    def _rules(self, interventions: Sequence[Intervention]) -> Rules:
        each = [self.cohort.cmdp.rules(intervention) for intervention in interventions]
        return Rules(*(np.stack(column) for column in zip(*each, strict=True)))


_cohorts: dict[tuple[Any, ...], Cohort] = {}


def cohort_for(task: Task, shape: StudentConfig, extra: tuple[str, ...]) -> Cohort:
    """The program for a task and students of one shape, made once for each task object; it keeps the task alive."""
    key = (id(task), shape, extra)
    if key not in _cohorts:
        _cohorts[key] = Cohort(task, shape, extra)
    return _cohorts[key]
