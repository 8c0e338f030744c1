"""What a student is: its network, its learning settings, our explorer of them, and populations of such settings.

Names follow Stable-Baselines3 where it has one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from cisr.core.checks import as_python, check_kind, check_number, check_whole, is_one_of, keep, shown
from cisr.core.errors import ConfigError

Activation = Literal["relu", "tanh"]
MOST_WIDTH = 100_000
"""Of a layer of a network."""


def _checked_widths(what: str, widths: tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(widths, tuple) or not widths:
        raise ConfigError(f"{what} are {shown(widths)}: give a tuple of whole numbers, at least one, such as (64, 64).")
    return tuple(check_whole(f"{what} are {shown(widths)}: a width", width, 1, MOST_WIDTH) for width in widths)


@dataclass(frozen=True, kw_only=True)
class MLP:
    """Fully connected layers of any number; discrete observations are one-hot encoded, others flattened."""

    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    separate_value: bool = False
    """Give the value layers of its own, of the same widths, instead of sharing the policy's."""

    def __post_init__(self) -> None:
        keep(self, hidden=_checked_widths("Hidden layers", self.hidden))
        _check_activation(self.activation)
        check_kind("A network's separate_value", self.separate_value, bool, "True or False")


@dataclass(frozen=True, kw_only=True)
class CNN:
    """Convolutions without padding over an image (height, width, channels), then dense layers.

    Kernel sizes and strides are one number for all convolutions or one for each. The network of the Atari papers:

    >>> nature = CNN(filters=(32, 64, 64), kernel_size=(8, 4, 3), strides=(4, 2, 1), hidden=(512,))
    """

    filters: tuple[int, ...] = (32, 64)
    kernel_size: int | tuple[int, ...] = 3
    strides: int | tuple[int, ...] = 1
    hidden: tuple[int, ...] = (32,)
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        keep(
            self,
            filters=_checked_widths("Filters", self.filters),
            hidden=_checked_widths("Hidden layers", self.hidden),
            kernel_size=self._checked("kernel size", self.kernel_size),
            strides=self._checked("stride", self.strides),
        )
        _check_activation(self.activation)

    def _checked(self, what: str, sizes: int | tuple[int, ...]) -> int | tuple[int, ...]:
        if not isinstance(sizes, tuple):
            return check_whole(f"The {what}", sizes, 1, MOST_WIDTH)
        if len(sizes) != len(self.filters):
            raise ConfigError(
                f"{len(self.filters)} convolutions have the {what}s {shown(sizes)}: give one number for each, or one "
                f"for all."
            )
        return tuple(check_whole(f"A {what}", size, 1, MOST_WIDTH) for size in sizes)

    @property
    def convolutions(self) -> list[tuple[int, int, int]]:
        """(filters, kernel size, stride) of each, in order."""
        n = len(self.filters)
        kernels, strides = ((each,) * n if isinstance(each, int) else each for each in (self.kernel_size, self.strides))
        return list(zip(self.filters, kernels, strides, strict=True))


def _check_activation(activation: str) -> None:
    if not is_one_of(activation, ("relu", "tanh")):
        raise ConfigError(f"The activation is '{activation}': give 'relu' or 'tanh'.")


Network = MLP | CNN
NETWORKS = {"mlp": MLP, "cnn": CNN, "perceptron": MLP, "convolutional": CNN}
"""By what records call them; the last two in stores made before 0.2."""


