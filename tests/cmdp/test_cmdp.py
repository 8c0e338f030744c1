"""The intervention-induced CMDP: what one step does, in Gymnasium's words.

Most tests walk a corridor of tiles 0, 1, 2, … in which action 1 goes right and action 0 left, without any chance.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import ClassVar

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cisr  # noqa: F401 (registers the environments)
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.cmdp.wrapper import InducedCMDP
from cisr.core.errors import ConfigError, TaskError
from cisr.core.intervention import NONE, Intervention, Place, Rewind, ToStart
from cisr.core.task import Task

LEFT, RIGHT = 0, 1
END = 9


class Corridor(gymnasium.Env):
    """Ten tiles in a row. Tile 9 ends the episode; every move gives −0.01, the last one 1."""

    metadata: ClassVar = {"render_modes": []}
    observation_space = gymnasium.spaces.Discrete(END + 1)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.s = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = self.start
        return self.s, {}

    def step(self, action):
        self.s = min(max(self.s + (1 if action == RIGHT else -1), 0), END)
        ended = self.s == END
        return self.s, 1.0 if ended else -0.01, ended, False, {}


def at_least(tile):
    return lambda state: state[..., 0] >= tile


def corridor(trigger=None, reset=None, start=0, horizon=100, tau=0.0, form="mean", danger_at=END):
    interventions = ()
    if trigger is not None:
        interventions = (Intervention(name="help", trigger=trigger, reset=reset, tau=tau),)
    return Task(
        name="corridor",
        make_env=lambda: Corridor(start),
        danger=lambda move: move.state[..., 0] == danger_at,
        success=lambda move: (move.state[..., 0] == END) & (danger_at != END),
        interventions=interventions,
        horizon=horizon,
        constraint_form=form,
    )


def walk(task, actions, intervention="help", seed=0):
    """The steps that a student takes in M_i, each as (observation, reward, terminated, truncated, info)."""
    env = InducedCMDP(task, intervention)
    env.reset(seed=seed)
    return [env.step(action) for action in actions]


def tiles(steps):
    return [step[0] for step in steps]


# Gymnasium's conventions


def make(intervention):
    return gymnasium.make("cisr/FrozenLake-v0", intervention=intervention)


@pytest.mark.parametrize("intervention", ["none", "SR1", "SR2", "HR", "Back-3"])
def test_gymnasiums_own_checker_finds_no_fault(intervention, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # it also opens a window
    env = make(intervention)
    with warnings.catch_warnings():
        # M_i wraps the user's environment by design, and the checker remarks on any wrapper.
        warnings.filterwarnings("ignore", r".*is different from the unwrapped version", UserWarning)
        check_env(env)
    env.close()


@pytest.mark.parametrize("intervention", ["none", "SR1", "SR2", "HR"])
def test_every_step_tells_cost_costs_intervention_and_success(intervention):
    env = make(intervention)
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(300):
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert isinstance(reward, float)
        assert isinstance(terminated, bool)
        assert isinstance(truncated, bool)
        assert isinstance(info["cost"], float)
        assert isinstance(info["is_success"], bool)
        assert list(info["costs"]) == list(info["constraint_increments"]) == ["failures", "rescues"]
        assert info["intervention"] in (None, intervention)
        if terminated or truncated:
            env.reset()


def test_an_unknown_intervention_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="no intervention 'SR9': choose one of help, none"):
        InducedCMDP(corridor(at_least(3), ToStart()), "SR9")


def test_the_same_seed_gives_the_same_walk_over_the_slippery_lake():
    def walked(seed):
        env = make("SR1")
        first = env.reset(seed=seed)[0]
        return [first, *(env.step(action)[0] for action in [1, 2, 1, 2, 2, 1, 2, 1] * 5)]

    np.testing.assert_array_equal(walked(5), walked(5))
    assert not np.array_equal(walked(5), walked(6))


# A rescue is an ordinary transition


def test_a_rescue_by_rewind_is_an_ordinary_transition_to_the_last_non_trigger_state():
    observation, reward, terminated, truncated, info = walk(corridor(at_least(3), Rewind()), [RIGHT] * 3)[-1]
    assert observation == 2
    assert reward == -0.01
    assert not terminated
    assert not truncated
    assert info["intervention"] == "help"
    assert info["cost"] == 0.0


def test_the_student_really_stands_where_it_was_put():
    steps = walk(corridor(at_least(3), Rewind()), [RIGHT, RIGHT, RIGHT, LEFT])
    assert tiles(steps) == [1, 2, 2, 1]


def test_the_clock_runs_on_through_rescues():
    steps = walk(corridor(at_least(1), Rewind(), horizon=5), [RIGHT] * 5)
    assert [step[3] for step in steps] == [False] * 4 + [True]
    assert tiles(steps) == [0] * 5


@pytest.mark.parametrize(
    ("n", "back_to"),
    [
        (1, [1, 2, 3, 3, 3, 3, 3, 3]),
        # The walk 0 1 2 3 ends in a rescue: two steps back from tile 4 is tile 2, and the history is now 0 1 2.
        (2, [1, 2, 3, 2, 3, 2, 3, 2]),
        (3, [1, 2, 3, 1, 2, 3, 1, 2]),
        (4, [1, 2, 3, 0, 1, 2, 3, 0]),
        # Past the start ends at the start.
        (9, [1, 2, 3, 0, 1, 2, 3, 0]),
    ],
)
def test_rewinding_n_steps_while_marching_into_the_trigger(n, back_to):
    steps = walk(corridor(at_least(4), Rewind(n)), [RIGHT] * 8)
    assert tiles(steps) == back_to
    assert [step[4]["intervention"] == "help" for step in steps[3:5]] == [True, n == 1]


def test_after_a_rescue_history_ends_at_the_state_gone_back_to():
    # 0 1 2 3 | 4 → back 3 to 1 | then 0 1 2 3 4: history is 0 1 0 1 2 3, three back from tile 4 is the later 1.
    steps = walk(corridor(at_least(4), Rewind(3)), [RIGHT] * 4 + [LEFT] + [RIGHT] * 4 + [LEFT, LEFT])
    assert tiles(steps) == [1, 2, 3, 1, 0, 1, 2, 3, 1, 0, 0]


def test_steps_are_counted_along_the_walk_not_along_the_corridor():
    # The walk 0 1 0 1 2 and then 3: three steps ago, counted from 3, the student stood on tile 0 for the second time.
    steps = walk(corridor(at_least(3), Rewind(3)), [RIGHT, LEFT, RIGHT, RIGHT, RIGHT])
    assert tiles(steps) == [1, 0, 1, 2, 0]


def test_a_new_episode_has_no_history():
    env = InducedCMDP(corridor(at_least(3), Rewind(2), start=1), "help")
    env.reset(seed=0)
    for action in [LEFT, RIGHT, RIGHT]:
        env.step(action)
    env.reset()
    assert [env.step(RIGHT)[0], env.step(RIGHT)[0]] == [2, 1]
    env.reset()
    assert env.step(LEFT)[0] == 0


class Drift(Corridor):
    """Goes right by 0.4 whatever the student does; starts at a whole number."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,))

    def step(self, action):
        self.s = self.s + 0.4
        return np.array([self.s], np.float32), 0.0, False, False, {"speed": 0.4}

    def reset(self, *, seed=None, options=None):
        self.s = 0
        return np.zeros(1, np.float32), {"options": options}


