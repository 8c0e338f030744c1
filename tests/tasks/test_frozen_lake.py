"""The paper's Frozen Lake on Gymnasium's stock environment, checked against the map tile by tile."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.cmdp.wrapper import InducedCMDP
from cisr.core.intervention import Rewind, ToStart
from cisr.core.task import Move, place_tabular
from cisr.tasks import get_task
from cisr.tasks.frozen_lake import lake_task
from cisr.tasks.frozen_lake.lake import Lake

MAP = [
    "SFFFFFFFFF",
    "FFFFFFFFFF",
    "HFFFFFFFFF",
    "FFHFFFFFFF",
    "HFFFFHFFFF",
    "FFHFFFHFFF",
    "HFFFFHFFFF",
    "FFHFFFFFFF",
    "HFFFFFFFFF",
    "FFFGFFFFFF",
]
LETTERS = "".join(MAP)
START, GOAL = LETTERS.index("S"), LETTERS.index("G")
LEFT, DOWN, RIGHT, UP = range(4)
SHIFTS = {LEFT: (0, -1), DOWN: (1, 0), RIGHT: (0, 1), UP: (-1, 0)}
TRIGGER_DISTANCE = {"SR1": 1, "SR2": 2, "HR": 1}

TASK = get_task("frozen-lake")


def table():
    """The stock environment's own transitions: P[tile][action] = [(probability, tile, reward, ended), …]."""
    env = TASK.make_env()
    transitions = env.unwrapped.P
    env.close()
    return transitions


def moved(tile, action):
    row, column = divmod(tile, 10)
    down, right = SHIFTS[action]
    return min(max(row + down, 0), 9) * 10 + min(max(column + right, 0), 9)


def triggered(name):
    return TASK.intervention(name).triggered(np.arange(100)[:, None])


def test_the_map_is_the_authors():
    env = TASK.make_env()
    assert ["".join(letter.decode() for letter in row) for row in env.unwrapped.desc] == MAP
    env.close()


def test_a_move_goes_where_intended_in_eight_cases_of_ten_and_to_each_side_in_one():
    transitions = table()
    for tile in (t for t in range(100) if LETTERS[t] in "SF"):
        for action in range(4):
            expected = dict.fromkeys((moved(tile, a % 4) for a in (action - 1, action, action + 1)), 0.0)
            for probability, intended in ((0.1, action - 1), (0.8, action), (0.1, action + 1)):
                expected[moved(tile, intended % 4)] += probability
            actual = dict.fromkeys(expected, 0.0)
            for probability, landed, _, _ in transitions[tile][action]:
                actual[landed] += probability
            assert actual == pytest.approx(expected)


def test_the_goal_gives_6_a_lake_0_and_any_other_move_costs_a_hundredth():
    reward_on = {"G": 6.0, "H": 0.0, "F": -0.01, "S": -0.01}
    for tile, actions in table().items():
        for outcomes in actions.values():
            for _, landed, reward, ended in outcomes:
                if LETTERS[tile] in "SF":
                    assert reward == reward_on[LETTERS[landed]]
                    assert ended == (LETTERS[landed] in "GH")


def test_a_student_sees_the_map_in_shades_with_itself_in_white():
    env = TASK.make_env()
    image, _ = env.reset(seed=0)
    shades = {"F": 0.0, "G": 0.2, "H": 0.4, "S": 0.6}
    expected = np.array([[shades[letter] for letter in row] for row in MAP], np.float32)[..., None]
    expected[0, 0] = 1.0
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image, expected)
    assert env.observation_space.contains(image)
    placed = TASK.place(env, np.array([37]))
    expected[0, 0], expected[3, 7] = 0.6, 1.0
    np.testing.assert_array_equal(placed, expected)
    assert TASK.read_state(env).tolist() == [37]
    env.close()


def test_drawing_on_an_observation_does_not_draw_on_the_map():
    env = InducedCMDP(TASK, "none")
    first, _ = env.reset(seed=0)
    before = first.copy()
    first[...] = 7.0
    np.testing.assert_array_equal(env.reset(seed=0)[0], before)
    env.close()


@pytest.mark.parametrize(("name", "distance"), TRIGGER_DISTANCE.items())
def test_an_intervention_triggers_on_frozen_tiles_near_a_lake(name, distance):
    lakes = [divmod(tile, 10) for tile in range(100) if LETTERS[tile] == "H"]
    for tile in range(100):
        row, column = divmod(tile, 10)
        close = any(abs(row - r) + abs(column - c) <= distance for r, c in lakes)
        assert triggered(name)[tile] == (close and LETTERS[tile] == "F"), (name, tile)


