"""highway-env's `highway-fast` on `traffic.StraightRoad`, seen in a few numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from highway_env.envs.common.action import DiscreteMetaAction
from highway_env.envs.common.graphics import EnvViewer
from highway_env.envs.common.observation import ObservationType
from highway_env.envs.highway_env import HighwayEnvFast
from highway_env.road.road import RoadNetwork
from highway_env.utils import get_class_path

from cisr.tasks.highway.scene import CRASH_COST, DECISIONS, DIMENSION, FULL_PAY, N_LANES, read_state, seen
from cisr.tasks.highway.traffic import Driver, Ego, StraightRoad

SPEED_LIMIT = 30
PAID_SPEEDS = (20.0, 27.0)
CONFIG = {
    "lanes_count": N_LANES,
    "vehicles_count": 9,
    "other_vehicles_type": get_class_path(Driver),
    "simulation_frequency": DECISIONS,
    "policy_frequency": DECISIONS,
    "duration": float("inf"),  # the time limit is the task's
    "action": {"type": "DiscreteMetaAction", "target_speeds": (15, 20, 25, 30)},
}


class Surroundings(ObservationType):  # type: ignore[misc]
    def space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(-np.inf, np.inf, (DIMENSION,), np.float32)

    def observe(self) -> np.ndarray:
        return seen(read_state(self.env))


class MetaActions(DiscreteMetaAction):  # type: ignore[misc]
    """Left, idle, right, faster, slower."""

    @property
    def vehicle_class(self) -> Callable[..., Ego]:
        return functools.partial(Ego, target_speeds=self.target_speeds)


class Highway(HighwayEnvFast):  # type: ignore[misc]
    """The student sees `scene.seen`; roads and vehicles are those of `traffic`."""

    viewer: Any

    def define_spaces(self) -> None:
        self.observation_type = Surroundings(self)
        self.action_type = MetaActions(self, **self.config["action"])
        self.observation_space = self.observation_type.space()
        self.action_space = self.action_type.space()

    def render(self) -> np.ndarray | None:
        if self.viewer is None and self.render_mode == "rgb_array":
            viewer: Any = EnvViewer(self)
            viewer.enabled = True  # it draws into memory, also where there is no display
            self.viewer = viewer
        image: np.ndarray | None = super().render()
        return image

    def _create_road(self) -> None:
        network = RoadNetwork.straight_road_network(self.config["lanes_count"], speed_limit=SPEED_LIMIT)
        self.road = StraightRoad(network=network, np_random=self.np_random)

    def _reward(self, action: Any) -> float:
        """For speed, and against crashes; nothing for the lane."""
        slow, fast = PAID_SPEEDS
        forward = self.vehicle.speed * math.cos(self.vehicle.heading)
        share: float = min(max((forward - slow) / (fast - slow), 0.0), 1.0)
        return -CRASH_COST if self.vehicle.crashed else FULL_PAY * share

    def _info(self, obs: Any, action: Any = None) -> dict[str, Any]:
        return {"speed": self.vehicle.speed, "crashed": self.vehicle.crashed}


def make_env(**options: Any) -> gymnasium.Env[Any, Any]:
    env: gymnasium.Env[Any, Any] = Highway(dict(CONFIG), **options)
    return env
