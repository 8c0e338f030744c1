"""The lander on Gymnasium's simulator: its state can be read and put back, and one step under Narrow and Wide."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import cisr  # noqa: F401 (registers the environments)
from cisr import MLP, ConfigError, get_task
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.cmdp.wrapper import InducedCMDP
from cisr.experiments.search import default_teacher, search_space
from cisr.tasks.lunar_lander.flight import ANGLE, HULL, LEFT_LEG, RIGHT_LEG, VX, moved, shaping
from cisr.testing import check_task

TASK = get_task("lunar-lander")
PAPERS = get_task("lunar-lander", student="two-layer")
NOTHING, MAIN = 0, 2
pytestmark = pytest.mark.usefixtures("box2d")


def started(seed=0, task=TASK):
    env = task.make_env()
    env.reset(seed=seed)
    return env


def flown(env, steps, action=NOTHING):
    for _ in range(steps):
        env.step(action)
    return env


def at(env, x, y, vx=0.0, vy=0.0):
    """The state of a steady lander there, moving as told."""
    state = TASK.read_state(env)
    placed = moved(state, np.float64(x - state[0]), np.float64(y - state[1]))
    placed[[2, 3]] = vx, vy
    for body in range(HULL, len(placed), 6):
        placed[[body + 3, body + 4]] = vx * 5, vy * 7.5
    return placed


def supervised(name, x, y, vx=0.0, vy=0.0, seed=0, task=TASK):
    """One environment under an intervention, its lander put somewhere."""
    row = InducedCMDPs(task, task.intervention(name), [task.make_env()])
    row.seed([seed])
    task.place(row.envs[0], at(row.envs[0], x, y, vx, vy))
    return row


def outcome(step):
    return TASK.outcomes[outcome_of(step.outcomes[0])]


def bodies(env):
    game = env.unwrapped
    return [game.lander, *game.legs]


# Reading and placing


def test_the_state_begins_with_what_gymnasium_shows():
    env = started()
    for _ in range(60):
        observation = env.step(MAIN)[0]
        np.testing.assert_allclose(TASK.read_state(env)[:HULL], observation, atol=1e-6)


def pilot(env, observation):
    """Gymnasium's own."""
    from gymnasium.envs.box2d.lunar_lander import heuristic  # cannot be imported without Box2D

    return heuristic(env.unwrapped, observation)


def landing(seed=0):
    """A lander with both feet on the ground, before it has come to rest."""
    env = TASK.make_env()
    observation, _ = env.reset(seed=seed)
    while not (observation[LEFT_LEG] and observation[RIGHT_LEG]):
        observation = env.step(pilot(env, observation))[0]
    return env


@pytest.mark.parametrize("fly", [lambda: started(), lambda: flown(started(), 45, MAIN), landing],
                         ids=["at the start", "in flight", "on its legs"])  # fmt: skip
def test_a_state_that_is_read_can_be_put_back(fly):
    env = fly()
    state = TASK.read_state(env)
    flown(env, 7, MAIN)
    assert not np.allclose(TASK.read_state(env), state, atol=1e-3)
    observation = TASK.place(env, state)
    np.testing.assert_allclose(TASK.read_state(env), state, rtol=0, atol=1e-6)
    np.testing.assert_allclose(observation, state[:HULL], atol=1e-6)


@pytest.mark.parametrize("fly", [lambda: flown(started(4), 45, MAIN), lambda: landing(4)], ids=["in flight", "on legs"])
def test_a_state_can_be_put_into_another_environment_of_the_same_seed(fly):
    state = TASK.read_state(fly())
    other = started(4)
    TASK.place(other, state)
    np.testing.assert_allclose(TASK.read_state(other), state, rtol=0, atol=1e-6)


