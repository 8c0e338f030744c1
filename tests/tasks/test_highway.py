"""Driving: what a state tells, when each intervention comes in, and what it does then."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest

from cisr import ConfigError, get_task
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.tasks import highway
from cisr.tasks.highway import driving, scene
from cisr.tasks.highway.driving import FASTER, IDLE, LEFT, RIGHT, SLOWER

pytest.importorskip("highway_env", reason="Highway needs highway-env: pip install 'cisr[highway]'")

TASK = get_task("highway")
FAR = 5_000.0


def arranged(env, *others, lane=1, speed=25.0):
    """The ego on a lane and others around it, each by its lane, its distance and its speed; nobody else near."""
    ego = env.unwrapped.vehicle
    for k, vehicle in enumerate(env.unwrapped.road.vehicles):
        there, distance, at_speed = (lane, 0.0, speed) if k == 0 else (0, FAR + 100 * k, 22.0)
        if 0 < k <= len(others):
            there, distance, at_speed = others[k - 1]
        vehicle.position = np.array([300.0 + distance, scene.LANE_WIDTH * there])
        vehicle.heading, vehicle.speed, vehicle.target_speed = 0.0, at_speed, at_speed
        vehicle.target_lane_index = ("0", "1", there)
        vehicle.on_state_update()
    ego.speed_index = ego.speed_to_index(speed)
    return env


def supervised(name, *others, **ego):
    row = InducedCMDPs(TASK, TASK.intervention(name), [TASK.make_env()])
    row.seed([0])
    arranged(row.envs[0], *others, **ego)
    row._memory.begin(0, TASK.read_state(row.envs[0]), row._observations[0])
    return row


def outcome(step):
    return TASK.outcomes[outcome_of(step.outcomes[0])]


@pytest.fixture
def env():
    env = TASK.make_env()
    env.reset(seed=0)
    return env


def test_a_state_tells_gaps_and_closing_speeds_of_three_lanes(env):
    state = TASK.read_state(arranged(env, (1, 30.0, 20.0), (0, -15.0, 28.0), (2, 3.0, 24.0)))
    own, left, right = scene.OWN_LANE, scene.LEFT_LANE, scene.RIGHT_LANE
    assert state[[scene.GAP, scene.CLOSING]].tolist() == [25.0, 5.0]
    assert state[own : own + 4].tolist() == [25.0, 5.0, scene.SIGHT, 0.0]
    assert state[left : left + 4].tolist() == [scene.SIGHT, 0.0, 10.0, 3.0]
    assert state[right : right + 4].tolist() == [-2.0, 1.0, scene.SIGHT, 0.0]
    assert state[[scene.SPEED, scene.OFFSET, scene.LANE]].tolist() == [25.0, 0.0, 1.0]


def test_there_is_no_room_where_there_is_no_lane(env):
    state = TASK.read_state(arranged(env, lane=0))
    assert driving.no_room(state, scene.LEFT_LANE) and not driving.no_room(state, scene.RIGHT_LANE)
    assert not driving.turning_into(state, LEFT)  # and nobody gets there


def test_whoever_heads_for_a_lane_is_on_it(env):
    arranged(env, (2, 10.0, 25.0))
    env.unwrapped.road.vehicles[1].target_lane_index = ("0", "1", 1)
    assert TASK.read_state(env)[scene.OWN_LANE] == 5.0


@pytest.mark.parametrize("xp", [np, jnp])
def test_triggers_and_controllers_take_any_leading_shape(xp, env):
    state = TASK.read_state(arranged(env, (1, 12.0, 20.0), lane=1))
    states = xp.broadcast_to(xp.asarray(state), (2, 3, scene.DIMENSION))
    actions = xp.full((2, 3), FASTER)
    for intervention in TASK.interventions:
        assert intervention.triggered(states, actions).shape == (2, 3)
    assert (driving.steered_clear(states) == SLOWER).all()
    assert (driving.corrected(states, actions) == SLOWER).all()


def test_speed_is_paid(env):
    slow, fast = (arranged(env, speed=speed).step(IDLE)[1] for speed in (20.0, 30.0))
    assert (slow, fast) == (0.0, scene.FULL_PAY)


def test_a_collision_is_a_failure_whatever_the_speed():
    row = supervised("none", (1, 5.5, 10.0), speed=30.0)
    step = row.step(np.array([FASTER]))
    while not step.terminated[0]:
        step = row.step(np.array([FASTER]))
    assert step.failed[0] and outcome(step) == "collision"
    assert step.reward[0] == -scene.CRASH_COST


def test_whoever_gets_through_has_succeeded():
    row = supervised("none", speed=20.0)
    steps = [row.step(np.array([IDLE])) for _ in range(TASK.horizon)]
    assert outcome(steps[-1]) == "success" and steps[-1].truncated[0] and not steps[-1].terminated[0]
    assert not any(step.outcomes[0].any() for step in steps[:-1])


def test_the_instructor_brakes_until_the_gap_is_safe():
    row = supervised("Brake", (1, 18.0, 20.0), speed=30.0)
    step = row.step(np.array([FASTER]))
    assert step.rescued[0] and step.driven[0] > 1 and not step.failed[0]
    state = row.transition.after[0]
    assert not driving.too_close(state) and state[scene.SPEED] < 28


def test_the_instructor_steers_back_from_a_lane_without_room():
    row = supervised("Brake", (0, 1.0, 25.0), (1, 60.0, 25.0))
    step = row.step(np.array([LEFT]))
    assert step.rescued[0] and step.driven[0] >= 1 and not step.failed[0]
    assert row.transition.after[0][scene.LANE] == 1


@pytest.mark.parametrize(("action", "given"), [(LEFT, IDLE), (RIGHT, RIGHT), (IDLE, IDLE)])
def test_the_co_driver_vetoes_a_lane_without_room(action, given):
    row = supervised("Co-driver", (0, -2.0, 25.0))
    step = row.step(np.array([action]))
    assert step.rescued[0] == (action == LEFT)
    assert row.transition.move.action[0] == given


def test_the_co_driver_brakes_where_the_student_does_not():
    row = supervised("Co-driver", (1, 12.0, 18.0))
    assert row.step(np.array([IDLE])).rescued[0]
    assert row.transition.move.action[0] == SLOWER
    assert not row.step(np.array([SLOWER])).rescued[0]


def test_a_rewind_takes_a_second_back_but_not_from_the_clock():
    row = supervised("Rewind", (1, 50.0, 20.0), speed=30.0)
    before = [TASK.read_state(row.envs[0])]
    while not (step := row.step(np.array([FASTER]))).rescued[0]:
        before.append(TASK.read_state(row.envs[0]))
    assert len(before) > scene.DECISIONS
    np.testing.assert_array_equal(TASK.read_state(row.envs[0]), before[-scene.DECISIONS])
    np.testing.assert_array_equal(row.observations[0], scene.seen(before[-scene.DECISIONS]))
    assert row.envs[0].unwrapped.steps == len(before)
    assert not step.terminated[0]


def test_what_was_put_back_goes_on_as_it_did(env):
    env.step(LEFT)
    saved = TASK.save(env)

    def ahead():
        return [TASK.read_state(env) for _ in range(15) if env.step(FASTER)]

    first = ahead()
    for _ in range(2):
        TASK.restore(env, saved)
        np.testing.assert_array_equal(ahead(), first)


def test_a_collision_does_not_touch_what_was_saved(env):
    arranged(env, (1, 6.5, 10.0), speed=30.0)
    kept = [(TASK.read_state(env), TASK.save(env))]
    while not env.step(FASTER)[2]:
        kept.append((TASK.read_state(env), TASK.save(env)))
    for state, saved in kept:
        TASK.restore(env, saved)
        np.testing.assert_array_equal(TASK.read_state(env), state)


def test_a_stop_ends_the_drive():
    row = supervised("Stop", (1, 15.0, 20.0), speed=30.0)
    step = row.step(np.array([FASTER]))
    assert step.terminated[0] and not step.failed[0] and outcome(step) == "rescue"


def test_a_veto_ends_the_drive_with_the_right_action_and_lets_students_brake_by_themselves():
    row = supervised("Veto", (1, 12.0, 18.0))
    assert not row.step(np.array([SLOWER])).terminated[0]
    step = row.step(np.array([FASTER]))
    assert step.terminated[0] and not step.failed[0] and outcome(step) == "rescue"
    assert row.transition.move.action[0] == SLOWER


def collisions(name, episodes=4):
    """Of a driver who speeds and changes lanes at random."""
    rng = np.random.default_rng(0)
    row = InducedCMDPs(TASK, TASK.intervention(name), [TASK.make_env()])
    failures = 0
    for seed in range(episodes):
        row.seed([seed])
        over = False
        while not over:
            step = row.step(np.array([rng.choice([LEFT, RIGHT, FASTER], p=[0.1, 0.1, 0.8])]))
            failures += step.failed[0]
            over = step.terminated[0] or step.truncated[0]
    return failures


def test_a_reckless_driver_collides_alone_and_not_with_help():
    assert collisions("none") >= 3
    assert [collisions(name) for name in TASK.intervention_names] == [0, 0, 0, 0, 0]


def test_without_highway_env_it_says_what_to_install(monkeypatch):
    monkeypatch.delattr(highway, "environment", raising=False)
    monkeypatch.setitem(sys.modules, "cisr.tasks.highway.environment", None)
    with pytest.raises(ConfigError, match=r"pip install 'cisr\[highway\]'"):
        TASK.make_env()


def test_it_can_be_filmed_without_a_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = TASK.make_env(render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape[2] == 3 and frame.std() > 0
    env.close()