def drift():
    def place(env, state):
        env.s = float(state[0])
        return np.array(state, np.float32)

    return Task(
        name="drift",
        make_env=Drift,
        danger=lambda move: move.state[..., 0] > 5,
        success=lambda move: move.state[..., 0] > 9,
        interventions=(Intervention(name="help", trigger=lambda s: s[..., 0] > 1, reset=Rewind(), tau=0.0),),
        horizon=20,
        place=place,
    )


def test_a_state_that_was_a_whole_number_at_the_start_is_remembered_with_its_fractions():
    np.testing.assert_allclose(tiles(walk(drift(), [RIGHT] * 4)), [[0.4], [0.8], [0.8], [0.8]], rtol=1e-6)


def test_what_the_environment_itself_tells_is_passed_on():
    env = InducedCMDP(drift(), "help")
    assert env.reset(seed=1, options={"wind": 3})[1] == {"options": {"wind": 3}}
    assert env.step(RIGHT)[4]["speed"] == 0.4


def test_a_reset_resets_once():
    env = InducedCMDP(corridor(at_least(3), ToStart()), "help")
    resets = []
    original = env.unwrapped.reset
    env.unwrapped.reset = lambda **given: resets.append(given) or original(**given)
    env.reset(seed=4, options={"wind": 3})
    assert resets == [{"seed": 4, "options": {"wind": 3}}]


