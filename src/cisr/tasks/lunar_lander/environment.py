"""Gymnasium's stock `LunarLander-v3`, and noisy sensors."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled

from cisr.core.errors import NotInstalled, words_of
from cisr.core.libraries import installed
from cisr.core.seeding import derive_seed


class NoisySensors(gymnasium.Wrapper[np.ndarray, int, np.ndarray, int]):
    """The student sees x and y with Gaussian noise; the true state is not touched."""

    def __init__(self, env: gymnasium.Env[np.ndarray, int], variance: float) -> None:
        super().__init__(env)
        self._deviation = variance**0.5
        self._noise = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._noise = np.random.default_rng(derive_seed(seed, "sensors"))
        observation, info = self.env.reset(seed=seed, options=options)
        return self.sense(observation), info

    def step(self, action: int) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.sense(observation), reward, terminated, truncated, info

    def sense(self, observation: np.ndarray) -> np.ndarray:
        noise = self._noise.normal(0.0, self._deviation, 2)
        return np.concatenate([observation[:2] + noise, observation[2:]]).astype(np.float32)


def make_env(sensor_variance: float, **options: Any) -> gymnasium.Env[Any, Any]:
    """Without Gymnasium's outer wrappers, which cost a tenth of a step: the time limit is the task's."""
    try:
        env = gymnasium.make("LunarLander-v3", **options).unwrapped
    except DependencyNotInstalled as error:
        mend = "or fly on cisr's own physics with `--backend compiled`"
        if installed("Box2D"):
            said = words_of(error.__cause__ or error) or "ImportError"
            raise NotInstalled(
                f"Gymnasium's Lunar Lander needs Box2D, which cannot be imported ({said}): mend that, {mend}."
            ) from error
        raise NotInstalled(
            f"Gymnasium's Lunar Lander needs Box2D, which is not installed: pip install 'cisr[lander]', {mend}."
        ) from error
    return NoisySensors(env, sensor_variance) if sensor_variance else env
