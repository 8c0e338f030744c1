"""Gymnasium's stock `FrozenLake-v1` with the paper's map, slip, rewards and observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp.wrapper import InducedCMDP
from cisr.tasks.frozen_lake import frozen_lake
from cisr.tasks.frozen_lake.lake import GOAL_REWARD, LAKE_REWARD, MOVE_REWARD, SLIP, Lake


class MapImage(gymnasium.ObservationWrapper[np.ndarray, int, int]):
    """Shows the student the whole map with itself on it, instead of its tile number."""

    def __init__(self, env: gymnasium.Env[int, int], lake: Lake) -> None:
        super().__init__(env)
        self._images = lake.images
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, self._images.shape[1:], np.float32)

    def observation(self, observation: int) -> np.ndarray:
        return np.array(self._images[observation])  # a copy: callers keep what they are given


def make_env(lake: Lake, horizon: int, **options: Any) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make(
        "FrozenLake-v1",
        desc=list(lake.rows),
        success_rate=1.0 - SLIP,
        reward_schedule=(GOAL_REWARD, LAKE_REWARD, MOVE_REWARD),
        max_episode_steps=horizon,
        **options,
    )
    return MapImage(env, lake)


def make_induced_env(intervention: str = "none", render_mode: str | None = None) -> InducedCMDP:
    """What `gymnasium.make("cisr/FrozenLake-v0", intervention="SR1")` makes."""
    options = {} if render_mode is None else {"render_mode": render_mode}
    return InducedCMDP(frozen_lake(), intervention, **options)
