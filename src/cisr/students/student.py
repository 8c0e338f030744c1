"""A student on its own: a trained policy that acts, is saved and loaded, with no teacher around."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cisr.errors import ConfigError
from cisr.students import networks
from cisr.students.config import StudentConfig
from cisr.students.distributions import Categorical, sample
from cisr.students.networks import ObservationSpec, Params

FORMAT = "cisr student 1"


class Student:
    """A policy for one environment.

    >>> student = Student.load("student.safetensors")  # doctest: +SKIP
    >>> action = student.predict(observation)  # doctest: +SKIP
    """

    def __init__(self, config: StudentConfig, observation: ObservationSpec, n_actions: int, params: Params) -> None:
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
        from safetensors.numpy import save_file

        about = {
            "format": FORMAT,
            "config": json.dumps(self.config.to_json()),
            "observation": json.dumps({"shape": self.observation.shape, "n_values": self.observation.n_values}),
            "n_actions": str(self.n_actions),
        }
        save_file({name: np.asarray(array) for name, array in self.params.items()}, path, metadata=about)

    @staticmethod
    def load(path: Path | str) -> Student:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = file.metadata() or {}
                params = {name: jnp.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise ConfigError(f"Cannot read a student from {path}: {error}.") from error
        if about.get("format") != FORMAT:
            raise ConfigError(
                f"{path} is no saved student (its format is {about.get('format')!r}, expected {FORMAT!r})."
            )
        try:
            seen = json.loads(about["observation"])
            return Student(
                config=StudentConfig.from_json(json.loads(about["config"])),
                observation=ObservationSpec(tuple(seen["shape"]), seen["n_values"]),
                n_actions=int(about["n_actions"]),
                params=params,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"The student in {path} is damaged: {type(error).__name__}: {error}.") from error
