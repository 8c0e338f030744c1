"""M_i as a plain Gymnasium environment."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np

from cisr.cmdp.answers import as_actions, is_action, is_flattened
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.checks import check_kind, check_whole, is_one_of, shown
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.task import Task, check_task_given

LARGEST_SEED = 2**64 - 1
Cost = Literal["failures", "failures and rescues"]
"""What `info["cost"]` counts."""


class InducedCMDP(gymnasium.Wrapper[Any, Any, Any, Any]):
    """M_i as one Gymnasium environment, for any learner.

    `info` holds at every step, beside what the environment itself tells:
    - `costs`: by name what happened in this step, 0.0 or 1.0: `failures`, and rescues by each trigger (`rescues` where
      there is one without a name);
    - `cost`: one number for learners that know one: failures, or all of `costs` added up, as the argument `cost` says;
    - `constraint_increments`: by the same names what our students are charged; over an episode they add up to the
      value of each constraint, a mean or a sum as the task has it, less the tolerance τ or κ;
    - `intervention`: the name of the one that rescued the student in this step, or None; `driven`: the steps that its
      controller drove then; and `is_success`.

    >>> import gymnasium
    >>> env = gymnasium.make("cisr/FrozenLake-v0", intervention="HR")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> info["cost"], info["costs"], info["intervention"], terminated
    (0.0, {'failures': 0.0, 'rescues': 1.0}, 'HR', True)
    """

    def __init__(
        self, task: Task, intervention: str | Intervention = "none", *, cost: Cost = "failures", **env_options: Any
    ) -> None:
        check_task_given(task)
        check_kind("The intervention", intervention, (str, Intervention), "a name, or a cisr.Intervention")
        if not is_one_of(cost, ("failures", "failures and rescues")):
            raise ConfigError(f"The cost is {shown(cost)}: give 'failures' or 'failures and rescues'.")
        super().__init__(task.make_env(**env_options))
        chosen = task.intervention(intervention) if isinstance(intervention, str) else intervention
        if (names := tuple(chosen.triggers)) != task.constraints[1:]:
            raise ConfigError(
                f"Intervention '{chosen.name}' has the triggers {', '.join(names)}: "
                f"give it those of task '{task.name}', {', '.join(task.constraints[1:])}."
            )
        self._cmdp = InducedCMDPs(task, chosen, [self.env])
        self._running = False
        self._counted = slice(1) if cost == "failures" else slice(None)
        self.constraints = ("failures", *chosen.triggers)
        """The names of all costs."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            seed = check_whole("The seed of a reset", seed, 0, LARGEST_SEED)
        observation, info = self._cmdp.restart(0, seed, options)
        self._running = True
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        given = self._checked(action)
        before = self._cmdp.counts[0]
        step = self._cmdp.step(given)
        self._running = not (step.terminated[0] or step.truncated[0])
        events = self._cmdp.counts[0] - before
        info = {
            **self._cmdp.infos[0],
            "cost": float(events[self._counted].sum()),
            "costs": dict(zip(self.constraints, events.tolist(), strict=True)),
            "constraint_increments": dict(zip(self.constraints, step.costs[0].tolist(), strict=True)),
            "intervention": self._cmdp.intervention.name if step.rescued[0] else None,
            "driven": int(step.driven[0]),
            "is_success": bool(step.outcomes[0, len(self._cmdp.task.dangers)]),
        }
        return (
            self._observed(self._cmdp.observations[0]),
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
            info,
        )

    def _checked(self, action: Any) -> np.ndarray:
        """The action as a batch of one, in the type of its space."""
        if not self._running:
            raise ConfigError("No episode is under way, before the first reset and after each end: call reset.")
        space = self.action_space
        if space.shape is None and space.contains(action):  # one of several parts
            return np.array([action])
        try:
            given = np.array([action])
        except ValueError:  # rows of several lengths
            given = np.array([None])
        taken = as_actions(space, given)
        if taken is None or taken.shape[1:] != space.shape or not is_action(space, given[0], taken[0]):
            raise ConfigError(f"The action is {shown(action)}: give one of {space}.")
        return taken

    def _observed(self, observation: np.ndarray) -> Any:
        if is_flattened(self.observation_space):
            return gymnasium.spaces.unflatten(self.observation_space, observation)
        discrete = isinstance(self.observation_space, gymnasium.spaces.Discrete)
        return int(observation) if discrete else observation
