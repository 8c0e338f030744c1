"""The Gymnasium lane: a batch of students on environments that the host steps.

One policy call serves all students and environments; the environments are stepped in Python, the updates run in one
compiled program. A student whose environment raises is recorded as failed; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from cisr.classroom.records import (
    Batch,
    Graduation,
    Checkpoint,
    Deployment,
    Enrolment,
    Event,
    Lesson,
    Progress,
    UnitLog,
    UnitRecord,
)
from cisr.classroom.tally import Episode, Tally, deployment_of
from cisr.cmdp import InducedCMDPs
from cisr.constraints import CONSTRAINTS
from cisr.curricula import Observation
from cisr.errors import ConfigError, TaskError
from cisr.intervention import Intervention
from cisr.seeding import derive_seed, generator
from cisr.students.distributions import Categorical
from cisr.students.networks import ObservationSpec
from cisr.students.ppo import Learner, Rollout
from cisr.students.program import (
    Program,
    learners_from_arrays,
    learners_to_arrays,
    program_for,
    stack_hyperparameters,
)
from cisr.task import Task


def specs_of(task: Task) -> tuple[ObservationSpec, Categorical]:
    """What students of the task see and do; complains about spaces that they cannot handle."""
    env = task.make_env()
    seen, done = env.observation_space, env.action_space
    env.close()
    if not isinstance(done, gymnasium.spaces.Discrete) or done.start != 0:
        raise ConfigError(f"Task '{task.name}' has the action space {done}: students act in Discrete(n) spaces from 0.")
    if isinstance(seen, gymnasium.spaces.Discrete) and seen.start == 0:
        return ObservationSpec(shape=(), n_values=int(seen.n)), Categorical(int(done.n))
    if isinstance(seen, gymnasium.spaces.Box):
        return ObservationSpec(shape=seen.shape), Categorical(int(done.n))
    raise ConfigError(
        f"Task '{task.name}' has the observation space {seen}: students see Box or Discrete(n) spaces; "
        f"wrap the environment in gymnasium.wrappers.FlattenObservation."
    )


def train(lesson: Lesson, batch: Batch, checkpoint: Checkpoint | None = None) -> Iterator[Event]:
    """Teach a batch from the start or from a checkpoint; the events are what happens, in order."""
    return _Lane(lesson, batch).run(checkpoint)


class _Lane:
    def __init__(self, lesson: Lesson, batch: Batch) -> None:
        self.lesson = lesson
        self.task = lesson.task
        self.students: Sequence[Enrolment] = batch.enrolments
        self.config = self.students[0].config
        self.observation, distribution = specs_of(self.task)
        self.program: Program = program_for(self.config.shape, self.observation, distribution)
        self.hypers = stack_hyperparameters([student.config for student in self.students])
        self.errors: list[str | None] = [None] * len(self.students)

    def run(self, checkpoint: Checkpoint | None) -> Iterator[Event]:
        if checkpoint is None:
            learners = self.program.new(self._seeds("weights"))
            done, before = 0, [None] * len(self.students)
        else:
            learners = learners_from_arrays(checkpoint.weights)
            done, before = checkpoint.unit, list(checkpoint.records)
            self.errors = list(checkpoint.errors)
        records: list[UnitRecord | None] = before
        for unit in range(done + 1, self.task.n_units + 1):
            if not all(self.errors):
                learners, records = yield from self._unit(unit, learners, records)
                yield Checkpoint(unit, learners_to_arrays(learners), tuple(records), tuple(self.errors))
        deployments = yield from self._deploy(learners, self.lesson.evaluate_under, "final")
        yield Graduation(deployments, tuple(self.errors))

    def _unit(
        self, unit: int, learners: Learner, before: Sequence[UnitRecord | None]
    ) -> Iterator[Any]:
        """One interaction unit of every student: pick interventions, train, observe."""
        began = time.perf_counter()
        stages, names = [], []
        for student, record in zip(self.students, before, strict=True):
            stage = record.stage if record else student.policy.first_stage
            observed = self.lesson.observe(record.log) if record else Observation()
            rng = generator(student.seed, "curriculum", unit)
            stages.append(student.policy.next_stage(stage, observed, rng))
            names.append(student.policy.intervention(stages[-1]))
        switched = [record is not None and record.log.intervention != n for record, n in zip(before, names, strict=True)]
        learners = self.program.transfer(learners, np.array(switched))

        rounds: list[list[Tally]] = []
        rows = self._open([self.task.intervention(name) for name in names])
        for number in range(self.config.rounds_per_unit):
            learners, tallies = yield from self._round(learners, rows, f"unit {unit} round {number}")
            rounds.append(tallies)
        self._close(rows)
        finite = np.all([np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in learners.params.values()], axis=0)
        for k in np.flatnonzero(~finite):
            self._fail(k, f"the weights became infinite or NaN in unit {unit}: try a smaller learning_rate")

        weights = np.asarray(self.program.multipliers(learners, self.hypers), float)
        deployments: tuple[Deployment | None, ...] = (None,) * len(self.students)
        if self.lesson.deploy_each_unit:
            deployments = yield from self._deploy(learners, "none", f"after unit {unit}")
        seconds = (time.perf_counter() - began) / len(self.students)
        records: list[UnitRecord | None] = []
        for k, tallies in enumerate(zip(*rounds, strict=True)):
            if self.errors[k] is not None:
                records.append(None)
                continue
            log = self._log(unit, names[k], tallies, weights[k], deployments[k], seconds)
            records.append(UnitRecord(log, stages[k]))
        return learners, records

    def _log(
        self,
        unit: int,
        intervention: str,
        tallies: Sequence[Tally],
        weights: np.ndarray,
        deployment: Deployment | None,
        seconds: float,
    ) -> UnitLog:
        episodes = [episode for tally in tallies for episode in tally.episodes]
        return UnitLog(
            unit=unit,
            intervention=intervention,
            steps=self.config.steps_per_unit,
            episodes=len(episodes),
            mean_return=float(np.mean([e.total_reward for e in episodes])),
            success=float(np.mean([e.outcome == "success" for e in episodes])),
            violation=float(np.mean([e.constraint_values[CONSTRAINTS.index("rescues")] for e in episodes])),
            rescues=sum(tally.rescues for tally in tallies),
            failures=sum(tally.failures for tally in tallies),
            multipliers=tuple(float(w) for w in weights),
            deployment=deployment,
            seconds=seconds,
        )

    def _round(self, learners: Learner, rows: list[InducedCMDPs | None], name: str) -> Iterator[Any]:
        """A best-response round: PPO against fixed multipliers on restarted environments, then the multipliers move."""
        config, n = self.config, len(self.students)
        seeds, shuffles = self._seeds("act", name), self._seeds("shuffle", name)
        tallies = [Tally(config.n_envs) for _ in self.students]
        observations = self._start(rows, name)
        for number in range(config.updates_per_round):
            rollouts = self._empty_rollouts()
            for t in range(config.n_steps):
                acts = self.program.act(learners, observations, seeds, number * config.n_steps + t, False)
                actions = np.asarray(acts.actions)
                rollouts.observations[:, t] = observations
                rollouts.actions[:, t] = actions
                rollouts.log_probs[:, t] = acts.log_probs
                rollouts.values[:, t] = acts.values
                limits = np.zeros((n, config.n_envs), bool)
                ended_at = observations.copy() if config.bootstrap_time_limit else observations
                for k, row in self._attending(rows):
                    try:
                        step = row.step(actions[k])
                        observations[k] = step.observations
                        rollouts.rewards[k, t] = step.rewards
                        rollouts.costs[k, t] = step.costs
                        rollouts.ends[k, t] = step.terminated | step.truncated
                        if config.bootstrap_time_limit:
                            limits[k], ended_at[k] = step.truncated, step.observations
                        for ended in tallies[k].add(step, row.constraint_values()):
                            observations[k, ended] = row.restart(ended)
                    except TaskError:
                        raise
                    except Exception as error:
                        self._fail(k, f"its environment raised {type(error).__name__}: {error}")
                if limits.any():
                    rollouts.end_values[:, t] = np.where(limits, self.program.value(learners, ended_at), 0.0)
            rollouts = rollouts._replace(last_values=self.program.value(learners, observations))
            learners = self.program.update(learners, rollouts, self.hypers, shuffles, number)
            yield Progress(config.n_envs * config.n_steps * sum(error is None for error in self.errors))
        violations = np.zeros((n, len(CONSTRAINTS)), np.float32)
        for k, row in self._attending(rows):
            tallies[k].close(row.constraint_values())
            violations[k] = np.mean([episode.constraint_values for episode in tallies[k].episodes], axis=0)
        return self.program.respond(learners, violations, self.hypers), tallies

    def _deploy(self, learners: Learner, under: str, name: str) -> Iterator[Any]:
        """Run the frozen policies until every episode begun within the budget of steps has ended."""
        intervention = self.task.intervention(under)
        rows = self._open([intervention] * len(self.students))
        seeds = self._seeds("act", name)
        observations = self._start(rows, name)
        budget = -(-self.task.deployment_steps // self.config.n_envs)
        tallies = [Tally(self.config.n_envs) for _ in self.students]
        for t in range(budget + self.task.horizon):
            acts = self.program.act(learners, observations, seeds, t, self.task.deterministic_deployment)
            actions = np.asarray(acts.actions)
            for k, row in self._attending(rows):
                try:
                    step = row.step(actions[k])
                    observations[k] = step.observations
                    for ended in tallies[k].add(step, row.constraint_values()):
                        observations[k, ended] = row.restart(ended)
                except TaskError:
                    raise
                except Exception as error:
                    self._fail(k, f"its environment raised {type(error).__name__} in deployment: {error}")
        self._close(rows)
        yield Progress(0)
        violation_score = -2 * self.task.horizon * self.task.max_reward if under == self.task.safe_evaluation else None
        counted: list[list[Episode]] = [[e for e in tally.episodes if e.began < budget] for tally in tallies]
        return tuple(
            None if error else deployment_of(episodes, under, violation_score)
            for error, episodes in zip(self.errors, counted, strict=True)
        )

    def _open(self, interventions: Sequence[Intervention]) -> list[InducedCMDPs | None]:
        """Fresh environments for every student that is still there."""
        rows: list[InducedCMDPs | None] = []
        for k, intervention in enumerate(interventions):
            rows.append(None)
            if self.errors[k] is None:
                try:
                    envs = [self.task.make_env() for _ in range(self.config.n_envs)]
                    rows[k] = InducedCMDPs(self.task, intervention, envs)
                except Exception as error:
                    self._fail(k, f"its environment could not be made: {type(error).__name__}: {error}")
        return rows

    def _start(self, rows: list[InducedCMDPs | None], name: str) -> np.ndarray:
        """Restart all environments from seeds of their own; observations (S, E, ...)."""
        shape = (len(self.students), self.config.n_envs, *self.observation.shape)
        observations = np.zeros(shape, np.int32 if self.observation.n_values is not None else np.float32)
        for k, row in self._attending(rows):
            seed = self.students[k].seed
            try:
                observations[k] = row.seed([derive_seed(seed, name, "env", e) for e in range(self.config.n_envs)])
            except TaskError:
                raise
            except Exception as error:
                self._fail(k, f"its environment raised {type(error).__name__} at reset: {error}")
        return observations

    def _close(self, rows: list[InducedCMDPs | None]) -> None:
        for row in rows:
            if row is not None:
                row.close()

    def _attending(self, rows: list[InducedCMDPs | None]) -> list[tuple[int, InducedCMDPs]]:
        return [(k, row) for k, row in enumerate(rows) if row is not None and self.errors[k] is None]

    def _fail(self, k: int, why: str) -> None:
        self.errors[k] = f"Student '{self.students[k].name}': {why}"

    def _seeds(self, *names: str) -> np.ndarray:
        return np.array([derive_seed(student.seed, *names) for student in self.students], np.uint32)

    def _empty_rollouts(self) -> Rollout:
        n, steps, envs = len(self.students), self.config.n_steps, self.config.n_envs
        discrete = self.observation.n_values is not None
        return Rollout(
            observations=np.zeros((n, steps, envs, *self.observation.shape), np.int32 if discrete else np.float32),
            actions=np.zeros((n, steps, envs), np.int32),
            log_probs=np.zeros((n, steps, envs), np.float32),
            values=np.zeros((n, steps, envs), np.float32),
            rewards=np.zeros((n, steps, envs), np.float32),
            costs=np.zeros((n, steps, envs, len(CONSTRAINTS)), np.float32),
            ends=np.zeros((n, steps, envs), bool),
            end_values=np.zeros((n, steps, envs), np.float32),
            last_values=np.zeros((n, envs), np.float32),
        )
