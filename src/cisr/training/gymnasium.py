"""The Gymnasium backend: a batch of students on environments that the host steps.

One policy call serves all students and environments; the environments are stepped in Python (`env_groups`), the
updates run in one compiled program. Environments are made afresh for each unit and restarted for each best response, so
a unit boundary is an exact checkpoint.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cisr.cmdp.episodes import EpisodeLog, Sums, total
from cisr.cmdp.preflight import check_state_functions
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.students.config import StudentConfig
from cisr.students.distributions import Distribution
from cisr.students.networks import ObservationSpec
from cisr.students.normalisation import Perceived
from cisr.students.ppo import Learner, Rollout
from cisr.students.program import program_for
from cisr.students.student import Student
from cisr.system.compilation import set_up_jax
from cisr.training.env_groups import EnvGroups
from cisr.training.own_students import Class, OwnStudents, configs_of
from cisr.training.records import Batch, Checkpoint, Event, Progress, TrainingSetup
from cisr.training.spaces import specs_of
from cisr.training.watch import NO_WATCH, Watch


def student_on(task: Task, config: StudentConfig, params: Mapping[str, Any], statistics: Mapping[str, Any]) -> Student:
    """A student with these weights, to act in the task's environment."""
    observation, distribution = specs_of(task)
    return Student(config, observation, distribution, params, statistics)


def train(
    setup: TrainingSetup, batch: Batch, checkpoint: Checkpoint | None = None, watch: Watch = NO_WATCH
) -> Iterator[Event]:
    """Teach a batch from the start or from a checkpoint; the events are what happens, in order."""
    set_up_jax()
    check_state_functions(setup.task, lambda: watch.over(None))
    return GymnasiumBackend(setup, batch, watch).run(checkpoint)


