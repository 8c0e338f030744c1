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

from cisr.core.checks import check_kind, check_number, check_whole
from cisr.core.errors import ConfigError
from cisr.students import distributions, networks, normalisation
from cisr.students.config import StudentConfig
from cisr.students.distributions import Categorical, Distribution, sample
from cisr.students.networks import ObservationSpec, Params
from cisr.students.normalisation import Statistics
from cisr.system.files import reason, writing

FORMAT = "cisr student 2"
EARLIER_FORMAT = "cisr student 1"
"""Of students whose actions are numbers from 0."""
STATISTICS = "statistics/"


class Student:
    """A policy for one environment.

    >>> student = Student.load("student.safetensors")  # doctest: +SKIP
    >>> action = student.predict(observation)  # doctest: +SKIP
    """

    def __init__(
        self,
        config: StudentConfig,
        observation: ObservationSpec,
        distribution: Distribution,
        params: Mapping[str, Any],
        statistics: Mapping[str, Any] | None = None,
    ) -> None:
        check_kind("The config of a student", config, StudentConfig, "a cisr.StudentConfig")
        check_kind("The observation of a student", observation, ObservationSpec, "an ObservationSpec")
        kinds = tuple(distributions.KINDS.values())
        check_kind("What a student's actions are", distribution, kinds, "a Categorical, Categoricals or Gaussian")
        check_kind("The weights of a student", params, Mapping, "arrays by name")
        networks.check_params(params, config.network, observation, distribution.n_outputs, distribution.n_log_std)
        normalisation.check_statistics(statistics or {}, config, observation)
        self.config = config
        self.observation = observation
        self.distribution = distribution
        self.params = {name: jnp.asarray(array) for name, array in params.items()}
        self.statistics = {name: jnp.asarray(array) for name, array in (statistics or {}).items()}

        def outputs(params: Params, statistics: Statistics, observations: jax.Array) -> jax.Array:
            seen = normalisation.see(statistics, observation, observations)
            return networks.apply(config.network, observation, params, seen).policy

        def act(
            params: Params, statistics: Statistics, observations: jax.Array, key: jax.Array, deterministic: bool
        ) -> jax.Array:
            given = outputs(params, statistics, observations)
            return distribution.mode(given) if deterministic else sample(distribution, key, given)

        self._outputs = jax.jit(outputs)
        self._act = jax.jit(act, static_argnums=4)
        self._draws = 0

    def outputs(self, observations: Any) -> np.ndarray:
        """What the policy says of observations (n, ...): parameters (n, k) of the action distribution."""
        return np.asarray(
            self._outputs(self.params, self.statistics, jnp.asarray(self.observation.taken(observations)))
        )

    def predict(self, observation: Any, deterministic: bool | None = None, seed: int = 0) -> Any:
        """The action for one observation, or actions (n, ...) for a batch (n, ...), as the action space has them.

        Observations of several parts are flattened before: `gymnasium.spaces.flatten(space, observation)`.
        Where `deterministic` is None it acts as it does when deployed. Draws follow from the seed and the number of
        calls so far.
        """
        given = self.observation.taken(observation)
        batch = given.reshape(-1, *self.observation.shape)
        key = jax.random.fold_in(jax.random.key(seed), self._draws)
        self._draws += 1
        greedy = self.config.deterministic if deterministic is None else deterministic
        drawn = self._act(self.params, self.statistics, jnp.asarray(batch), key, greedy)
        actions = self.distribution.in_space(np.asarray(drawn))
        if given.ndim != len(self.observation.shape):
            return actions
        return int(actions[0]) if isinstance(self.distribution, Categorical) else actions[0]

    def save(self, path: Path | str) -> None:
        """One safetensors file: the weights, with everything else as JSON in its header."""
        about = {
            "format": FORMAT,
            "config": json.dumps(self.config.to_json()),
            "observation": json.dumps(self.observation._asdict()),
            "actions": json.dumps(distributions.to_json(self.distribution)),
        }
        arrays = self.params | {STATISTICS + name: array for name, array in self.statistics.items()}
        content = save({name: np.asarray(array) for name, array in arrays.items()}, metadata=about)
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
                arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, TypeError, ValueError) as error:
            raise ConfigError(f"Cannot read a student from {path}: {reason(error)}.") from error
        if about.get("format") not in (FORMAT, EARLIER_FORMAT):
            raise ConfigError(
                f"{path} is no saved student (its format is {about.get('format')!r}, expected {FORMAT!r})."
            )
        try:
            return Student(
                config=StudentConfig.from_json(json.loads(about["config"])),
                observation=_observation(json.loads(about["observation"])),
                distribution=(
                    distributions.from_json(json.loads(about["actions"]))
                    if about["format"] == FORMAT
                    else Categorical(check_whole("Its number of actions", int(about["n_actions"])))
                ),
                params={name: array for name, array in arrays.items() if not name.startswith(STATISTICS)},
                statistics={
                    name.removeprefix(STATISTICS): array
                    for name, array in arrays.items()
                    if name.startswith(STATISTICS)
                },
            )
        except ConfigError as error:
            raise ConfigError(f"The student in {path} is damaged: {error}") from error
        except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise ConfigError(f"The student in {path} is damaged: {type(error).__name__}: {error}.") from error


def _observation(seen: Mapping[str, Any]) -> ObservationSpec:
    """What is described in a file; students of earlier versions have no more than a shape and a number of values."""
    n_values, image = seen["n_values"], seen.get("image", False)
    check_kind("Whether it sees images", image, bool, "true or false")
    return ObservationSpec(
        shape=tuple(check_whole("A side of its observations", side) for side in seen["shape"]),
        n_values=None if n_values is None else check_whole("Its number of observations", n_values),
        start=int(check_number("Its first observation", seen.get("start", 0))),
        image=image,
    )