# Ends


def test_to_start_ends_the_episode_as_terminal_and_not_as_truncated():
    _, reward, terminated, truncated, info = walk(corridor(at_least(3), ToStart()), [RIGHT] * 3)[-1]
    assert (terminated, truncated) == (True, False)
    assert info["intervention"] == "help"
    assert reward == -0.01


def test_to_start_at_the_time_limit_is_terminal_and_not_truncated():
    steps = walk(corridor(at_least(3), ToStart(), horizon=3), [RIGHT] * 3)
    assert [(step[2], step[3]) for step in steps] == [(False, False), (False, False), (True, False)]


def test_the_time_limit_truncates_and_does_not_terminate():
    steps = walk(corridor(horizon=4), [LEFT] * 4, intervention="none")
    assert [(step[2], step[3]) for step in steps] == [(False, False)] * 3 + [(False, True)]


def test_an_end_at_the_time_limit_is_terminal_alone():
    steps = walk(corridor(start=7, horizon=2), [RIGHT] * 2, intervention="none")
    assert (steps[-1][2], steps[-1][3]) == (True, False)


def test_a_limit_of_the_environments_own_truncates_too():
    task = corridor()
    limited = Task(
        name="limited",
        make_env=lambda: gymnasium.wrappers.TimeLimit(Corridor(), 3),
        danger=task.danger,
        success=task.success,
        interventions=(),
        horizon=100,
    )
    steps = walk(limited, [LEFT] * 3, intervention="none")
    assert [(step[2], step[3]) for step in steps] == [(False, False)] * 2 + [(False, True)]


@pytest.mark.parametrize("reset", [Rewind(), ToStart(), Place(lambda state, history, u: history[-1])])
def test_a_failure_inside_the_trigger_set_counts_as_failure_and_rescue_and_ends(reset):
    # Tile 9 is danger, trigger and end at once: nobody is left to be placed.
    steps = walk(corridor(at_least(9), reset, start=8), [RIGHT])
    observation, reward, terminated, truncated, info = steps[0]
    assert (terminated, truncated) == (True, False)
    assert info["cost"] == 1.0
    assert info["intervention"] == "help"
    assert observation == END
    assert reward == 1.0


def test_a_failure_ends_the_episode_even_where_the_environment_would_go_on():
    observation, _, terminated, truncated, info = walk(corridor(danger_at=3), [RIGHT] * 3, intervention="none")[-1]
    assert (observation, terminated, truncated) == (3, True, False)
    assert (info["cost"], info["intervention"]) == (1.0, None)
    observation, _, terminated, _, info = walk(corridor(at_least(3), Rewind(), danger_at=3), [RIGHT] * 3)[-1]
    assert (observation, terminated) == (3, True)
    assert (info["cost"], info["intervention"]) == (1.0, "help")


def test_an_episode_that_starts_in_danger_fails_in_its_first_step():
    env = InducedCMDP(corridor(start=4, danger_at=4))
    for _ in range(2):
        env.reset()
        _, _, terminated, truncated, info = env.step(RIGHT)
        assert (terminated, truncated, info["cost"]) == (True, False, 1.0)


def test_success_is_told_when_it_happens():
    steps = walk(corridor(start=7, danger_at=-1), [RIGHT, RIGHT], intervention="none")
    assert [step[4]["is_success"] for step in steps] == [False, True]


# Costs