@pytest.mark.parametrize("name", TRIGGER_DISTANCE)
def test_start_and_goal_never_trigger(name):
    assert not triggered(name)[START]
    assert not triggered(name)[GOAL]


def test_the_inner_zone_drawn_by_hand():
    drawn = """
    ..........
    x.........
    .xx.......
    xx.x.x....
    .xx.x.x...
    xx.x.x.x..
    .xx.x.x...
    xx.x.x....
    .xx.......
    x.........
    """
    assert "".join("x" if tile else "." for tile in triggered("SR1")) == "".join(drawn.split())


def test_resets_and_tolerances_are_the_papers():
    assert {i.name: (i.reset, i.tau, i.kappa) for i in TASK.interventions if i.name != "HA"} == {
        "SR1": (Rewind(1), 0.1, 0.0),
        "SR2": (Rewind(1), 0.1, 0.0),
        "HR": (ToStart(), 0.0, 0.0),
    }


def test_ha_lets_students_take_the_actions_that_can_never_end_in_a_lake():
    transitions, ha = table(), TASK.intervention("HA")
    assert (ha.reset.ends, ha.tau, ha.kappa) == (True, 0.0, 0.0)
    tiles = np.arange(100)[:, None]
    let_through = np.array([~ha.trigger(tiles, np.full(100, action)) for action in range(4)]).T  # (tile, action)
    instead = ha.reset.act(tiles, np.zeros(100, int))
    stands = {t for t in range(100) if let_through[t].any()}  # where a student can always go on
    assert START in stands and GOAL in stands and len(stands) > 60
    for tile in (t for t in stands if LETTERS[t] in "SF"):
        assert let_through[tile, instead[tile]]
        for action in range(4):
            landed = {t for p, t, _, _ in transitions[tile][action] if p > 0}
            assert let_through[tile, action] == (landed <= stands), (tile, action)


def test_the_papers_students_and_teachers_know_the_papers_interventions_alone():
    for scale, kind in (("paper", "cnn"), ("quick", "mlp")):
        assert get_task("frozen-lake", scale, kind).choices == ("SR1", "SR2", "HR")
    assert get_task("frozen-lake").choices == ("SR1", "SR2", "HR", "HA")


@pytest.mark.parametrize("name", TRIGGER_DISTANCE)
def test_proposition_2_no_single_move_leads_from_outside_the_trigger_set_into_a_lake(name):
    zone, transitions = triggered(name), table()
    outside = [tile for tile in range(100) if not zone[tile] and LETTERS[tile] in "SF"]
    assert len(outside) > 30
    landed = {t for tile in outside for action in range(4) for p, t, _, _ in transitions[tile][action] if p > 0}
    assert "H" not in {LETTERS[tile] for tile in landed}


@pytest.mark.parametrize(("name", "distance"), TRIGGER_DISTANCE.items())
def test_a_rescued_student_is_never_put_on_a_trigger_tile(name, distance):
    # Rewinding ends on a tile that was visited without a rescue, or on the start: both outside the zone.
    row = InducedCMDPs(TASK, TASK.intervention(name), [TASK.make_env() for _ in range(8)])
    rng = np.random.default_rng(distance)
    row.seed(list(range(8)))
    for _ in range(300):
        step = row.step(rng.integers(4, size=8))
        tiles = np.array([TASK.read_state(env)[0] for env in row.envs])
        assert not triggered(name)[tiles][~step.terminated].any()
        for k in np.flatnonzero(step.terminated | step.truncated):
            row.restart(k)
    row.close()


def test_the_time_is_up_after_201_steps():
    row = InducedCMDPs(TASK, TASK.intervention("SR2"), [TASK.make_env()])
    row.seed([0])
    steps = [row.step(np.array([UP])) for _ in range(201)]
    assert [bool(step.truncated[0]) for step in steps] == [False] * 200 + [True]
    assert not any(step.terminated[0] for step in steps)
    row.close()


