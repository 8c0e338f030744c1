"""M_i as a plain Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.checks import check_kind
from cisr.core.intervention import Intervention
from cisr.core.task import Task, check_task_given


class InducedCMDP(gymnasium.Wrapper[Any, Any, Any, Any]):
    """M_i as one Gymnasium environment, for any learner.

    `info` holds, at every step, `cost` (1.0 for a failure), `costs` (the constraint increments), `intervention` (the
    name of the one that rescued the student in this step, or None) and `is_success`.

    >>> import gymnasium
    >>> env = gymnasium.make("cisr/FrozenLake-v0", intervention="HR")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> info["cost"], info["intervention"], terminated
    (0.0, 'HR', True)
    """

    def __init__(self, task: Task, intervention: str | Intervention = "none", **env_options: Any) -> None:
        check_task_given(task)
        check_kind("The intervention", intervention, (str, Intervention), "a name, or a cisr.Intervention")
        super().__init__(task.make_env(**env_options))
        chosen = task.intervention(intervention) if isinstance(intervention, str) else intervention
        self._cmdp = InducedCMDPs(task, chosen, [self.env])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._cmdp.restart(0, seed, options)
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._cmdp.step(np.array([action]))
        info = {
            **self._cmdp.infos[0],
            "cost": float(step.failed[0]),
            "costs": step.costs[0],
            "intervention": self._cmdp.intervention.name if step.rescued[0] else None,
            "is_success": bool(step.outcomes[0, len(self._cmdp.task.dangers)]),
        }
        return (
            self._observed(self._cmdp.observations[0]),
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
            info,
        )

    def _observed(self, observation: np.ndarray) -> Any:
        discrete = isinstance(self.observation_space, gymnasium.spaces.Discrete)
        return int(observation) if discrete else observation
