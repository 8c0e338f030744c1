"""What all backends share: the way of a batch of students through its units, from checkpoint to checkpoint.

A backend says who learns, and from what experience: it makes learners, trains them for one unit (`_train`) and plays
their frozen policies (`_play`). Curricula, switches, records and checkpoints are here.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from cisr.cmdp.episodes import Sums
from cisr.core.intervention import Intervention
from cisr.core.seeding import derive_seed
from cisr.core.task import Task
from cisr.students.kinds import steps_per_unit
from cisr.training.lessons import next_lesson
from cisr.training.records import (
    Batch,
    Breakdown,
    Checkpoint,
    Deployment,
    Event,
    Graduation,
    TrainingSetup,
    UnitLog,
    UnitRecord,
)

Records = tuple[UnitRecord | None, ...]
Learners = TypeVar("Learners")
"""What the students of a batch carry from unit to unit."""


class Deployed(NamedTuple):
    """How the frozen policies of a batch did."""

    deployments: tuple[Deployment | None, ...]  # None for a student that has broken down
    failures: tuple[int, ...]  # that were seen of each, also of one that broke down on the way


class Backend(ABC, Generic[Learners]):
    """Teaches one batch. `errors` has one entry for each student, None while all is well."""

    def __init__(self, setup: TrainingSetup, batch: Batch) -> None:
        self.setup = setup
        self.task = setup.task_met
        self.students = batch.students
        self.errors: list[Breakdown | None] = [None] * len(self.students)

    @abstractmethod
    def _new(self) -> Learners: ...

    @abstractmethod
    def _to_arrays(self, learners: Learners) -> dict[str, np.ndarray]:
        """Everything that it takes to go on from the end of a unit, each array stacked over the batch."""

    @abstractmethod
    def _from_arrays(self, arrays: Mapping[str, Any]) -> Learners: ...

    @abstractmethod
    def _switch(self, unit: int, learners: Learners, switched: np.ndarray, anew: np.ndarray) -> Learners:
        """Learners ready for a unit: for those that have switched (S,), another intervention; those that begin anew
        (S,) know nothing."""

    @abstractmethod
    def _multipliers(self, learners: Learners) -> np.ndarray:
        """λ (S, m)."""

    @abstractmethod
    def _soundness(self, learners: Learners) -> np.ndarray:
        """Whose weights are finite, (S,)."""

    def _steps_taken(self) -> int:
        """By each student in the unit just trained."""
        return steps_per_unit(self.students[0].config)

    def _try_out(self, unit: int, learners: Learners) -> Deployed:
        """The policies after a unit in M_0, where they are candidates to be handed in."""
        return self._nobody()

    def _chosen(self, unit: int, learners: Learners, tried: Sequence[Deployment | None]) -> Learners:
        """The learners after a unit, of whose policies some were tried; after the last one those that are handed in."""
        return learners

    @abstractmethod
    def _train(
        self, unit: int, learners: Learners, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Learners, list[Sums]]]:
        """One unit of every student; reports progress on the way.

        Sums are over episodes, but failures, rescues and driven steps are those of all steps.
        """

    @abstractmethod
    def _play(
        self, learners: Learners, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        """Run the frozen policies until every episode begun within the budget of steps has ended; returns each
        student's sums, and visits where they are counted.

        Stopping at the budget itself would favour short episodes.
        """

    def run(self, checkpoint: Checkpoint | None) -> Iterator[Event]:
        """Teach from the start or from a checkpoint; the events are what happens, in order."""
        done, weights, records, errors = checkpoint or Checkpoint.before_the_first(len(self.students))
        self.errors = list(errors)
        learners = self._new() if done == 0 else self._from_arrays(weights)
        for unit in range(done + 1, self.task.training.n_units + 1):
            if not all(self.errors):
                learners, records = yield from self._unit(unit, learners, records)
                evaluations = [None if record is None else record.log.evaluation for record in records]
                learners = self._chosen(unit, learners, evaluations)
                yield Checkpoint(unit, self._to_arrays(learners), records, tuple(self.errors))
        sound = [error is None for error in self.errors]
        deployments, _ = self._deploy(learners, self.setup.evaluate_under, "final")
        self._count_failures(sound, [0] * len(self.students))  # those of a deployment are none of training
        yield Graduation(deployments, tuple(self.errors))

    def _unit(self, unit: int, learners: Learners, before: Records) -> Generator[Event, None, tuple[Learners, Records]]:
        """One interaction unit of every student: pick interventions, train, observe."""
        began = time.perf_counter()
        lessons = [
            next_lesson(student, unit, record, self.setup.observe)
            for student, record in zip(self.students, before, strict=True)
        ]
        switched, anew = (np.array([getattr(lesson, what) for lesson in lessons]) for what in ("switched", "anew"))
        learners = self._switch(unit, learners, switched, anew)
        sound = [error is None for error in self.errors]
        interventions = [self.task.intervention(lesson.intervention) for lesson in lessons]
        learners, sums = yield from self._train(unit, learners, interventions)
        self._check_weights(learners, unit)
        weights = self._multipliers(learners)
        tried = self._try_out(unit, learners)
        deployments: tuple[Deployment | None, ...] = (None,) * len(self.students)
        if self.setup.deploy_each_unit:
            deployments, _ = self._deploy(learners, "none", f"after unit {unit}")
        self._count_failures(sound, [int(s.failures) + n for s, n in zip(sums, tried.failures, strict=True)])
        seconds = (time.perf_counter() - began) / len(self.students)

        records: list[UnitRecord | None] = []
        for k, played in enumerate(sums):
            if self.errors[k] is not None:
                records.append(None)
                continue
            log = UnitLog(
                unit=unit,
                intervention=lessons[k].intervention,
                steps=self._steps_taken(),
                episodes=int(played.episodes),
                mean_return=float(played.total_reward / played.episodes),
                success=float(played.outcomes[self.task.outcomes.index("success")] / played.episodes),
                violation=float(played.violation / played.episodes),
                rescues=int(played.rescues),
                failures=int(played.failures),
                driven=int(played.driven),
                multipliers=tuple(float(w) for w in weights[k]),
                deployment=deployments[k],
                evaluation=tried.deployments[k],
                seconds=seconds,
            )
            records.append(UnitRecord(log, lessons[k].stage))
        return learners, tuple(records)

    def _deploy(self, learners: Learners, under: str, name: str) -> Deployed:
        """How the frozen policies do in M_i."""
        if all(self.errors):
            return self._nobody()
        score = self.task.violation_score(under)
        played = self._play(learners, self.task.intervention(under), name, math.nan if score is None else score)
        return Deployed(
            deployments=tuple(
                None if error else _deployment(self.task, under, sums, visits)
                for error, (sums, visits) in zip(self.errors, played, strict=True)
            ),
            failures=tuple(int(sums.failures) for sums, _ in played),
        )

    def _deployment_size(self, n_envs: int) -> tuple[int, int]:
        """Environments of each student that is deployed, where it has `n_envs` in training; and within how many steps
        of an environment the episodes begin that count: where their number is given, each has an environment."""
        if self.setup.episodes is not None:
            return self.setup.episodes, 1
        return n_envs, -(-self.task.training.deployment_steps // n_envs)

    def _nobody(self) -> Deployed:
        return Deployed((None,) * len(self.students), (0,) * len(self.students))

    def _count_failures(self, sound: Sequence[bool], failures: Sequence[int]) -> None:
        """Whoever was sound and has broken down since takes its failures along: its unit has no record."""
        for k, error in enumerate(self.errors):
            if sound[k] and error is not None and error.failures is not None:
                self.errors[k] = error._replace(failures=failures[k])

    def _check_weights(self, learners: Learners, unit: int) -> None:
        sound = self._soundness(learners)
        for k, student in enumerate(self.students):
            if not sound[k] and self.errors[k] is None:
                self.errors[k] = Breakdown(
                    f"Student '{student.name}': its weights became infinite or NaN in unit {unit}, from finite "
                    f"rewards: try a smaller learning_rate."
                )

    def _seeds(self, *names: str) -> np.ndarray:
        """A seed for each student, (S,)."""
        return np.array([derive_seed(student.seed, *names) for student in self.students], np.uint32)


def _deployment(task: Task, under: str, sums: Sums, visits: tuple[int, ...] | None) -> Deployment:
    return Deployment(
        under=under,
        steps=int(sums.steps),
        episodes=int(sums.episodes),
        mean_return=float(sums.total_reward / sums.episodes),
        score=float(sums.score / sums.episodes),
        failures=int(sums.failures),
        rescues=int(sums.rescues),
        driven=int(sums.driven),
        outcomes=dict(zip(task.outcomes, (sums.outcomes / sums.episodes).tolist(), strict=True)),
        visits=visits,
    )
