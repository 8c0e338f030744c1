"""A student on its own: a trained policy that acts, is saved and loaded, with no teacher around."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cisr.core.checks import check_whole
from cisr.core.errors import ConfigError
from cisr.students import networks
from cisr.students.config import StudentConfig
from cisr.students.distributions import Categorical, sample
from cisr.students.networks import ObservationSpec, Params
from cisr.system.files import reason, writing

FORMAT = "cisr student 1"


class Student:
    """A policy for one environment.

    >>> student = Student.load("student.safetensors")  # doctest: +SKIP
    >>> action = student.predict(observation)  # doctest: +SKIP
    """

    def __init__(
        self, config: StudentConfig, observation: ObservationSpec, n_actions: int, params: Mapping[str, Any]
    ) -> None:
        networks.check_params(params, config.network, observation, n_actions)
        self.config = config
        self.observation = observation
        self.n_actions = n_actions
        self.params = {name: jnp.asarray(array) for name, array in params.items()}
        distribution = Categorical(n_actions)

        def act(params: Params, observations: jax.Array, key: jax.Array, deterministic: bool) -> jax.Array:
            logits = networks.apply(config.network, observation, params, observations).policy
            return distribution.mode(logits) if deterministic else sample(distribution, key, logits)

        self._act = jax.jit(act, static_argnums=3)
        self._draws = 0

    def predict(self, observation: Any, deterministic: bool | None = None, seed: int = 0) -> Any:
        """The action for one observation, or actions (n,) for a batch (n, ...).

        Where `deterministic` is None it acts as it does when deployed. Draws follow from the seed and the number of
        calls so far.
        """
        given = np.asarray(observation)
        if given.shape[given.ndim - len(self.observation.shape) :] != self.observation.shape:
            raise ConfigError(f"An observation has shape {given.shape}: this student sees {self.observation.shape}.")
        batch = given.reshape(-1, *self.observation.shape)
        key = jax.random.fold_in(jax.random.key(seed), self._draws)
        self._draws += 1
        greedy = self.config.deterministic if deterministic is None else deterministic
        actions = np.asarray(self._act(self.params, jnp.asarray(batch), key, greedy))
        return int(actions[0]) if given.ndim == len(self.observation.shape) else actions

    def save(self, path: Path | str) -> None:
        """One safetensors file: the weights, with everything else as JSON in its header."""
        about = {
            "format": FORMAT,
            "config": json.dumps(self.config.to_json()),
            "observation": json.dumps({"shape": self.observation.shape, "n_values": self.observation.n_values}),
            "n_actions": str(self.n_actions),
        }
        content = save({name: np.asarray(array) for name, array in self.params.items()}, metadata=about)
        with writing(path) as aside:
            aside.write_bytes(content)

    @staticmethod
    def load(path: Path | str) -> Student:
        """A file from anywhere can do no more than act, or get one line."""
        try:
            if not Path(path).is_file():  # to wait for a pipe would take for ever
                raise ConfigError(f"Cannot read a student from {path}: there is no such file.")
            with safe_open(path, framework="numpy") as file:
                about = file.metadata() or {}
                params = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, TypeError, ValueError) as error:
            raise ConfigError(f"Cannot read a student from {path}: {reason(error)}.") from error
        if about.get("format") != FORMAT:
            raise ConfigError(
                f"{path} is no saved student (its format is {about.get('format')!r}, expected {FORMAT!r})."
            )
        try:
            seen = json.loads(about["observation"])
            n_values = seen["n_values"]
            return Student(
                config=StudentConfig.from_json(json.loads(about["config"])),
                observation=ObservationSpec(
                    shape=tuple(check_whole("A side of its observations", side) for side in seen["shape"]),
                    n_values=None if n_values is None else check_whole("Its number of observations", n_values),
                ),
                n_actions=check_whole("Its number of actions", int(about["n_actions"])),
                params=params,
            )
        except ConfigError as error:
            raise ConfigError(f"The student in {path} is damaged: {error}") from error
        except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"The student in {path} is damaged: {type(error).__name__}: {error}.") from error
