"""highway-env's road and drivers on straight lanes, computed with Python's own numbers.

highway-env computes every distance and steering angle with small numpy arrays, which takes most of its time. On
straight parallel lanes that begin at x = 0 a position is (x, y), lane k lies at y = 4k, and the same formulas need no
arrays: the same drives, ten times as fast. `tests/tasks/test_highway_traffic.py` holds them against highway-env's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from highway_env.road.road import Road
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.controller import ControlledVehicle, MDPVehicle

from cisr.tasks.highway.scene import LANE_WIDTH, ON_LANE

STANDSTILL = 1e-2
"""What stands for a speed or distance of zero where it is divided by."""


class StraightRoad(Road):  # type: ignore[misc]
    """A road on which only the first vehicle, the ego, looks for collisions, as in highway-fast."""

    _places: list[tuple[float, float, Any]] | None = None
    """Where everyone is while everyone decides."""

    def act(self) -> None:
        self._places = self._look()
        super().act()
        self._places = None

    def step(self, dt: float) -> None:
        for vehicle in self.vehicles:
            vehicle.step(dt)
        ego, *others = self.vehicles
        x, y = ego.position.tolist()
        for other in others:
            there_x, there_y = other.position.tolist()
            if math.hypot(there_x - x, there_y - y) <= (ego.diagonal + other.diagonal) / 2 + ego.speed * dt:
                ego.handle_collisions(other, dt)

    def neighbour_vehicles(self, vehicle: Any, lane_index: Any = None) -> tuple[Any, Any]:
        """Who is ahead and who is behind on a lane, its own unless another is given."""
        lane = (lane_index or vehicle.lane_index)[2] * LANE_WIDTH
        at = vehicle.position.item(0)
        ahead, behind = math.inf, -math.inf
        front = rear = None
        for x, y, other in self._places or self._look():
            if -ON_LANE <= y - lane <= ON_LANE and other is not vehicle:
                if at <= x <= ahead:
                    ahead, front = x, other
                elif behind < x < at:
                    behind, rear = x, other
        return front, rear

    def _look(self) -> list[tuple[float, float, Any]]:
        return [(*vehicle.position.tolist(), vehicle) for vehicle in self.vehicles]


class OnStraightLanes(ControlledVehicle):  # type: ignore[misc]
    """What the ego and the others have in common: steering towards a lane, and motion."""

    position: np.ndarray
    speed: float
    action: dict[str, float]

    def follow_road(self) -> None:
        """The road's end is far beyond every episode's."""

    def steering_control(self, target_lane_index: Any) -> float:
        off_lane = self.position.item(1) - target_lane_index[2] * LANE_WIDTH
        speed = _not_zero(self.speed)
        heading = math.asin(_within(1.0, -self.KP_LATERAL * off_lane / speed))
        turn = self.KP_HEADING * (_within(math.pi / 4, heading) - self.heading)
        slip = math.asin(_within(1.0, self.LENGTH / 2 / speed * turn))
        return _within(self.MAX_STEERING_ANGLE, math.atan(2 * math.tan(slip)))

    def step(self, dt: float) -> None:
        if self.crashed or self.impact is not None:
            self.position, self.action = self.position.copy(), dict(self.action)  # it would change them in place
            super().step(dt)
            return
        slip = math.atan(math.tan(self.action["steering"]) / 2)
        course, speed = self.heading + slip, self.speed
        x, y = self.position.tolist()
        self.position = np.array([x + speed * math.cos(course) * dt, y + speed * math.sin(course) * dt])
        self.heading += speed * math.sin(slip) / (self.LENGTH / 2) * dt
        self.speed = speed + self.action["acceleration"] * dt
        self.on_state_update()

    def on_state_update(self) -> None:
        lanes = self.road.network.graph["0"]["1"]
        nearest = math.ceil(self.position.item(1) / LANE_WIDTH - 0.5)
        nearest = min(max(nearest, 0), len(lanes) - 1)
        self.lane_index, self.lane = ("0", "1", nearest), lanes[nearest]


class Ego(OnStraightLanes, MDPVehicle):  # type: ignore[misc]
    """The student's car. It steers half as fast as the others: who has begun to change lanes can still go back."""

    TAU_LATERAL = 1.2
    KP_LATERAL = 1 / TAU_LATERAL

    def speed_control(self, target_speed: float) -> float:
        return float(self.KP_A * (float(target_speed) - self.speed))


class Driver(OnStraightLanes, IDMVehicle):  # type: ignore[misc]
    """Another driver: keeps its distance by the intelligent driver model, changes lanes by MOBIL."""

    def act(self, action: Any = None) -> None:
        if self.crashed:
            return
        self.change_lane_policy()
        acceleration = self._following(self.lane_index)
        if self.lane_index != self.target_lane_index:
            acceleration = min(acceleration, self._following(self.target_lane_index))
        steering = self.steering_control(self.target_lane_index)
        self.action = {"steering": steering, "acceleration": _within(self.ACC_MAX, acceleration)}

    def step(self, dt: float) -> None:
        self.timer += dt
        OnStraightLanes.step(self, dt)

    def _following(self, lane_index: Any) -> float:
        front, _ = self.road.neighbour_vehicles(self, lane_index)
        return self.acceleration(self, front)

    def acceleration(self, ego_vehicle: Any, front_vehicle: Any = None, rear_vehicle: Any = None) -> float:
        """Of anyone behind anyone, by this driver's measures."""
        if ego_vehicle is None:
            return 0.0
        wanted = min(max(float(ego_vehicle.target_speed), 0.0), ego_vehicle.lane.speed_limit)
        free: float = 1 - (max(ego_vehicle.speed, 0.0) / _not_zero(wanted)) ** self.DELTA
        if front_vehicle is not None:
            distance = _not_zero(front_vehicle.position.item(0) - ego_vehicle.position.item(0))
            free -= (self.desired_gap(ego_vehicle, front_vehicle) / distance) ** 2
        return float(self.COMFORT_ACC_MAX * free)

    def desired_gap(self, ego_vehicle: Any, front_vehicle: Any = None, projected: bool = True) -> float:
        heading, there, speed = ego_vehicle.heading, front_vehicle.heading, ego_vehicle.speed
        closing = speed - front_vehicle.speed * math.cos(there - heading)
        braking = 2 * math.sqrt(-self.COMFORT_ACC_MAX * self.COMFORT_ACC_MIN)
        return float(self.DISTANCE_WANTED + speed * self.TIME_WANTED + speed * closing / braking)


def _within(bound: float, number: float) -> float:
    return min(max(number, -bound), bound)


def _not_zero(number: float) -> float:
    if abs(number) > STANDSTILL:
        return number
    return STANDSTILL if number >= 0 else -STANDSTILL
