"""Gymnasium's spaces as students have them: what they see, and what they draw their actions from."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cisr.cmdp.answers import check_environment, is_flattened
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.students.distributions import Distribution
from cisr.students.networks import ObservationSpec
from cisr.students.spaces import Space, acted_by, seen_as


def specs_of(task: Task) -> tuple[ObservationSpec, Distribution]:
    """What students of the task see and do; complains about spaces that they cannot handle."""
    return specs_in(task, *spaces_of(task))


def spaces_of(task: Task) -> tuple[Space, Space]:
    """Of the task's environment: what it shows, and what it is told."""
    env = task.make_env()
    check_environment(env)
    seen, done = env.observation_space, env.action_space
    env.close()
    return seen, done


def specs_in(task: Task, seen: Space, done: Space) -> tuple[ObservationSpec, Distribution]:
    observation, distribution = observed(seen), acted_by(done)
    if observation is None:
        inner = isinstance(seen, spaces.Dict) and any(observed(part) is not None for part in seen.values())
        mend = (
            "choose the parts that it needs with gymnasium.wrappers.FilterObservation"
            if inner
            else "make arrays of them with gymnasium.wrappers.TransformObservation"
        )
        raise ConfigError(
            f"Task '{task.name}' has the observation space {seen}: students see Box, Discrete, MultiDiscrete and "
            f"MultiBinary spaces, and Dict and Tuple of these; {mend}."
        )
    if distribution is None:
        raise ConfigError(
            f"Task '{task.name}' has the action space {done}: students act in Discrete, MultiDiscrete, MultiBinary and "
            f"Box spaces of floating-point numbers; give the environment one with gymnasium.wrappers.TransformAction."
        )
    return observation, distribution


def seen_by_students(space: Space, observation: np.ndarray) -> np.ndarray:
    """An observation as students see it; one of several parts is an array's only element."""
    if is_flattened(space):
        whole = observation.item() if observation.dtype.kind == "O" else observation
        return np.asarray(spaces.flatten(space, whole))
    return np.asarray(observation)


def observed(space: Space) -> ObservationSpec | None:
    """None for a space that students cannot see."""
    if is_flattened(space):
        return ObservationSpec(shape=(spaces.flatdim(space),))
    return seen_as(space)