def test_a_flight_goes_on_as_if_nothing_had_happened():
    env, other = flown(started(4), 40, MAIN), started(4)
    TASK.place(other, TASK.read_state(env))
    TASK.place(env, TASK.read_state(env))
    undisturbed = flown(started(4), 40, MAIN)
    for _ in range(30):
        expected = undisturbed.step(NOTHING)
        for replayed in (env.step(NOTHING), other.step(NOTHING)):
            np.testing.assert_allclose(replayed[0], expected[0], atol=1e-4)
            assert replayed[1] == pytest.approx(expected[1], abs=1e-2)


def test_the_first_reward_after_a_placement_is_that_of_gymnasium():
    env, other = flown(started(4), 40, MAIN), started(4)
    TASK.place(other, TASK.read_state(env))
    assert other.step(NOTHING)[1] == pytest.approx(env.step(NOTHING)[1], abs=1e-3)


# Rescues


@pytest.mark.parametrize(
    ("name", "x", "y", "vx", "vy"),
    [("Wide", 0.6, 0.2, 0.2, -0.2), ("Narrow", -0.4, 1.0, -0.3, 0.1), ("Wide", 0.1, 0.05, 0.0, -1.2)],
)
def test_a_rescue_leaves_hull_and_legs_at_the_stated_pose_without_speed(name, x, y, vx, vy):
    row, twin = supervised(name, x, y, vx, vy), started()
    TASK.place(twin, at(twin, x, y, vx, vy))
    twin.step(NOTHING)
    triggering = TASK.read_state(twin)
    step = row.step(np.array([NOTHING]))
    assert step.rescued[0] and not step.terminated[0]
    expected = TASK.intervention(name).reset.fn(triggering, None, None)
    for body, (px, py, *_) in zip(bodies(row.envs[0]), expected[HULL:].reshape(3, 6), strict=True):
        np.testing.assert_allclose((body.position.x, body.position.y), (px, py), atol=1e-6)
        assert (body.angle, *body.linearVelocity, body.angularVelocity) == (0, 0, 0, 0)
    np.testing.assert_allclose(row.observations[0], expected[:HULL], atol=1e-6)
    assert step.reward[0] == pytest.approx(shaping(expected) - shaping(triggering))


def test_a_crash_inside_the_trigger_set_ends_the_episode_as_a_failure_with_the_rescues_reward():
    row, twin = supervised("Narrow", 0.0, -0.05), started()
    TASK.place(twin, at(twin, 0.0, -0.05))
    paid = twin.step(NOTHING)[1]
    assert paid == -100
    step = row.step(np.array([NOTHING]))
    assert step.failed[0] and step.rescued[0] and step.terminated[0] and not step.truncated[0]
    assert outcome(step) == "crash"
    state = TASK.read_state(twin)
    after = TASK.intervention("Narrow").reset.fn(state, None, None)
    assert step.reward[0] == pytest.approx(shaping(after) - shaping(state))
    np.testing.assert_array_equal(step.costs[0], [1, 0, 1])


def test_without_interventions_a_crash_costs_a_hundred():
    step = supervised("none", 0.0, -0.05).step(np.array([NOTHING]))
    assert outcome(step) == "crash" and step.reward[0] == -100
    np.testing.assert_array_equal(step.costs[0], [1, 0, 0])


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("name", ["Narrow", "Wide", "none"])
def test_leaving_the_map_is_a_failure_of_its_own(name, side):
    step = supervised(name, side * 0.999, 1.0, vx=side * 1.0).step(np.array([NOTHING]))
    assert outcome(step) == "out of map"
    assert step.failed[0] and step.terminated[0]
    assert (step.reward[0] == -100) == (name == "none")


def test_coming_to_rest_is_success():
    env = InducedCMDP(TASK)
    observation, _ = env.reset(seed=0)
    ended = False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(pilot(env, observation))
        ended = terminated or truncated
    assert info["is_success"] and terminated and reward == 100 and not info["cost"]


