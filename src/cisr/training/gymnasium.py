"""The Gymnasium backend: a batch of students on environments that the host steps.

One policy call serves all students and environments; the environments are stepped in Python (`env_groups`), the
updates run in one compiled program. Environments are made afresh for each unit and restarted for each best response, so
a unit boundary is an exact checkpoint.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp.answers import check_environment
from cisr.cmdp.episodes import EpisodeLog, Sums, total
from cisr.cmdp.preflight import check_state_functions
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.students.config import StudentConfig
from cisr.students.distributions import Categorical
from cisr.students.networks import ObservationSpec
from cisr.students.ppo import Learner, Rollout
from cisr.students.program import program_for
from cisr.students.student import Student
from cisr.training.backend import Backend
from cisr.training.env_groups import EnvGroups
from cisr.training.records import Batch, Checkpoint, Event, Progress, TrainingSetup
from cisr.training.watch import NO_WATCH, Watch


def specs_of(task: Task) -> tuple[ObservationSpec, Categorical]:
    """What students of the task see and do; complains about spaces that they cannot handle."""
    env = task.make_env()
    check_environment(env)
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


def student_on(task: Task, config: StudentConfig, params: Mapping[str, Any]) -> Student:
    """A student with these weights, to act in the task's environment."""
    observation, distribution = specs_of(task)
    return Student(config, observation, distribution.n_actions, params)


def train(
    setup: TrainingSetup, batch: Batch, checkpoint: Checkpoint | None = None, watch: Watch = NO_WATCH
) -> Iterator[Event]:
    """Teach a batch from the start or from a checkpoint; the events are what happens, in order."""
    check_state_functions(setup.task, lambda: watch.over(None))
    return GymnasiumBackend(setup, batch, watch).run(checkpoint)


class GymnasiumBackend(Backend):
    def __init__(self, setup: TrainingSetup, batch: Batch, watch: Watch) -> None:
        self.watch = watch
        watch.over(None)
        self.observation, distribution = specs_of(setup.task)
        watch.rest()
        program = program_for(
            batch.students[0].config.shape, self.observation, distribution, len(setup.task.constraints)
        )
        super().__init__(setup, batch, program)

    def _train(
        self, unit: int, learners: Learner, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Learner, list[Sums]]]:
        envs = self._envs(interventions)
        logs: list[EpisodeLog] = []
        for number in range(self.config.rounds_per_unit):
            learners, log = yield from self._best_response(learners, envs, f"unit {unit} round {number}")
            logs.append(log)
        envs.close()
        return learners, [
            total(self.task, [episode for log in logs for episode in log.closed[k]])._replace(
                failures=sum(log.failures[k] for log in logs), rescues=sum(log.rescues[k] for log in logs)
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
        for number in range(config.updates_per_round):
            rollout = self._rollout(learners, envs, observations, log, seeds, number * config.n_steps)
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
        log: EpisodeLog,
        seeds: np.ndarray,
        draws: int,
    ) -> Rollout:
        """`n_steps` in every environment; `observations` (S, E, ...) moves on to where the next rollout starts."""
        config, n = self.config, len(self.students)
        rollout = empty_rollout(n, config, self.observation, len(self.task.constraints))
        for t in range(config.n_steps):
            acts = self.program.act(learners, observations, seeds, draws + t, False)
            actions = np.asarray(acts.actions)
            rollout.observations[:, t] = observations
            rollout.actions[:, t] = actions
            rollout.log_probs[:, t] = acts.log_probs
            rollout.values[:, t] = acts.values
            step = envs.step(actions, observations)
            log.add(step)
            rollout.rewards[:, t] = step.reward
            rollout.costs[:, t] = step.costs
            rollout.ends[:, t] = step.terminated | step.truncated
            if config.bootstrap_time_limit and step.truncated.any():
                beyond = self.program.value(learners, envs.reached)
                rollout.end_values[:, t] = np.where(step.truncated, beyond, 0.0)
        return rollout._replace(last_values=self.program.value(learners, observations))

    def _play(
        self, learners: Learner, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        envs = self._envs([intervention] * len(self.students))
        seeds = self._seeds("act", name)
        budget = -(-self.task.training.deployment_steps // self.config.n_envs)
        log = EpisodeLog(
            self.task, len(self.students), self.config.n_envs, budget=budget, violation_score=violation_score
        )
        observations = envs.start(name)
        for t in range(budget + self.task.horizon_under(intervention)):
            if t >= budget and not (log.running() & [error is None for error in self.errors]).any():
                break
            acts = self.program.act(learners, observations, seeds, t, self.config.deterministic)
            log.add(envs.step(np.asarray(acts.actions), observations))
        envs.close()
        played = [total(self.task, episodes) for episodes in log.closed]
        for k, error in enumerate(self.errors):
            if error is not None:  # failures were seen, whether their episodes count or not
                played[k] = played[k]._replace(failures=log.failures[k])
        return [(sums, None) for sums in played]

    def _envs(self, interventions: Sequence[Intervention]) -> EnvGroups:
        return EnvGroups(self.task, self.students, interventions, self.observation, self.errors, self.watch)


def empty_rollout(n: int, config: StudentConfig, observation: ObservationSpec, m: int) -> Rollout:
    """Buffers for n students, to be filled by the host."""
    shape = (n, config.n_steps, config.n_envs)
    return Rollout(
        observations=np.zeros((*shape, *observation.shape), observation.dtype),
        actions=np.zeros(shape, np.int32),
        log_probs=np.zeros(shape, np.float32),
        values=np.zeros(shape, np.float32),
        rewards=np.zeros(shape, np.float32),
        costs=np.zeros((*shape, m), np.float32),
        ends=np.zeros(shape, bool),
        end_values=np.zeros(shape, np.float32),
        last_values=np.zeros((n, config.n_envs), np.float32),
    )
