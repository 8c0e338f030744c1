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

import time
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import Env, spaces
from gymnasium.wrappers import FlattenObservation, TimeLimit, TransformObservation
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize
from torch import nn

from cisr.cmdp.answers import is_flattened
from cisr.cmdp.wrapper import InducedCMDP
from cisr.experiments.bench.work import Ready, Work
from cisr.students.config import CNN, Network, StudentConfig
from cisr.students.networks import CONVOLUTION_GAIN, HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN, has_separate_value
from cisr.students.ppo import ADAM_EPSILON
from cisr.training.worker import broken_by, own_channels, receive, send

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


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
            for filters, size, stride in network.convolutions:
                layers += [nn.Conv2d(channels, filters, size, stride), activation()]
                height, width, channels = (height - size) // stride + 1, (width - size) // stride + 1, filters
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
    """A student that has learned nothing yet, on one thread of this process; see `normalised` for its environments."""
    torch.set_num_threads(1)
    layers: dict[str, Any] = {"net_arch": []}  # the trunk is all there is before the two heads
    if has_separate_value(config.network):
        hidden = list(config.network.hidden)
        layers = {
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": ACTIVATIONS[config.network.activation],
        }
    else:
        layers |= {"features_extractor_class": Trunk, "features_extractor_kwargs": {"network": config.network}}
    model = PPO(
        "MlpPolicy",
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
            **layers,
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
    own = policy.mlp_extractor
    trunk = getattr(policy.features_extractor, "layers", ())  # a student with separate layers has none
    for layer in (*trunk, *own.policy_net, *own.value_net):
        if isinstance(layer, nn.Conv2d):
            gains.append((layer, CONVOLUTION_GAIN))
        elif isinstance(layer, nn.Linear):
            gains.append((layer, HIDDEN_GAIN))
    for layer, gain in gains:
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)


def normalised(config: StudentConfig, envs: VecEnv) -> VecEnv:
    """The environments as the student sees them."""
    if not (config.normalize_observations or config.normalize_rewards):
        return envs
    return VecNormalize(
        envs, norm_obs=config.normalize_observations, norm_reward=config.normalize_rewards, gamma=config.gamma
    )


def environment(work: Work) -> Env[Any, Any]:
    """The induced CMDP, or the task's own environment with the same time limit."""
    if work.plain:
        limit = work.task.horizon_under(work.task.intervention(work.intervention))
        return in_arrays(TimeLimit(work.task.make_env(), limit))
    return in_arrays(InducedCMDP(work.task, work.intervention))


def in_arrays(env: Env[Any, Any]) -> Env[Any, Any]:
    """Observations as cisr's students have them: several parts in one vector, images from 0 to 1."""
    space = env.observation_space
    if is_flattened(space):
        return FlattenObservation(env)
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) > 1:
        brightness = spaces.Box(0.0, 1.0, space.shape, np.float32)
        return TransformObservation(env, lambda image: image.astype(np.float32) / 255, brightness)
    return env


def main() -> None:
    """Learn for the benchmark: say when warmed up, wait for the start, answer with steps per second."""
    asked, outbox = own_channels()
    inbox = receive(asked)
    try:
        work: Work = next(inbox)
        one_update = work.config.n_envs * work.config.n_steps
        envs = normalised(work.config, DummyVecEnv([partial(environment, work) for _ in range(work.config.n_envs)]))
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
