"""What all backends share: the way of a batch of students through its units, from checkpoint to checkpoint.

A backend says where experience comes from: it trains one unit (`_train`) and deploys frozen policies (`_deploy`).
Curricula, transfer, candidates, records and checkpoints are here.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cisr.cmdp.episodes import Sums
from cisr.core.intervention import Intervention
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.curricula import Observation, fresh_starts
from cisr.students.config import Hyperparameters
from cisr.students.ppo import Learner
from cisr.students.program import Program, learners_from_arrays, learners_to_arrays, stack_hyperparameters
from cisr.training import candidates
from cisr.training.candidates import Candidates
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


class Deployed(NamedTuple):
    """How the frozen policies of a batch did."""

    deployments: tuple[Deployment | None, ...]  # None for a student that has broken down
    failures: tuple[int, ...]  # that were seen of each, also of one that broke down on the way


class Backend(ABC):
    """Teaches one batch. `errors` has one entry for each student, None while all is well."""

    def __init__(self, setup: TrainingSetup, batch: Batch, program: Program) -> None:
        self.setup = setup
        self.task = setup.task
        self.students = batch.students
        self.config = self.students[0].config
        self.program = program
        self.hypers = self._hyperparameters(unit=1)
        self.errors: list[Breakdown | None] = [None] * len(self.students)

    @abstractmethod
    def _train(
        self, unit: int, learners: Learner, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Learner, list[Sums]]]:
        """One unit of every student; reports progress on the way.

        Sums are over episodes, but failures and rescues are those of all steps.
        """

    @abstractmethod
    def _play(
        self, learners: Learner, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        """Run the frozen policies until every episode begun within the budget of steps has ended; returns each
        student's sums, and visits where they are counted.

        Stopping at the budget itself would favour short episodes.
        """

    def run(self, checkpoint: Checkpoint | None) -> Iterator[Event]:
        """Teach from the start or from a checkpoint; the events are what happens, in order."""
        done, weights, records, errors = checkpoint or Checkpoint.before_the_first(len(self.students))
        self.errors = list(errors)
        best: Candidates | None = None
        if done == 0:
            learners = self.program.new(self._seeds("weights"))
        else:
            learners, best = learners_from_arrays(weights), candidates.from_arrays(weights)
        for unit in range(done + 1, self.task.training.n_units + 1):
            if not all(self.errors):
                learners, records = yield from self._unit(unit, learners, records)
                evaluations = [None if record is None else record.log.evaluation for record in records]
                best = candidates.best_of(best, learners, evaluations)
                if best is not None and unit == self.task.training.n_units:  # the policies are handed in
                    learners, best = learners._replace(params=best.params), None
                weights = learners_to_arrays(learners) | candidates.to_arrays(best)
                yield Checkpoint(unit, weights, records, tuple(self.errors))
        sound = [error is None for error in self.errors]
        deployments, _ = self._deploy(learners, self.setup.evaluate_under, "final")
        self._count_failures(sound, [0] * len(self.students))  # those of a deployment are none of training
        yield Graduation(deployments, tuple(self.errors))

    def _hyperparameters(self, unit: int) -> Hyperparameters:
        return stack_hyperparameters([student.config for student in self.students], unit, self.task.training.n_units)

    def _unit(self, unit: int, learners: Learner, before: Records) -> Generator[Event, None, tuple[Learner, Records]]:
        """One interaction unit of every student: pick interventions, train, observe."""
        began = time.perf_counter()
        self.hypers = self._hyperparameters(unit)
        stages, names, anew = [], [], []
        for student, record in zip(self.students, before, strict=True):
            stage = record.stage if record else student.policy.first_stage
            observed = self.setup.observe(record.log) if record else Observation()
            stages.append(student.policy.next_stage(stage, observed, generator(student.seed, "curriculum", unit)))
            names.append(student.policy.intervention(stages[-1]))
            anew.append(fresh_starts(stages[-1]) > fresh_starts(stage))
        switched = [
            record is not None and record.log.intervention != name for record, name in zip(before, names, strict=True)
        ]
        learners = self.program.transfer(learners, np.array(switched))
        if any(anew):
            new = self.program.new(self._seeds(f"weights anew in unit {unit}"))
            learners = self.program.replace(learners, new, np.array(anew))

        sound = [error is None for error in self.errors]
        interventions = [self.task.intervention(name) for name in names]
        learners, sums = yield from self._train(unit, learners, interventions)
        self._check_weights(learners, unit)
        weights = np.asarray(self.program.multipliers(learners, self.hypers), float)
        tried = self._try_out(unit, learners)
        deployments: tuple[Deployment | None, ...] = (None,) * len(self.students)
        if self.setup.deploy_each_unit:
            deployments, _ = self._deploy(learners, "none", f"after unit {unit}")
        self._count_failures(sound, [int(s.failures) + n for s, n in zip(sums, tried.failures, strict=True)])
        seconds = (time.perf_counter() - began) / len(self.students)

        records: list[UnitRecord | None] = []
        for k, played in enumerate(sums):
            log = UnitLog(
                unit=unit,
                intervention=names[k],
                steps=self.config.steps_per_unit,
                episodes=int(played.episodes),
                mean_return=float(played.total_reward / played.episodes),
                success=float(played.outcomes[self.task.outcomes.index("success")] / played.episodes),
                violation=float(played.violation / played.episodes),
                rescues=int(played.rescues),
                failures=int(played.failures),
                multipliers=tuple(float(w) for w in weights[k]),
                deployment=deployments[k],
                evaluation=tried.deployments[k],
                seconds=seconds,
            )
            records.append(UnitRecord(log, stages[k]) if self.errors[k] is None else None)
        return learners, tuple(records)

    def _try_out(self, unit: int, learners: Learner) -> Deployed:
        """The candidates of a unit in M_0, where the students have several and the task has an M_0."""
        n = self.config.n_candidates
        if n == 1 or unit <= self.task.training.n_units - n or self.task.safe_evaluation is None:
            return self._nobody()
        return self._deploy(learners, self.task.safe_evaluation, f"candidate {unit}")

    def _deploy(self, learners: Learner, under: str, name: str) -> Deployed:
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

    def _nobody(self) -> Deployed:
        return Deployed((None,) * len(self.students), (0,) * len(self.students))

    def _count_failures(self, sound: Sequence[bool], failures: Sequence[int]) -> None:
        """Whoever was sound and has broken down since takes its failures along: its unit has no record."""
        for k, error in enumerate(self.errors):
            if sound[k] and error is not None and error.failures is not None:
                self.errors[k] = error._replace(failures=failures[k])

    def _check_weights(self, learners: Learner, unit: int) -> None:
        sound = np.all([np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in learners.params.values()], axis=0)
        for k, student in enumerate(self.students):
            if not sound[k] and self.errors[k] is None:
                self.errors[k] = Breakdown(
                    f"Student '{student.name}': its weights became infinite or NaN in unit {unit}, from finite "
                    f"rewards: try a smaller learning_rate than {student.config.learning_rate:g}."
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
        outcomes=dict(zip(task.outcomes, (sums.outcomes / sums.episodes).tolist(), strict=True)),
        visits=visits,
    )
