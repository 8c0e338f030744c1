"""The quick traffic is highway-env's: the same drives from the same seeds."""

import numpy as np
import pytest

pytest.importorskip("highway_env", reason="Highway needs highway-env: pip install 'cisr[highway]'")

from highway_env.envs.highway_env import HighwayEnvFast
from highway_env.vehicle.controller import MDPVehicle

from cisr.tasks.highway.environment import CONFIG, Highway
from cisr.tasks.highway.traffic import Ego


def where(env):
    """Position, heading, speed and lane headed for, of everyone."""
    return np.array([[*v.position, v.heading, v.speed, v.target_lane_index[2]] for v in env.road.vehicles])


@pytest.fixture
def steers_as_fast_as_the_others(monkeypatch):
    monkeypatch.setattr(Ego, "KP_LATERAL", MDPVehicle.KP_LATERAL)


@pytest.mark.usefixtures("steers_as_fast_as_the_others")
@pytest.mark.parametrize(("seed", "crash"), [(0, True), (1, False)])
def test_drives_are_those_of_highway_env(seed, crash):
    actions = np.random.default_rng(seed).integers(5, size=80)
    theirs = HighwayEnvFast({**CONFIG, "other_vehicles_type": "highway_env.vehicle.behavior.IDMVehicle"})
    ours = Highway(dict(CONFIG))
    theirs.reset(seed=seed)
    ours.reset(seed=seed)
    lanes = {tuple(where(ours)[:, -1])}
    for action in actions:
        over = theirs.step(int(action))[2]
        assert ours.step(int(action))[2] == over
        np.testing.assert_allclose(where(ours), where(theirs), rtol=0, atol=1e-9)
        lanes.add(tuple(where(ours)[:, -1]))
        if over:
            break
    assert over == crash
    assert len(lanes) > 1  # somebody has changed lanes


def test_only_the_students_car_steers_slowly():
    assert Ego.KP_LATERAL == MDPVehicle.KP_LATERAL / 2
