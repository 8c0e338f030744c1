"""Students of Stable-Baselines3: any of its algorithms, on the Lagrangian with our multipliers.

Here are their settings alone, which need neither it nor torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cisr.core.checks import check_kind, check_number, check_whole, is_one_of, keep, shown
from cisr.core.errors import ConfigError
from cisr.students.config import StudentConfig

ON_POLICY, OFF_POLICY = ("A2C", "PPO"), ("DDPG", "DQN", "SAC", "TD3")
POLICIES = ("MlpPolicy", "CnnPolicy")
OURS = (
    "env",
    "policy",
    "seed",
    "device",
    "verbose",
    "tensorboard_log",
    "replay_buffer_class",
    "replay_buffer_kwargs",
    "_init_setup_model",
)
"""Arguments of its algorithms that are given by cisr."""


@dataclass(frozen=True)
class SB3Student:
    """An algorithm of Stable-Baselines3 with its settings, by its own names.

    >>> student = SB3Student("SAC", settings={"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64, 64]}})

    A unit is `rounds_per_unit` best responses of `steps_per_round` steps each, after which the multipliers move. Its
    learner is paid r − λ·c; a replay buffer keeps r and c, so that what was seen before is paid by the λ of now.
    """

    algorithm: str
    policy: str = "MlpPolicy"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the algorithm, as JSON: numbers, texts, lists, dictionaries."""
    n_envs: int = 1
    rounds_per_unit: int = 2
    steps_per_round: int = 4_608
    """All environments together; algorithms that learn from whole rollouts round it up to these."""
    multiplier_bound: float = 0.5
    """B: the multipliers and a slack weight add up to this."""
    multiplier_rate: float = 1.0
    """η: step size of the exponentiated gradient."""
    bootstrap_time_limit: bool = True
    """Bootstrap the value at the time limit, as Stable-Baselines3 does, instead of treating it as the end."""
    deterministic: bool = True
    """Once deployed, act by the most likely action instead of drawing one."""

    def __post_init__(self) -> None:
        if not is_one_of(self.algorithm, (*ON_POLICY, *OFF_POLICY)):
            known = ", ".join(sorted((*ON_POLICY, *OFF_POLICY)))
            raise ConfigError(f"Stable-Baselines3 has no {shown(self.algorithm)} here: give one of {known}.")
        if not is_one_of(self.policy, POLICIES):
            raise ConfigError(
                f"The policy of a {self.algorithm} student is {shown(self.policy)}: give {' or '.join(POLICIES)} "
                f"(observations of several parts are shown as one vector)."
            )
        check_kind("The settings of a student of Stable-Baselines3", self.settings, Mapping, "a dictionary by name")
        for name in self.settings:
            if name in OURS:
                raise ConfigError(f"The settings of a {self.algorithm} student hold '{name}': cisr gives that itself.")
        try:
            kept = json.loads(json.dumps(dict(self.settings)))
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"The settings of a {self.algorithm} student are no JSON ({error}): give numbers, texts, lists and "
                f"dictionaries, so that a store can keep them."
            ) from error
        keep(self, settings=kept)
        for name in ("n_envs", "rounds_per_unit", "steps_per_round"):
            keep(self, **{name: check_whole(f"A student's {name}", getattr(self, name))})
        for name in ("multiplier_bound", "multiplier_rate"):
            keep(self, **{name: check_number(f"A student's {name}", getattr(self, name), 0)})
        for name in ("bootstrap_time_limit", "deterministic"):
            check_kind(f"A student's {name}", getattr(self, name), bool, "True or False")

    @staticmethod
    def like(config: StudentConfig, algorithm: str, **settings: Any) -> SB3Student:
        """A student with the experience, the multipliers and the discount of one of ours; `settings` are the
        algorithm's own. PPO has ours too, where it calls them the same."""
        check_kind("What the student is to be like", config, StudentConfig, "a cisr.StudentConfig")
        shared = ["gamma"]
        if is_one_of(algorithm, ("PPO",)):
            shared += ["learning_rate", "n_steps", "n_epochs", "gae_lambda", "clip_range", "clip_range_vf"]
            shared += ["ent_coef", "vf_coef", "max_grad_norm"]
            settings = {"batch_size": config.n_envs * config.n_steps // config.n_minibatches} | settings
        if is_one_of(algorithm, ("PPO", "DQN")):
            hidden, activation = list(config.network.hidden), config.network.activation
            settings = {"policy_kwargs": {"net_arch": hidden, "activation_fn": activation}} | settings
        return SB3Student(
            algorithm,
            settings={name: getattr(config, name) for name in shared} | settings,
            n_envs=config.n_envs,
            rounds_per_unit=config.rounds_per_unit,
            steps_per_round=config.steps_per_unit // config.rounds_per_unit,
            multiplier_bound=config.multiplier_bound,
            multiplier_rate=config.multiplier_rate,
            bootstrap_time_limit=config.bootstrap_time_limit,
            deterministic=config.deterministic,
        )

    @property
    def steps_per_unit(self) -> int:
        """At least."""
        return self.rounds_per_unit * self.steps_per_round

    @property
    def on_policy(self) -> bool:
        return self.algorithm in ON_POLICY

    def to_json(self) -> dict[str, Any]:
        return {"kind": "sb3", **asdict(self)}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> SB3Student:
        return SB3Student(**{name: value for name, value in fields.items() if name != "kind"})
