"""A task's student built on Stable-Baselines3, to be compared with cisr's own.

Equal by construction: the network and its initialisation, the sizes of rollouts and minibatches, the optimiser and
every coefficient; all are read from the task's `StudentConfig`. Not equal, because Stable-Baselines3 has it so:
- with `clip_range_vf` its value error is that of the clipped value alone; cisr's is the larger of the clipped and the
  unclipped error;
- advantages are normalised by the standard deviation with n − 1, not n;
- images lie channels first in its network, so random numbers fall on other weights.

As a program (`main`), this is one process of the benchmark.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import torch
from gymnasium import Env, spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch import nn

from cisr.cmdp.wrapper import InducedCMDP
from cisr.experiments.bench.work import Ready, Work
from cisr.students.config import CNN, Network, StudentConfig
from cisr.students.networks import CONVOLUTION_GAIN, HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN
from cisr.students.ppo import ADAM_EPSILON
from cisr.training.process import ONE_THREAD
from cisr.training.worker import broken_by, own_channels, receive, send

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def one_thread_per_process() -> None:
    """Processes started after this compute on one CPU thread each, in torch and in JAX. Call it before starting any."""
    os.environ.update(ONE_THREAD, JAX_PLATFORMS="cpu")


class Trunk(BaseFeaturesExtractor):  # type: ignore[misc]
    """The layers that policy and value share: convolutions of stride 1 without padding, if any, then dense layers."""

    def __init__(self, observation_space: spaces.Box | spaces.Discrete, network: Network) -> None:
        super().__init__(observation_space, features_dim=network.hidden[-1])
        activation = ACTIVATIONS[network.activation]
        features = spaces.flatdim(observation_space)  # discrete observations arrive one-hot encoded
        self.convolutional = isinstance(network, CNN)
        layers: list[Any] = []
        if isinstance(network, CNN):
            assert isinstance(observation_space, spaces.Box)
            height, width, channels = observation_space.shape
            for filters in network.filters:
                layers += [nn.Conv2d(channels, filters, network.kernel_size), activation()]
                height, width, channels = height - network.kernel_size + 1, width - network.kernel_size + 1, filters
            features = height * width * channels
        layers.append(nn.Flatten())
        for hidden in network.hidden:
            layers += [nn.Linear(features, hidden), activation()]
            features = hidden
        self.layers = nn.Sequential(*layers)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """(n, ...), images as (n, height, width, channels), -> (n, features)"""
        return self.layers(observations.permute(0, 3, 1, 2) if self.convolutional else observations)


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
            "normalize_images": False,
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


def environment(work: Work) -> Env[Any, Any]:
    """The induced CMDP, or the task's own environment with the same time limit."""
    if work.plain:
        return TimeLimit(work.task.make_env(), work.task.horizon_under(work.task.intervention(work.intervention)))
    return InducedCMDP(work.task, work.intervention)


def main() -> None:
    """Learn for the benchmark: say when warmed up, wait for the start, answer with steps per second."""
    asked, outbox = own_channels()
    inbox = receive(asked)
    try:
        work: Work = next(inbox)
        one_update = work.config.n_envs * work.config.n_steps
        envs = DummyVecEnv([partial(environment, work) for _ in range(work.config.n_envs)])
        model = build_ppo(work.config, envs, work.seed)
        model.learn(one_update)
        send(outbox, Ready())
        next(inbox)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < work.seconds:
            model.learn(one_update, reset_num_timesteps=False)
            steps += one_update
        send(outbox, steps / (time.perf_counter() - began))
    except StopIteration:  # the benchmark is gone
        pass
    except Exception as error:
        send(outbox, broken_by(error))