class Hyperparameters(NamedTuple):
    """The settings that are data to the compiled program: students of one batch may differ in them."""

    learning_rate: Any
    gamma: Any
    gae_lambda: Any
    clip_range: Any
    clip_range_vf: Any
    ent_coef: Any
    vf_coef: Any
    max_grad_norm: Any
    multiplier_bound: Any
    multiplier_rate: Any


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """PPO on the Lagrangian, multipliers by exponentiated gradient.

    A unit is `rounds_per_unit` best responses; each is `updates_per_round` PPO updates against fixed multipliers, on
    `n_envs` × `n_steps` steps each, after which the multipliers move.
    """

    network: Network = MLP()
    n_envs: int = 4
    n_steps: int = 128
    n_minibatches: int = 4
    n_epochs: int = 9
    rounds_per_unit: int = 2
    updates_per_round: int = 9
    learning_rate: float = 1e-3
    last_learning_rate: float | None = None
    """What the learning rate falls to, by the same step from each unit to the next; None where it stays as it is."""
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    clip_range_vf: float | None = None
    """How far the value may move in one update, in units of the return; None for any distance."""
    ent_coef: float = 0.01
    vf_coef: float = 0.25
    """Weight of the value's mean squared error."""
    max_grad_norm: float = 0.5
    multiplier_bound: float = 0.5
    """B: the multipliers and a slack weight add up to this."""
    multiplier_rate: float = 1.0
    """η: step size of the exponentiated gradient."""
    bootstrap_time_limit: bool = False
    """Bootstrap the value at the time limit instead of treating it as the end."""
    deterministic: bool = False
    """Once deployed, act by the most likely action instead of drawing one."""
    normalize_observations: bool = False
    """See observations in units of their running mean and standard deviation, clipped to ± 10."""
    normalize_rewards: bool = False
    """Learn from rewards in units of the running standard deviation of discounted returns, clipped to ± 10; multipliers
    are then in these units, too. Returns that teachers observe and reports show are the environment's."""
    n_candidates: int = 1
    """How many of its last policies, one for each unit, a student tries in M_0 (the task's safe evaluation); it hands
    in the one with the best mean return there. Never in M."""

    def __post_init__(self) -> None:
        counts = ("n_envs", "n_steps", "n_minibatches", "n_epochs", "rounds_per_unit", "updates_per_round")
        for name in (*counts, "n_candidates"):
            keep(self, **{name: check_whole(f"A student's {name}", getattr(self, name))})
        check_kind("A student's network", self.network, (MLP, CNN), "an MLP or a CNN")
        for name in ("deterministic", "bootstrap_time_limit", "normalize_observations", "normalize_rewards"):
            check_kind(f"A student's {name}", getattr(self, name), bool, "True or False")
        for name in Hyperparameters._fields:
            number = getattr(self, name)
            if name == "clip_range_vf" and number is None:
                continue
            keep(self, **{name: check_number(f"A student's {name}", number, 0)})
        last = as_python(self.last_learning_rate)
        if last is not None and not (isinstance(last, int | float) and 0 <= last <= self.learning_rate):
            raise ConfigError(f"A student's last_learning_rate is {shown(last)}: give 0 to its learning_rate, or None.")
        keep(self, last_learning_rate=last)
        if self.n_envs * self.n_steps % self.n_minibatches:
            raise ConfigError(
                f"{self.n_envs} environments × {self.n_steps} steps do not split into {self.n_minibatches} "
                f"minibatches: give an n_minibatches that divides {self.n_envs * self.n_steps}."
            )

    @property
    def steps_per_unit(self) -> int:
        return self.rounds_per_unit * self.updates_per_round * self.n_envs * self.n_steps

    def hyperparameters(self, unit: int = 1, n_units: int = 1) -> Hyperparameters:
        """As they are in one of a student's units."""
        settings = {name: getattr(self, name) for name in Hyperparameters._fields}
        if self.clip_range_vf is None:
            settings["clip_range_vf"] = math.inf
        if self.last_learning_rate is not None and n_units > 1:
            fallen = (unit - 1) / (n_units - 1)
            settings["learning_rate"] += fallen * (self.last_learning_rate - self.learning_rate)
        return Hyperparameters(**settings)

    @property
    def shape(self) -> StudentConfig:
        """This config with the settings that are data put aside: students of equal shape share a program."""
        put_aside: dict[str, Any] = dict.fromkeys(Hyperparameters._fields, 0.0) | {"last_learning_rate": None}
        return dataclasses.replace(self, **put_aside)

    def to_json(self) -> dict[str, Any]:
        """Fields that came with later versions stand here where they are set: earlier stores belong to students without
        them."""
        fields, network = dataclasses.asdict(self), dataclasses.asdict(self.network)
        fields["network"] = {"kind": type(self.network).__name__.lower(), **network}
        for record, later in (
            (fields, {"normalize_observations": False, "normalize_rewards": False}),
            (fields["network"], {"separate_value": False, "strides": 1}),
        ):
            for name, default in later.items():
                if name in record and record[name] == default:
                    del record[name]
        return fields

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> StudentConfig:
        """Fields that older records lack have their defaults."""
        network = dict(fields["network"])
        kind = NETWORKS[network.pop("kind")]
        network = {key: tuple(value) if isinstance(value, list) else value for key, value in network.items()}
        return StudentConfig(**{**fields, "network": kind(**network)})


