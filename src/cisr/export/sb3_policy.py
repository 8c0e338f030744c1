"""Students of Stable-Baselines3 as descriptions: those whose policies are plain layers (`MlpPolicy`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from cisr.core.errors import ConfigError
from cisr.export.policy import (
    DENSE,
    DIVIDE,
    FLATTEN,
    HEAD,
    ONE_HOT,
    SPREAD,
    Array,
    PolicyDescription,
    acted,
    box,
    described,
    in_parts,
)
from cisr.export.policy import observed as observation_of
from cisr.training.sb3 import SB3Actor

ACTIVATIONS = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.ELU: "elu"}


def describe_sb3(actor: SB3Actor, space: gymnasium.Space[Any] | None = None) -> PolicyDescription:
    policy = actor.model.policy
    layers = _Layers()
    observation = in_parts(layers.see(policy, actor.observation.start), space)
    if tuple(observation["shape"]) != tuple(actor.observation.shape):
        raise _not_plain(
            f"sees images with their channels first, {tuple(observation['shape'])}, and not as the environment shows "
            f"them, {tuple(actor.observation.shape)}"
        )
    if isinstance(policy, ActorCriticPolicy):
        if policy.use_sde:
            raise _not_plain("draws its noise from its features (use_sde)")
        layers.add(policy.mlp_extractor.policy_net)
        layers.named(HEAD, policy.action_net)
        actions = _drawn(actor, layers)
    elif isinstance(policy, DQNPolicy):
        layers.add(policy.q_net.q_net)
        layers.last_is_head()
        actions = acted(actor.distribution) | {"exploration": float(actor.model.exploration_rate)}
    elif isinstance(policy, SACPolicy):
        if policy.actor.use_sde:
            raise _not_plain("draws its noise from its features (use_sde)")
        layers.add(policy.actor.latent_pi)
        layers.named(HEAD, policy.actor.mu)
        layers.named(SPREAD, policy.actor.log_std)
        actions = _box(policy.action_space, squashed=True) | {"log_std_range": [LOG_STD_MIN, LOG_STD_MAX]}
    elif isinstance(policy, TD3Policy):
        layers.add(policy.actor.mu)
        layers.last_is_head(squashed=True)
        actions = _box(policy.action_space, squashed=True)
    else:
        raise _not_plain(f"is a {type(policy).__name__}")
    return described(observation, layers.steps, actions, actor.deterministic, layers.arrays)


class _Layers:
    """The steps from observations to the head, read off torch's modules."""

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []
        self.arrays: dict[str, Array] = {}

    def see(self, policy: Any, start: int) -> dict[str, Any]:
        """Numbered observations begin with `start` in the environment, and with 0 for the learner."""
        if policy.features_extractor_class is not FlattenExtractor:
            raise _not_plain(f"sees through a {policy.features_extractor_class.__name__}")
        space = policy.observation_space
        if isinstance(space, spaces.Discrete):
            self.steps = [[ONE_HOT, start, int(space.n)], [FLATTEN]]
            return observation_of((), "integer")
        image = policy.normalize_images and is_image_space(space)
        self.steps = [[DIVIDE, 255], [FLATTEN]] if image else [[FLATTEN]]
        return observation_of(space.shape, "byte" if image else "real")

    def add(self, modules: nn.Sequential) -> None:
        for module in modules:
            if isinstance(module, nn.Linear):
                name = f"hidden{len(self.steps)}"
                self.named(name, module)
                self.steps.append([DENSE, name])
            elif type(module) in ACTIVATIONS and getattr(module, "alpha", 1.0) == 1.0:
                self.steps.append([ACTIVATIONS[type(module)]])
            else:
                raise _not_plain(f"has a layer {type(module).__name__}")

    def named(self, name: str, layer: nn.Module) -> None:
        if not isinstance(layer, nn.Linear):
            raise _not_plain(f"has a layer {type(layer).__name__}")
        self.arrays[f"{name}.weight"] = _array(layer.weight).T.copy()
        self.arrays[f"{name}.bias"] = _array(layer.bias)

    def last_is_head(self, squashed: bool = False) -> None:
        """What was added last gives the outputs; a last tanh is what squashes them."""
        if squashed and self.steps.pop() != ["tanh"]:
            raise _not_plain("does not end in a tanh")
        _, name = self.steps.pop()
        for part in ("weight", "bias"):
            self.arrays[f"{HEAD}.{part}"] = self.arrays.pop(f"{name}.{part}")


def _drawn(actor: SB3Actor, layers: _Layers) -> dict[str, Any]:
    policy = actor.model.policy
    kind = policy.action_dist
    if isinstance(kind, DiagGaussianDistribution):
        layers.arrays[SPREAD] = _array(policy.log_std)
        return _box(policy.action_space, squashed=False)
    if isinstance(kind, CategoricalDistribution | MultiCategoricalDistribution):
        return acted(actor.distribution)
    if isinstance(kind, BernoulliDistribution):
        # Of each pair of choices the second has the logit that torch has, and the first 0.
        for part in ("weight", "bias"):
            ones = layers.arrays[f"{HEAD}.{part}"]
            layers.arrays[f"{HEAD}.{part}"] = np.stack([np.zeros_like(ones), ones], -1).reshape(*ones.shape[:-1], -1)
        return acted(actor.distribution)
    raise _not_plain(f"draws from a {type(kind).__name__}")


def _box(space: Any, squashed: bool) -> dict[str, Any]:
    return box(space.low.ravel().tolist(), space.high.ravel().tolist(), space.shape, squashed)


def _array(weights: torch.Tensor) -> Array:
    return np.asarray(weights.detach().numpy(), np.float32)


def _not_plain(what: str) -> ConfigError:
    return ConfigError(
        f"This student of Stable-Baselines3 {what}: students whose policy is plain layers (MlpPolicy) can be exported; "
        f"save its `model` with Stable-Baselines3."
    )