@pytest.mark.parametrize(("name", "limit"), [("Narrow", 500), ("Wide", 500), ("none", 2_000)])
def test_the_time_limit_costs_a_hundred(name, limit):
    row = supervised(name, 0.0, 1.0)
    high = TASK.read_state(row.envs[0])
    for k in range(1, limit + 1):
        TASK.place(row.envs[0], high)
        step = row.step(np.array([NOTHING]))
        assert step.truncated[0] == (k == limit)
        assert (step.reward[0] == -100) == (k == limit)
    assert outcome(step) == "timeout" and not step.terminated[0] and not step.failed[0]


def test_rescues_are_summed_over_the_episode_each_kind_for_itself():
    assert TASK.constraints == ("failures", "off the pad", "over the pad")
    row = supervised("Wide", 0.0, 1.0)
    env = row.envs[0]
    beside, over = at(env, 0.6, 0.2), at(env, 0.0, 0.02, vy=-1.5)
    total = np.zeros(3)
    for where, rescues in ((beside, [0, 1, 0]), (beside, [0, 2, 0]), (over, [0, 2, 1]), (beside, [0, 3, 1])):
        TASK.place(env, where)
        step = row.step(np.array([NOTHING]))
        total += step.costs[0]
        np.testing.assert_array_equal(step.constraint_values[0], rescues)
        np.testing.assert_array_equal(total, rescues)


def test_no_intervention_has_as_many_constraints():
    step = supervised("none", 0.6, 0.2).step(np.array([NOTHING]))
    assert step.costs.shape == (1, 3) and not step.rescued[0]


# Noisy sensors

NOISY = get_task("lunar-lander", student="noisy")


def sensed(seed, steps=1_500):
    """What a noisy student sees less what is true, (steps, 8)."""
    env = NOISY.make_env()
    seen = [env.reset(seed=seed)[0] - NOISY.read_state(env)[:HULL]]
    high = NOISY.read_state(env)
    for _ in range(steps - 1):
        NOISY.place(env, high)
        seen.append(env.step(NOTHING)[0] - NOISY.read_state(env)[:HULL])
    return np.array(seen)


def test_noise_is_on_x_and_y_only_with_the_papers_variance():
    noise = sensed(0)
    np.testing.assert_allclose(noise[:, :2].var(axis=0), 1e-4, rtol=0.15)
    np.testing.assert_allclose(noise[:, :2].mean(axis=0), 0.0, atol=1e-3)
    assert abs(np.corrcoef(noise[:, :2].T)[0, 1]) < 0.1
    np.testing.assert_allclose(noise[:, VX:], 0.0, atol=1e-6)


def test_noise_follows_from_the_seed():
    np.testing.assert_array_equal(sensed(3, 20), sensed(3, 20))
    assert not np.allclose(sensed(3, 20), sensed(4, 20))


def test_noise_does_not_touch_the_flight():
    noisy, clear = started(2, NOISY), started(2)
    for _ in range(50):
        assert noisy.step(MAIN)[1] == clear.step(MAIN)[1]
    np.testing.assert_array_equal(NOISY.read_state(noisy), TASK.read_state(clear))


def test_triggers_judge_the_true_state_and_a_rescued_student_sees_noise():
    rows = [supervised("Wide", 0.5, 0.242, task=task) for task in (NOISY, TASK)]  # a hair above the funnel
    seen = []
    for _ in range(100):
        noisy, clear = (row.step(np.array([NOTHING])) for row in rows)
        assert noisy.rescued[0] == clear.rescued[0]
        np.testing.assert_allclose(NOISY.read_state(rows[0].envs[0]), TASK.read_state(rows[1].envs[0]))
        assert noisy.reward[0] == clear.reward[0]
        seen += [rows[0].observations[0, 0] - rows[1].observations[0, 0]] if noisy.rescued[0] else []
    assert len(seen) > 3 and np.all(np.abs(seen) > 0)


# Students, teacher, registration