def test_costs_are_the_increments_of_rescues_per_step_beyond_the_tolerance():
    # Rescued in steps 3 and 4 of 4, tolerance 0.1: v = −0.1, −0.1, 1/3 − 0.1, 2/4 − 0.1.
    steps = walk(corridor(at_least(3), Rewind(), tau=0.1), [RIGHT] * 4)
    np.testing.assert_allclose(
        [s[4]["constraint_increments"]["rescues"] for s in steps], [-0.1, 0.0, 1 / 3, 1 / 2 - 1 / 3], atol=1e-12
    )


def test_costs_are_told_by_name_as_they_happened_whatever_the_tolerance():
    steps = walk(corridor(at_least(3), Rewind(), danger_at=3, tau=0.1), [RIGHT] * 3)
    assert [step[4]["costs"] for step in steps[:2]] == [{"failures": 0.0, "rescues": 0.0}] * 2
    assert steps[2][4]["costs"] == {"failures": 1.0, "rescues": 1.0}
    assert steps[2][4]["cost"] == 1.0


def test_triggers_with_names_are_costs_of_their_own():
    task = corridor(at_least(3), Rewind(), danger_at=99)
    (help_,) = task.interventions
    both = dataclasses.replace(help_, trigger={"far": at_least(3), "very far": at_least(4)})
    steps = walk(dataclasses.replace(task, interventions=(both,)), [RIGHT] * 3)
    assert steps[2][4]["costs"] == {"failures": 0.0, "far": 1.0, "very far": 0.0}


def test_a_learner_that_knows_one_cost_is_told_failures_or_rescues_too():
    task = corridor(at_least(3), Rewind(), danger_at=3)
    for cost, wanted in (("failures", [0.0, 0.0, 1.0]), ("failures and rescues", [0.0, 0.0, 2.0])):
        env = InducedCMDP(task, "help", cost=cost)
        env.reset(seed=0)
        assert [env.step(RIGHT)[4]["cost"] for _ in range(3)] == wanted
    with pytest.raises(ConfigError, match="give 'failures' or 'failures and rescues'"):
        InducedCMDP(task, "help", cost="rescues")


def test_costs_start_afresh_with_every_episode():
    env = InducedCMDP(corridor(at_least(2), Rewind(), tau=0.25, form="sum"), "help")
    for _ in range(2):
        env.reset(seed=0)
        costs = [env.step(RIGHT)[4]["constraint_increments"]["rescues"] for _ in range(3)]
        np.testing.assert_allclose(costs, [-0.25, 1.0, 1.0])


def test_without_intervention_the_rescue_constraint_stays_at_zero():
    steps = walk(corridor(start=8), [LEFT, RIGHT, RIGHT], intervention=NONE)
    np.testing.assert_array_equal([step[4]["constraint_increments"]["rescues"] for step in steps], 0.0)
    assert [step[4]["cost"] for step in steps] == [0.0, 0.0, 1.0]


# Place


def test_place_is_given_the_triggering_state_the_history_newest_last_and_uniforms():
    calls = []

    def fn(state, history, u):
        calls.append((state.tolist(), history.tolist(), u.shape))
        return history[0]

    steps = walk(corridor(at_least(4), Place(fn, n_history=3, n_uniforms=2)), [RIGHT] * 4)
    assert calls == [([4], [[1], [2], [3]], (2,))]
    assert tiles(steps) == [1, 2, 3, 1]
    assert not steps[-1][2]


def test_a_history_that_is_too_short_is_padded_with_the_first_state():
    seen = []

    def fn(state, history, u):
        seen.append(history[:, 0].tolist())
        return history[-1]

    walk(corridor(at_least(2), Place(fn, n_history=4)), [RIGHT] * 2)
    assert seen == [[0, 0, 0, 1]]


def test_where_a_student_was_placed_is_part_of_its_history():
    seen = []

    def fn(state, history, u):
        seen.append(history[:, 0].tolist())
        return np.array([1])

    walk(corridor(at_least(4), Place(fn, n_history=2)), [RIGHT] * 7)
    assert seen == [[2, 3], [2, 3]]
    seen.clear()
    walk(corridor(at_least(2), Place(fn, n_history=3)), [RIGHT] * 3)
    assert seen == [[0, 0, 1], [0, 1, 1]]