def random_play(name, n_steps, seed, n_envs=100):
    """Steps, failures and rescues of uniformly random actions. Nobody looks at the images, so none is made."""
    task = replace(TASK, make_env=lambda: TASK.make_env().unwrapped, place=place_tabular)
    row = InducedCMDPs(task, task.intervention(name), [task.make_env() for _ in range(n_envs)])
    row.seed([seed * n_envs + k for k in range(n_envs)])
    actions = np.random.default_rng(seed).integers(4, size=(-(-n_steps // n_envs), n_envs))
    failures = rescues = 0
    for now in actions:
        step = row.step(now)
        failures += step.failed.sum()
        rescues += step.rescued.sum()
        for k in np.flatnonzero(step.terminated | step.truncated):
            row.restart(k)
    row.close()
    return actions.size, int(failures), int(rescues)


def test_a_million_random_steps_under_the_interventions_never_end_in_a_lake():
    played = {name: random_play(name, 250_000, seed) for seed, name in enumerate(TASK.intervention_names)}
    assert sum(steps for steps, _, _ in played.values()) >= 1_000_000
    assert {name: failures for name, (_, failures, _) in played.items()} == {"SR1": 0, "SR2": 0, "HR": 0, "HA": 0}
    for steps, _, rescues in played.values():
        assert rescues > steps / 100


def test_random_play_without_intervention_fails_often():
    _, failures, rescues = random_play("none", 20_000, seed=9)
    assert failures > 200
    assert rescues == 0


@pytest.mark.parametrize("x", [1, 2, 6])
def test_back_x_rewinds_x_steps_with_the_trigger_and_the_tolerances_of_sr1(x):
    back, sr1 = TASK.intervention(f"Back-{x}"), TASK.intervention("SR1")
    assert (back.name, back.reset, back.tau, back.kappa) == (f"Back-{x}", Rewind(x), sr1.tau, sr1.kappa)
    tiles = np.arange(100)[:, None]
    np.testing.assert_array_equal(back.triggered(tiles), sr1.triggered(tiles))


def test_triggers_and_predicates_are_array_code_inside_a_compiled_program_too():
    tiles = np.arange(100)[:, None]
    for name in TRIGGER_DISTANCE:
        np.testing.assert_array_equal(jax.jit(TASK.intervention(name).trigger)(jnp.asarray(tiles)), triggered(name))
    move = Move(state=jnp.asarray(tiles), reward=jnp.zeros(100), terminated=jnp.zeros(100, bool))
    np.testing.assert_array_equal(jax.jit(TASK.danger)(move), [letter == "H" for letter in LETTERS])
    np.testing.assert_array_equal(jax.jit(TASK.success)(move), [letter == "G" for letter in LETTERS])


def test_a_longer_horizon_is_a_longer_episode():
    task = lake_task(Lake(tuple(MAP)), horizon=250)
    row = InducedCMDPs(task, task.intervention("SR2"), [task.make_env()])
    row.seed([0])
    assert [bool(row.step(np.array([UP])).truncated[0]) for _ in range(250)] == [False] * 249 + [True]
    row.close()


def test_a_lake_of_ones_own_has_its_own_zones():
    task = lake_task(Lake(("SFF", "FHF", "FFG")))
    np.testing.assert_array_equal(
        task.intervention("SR1").trigger(np.arange(9)[:, None]).reshape(3, 3),
        [[False, True, False], [True, False, True], [False, True, False]],
    )


@pytest.mark.parametrize(("scale", "n_units"), [("paper", 11), ("quick", 11)])
def test_both_scales_are_the_same_lake(scale, n_units):
    task = get_task("frozen-lake", scale)
    assert (task.training.n_units, task.horizon, task.training.scale) == (n_units, 201, scale)
    assert task.intervention_names == ("SR1", "SR2", "HR", "HA")
    assert task.safe_evaluation == "HR"


def test_the_papers_student():
    config = get_task("frozen-lake", student="cnn").training.student
    assert (config.network.filters, config.network.kernel_size, config.network.hidden) == ((32, 64), 3, (32,))
    assert config.steps_per_unit == 2 * 9 * 512
    assert (config.n_envs, config.n_steps, config.n_minibatches, config.n_epochs) == (4, 128, 4, 9)
    assert (config.gamma, config.gae_lambda, config.learning_rate, config.ent_coef) == (0.99, 0.95, 1e-3, 0.05)
    assert (config.clip_range, config.clip_range_vf, config.vf_coef, config.max_grad_norm) == (0.2, 0.2, 0.25, 0.5)
    assert (config.multiplier_bound, config.multiplier_rate) == (0.5, 1.0)
    assert not config.bootstrap_time_limit
    assert (config.deterministic, config.n_candidates) == (False, 1)


@pytest.mark.parametrize(("scale", "kind"), [("paper", "cnn"), ("quick", "mlp")])
def test_our_student_is_the_papers_network_that_explores_more_and_is_the_usual_one(scale, kind):
    usual, ours, papers = (get_task("frozen-lake", scale, which).training for which in (None, "explorer", kind))
    assert usual.student_kind == "explorer" and usual.student == ours.student
    assert ours.student.network == papers.student.network
    assert ours.student.ent_coef > papers.student.ent_coef
    assert (ours.student.deterministic, ours.student.n_candidates) == (True, 4)