EXPLORER_ENT_COEF = 0.05
EXPLORER_CANDIDATES = 4


def explorer(base: StudentConfig, **changes: Any) -> StudentConfig:
    """The same student that explores at least as much, may move its value freely, acts greedily once deployed and hands
    in the best of its last four policies; `changes` are made after that."""
    check_kind("The base of an explorer", base, StudentConfig, "a cisr.StudentConfig")
    ours: dict[str, Any] = {
        "deterministic": True,
        "n_candidates": EXPLORER_CANDIDATES,
        "clip_range_vf": None,
        "ent_coef": max(base.ent_coef, EXPLORER_ENT_COEF),
    }
    return dataclasses.replace(base, **(ours | changes))


@dataclass(frozen=True, kw_only=True)
class Population:
    """Students that differ: each draws the varied settings from a range `(low, high)` or a list of options.

    >>> slow_and_fast = Population(base=StudentConfig(), vary={"learning_rate": (5e-4, 2e-3), "n_epochs": [4, 9]})
    """

    base: StudentConfig
    vary: Mapping[str, tuple[float, float] | list[Any]]

    def __post_init__(self) -> None:
        check_kind("The base of a population", self.base, StudentConfig, "a cisr.StudentConfig")
        check_kind("What a population varies", self.vary, Mapping, "a dictionary from settings to their ranges")
        known = {field.name for field in dataclasses.fields(StudentConfig)}
        vary: dict[str, Any] = {}
        for name, choice in self.vary.items():
            if name not in known:
                raise ConfigError(f"A population varies '{name}': students have {', '.join(sorted(known))}.")
            if isinstance(choice, list):
                if not choice:
                    raise ConfigError(f"A population offers no option for '{name}': give at least one.")
                vary[name] = [as_python(option) for option in choice]
                continue
            if not isinstance(choice, tuple) or len(choice) != 2:
                raise ConfigError(
                    f"A population draws '{name}' from {shown(choice)}: give (low, high) or a list of options."
                )
            low, high = (check_number(f"An end of the range of '{name}'", end) for end in choice)
            if not low <= high:
                raise ConfigError(f"A population draws '{name}' from {choice}: give (low, high) with low ≤ high.")
            vary[name] = (low, high)
        keep(self, vary=vary)

    def draw(self, rng: np.random.Generator) -> StudentConfig:
        drawn: dict[str, Any] = {
            name: choice[rng.integers(len(choice))] if isinstance(choice, list) else self._between(name, choice, rng)
            for name, choice in sorted(self.vary.items())
        }
        return dataclasses.replace(self.base, **drawn)

    def _between(self, name: str, choice: tuple[float, float], rng: np.random.Generator) -> float:
        low, high = choice
        if isinstance(getattr(self.base, name), int):
            return int(rng.integers(int(low), int(high) + 1))
        return float(rng.uniform(low, high))