def test_the_uniforms_of_a_random_reset_follow_from_the_seed():
    def fn(state, history, u):
        assert 0.0 <= u[0] < 1.0
        return np.array([int(4 * u[0])])

    task = corridor(at_least(4), Place(fn, n_uniforms=1))
    walks = [tiles(walk(task, [RIGHT] * 60, seed=seed)) for seed in (1, 1, 2)]
    assert walks[0] == walks[1] != walks[2]
    assert set(walks[0]) == {0, 1, 2, 3}


def test_environments_side_by_side_draw_uniforms_of_their_own():
    drawn = []
    place = Place(lambda state, history, u: (drawn.append(float(u[0])), history[-1])[1], n_uniforms=1)
    task = corridor(at_least(1), place)
    row = InducedCMDPs(task, task.intervention("help"), [task.make_env() for _ in range(3)])
    row.seed([4, 5, 4])
    row.step(np.full(3, RIGHT))
    assert drawn[0] == drawn[2] != drawn[1]


# Broken contracts


@pytest.mark.parametrize(
    ("trigger", "answered"),
    [
        (lambda state: state >= 3, r"bool of shape \(1, 1\)"),
        (lambda state: bool(state[0, 0] >= 3), r"bool of shape \(\)"),
        (lambda state: state[..., 0], r"int64 of shape \(1,\)"),
    ],
)
def test_a_trigger_that_answers_something_else_than_a_bool_for_each_state_is_named(trigger, answered):
    with pytest.raises(TaskError, match=rf"trigger 'rescues' of 'help' of task 'corridor' answered {answered}"):
        walk(corridor(trigger, Rewind()), [RIGHT])


def test_a_danger_predicate_of_the_wrong_shape_is_named():
    task = corridor()
    broken = Task(
        name="broken",
        make_env=task.make_env,
        danger=lambda move: move.state == END,
        success=task.success,
        interventions=(),
        horizon=10,
    )
    with pytest.raises(TaskError, match="The danger 'failure' of task 'broken'"):
        walk(broken, [RIGHT], intervention="none")


def test_a_reset_that_answers_no_state_is_named():
    with pytest.raises(TaskError, match=r"reset of 'help' answered shape \(2,\) for a state of shape \(1,\)"):
        walk(corridor(at_least(1), Place(lambda state, history, u: np.zeros(2))), [RIGHT])


def test_a_trigger_written_for_jax_serves_too():
    steps = walk(corridor(lambda state: jnp.asarray(state)[..., 0] >= 2, Rewind()), [RIGHT] * 3)
    assert tiles(steps) == [1, 1, 1]


# Many at once


def test_environments_side_by_side_do_what_each_would_do_alone():
    task = corridor(at_least(4), Rewind(2), tau=0.1)
    actions = np.random.default_rng(0).integers(2, size=(40, 3))
    row = InducedCMDPs(task, task.intervention("help"), [task.make_env() for _ in range(3)])
    row.seed([0, 1, 2])
    together = [(row.step(now), row.observations) for now in actions]
    for k in range(3):
        alone = walk(task, actions[:, k], seed=k)
        assert tiles(alone) == [seen[k] for _, seen in together]
        np.testing.assert_array_equal(
            [list(s[4]["constraint_increments"].values()) for s in alone], [step.costs[k] for step, _ in together]
        )


def test_a_restart_of_one_environment_leaves_the_others_where_they_are():
    task = corridor(at_least(4), Rewind(3), form="sum")
    row = InducedCMDPs(task, task.intervention("help"), [task.make_env() for _ in range(2)])
    row.seed([0, 1])
    for _ in range(3):
        row.step(np.full(2, RIGHT))
    row.restart(0)
    step = row.step(np.full(2, RIGHT))
    assert row.observations.tolist() == [1, 1]
    assert step.rescued.tolist() == [False, True]
    np.testing.assert_array_equal(step.constraint_values, [[0, 0], [0, 1]])
