"""A student as a plain description of arrays: what it computes from an observation, and what that means as an action.

All that is exported of a student is made from this, so that every export computes the same. `numpy_policy.py` says what
the words of a description mean by computing them; `onnx_policy.py` says it in ONNX.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from cisr.cmdp.answers import is_flattened
from cisr.core.checks import check_kind
from cisr.core.errors import ConfigError
from cisr.students.config import CNN
from cisr.students.distributions import Categorical, Categoricals, Distribution, Gaussian
from cisr.students.networks import LOG_STD
from cisr.students.normalisation import CLIP, EPSILON, OBSERVATION
from cisr.students.student import Student

Array = np.ndarray[Any, Any]
FORMAT = "cisr policy 1"
DENSE, CONVOLVE, NORMALISE, FLATTEN, ONE_HOT, DIVIDE = "dense", "convolve", "normalise", "flatten", "one-hot", "divide"
HEAD, SPREAD = "policy", "log_std"
"""The names of the last layer, and of the logarithms of standard deviations: an array, or a layer of its own."""


class PolicyDescription(NamedTuple):
    """What a policy is: JSON, and the arrays that it names."""

    about: dict[str, Any]
    """Its `format`; the `observation` that it sees; the `steps` from there to the features that the head sees; the
    `actions` that the head's outputs stand for; whether it is `deterministic` once deployed."""
    arrays: dict[str, Array]


def describe(student: Student, space: gymnasium.Space[Any] | None = None) -> PolicyDescription:
    """What one of our students is.

    `space` is the environment's observation space; observations of several parts are then described part by part.
    """
    check_kind("The student to be exported", student, Student, "a cisr.Student")
    network, seen = student.config.network, student.observation
    arrays = {name: np.asarray(array) for name, array in student.params.items() if not name.startswith("value")}
    steps: list[list[Any]] = []
    if seen.n_values is not None:
        steps.append([ONE_HOT, seen.start, seen.n_values])
    elif seen.image:
        steps.append([DIVIDE, 255])
    if f"{OBSERVATION}.mean" in student.statistics:
        mean, var = (np.asarray(student.statistics[f"{OBSERVATION}.{name}"]) for name in ("mean", "var"))
        arrays |= {"observation.mean": mean, "observation.std": np.sqrt(var + np.float32(EPSILON))}
        steps.append([NORMALISE, CLIP])
    if isinstance(network, CNN):
        for i, (_, size, stride) in enumerate(network.convolutions):
            steps += [[CONVOLVE, f"convolution{i}", size, stride], [network.activation]]
    steps.append([FLATTEN])
    for i in range(len(network.hidden)):
        steps += [[DENSE, f"hidden{i}"], [network.activation]]
    if LOG_STD in arrays:
        arrays[SPREAD] = arrays.pop(LOG_STD)
    observation = observed(seen.shape, "integer" if seen.n_values is not None else "byte" if seen.image else "real")
    return described(
        in_parts(observation, space), steps, acted(student.distribution), student.config.deterministic, arrays
    )


def described(
    observation: Mapping[str, Any],
    steps: Sequence[Sequence[Any]],
    actions: Mapping[str, Any],
    deterministic: bool,
    arrays: Mapping[str, Array],
) -> PolicyDescription:
    about = {
        "format": FORMAT,
        "observation": dict(observation),
        "steps": [list(step) for step in steps],
        "actions": dict(actions),
        "deterministic": deterministic,
    }
    return PolicyDescription(json.loads(json.dumps(about)), {k: np.asarray(a, np.float32) for k, a in arrays.items()})


def observed(shape: Sequence[int], kind: str) -> dict[str, Any]:
    """`kind` is what numbers it is given: real, integer (one of finitely many) or byte (of an image)."""
    return {"shape": list(shape), "kind": kind, "parts": None}


def in_parts(observation: Mapping[str, Any], space: gymnasium.Space[Any] | None) -> dict[str, Any]:
    """An observation with the parts that it has in the environment's space, if it has some."""
    if space is None or not is_flattened(space):
        return dict(observation)
    shape = tuple(observation["shape"])
    if spaces.flatdim(space) != math.prod(shape):
        raise ConfigError(f"The observation space {space} is not that of the student, which sees {shape}.")
    return {**observation, "parts": parts_of(space)}


def acted(distribution: Distribution) -> dict[str, Any]:
    """What the outputs of a network stand for. Bounds that there are not are null."""
    match distribution:
        case Categorical(n_actions, start):
            return {"kind": "discrete", "n": [n_actions], "start": [start], "shape": []}
        case Categoricals(n_actions, start, shape):
            return {"kind": "discrete", "n": list(n_actions), "start": list(start), "shape": list(shape)}
        case Gaussian(low, high, shape):
            return box(low, high, shape, squashed=False)
    raise ConfigError(f"Students with actions of {type(distribution).__name__} cannot be exported.")


def box(low: Sequence[float], high: Sequence[float], shape: Sequence[int], squashed: bool) -> dict[str, Any]:
    """Vectors, clipped to their bounds or squashed (tanh) into them."""
    bounds = [[x if math.isfinite(x) else None for x in each] for each in (low, high)]
    return {"kind": "box", "low": bounds[0], "high": bounds[1], "shape": list(shape), "squashed": squashed}


def parts_of(space: gymnasium.Space[Any]) -> list[Any]:
    """How observations of a space are made vectors of, as `gymnasium.spaces.flatten` does it: names or places of their
    parts, and in the end numbers as they are or one-hot."""
    if isinstance(space, spaces.Dict):
        return ["each", [[name, parts_of(part)] for name, part in space.spaces.items()]]
    if isinstance(space, spaces.Tuple):
        return ["each", [[place, parts_of(part)] for place, part in enumerate(space.spaces)]]
    if isinstance(space, spaces.Discrete):
        return [ONE_HOT, [int(space.start)], [int(space.n)]]
    if isinstance(space, spaces.MultiDiscrete):
        return [ONE_HOT, space.start.ravel().tolist(), space.nvec.ravel().tolist()]
    return ["numbers", math.prod(space.shape or ())]
