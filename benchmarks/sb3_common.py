"""The paper's student built on Stable-Baselines3, for the benchmarks that compare it with cisr's own.

Equal by construction: the network and its initialisation, the sizes of rollouts and minibatches, the optimiser and
every coefficient; all are read from the task's `StudentConfig`. Not equal, because Stable-Baselines3 has it so:
- with `clip_range_vf` its value error is that of the clipped value alone; cisr's is the larger of the clipped and the
  unclipped error;
- advantages are normalised by the standard deviation with n − 1, not n;
- images lie channels first in its network, so random numbers fall on other weights.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from cisr import Convolutional, StudentConfig, Task
from cisr.classroom.executors import ONE_THREAD
from cisr.errors import ConfigError
from cisr.students.networks import CONVOLUTION_GAIN, HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN
from cisr.students.ppo import ADAM_EPSILON

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def one_thread_per_process() -> None:
    """Processes started after this compute on one CPU thread each, in torch and in JAX. Call it before starting any."""
    os.environ.update(ONE_THREAD, JAX_PLATFORMS="cpu")


def student_of(task: Task) -> StudentConfig:
    """The settings of the task's student, which must be one convolutional student and no population."""
    if not isinstance(task.student, StudentConfig) or not isinstance(task.student.network, Convolutional):
        raise ConfigError(f"Task '{task.name}' has students {task.student}: this benchmark needs convolutional ones.")
    return task.student


class Trunk(BaseFeaturesExtractor):  # type: ignore[misc]
    """The layers that policy and value share: convolutions of stride 1 without padding, then dense layers."""

    def __init__(self, observation_space: spaces.Box, network: Convolutional) -> None:
        super().__init__(observation_space, features_dim=network.hidden[-1])
        activation = ACTIVATIONS[network.activation]
        height, width, channels = observation_space.shape
        layers: list[Any] = []
        for filters in network.filters:
            layers += [nn.Conv2d(channels, filters, network.kernel_size), activation()]
            height, width, channels = height - network.kernel_size + 1, width - network.kernel_size + 1, filters
        layers.append(nn.Flatten())
        features = height * width * channels
        for hidden in network.hidden:
            layers += [nn.Linear(features, hidden), activation()]
            features = hidden
        self.layers = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, height, width, channels) -> (n, features)"""
        return self.layers(images.permute(0, 3, 1, 2))


def build_ppo(config: StudentConfig, envs: VecEnv, seed: int) -> PPO:
    """A student that has learned nothing yet, on one thread of this process."""
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",  # with no layers of its own (`net_arch`): the trunk is all there is before the two heads
        envs,
        learning_rate=config.learning_rate,
        n_steps=config.n_steps,
        batch_size=config.n_envs * config.n_steps // config.n_minibatches,
        n_epochs=config.n_epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_range,
        clip_range_vf=config.clip_range_vf,
        ent_coef=config.ent_coef,
        vf_coef=config.vf_coef,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={
            "net_arch": [],
            "features_extractor_class": Trunk,
            "features_extractor_kwargs": {"network": config.network},
            "ortho_init": False,
            "optimizer_kwargs": {"eps": ADAM_EPSILON},
        },
        seed=seed,
        device="cpu",
    )
    initialise(model.policy)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def initialise(policy: Any) -> None:
    """Orthogonal weights, zero biases. By hand: Stable-Baselines3 would give the convolutions the gain √2."""
    gains = [(policy.action_net, POLICY_GAIN), (policy.value_net, VALUE_GAIN)]
    for layer in policy.features_extractor.layers:
        if isinstance(layer, nn.Conv2d):
            gains.append((layer, CONVOLUTION_GAIN))
        elif isinstance(layer, nn.Linear):
            gains.append((layer, HIDDEN_GAIN))
    for layer, gain in gains:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)


def forget_optimiser(model: PPO) -> None:
    """Knowledge transfer at a switch: the weights stay, the optimiser's moments start afresh."""
    policy = model.policy
    policy.optimizer = policy.optimizer_class(policy.parameters(), lr=model.lr_schedule(1.0), **policy.optimizer_kwargs)