def test_students_differ_in_layers_sensors_and_activation():
    names = ("two-layer", "one-layer", "noisy", "noisy-relu")
    kinds = {kind: get_task("lunar-lander", student=kind).training for kind in names}
    assert (
        kinds["two-layer"].student.network == kinds["noisy"].student.network == MLP(hidden=(20, 20), activation="tanh")
    )
    assert kinds["one-layer"].student.network == MLP(hidden=(20,), activation="tanh")
    assert kinds["noisy-relu"].student.network == MLP(hidden=(20, 20), activation="relu")
    bounds = {kind: (its.n_units, its.student.multiplier_bound) for kind, its in kinds.items()}
    assert bounds["two-layer"] == bounds["one-layer"] == (16, 120)
    assert bounds["noisy"] == bounds["noisy-relu"] == (21, 160)
    assert {its.student.steps_per_unit for its in kinds.values()} == {96_000}
    assert {(its.student.deterministic, its.student.n_candidates) for its in kinds.values()} == {(True, 1)}


def test_our_student_is_the_usual_one_and_has_the_papers_two_layers():
    ours, papers = TASK.training, PAPERS.training
    assert ours.student_kind == "explorer" and ours.n_units == papers.n_units
    assert (ours.student.network, ours.student.n_candidates) == (papers.student.network, 4)
    assert ours.student.deterministic and ours.student.clip_range_vf is None


def test_an_unknown_kind_of_student_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="no student 'three-layer': choose one of two-layer, one-layer, noisy"):
        get_task("lunar-lander", student="three-layer")


def test_the_papers_teacher_searches_one_switch_in_the_papers_ranges():
    return_1, violation_1, first, second = search_space(PAPERS).parameters
    assert ((return_1.low, return_1.high), (violation_1.low, violation_1.high)) == ((-200, 200), (0, 6))
    assert first.options == second.options == ("Narrow", "Wide")
    teaching = PAPERS.training.teaching
    assert (teaching.n_switches, teaching.n_initial, teaching.n_rounds, teaching.class_size) == (1, 4, 10, 10)
    priors = {"signal": (1, 0.2), "return": (20, 4), "violation": (1, 0.3), "first": (0.2, 0.2), "second": (0.2, 0.2)}
    assert teaching.hyperpriors == (*priors.values(), (0.01, 0.1))


def test_the_papers_teacher_begins_with_each_pair_of_interventions():
    proposed = default_teacher(PAPERS)(search_space(PAPERS), 0).ask(4)
    tried = [(p["intervention_1"], p["intervention_2"]) for p in proposed]
    assert tried == [(a, b) for a in ("Narrow", "Wide") for b in ("Narrow", "Wide")]
    assert all((p["return_1"], p["violation_1"]) == (0, 3) for p in proposed)


def test_gymnasium_makes_a_lander_under_an_intervention():
    env = gymnasium.make("cisr/LunarLander-v0", intervention="Narrow", student="noisy")
    env.reset(seed=1)
    sideways = 1
    assert "Narrow" in [env.step(sideways)[4]["intervention"] for _ in range(100)]
    env.close()


def test_a_tilted_lander_is_put_upright():
    row = supervised("Wide", 0.1, 0.02, vy=-0.9)
    tilted = TASK.read_state(row.envs[0])
    tilted[ANGLE] = tilted[HULL + 2] = 0.3
    TASK.place(row.envs[0], tilted)
    step = row.step(np.array([NOTHING]))
    assert step.rescued[0] and row.observations[0, ANGLE] == 0


def test_quick_students_are_the_papers_for_fewer_units():
    quick = get_task("lunar-lander", "quick", "one-layer").training
    assert quick.student == get_task("lunar-lander", student="one-layer").training.student
    assert quick.n_units < TASK.training.n_units


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gravity": -9.0}, "by the same actions, state["),
        ({"enable_wind": True}, "by the same actions, state["),
        ({"continuous": True}, "takes Categorical"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_lander_that_is_not_the_compiled_one_is_told_apart_from_it(options, says):
    task = replace(TASK, make_env=lambda **more: TASK.make_env(**options, **more))
    assert says in str([promise for promise in check_task(task) if promise.what == "the JAX environment"])
    assert not [promise for promise in check_task(TASK) if promise.what == "the JAX environment"]
