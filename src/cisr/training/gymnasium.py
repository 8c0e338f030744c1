"""The Gymnasium backend: a batch of students on environments that the host steps.

One policy call serves all students and environments; the environments are stepped in Python (`rows`), the updates run
in one compiled program. Environments are made afresh for each unit and restarted for each round, so a unit boundary is
an exact checkpoint.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import gymnasium
import numpy as np

from cisr.cmdp.answers import check_environment
from cisr.cmdp.preflight import check_state_functions
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.students.config import StudentConfig
from cisr.students.distributions import Categorical
from cisr.students.networks import ObservationSpec
from cisr.students.ppo import Learner, Rollout
from cisr.students.program import program_for
from cisr.training.backend import Backend, Deployed, UnitSummary
from cisr.training.records import Batch, Checkpoint, Event, Progress, TrainingSetup
from cisr.training.rows import Rows
from cisr.training.tally import Tally, deployment_of, summary_of
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
    ) -> Generator[Event, None, tuple[Learner, list[UnitSummary]]]:
        rows = self._rows(interventions)
        rounds: list[Tally] = []
        for number in range(self.config.rounds_per_unit):
            learners, tally = yield from self._round(learners, rows, f"unit {unit} round {number}")
            rounds.append(tally)
        rows.close()
        return learners, [summary_of(rounds, k) for k in range(len(self.students))]

    def _round(self, learners: Learner, rows: Rows, name: str) -> Generator[Event, None, tuple[Learner, Tally]]:
        """A best-response round: PPO against fixed multipliers on restarted environments, then the multipliers move."""
        config = self.config
        seeds, shuffles = self._seeds("act", name), self._seeds("shuffle", name)
        tally = Tally(self.task, len(self.students), config.n_envs)
        observations = rows.start(name)
        for number in range(config.updates_per_round):
            rollout = self._rollout(learners, rows, observations, tally, seeds, number * config.n_steps)
            learners = self.program.update(learners, rollout, self.hypers, shuffles, number)
            yield Progress(config.n_envs * config.n_steps * self.errors.count(None))
        violations = np.zeros((len(self.students), len(self.task.constraints)), np.float32)
        tally.close()
        for k, episodes in enumerate(tally.episodes):
            if self.errors[k] is None:
                violations[k] = np.mean([episode.constraint_values for episode in episodes], axis=0)
        return self.program.respond(learners, violations, self.hypers), tally

    def _rollout(
        self,
        learners: Learner,
        rows: Rows,
        observations: np.ndarray,
        tally: Tally,
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
            step = rows.step(actions, observations)
            tally.add(step)
            rollout.rewards[:, t] = step.reward
            rollout.costs[:, t] = step.costs
            rollout.ends[:, t] = step.terminated | step.truncated
            if config.bootstrap_time_limit and step.truncated.any():
                beyond = self.program.value(learners, rows.reached)
                rollout.end_values[:, t] = np.where(step.truncated, beyond, 0.0)
        return rollout._replace(last_values=self.program.value(learners, observations))

    def _deploy(self, learners: Learner, under: str, name: str) -> Deployed:
        if all(self.errors):
            return Deployed.nobody(len(self.students))
        intervention = self.task.intervention(under)
        rows = self._rows([intervention] * len(self.students))
        seeds = self._seeds("act", name)
        tally = Tally(self.task, len(self.students), self.config.n_envs)
        observations = rows.start(name)
        budget = -(-self.task.training.deployment_steps // self.config.n_envs)
        for t in range(budget + self.task.horizon_under(intervention)):
            if t >= budget and not (tally.open_since_before(budget) & [error is None for error in self.errors]).any():
                break
            acts = self.program.act(learners, observations, seeds, t, self.config.deterministic)
            tally.add(rows.step(np.asarray(acts.actions), observations))
        rows.close()
        return Deployed(
            deployments=tuple(
                None if error else deployment_of(self.task, [e for e in episodes if e.began < budget], under)
                for error, episodes in zip(self.errors, tally.episodes, strict=True)
            ),
            failures=tuple(tally.failures.tolist()),
        )

    def _rows(self, interventions: Sequence[Intervention]) -> Rows:
        return Rows(self.task, self.students, interventions, self.observation, self.errors, self.watch)


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
