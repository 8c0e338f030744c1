"""A student's environments as Stable-Baselines3 has them: a `VecEnv` of spaces that it knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from cisr.cmdp.answers import is_flattened
from cisr.cmdp.episodes import EpisodeLog
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.students.sb3 import ON_POLICY, SB3Student
from cisr.students.sb3_learner import COSTS
from cisr.students.spaces import Space
from cisr.training.env_groups import EnvGroups
from cisr.training.spaces import spaces_of, specs_in


class Broke(Exception):  # noqa: N818 (a way out of a library's loop)
    """The student's environment has broken down."""


class Envs(VecEnv):  # type: ignore[misc]
    """A student's environments as Stable-Baselines3 sees them, in whatever CMDP they are at present."""

    def __init__(self, task: Task, student: SB3Student) -> None:
        seen, self._acted = spaces_of(task)
        self.observation, self.distribution = specs_in(task, seen, self._acted)
        acts_in = spaces.Discrete if student.algorithm == "DQN" else spaces.Box
        if not student.on_policy and not isinstance(self._acted, acts_in):
            raise ConfigError(
                f"Task '{task.name}' has the action space {self._acted}: {student.algorithm} students act in "
                f"{acts_in.__name__} spaces alone, those of {' and '.join(ON_POLICY)} in all."
            )
        super().__init__(student.n_envs, shown_to_students(seen), acted_by_students(self._acted))
        self._student = student
        self.multipliers = np.zeros(len(task.constraints))
        """What is charged to a learner without a replay buffer, which charges by itself."""

    def enter(self, groups: EnvGroups, broken: list[Any], log: EpisodeLog, name: str) -> None:
        """Go on in these environments, which `name` gives their seeds; their episodes are entered in the log."""
        self._groups, self._broken, self._log, self._name = groups, broken, log, name

    def reset(self) -> np.ndarray:
        self._seen = self._groups.start(self._name)
        self._check()
        return self.shown(self._seen[0])

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        step = self._groups.step(self.in_space(self._actions)[None], self._seen)
        self._log.add(step)
        self._check()
        ends = step.terminated[0] | step.truncated[0]
        reached = self.shown(self._groups.reached[0])
        infos: list[dict[str, Any]] = [{COSTS: costs} for costs in step.costs[0]]
        for k in np.flatnonzero(ends).tolist():
            cut_off = bool(step.truncated[0, k]) and self._student.bootstrap_time_limit
            infos[k] |= {"terminal_observation": reached[k], "TimeLimit.truncated": cut_off}
        rewards = step.reward[0]
        if self._student.on_policy:
            rewards = rewards - step.costs[0] @ self.multipliers
        return self.shown(self._seen[0]), rewards.astype(np.float32), ends, infos

    def _check(self) -> None:
        if self._broken[0] is not None:
            raise Broke

    def shown(self, observations: np.ndarray) -> np.ndarray:
        """Observations as the learner sees them."""
        return np.array(observations - self.observation.start, self.observation_space.dtype)

    def in_space(self, actions: np.ndarray) -> np.ndarray:
        """Actions (n, ...) of the learner as the environment is given them."""
        if isinstance(self._acted, spaces.Discrete):
            return actions + int(self._acted.start)
        if isinstance(self._acted, spaces.MultiDiscrete):
            return np.asarray(actions.reshape(-1, *self._acted.shape) + self._acted.start)
        return actions

    def close(self) -> None:
        """Environments are closed by who made them."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs  # it asks for a render_mode

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"Nobody sets {attr_name} of environments that change with every unit.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        raise AttributeError(f"Nobody calls {method_name} of environments that change with every unit.")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def shown_to_students(space: Space) -> Space:
    """What the learner is told that it sees: vectors where there are several parts, numbers from 0."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    return spaces.Box(-np.inf, np.inf, (spaces.flatdim(space),), np.float32) if is_flattened(space) else space


def acted_by_students(space: Space) -> Space:
    """What the learner is told that it acts in: numbers from 0, side by side."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    return spaces.MultiDiscrete(space.nvec.ravel()) if isinstance(space, spaces.MultiDiscrete) else space