class GymnasiumBackend(OwnStudents):
    def __init__(self, setup: TrainingSetup, batch: Batch, watch: Watch) -> None:
        self.watch = watch
        watch.over(None)
        self.observation, self.distribution = specs_of(setup.task)
        watch.rest()
        program = program_for(
            configs_of(batch)[0].shape, self.observation, self.distribution, len(setup.task.constraints)
        )
        super().__init__(setup, batch, program)

    def _train(
        self, unit: int, learners: Class, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Class, list[Sums]]]:
        envs, now = self._envs(interventions, self.config.n_envs), learners.learners
        logs: list[EpisodeLog] = []
        for number in range(self.config.rounds_per_unit):
            now, log = yield from self._best_response(now, envs, f"unit {unit} round {number}")
            logs.append(log)
        envs.close()
        return learners._replace(learners=now), [
            total(self.task, [episode for log in logs for episode in log.closed[k]])._replace(
                failures=sum(log.failures[k] for log in logs),
                rescues=sum(log.rescues[k] for log in logs),
                driven=sum(log.driven[k] for log in logs),
            )
            for k in range(len(self.students))
        ]

    def _best_response(
        self, learners: Learner, envs: EnvGroups, name: str
    ) -> Generator[Event, None, tuple[Learner, EpisodeLog]]:
        """PPO against fixed multipliers on restarted environments, then the multipliers move."""
        config = self.config
        seeds, shuffles = self._seeds("act", name), self._seeds("shuffle", name)
        log = EpisodeLog(self.task, len(self.students), config.n_envs)
        observations = envs.start(name)
        nothing = np.zeros((len(self.students), config.n_envs), np.float32)
        learners, now = self._perceive(learners, observations, None, None, nothing)
        for number in range(config.updates_per_round):
            learners, now, rollout = self._rollout(
                learners, envs, observations, now, log, seeds, number * config.n_steps
            )
            learners = self.program.update(learners, rollout, self.hypers, shuffles, number)
            yield Progress(config.n_envs * config.n_steps * self.errors.count(None))
        log.close()
        violations = np.zeros((len(self.students), len(self.task.constraints)), np.float32)
        for k, episodes in enumerate(log.closed):
            if self.errors[k] is None:
                sums = total(self.task, episodes)
                violations[k] = sums.constraint_values / sums.episodes
        return self.program.respond(learners, violations, self.hypers), log

    def _rollout(
        self,
        learners: Learner,
        envs: EnvGroups,
        observations: np.ndarray,
        now: Perceived,
        log: EpisodeLog,
        seeds: np.ndarray,
        draws: int,
    ) -> tuple[Learner, Perceived, Rollout]:
        """`n_steps` in every environment; `observations` (S, E, ...) and what students perceive of them (`now`) move on
        to where the next rollout starts, and so do the learners' statistics."""
        config, n = self.config, len(self.students)
        rollout = empty_rollout(n, config, self.observation, self.distribution, len(self.task.constraints))
        for t in range(config.n_steps):
            acts = self.program.act(learners, now.observations, seeds, draws + t, False)
            actions = np.asarray(acts.actions)
            rollout.observations[:, t] = now.observations
            rollout.actions[:, t] = actions
            rollout.log_probs[:, t] = acts.log_probs
            rollout.values[:, t] = acts.values
            step = envs.step(self.distribution.in_space(actions), observations)
            log.add(step)
            ends = step.terminated | step.truncated
            learners, now = self._perceive(learners, observations, step.reward, ends, now.returns)
            rollout.rewards[:, t] = now.rewards
            rollout.costs[:, t] = step.costs
            rollout.ends[:, t] = ends
            if config.bootstrap_time_limit and step.truncated.any():
                beyond = self.program.value(learners, self.program.see(learners, envs.reached))
                rollout.end_values[:, t] = np.where(step.truncated, beyond, 0.0)
        return learners, now, rollout._replace(last_values=self.program.value(learners, now.observations))

    def _perceive(
        self,
        learners: Learner,
        observations: np.ndarray,
        rewards: np.ndarray | None,
        ends: np.ndarray | None,
        returns: Any,
    ) -> tuple[Learner, Perceived]:
        """What arrived, as students have it, and the learners with their statistics moved on."""
        statistics, now = self.program.perceive(
            learners.statistics, observations, rewards, ends, returns, self.hypers.gamma
        )
        return learners._replace(statistics=statistics), now

    def _play(
        self, learners: Class, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        n_envs, budget = self._deployment_size(self.config.n_envs)
        envs = self._envs([intervention] * len(self.students), n_envs)
        seeds = self._seeds("act", name)
        log = EpisodeLog(self.task, len(self.students), n_envs, budget=budget, violation_score=violation_score)
        observations = envs.start(name)
        for t in range(budget + self.task.horizon_under(intervention)):
            if t >= budget and not (log.running() & [error is None for error in self.errors]).any():
                break
            seen = self.program.see(learners.learners, observations)
            acts = self.program.act(learners.learners, seen, seeds, t, self.config.deterministic)
            log.add(envs.step(self.distribution.in_space(np.asarray(acts.actions)), observations))
        envs.close()
        played = [total(self.task, episodes) for episodes in log.closed]
        for k, error in enumerate(self.errors):
            if error is not None:  # failures were seen, whether their episodes count or not
                played[k] = played[k]._replace(failures=log.failures[k])
        return [(sums, None) for sums in played]

    def _envs(self, interventions: Sequence[Intervention], n_envs: int) -> EnvGroups:
        return EnvGroups(self.task, self.students, interventions, n_envs, self.observation, self.errors, self.watch)


def empty_rollout(
    n: int, config: StudentConfig, observation: ObservationSpec, distribution: Distribution, m: int
) -> Rollout:
    """Buffers for n students, to be filled by the host."""
    shape = (n, config.n_steps, config.n_envs)
    perceived = np.float32 if config.normalize_observations else observation.dtype
    return Rollout(
        observations=np.zeros((*shape, *observation.shape), perceived),
        actions=np.zeros((*shape, *distribution.shape), distribution.dtype),
        log_probs=np.zeros(shape, np.float32),
        values=np.zeros(shape, np.float32),
        rewards=np.zeros(shape, np.float32),
        costs=np.zeros((*shape, m), np.float32),
        ends=np.zeros(shape, bool),
        end_values=np.zeros(shape, np.float32),
        last_values=np.zeros((n, config.n_envs), np.float32),
    )
