"""The backend of students of Stable-Baselines3, on environments that the host steps. A batch is one student.

It is taught as ours are: best responses on restarted environments against fixed multipliers, which then move; the same
curricula, switches, deployments and records. Stable-Baselines3's own loop asks for steps, and `Envs` answers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cisr.cmdp.answers import concerns_all
from cisr.cmdp.episodes import EpisodeLog, Sums, total
from cisr.cmdp.preflight import check_state_functions
from cisr.core.errors import described
from cisr.core.intervention import NONE, Intervention
from cisr.core.seeding import derive_seed
from cisr.core.task import Task
from cisr.students.multipliers import exponentiated_gradient, multipliers, uniform_log_weights
from cisr.students.sb3 import SB3Student
from cisr.students.sb3_learner import SB3Learner, seeded, steps_of_round
from cisr.system.compilation import set_up_jax
from cisr.training.backend import Backend
from cisr.training.env_groups import EnvGroups
from cisr.training.records import Batch, Breakdown, Checkpoint, Event, Progress, TrainingSetup
from cisr.training.sb3_envs import Broke, Envs
from cisr.training.watch import NO_WATCH, Watch


def train(
    setup: TrainingSetup, batch: Batch, checkpoint: Checkpoint | None = None, watch: Watch = NO_WATCH
) -> Iterator[Event]:
    """Teach a student from the start or from a checkpoint; the events are what happens, in order."""
    set_up_jax()
    check_state_functions(setup.task, lambda: watch.over(None))
    return SB3Backend(setup, batch, watch).run(checkpoint)


class Taught(NamedTuple):
    """What a student carries from unit to unit."""

    learner: SB3Learner
    log_weights: Any  # (m + 1,) of the multipliers and the slack


class SB3Backend(Backend[Taught]):
    def __init__(self, setup: TrainingSetup, batch: Batch, watch: Watch) -> None:
        super().__init__(setup, batch)
        (self.student,) = self.students
        assert isinstance(self.student.config, SB3Student)
        self.config = self.student.config
        self.watch = watch
        watch.over(None)
        self.envs = Envs(self.task, self.config)
        watch.rest()
        self._steps = 0

    def _learner(self, name: str) -> SB3Learner:
        return new_learner(self.task, self.config, derive_seed(self.student.seed, name), self.envs)

    def _new(self) -> Taught:
        return Taught(self._learner("weights"), uniform_log_weights(len(self.task.constraints)))

    def _to_arrays(self, learners: Taught) -> dict[str, np.ndarray]:
        arrays = {"log_weights": np.asarray(learners.log_weights)} | learners.learner.to_arrays()
        return {name: array[None] for name, array in arrays.items()}

    def _from_arrays(self, arrays: Mapping[str, Any]) -> Taught:
        mine = {name: array[0] for name, array in arrays.items()}
        learner = self._learner("weights")
        learner.load(mine)
        return Taught(learner, jnp.asarray(mine["log_weights"]))

    def _switch(self, unit: int, learners: Taught, switched: np.ndarray, anew: np.ndarray) -> Taught:
        if anew[0]:
            return self._new()._replace(learner=self._learner(f"weights anew in unit {unit}"))
        if switched[0]:
            learners.learner.transfer()
        return learners

    def _multipliers(self, learners: Taught) -> np.ndarray:
        bound = jnp.float32(self.config.multiplier_bound)
        return np.asarray(multipliers(learners.log_weights, bound), float)[None]

    def _soundness(self, learners: Taught) -> np.ndarray:
        return np.array([learners.learner.is_sound()])

    def _steps_taken(self) -> int:
        return self._steps

    def _train(
        self, unit: int, learners: Taught, interventions: Sequence[Intervention]
    ) -> Generator[Event, None, tuple[Taught, list[Sums]]]:
        groups, logs = self._groups(interventions[0], self.config.n_envs), []
        learner, weights = learners
        before = learner.model.num_timesteps
        for number in range(self.config.rounds_per_unit):
            log, name = EpisodeLog(self.task, 1, self.config.n_envs), f"unit {unit} round {number}"
            logs.append(log)
            self.envs.enter(groups, self.errors, log, name)
            self.envs.multipliers = self._multipliers(Taught(learner, weights))[0]
            began = learner.model.num_timesteps
            try:
                learner.learn(
                    self.config.steps_per_round, self.envs.multipliers, derive_seed(self.student.seed, "learn", name)
                )
            except Broke:
                log.close()
                break
            except Exception as error:
                if concerns_all(error):
                    raise
                who = f"Student '{self.student.name}'"
                self.errors[0] = Breakdown(f"{who}: while it learned in unit {unit}: {described(error)}")
                log.close()
                break
            yield Progress(learner.model.num_timesteps - began)
            log.close()
            seen = total(self.task, log.closed[0])
            rate = jnp.float32(self.config.multiplier_rate)
            weights = exponentiated_gradient(weights, jnp.asarray(seen.constraint_values / seen.episodes), rate)
        groups.close()
        self._steps = learner.model.num_timesteps - before
        sums = total(self.task, [episode for log in logs for episode in log.closed[0]])
        counted = sums._replace(
            failures=sum(log.failures[0] for log in logs),
            rescues=sum(log.rescues[0] for log in logs),
            driven=sum(log.driven[0] for log in logs),
        )
        return Taught(learner, weights), [counted]

    def _play(
        self, learners: Taught, intervention: Intervention, name: str, violation_score: float
    ) -> list[tuple[Sums, tuple[int, ...] | None]]:
        n_envs, budget = self._deployment_size(self.config.n_envs)
        groups = self._groups(intervention, n_envs)
        log = EpisodeLog(self.task, 1, n_envs, budget=budget, violation_score=violation_score)
        self.envs.enter(groups, self.errors, log, name)
        try:
            with seeded(derive_seed(self.student.seed, "act", name)):
                seen = self.envs.reset()
                for t in range(budget + self.task.horizon_under(intervention)):
                    if t >= budget and not log.running().any():
                        break
                    self.envs.step_async(learners.learner.act(seen, self.config.deterministic))
                    seen, *_ = self.envs.step_wait()
        except Broke:
            pass
        groups.close()
        played = total(self.task, log.closed[0])
        if self.errors[0] is not None:  # failures were seen, whether their episodes count or not
            played = played._replace(failures=log.failures[0])
        return [(played, None)]

    def _groups(self, intervention: Intervention, n_envs: int) -> EnvGroups:
        seen = self.envs.observation
        return EnvGroups(self.task, self.students, [intervention], n_envs, seen, self.errors, self.watch)


class SB3Actor:
    """A trained student of Stable-Baselines3, ready to act; `model` is its own."""

    def __init__(self, learner: SB3Learner, envs: Envs) -> None:
        self.model = learner.model
        self.deterministic = learner.student.deterministic
        self.observation, self.distribution = envs.observation, envs.distribution
        self._learner = learner
        self._envs = envs
        self._draws = 0

    def predict(self, observation: Any, deterministic: bool | None = None, seed: int = 0) -> Any:
        """The action for one observation, or actions (n, ...) for a batch, as the action space has them.

        Observations of several parts are flattened before: `gymnasium.spaces.flatten(space, observation)`.
        Where `deterministic` is None it acts as it does when deployed. Draws follow from the seed and the number of
        calls so far.
        """
        given, shape = self.observation.taken(observation), self.observation.shape
        self._draws += 1
        greedy = self.deterministic if deterministic is None else deterministic
        with seeded(derive_seed(seed, self._draws)):
            actions = self._envs.in_space(self._learner.act(self._envs.shown(given.reshape(-1, *shape)), greedy))
        if given.ndim != len(shape):
            return actions
        return actions[0].item() if actions.ndim == 1 else actions[0]


def actor_on(task: Task, student: SB3Student, arrays: Mapping[str, Any]) -> SB3Actor:
    """A student with this state, to act in the task's environment."""
    envs = Envs(task, student)
    learner = new_learner(task, student, 0, envs)
    learner.load(arrays)
    return SB3Actor(learner, envs)


def new_learner(task: Task, student: SB3Student, seed: int, envs: Envs) -> SB3Learner:
    """One that has learned nothing yet, for a student's whole life on a task."""
    longest = max(task.horizon_under(intervention) for intervention in (*task.interventions, NONE))
    total_steps = steps_of_round(student, longest) * student.rounds_per_unit * task.training.n_units
    return SB3Learner(student, envs, len(task.constraints), total_steps, seed)
