"""Rescues that drive, rescues before the act, and environments that are put back by copies."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import tiny

from cisr import ConfigError, Drive, Intervention, Override, Place, Rewind, Task, TaskError, ToStart
from cisr.cmdp import finite
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.cmdp.preflight import check_state_functions
from cisr.core.moves import Move, standing
from cisr.saving import copies, lander, mujoco, saving_for, toy_text

LEFT, STAY, RIGHT = 0, 1, 2


class Corridor(gymnasium.Env):
    """Tiles 0 … 9; 9 ends the episode, and each step pays the tile's number."""

    def __init__(self, **options):
        self.observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.marks = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.marks = 2, []
        return self._seen(), {"tile": 2}

    def step(self, action):
        self.x = int(np.clip(self.x + action - 1, 0, 9))
        self.marks.append(self.np_random.random())
        return self._seen(), float(self.x), self.x == 9, False, {"tile": self.x}

    def _seen(self):
        return np.array([self.x], np.float32)


def corridor(reset, trigger=lambda s: s[..., 0] >= 5, *, horizon=50, danger=lambda move: move.state[..., 0] == 0, **of):
    rescue = Intervention(name="rescue", trigger=trigger, reset=reset, tau=0.1)
    return Task(
        name="corridor",
        make_env=Corridor,
        read_state=lambda env: np.array([env.unwrapped.x]),
        danger=danger,
        success=lambda move: move.terminated,
        interventions=(rescue,),
        horizon=horizon,
        **of,
    )


def play(task, *actions, n=1):
    """The last step, and where it left the environment."""
    cmdp = InducedCMDPs(task, task.interventions[0], [task.make_env() for _ in range(n)])
    cmdp.seed(range(n))
    for action in actions:
        step = cmdp.step(np.full(n, action))
    return step, cmdp


def to_the_left(state):
    return LEFT + 0 * state[..., 0]


def test_a_drive_steps_the_environment_until_no_trigger_fires():
    step, cmdp = play(corridor(Drive(to_the_left)), RIGHT, RIGHT, RIGHT)
    assert step.rescued.all() and step.driven == 1 and not step.terminated.any()
    assert cmdp.envs[0].x == 4 and cmdp.observations[0] == 4 and cmdp.transition.after == 4


def test_a_drive_goes_on_until_it_is_told_to_stop_and_no_longer_than_it_may():
    step, cmdp = play(corridor(Drive(to_the_left, until=lambda s: s[..., 0] == 2)), RIGHT, RIGHT, RIGHT)
    assert step.driven == 3 and cmdp.envs[0].x == 2
    step, cmdp = play(corridor(Drive(to_the_left, until=lambda s: s[..., 0] == 2, max_steps=2)), RIGHT, RIGHT, RIGHT)
    assert step.driven == 2 and cmdp.envs[0].x == 3


def test_the_reward_of_a_drive_is_that_of_the_students_move_alone():
    step, _ = play(corridor(Drive(to_the_left)), RIGHT, RIGHT, RIGHT)
    assert step.reward == 5.0


def test_a_drive_that_crashes_is_a_failure_in_that_very_step():
    step, cmdp = play(corridor(Drive(to_the_left, until=lambda s: s[..., 0] > 9)), RIGHT, RIGHT, RIGHT)
    assert step.failed.all() and step.terminated.all() and step.driven == 5 and cmdp.envs[0].x == 0
    assert step.outcomes[0].tolist() == [True, False, False, False]


def test_an_end_on_the_drive_is_terminal_and_no_success_of_the_students():
    right = Drive(lambda s: RIGHT + 0 * s[..., 0])
    step, _ = play(corridor(right), RIGHT, RIGHT, RIGHT)
    assert step.terminated.all() and not step.failed.any() and step.driven == 4
    assert step.outcomes[0].tolist() == [False, False, True, False]  # danger, success, rescue, timeout


def test_the_clock_counts_driven_steps_and_means_do_not():
    step, _ = play(corridor(Drive(to_the_left, until=lambda s: s[..., 0] > 9), horizon=5), RIGHT, RIGHT, RIGHT)
    assert step.truncated.all() and not step.terminated.any() and step.driven == 2
    step, _ = play(corridor(Drive(to_the_left)), RIGHT, RIGHT, RIGHT)
    assert step.constraint_values[0, 1] == pytest.approx(1 / 3 - 0.1)


def test_nobody_is_driven_when_the_time_is_up():
    step, _ = play(corridor(Drive(to_the_left), horizon=3), RIGHT, RIGHT, RIGHT)
    assert step.rescued.all() and step.truncated.all() and step.driven == 0


def at_four(state, action):
    return (state[..., 0] == 4) & (action == RIGHT)


def test_an_override_acts_in_the_students_place_and_counts_as_a_rescue():
    task = corridor(Override(lambda s, a: STAY + 0 * a), trigger=at_four)
    step, cmdp = play(task, RIGHT, RIGHT, RIGHT)
    assert step.rescued.all() and step.reward == 4.0 and cmdp.envs[0].x == 4
    assert cmdp.transition.move.action.tolist() == [STAY] and not step.terminated.any()
    assert step.constraint_values[0, 1] == pytest.approx(1 / 3 - 0.1)


def test_an_action_that_is_let_through_is_done():
    step, cmdp = play(corridor(Override(lambda s, a: STAY + 0 * a), trigger=at_four), RIGHT, RIGHT, LEFT)
    assert not step.rescued.any() and cmdp.envs[0].x == 3


def test_a_controller_that_answers_no_action_is_named():
    with pytest.raises(TaskError, match=r"The controller of 'rescue' of task 'corridor' answered float64 of shape"):
        check_state_functions(corridor(Drive(lambda s: 0.5 * s[..., 0])))


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_an_action_outside_of_the_space_is_named_before_the_environment_has_it(wrong):
    answers = rf"answered {wrong} for the state \[.\]: answer an action of Discrete\(3\) for each"
    with pytest.raises(TaskError, match=f"The controller of 'rescue' of task 'corridor' {answers}"):
        play(corridor(Drive(lambda s: wrong + 0 * s[..., 0])), RIGHT, RIGHT, RIGHT)
    with pytest.raises(TaskError, match=f"The act of 'rescue' of task 'corridor' {answers}"):
        play(corridor(Override(lambda s, a: wrong + 0 * a), trigger=at_four), RIGHT, RIGHT, RIGHT)


def test_actions_that_no_environment_is_given_may_be_any():
    beyond = lambda s: np.where(s[..., 0] == 5, LEFT, 99)  # noqa: E731 (nobody is driven from elsewhere)
    step, _ = play(corridor(Drive(beyond)), RIGHT, RIGHT, RIGHT, n=2)
    assert (step.driven == 1).all()
    check_state_functions(corridor(Drive(beyond)))


@pytest.mark.parametrize(
    ("wrong", "said"), [(-99.0, r"-99\.0"), (np.nan, "nan"), (np.inf, "inf"), (1.001, r"1\.001.*")]
)
def test_an_action_beyond_the_bounds_of_a_box_is_named(wrong, said):
    class Pushed(Corridor):
        def __init__(self, high=1.0, **options):
            super().__init__(**options)
            self.action_space = gymnasium.spaces.Box(-1, high, (1,), np.float32)

        def step(self, action):
            return super().step(1 + round(float(action[0])))

    pushing = corridor(Override(lambda s, a: wrong + 0 * a), trigger=lambda s, a: s[..., 0] == 4)
    cmdp = InducedCMDPs(pushing, pushing.interventions[0], [Pushed(np.inf if np.isinf(wrong) else 1.0)])
    cmdp.seed([0])
    for _ in range(2):
        cmdp.step(np.ones((1, 1), np.float32))
    with pytest.raises(TaskError, match=rf"The act of 'rescue' .* answered \[{said}\] for the state \[4\]: answer an"):
        cmdp.step(np.ones((1, 1), np.float32))


def doubled(answer):
    """As `answer`, of what is written over."""

    def function(first, *others):
        array = first
        while not isinstance(array, np.ndarray):  # of a transition its move, of a move its state
            array = array[0]
        array *= 2
        return answer(first, *others)

    return function


WRITING = {
    "trigger": {"trigger": doubled(lambda s: s[..., 0] >= 5), "reset": Rewind(1)},
    "danger": {"danger": doubled(lambda m: m.state[..., 0] == 0), "reset": Rewind(1)},
    "success": {"success": doubled(lambda m: m.terminated), "reset": Rewind(1)},
    "reward": {"reward": doubled(lambda t: t.move.reward), "reset": Rewind(1)},
    "reset": {"reset": Place(doubled(lambda s, history, u: 0 * s)), "place": lambda env, state: None},
    "act": {"reset": Override(doubled(lambda s, a: a)), "trigger": at_four},
    "controller": {"reset": Drive(doubled(to_the_left))},
    "until": {"reset": Drive(to_the_left, until=doubled(lambda s: s[..., 0] < 5))},
}


@pytest.mark.parametrize("what", WRITING)
def test_a_function_that_writes_into_what_it_is_shown_is_told_so(what):
    task = replace(
        corridor(Rewind(1)), **{k: v for k, v in WRITING[what].items() if k in ("danger", "success", "reward")}
    )
    changes = {k: v for k, v in WRITING[what].items() if k in ("trigger", "reset")}
    task = replace(task, place=WRITING[what].get("place"), interventions=(replace(task.interventions[0], **changes),))
    with pytest.raises(TaskError, match=f"The {what} .*it must leave what it is shown as it was, and write to a copy"):
        play(task, RIGHT, RIGHT, RIGHT)


def test_what_a_function_writes_into_a_models_states_stays_with_it():
    model = finite.model_of(tiny.task)
    spoilt = doubled(lambda s, *others: s[..., 0] > 20)
    act, controller = (doubled(lambda s, *a: 0 * s[..., 0]) for _ in range(2))
    task = replace(tiny.task, danger=doubled(lambda m: m.terminated), success=doubled(lambda m: m.terminated))
    for reset in (Rewind(1), Place(doubled(lambda s, h, u: 0 * s)), Drive(controller, until=spoilt), Override(act)):
        before = model.states.copy()
        finite.induce(finite.judge(task, model), Intervention(name="i", trigger=spoilt, reset=reset, tau=0.1))
        np.testing.assert_array_equal(model.states, before)


def test_a_rewind_needs_no_place_and_luck_goes_on():
    step, cmdp = play(corridor(Rewind(2)), RIGHT, RIGHT)
    (env,) = cmdp.envs
    before = list(env.marks)
    step = cmdp.step(np.array([RIGHT]))
    assert step.rescued.all() and env.x == 3 and env.marks == before[:1]  # all of it is back
    assert env is cmdp.envs[0] and cmdp.observations[0] == 3
    cmdp.step(np.array([STAY]))
    assert env.marks[1] != before[1]  # and random numbers are new ones


def test_a_place_without_a_way_from_numbers_to_a_state_is_refused():
    with pytest.raises(ConfigError, match=r"is a Place, and the task has no way from numbers to a state"):
        corridor(Place(lambda state, history, u: state))


def test_save_without_restore_is_refused():
    with pytest.raises(ConfigError, match=r"has a save and no restore: give both, or neither"):
        corridor(Rewind(1), save=lambda env: None)


def test_the_tasks_own_save_and_restore_are_used():
    kept = []

    def save(env):
        kept.append(env.unwrapped.x)
        return env.unwrapped.x

    def restore(env, saved):
        env.unwrapped.x = saved
        return np.array([saved], np.float32)

    _, cmdp = play(corridor(Rewind(1), save=save, restore=restore), RIGHT, RIGHT, RIGHT)
    assert cmdp.envs[0].x == 4 and kept == [2, 3, 4]


def test_a_restore_that_does_nothing_is_told_before_anybody_is_trained():
    idle = {"save": lambda env: None, "restore": lambda env, saved: np.zeros(1, np.float32)}
    with pytest.raises(TaskError, match=r"its restore, asked to put the environment back .* left it where it was"):
        check_state_functions(corridor(Rewind(1), **idle))


@pytest.mark.parametrize("reset", [Drive(to_the_left), Place(lambda state, history, u: state)])
def test_nothing_is_saved_where_no_rewind_needs_it(reset):
    def save(env):
        raise AssertionError("nobody asked for this")

    place = lambda env, state: np.array([state[0]], np.float32)  # noqa: E731
    play(corridor(reset, save=save, restore=lambda env, saved: None, place=place), RIGHT)


def test_copies_that_no_rescue_can_need_are_dropped():
    _, cmdp = play(corridor(Rewind(1), trigger=lambda s: s[..., 0] > 9), *[STAY] * 20)
    assert len(cmdp._memory._saved[0]) == 1
    _, cmdp = play(corridor(Rewind(3), trigger=lambda s: s[..., 0] > 9, horizon=22), *[STAY] * 20)
    assert len(cmdp._memory._saved[0]) == 1 + 2 * 2


def test_dangers_may_ask_for_actions_and_infos():
    task = corridor(Rewind(1), danger=lambda move: (move.info["tile"] == 4) & (move.action == RIGHT))
    step, _ = play(task, RIGHT, RIGHT, n=2)
    assert step.failed.all()
    with pytest.raises(TaskError, match=r"`move.info` has no 'speed': the environment told tile"):
        play(corridor(Rewind(1), danger=lambda move: move.info["speed"] > 1), RIGHT)


def test_dangers_may_ask_for_what_was_seen():
    step, _ = play(corridor(Rewind(1), danger=lambda move: move.observation[..., 0] == 4), RIGHT, RIGHT, n=2)
    assert step.failed.all()


def test_what_is_not_known_of_a_move_is_an_error_and_not_a_zero():
    with pytest.raises(TaskError, match=r"`move.action` is not known here"):
        _ = standing(np.zeros((2, 1))).action == 0
    with pytest.raises(TaskError, match=r"`move.info` is not known here"):
        Move(np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool)).info["tile"]


def walked(env, n=6):
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(n):
        seen = env.step(env.action_space.sample())[0]
    return seen


@pytest.mark.parametrize(
    ("make", "saving"),
    [
        (lambda: gymnasium.make("Taxi-v4"), toy_text),
        (lambda: gymnasium.make("Acrobot-v1"), copies),
        (lambda: gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 4), copies),
        (lambda: gymnasium.wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1")), copies),
        (lambda: gymnasium.make("HalfCheetah-v5"), mujoco),
        (lambda: gymnasium.wrappers.FrameStackObservation(gymnasium.make("Ant-v5"), 2), mujoco),
        (lambda: gymnasium.make("LunarLander-v3"), lander),
    ],
)
def test_an_environment_goes_on_as_it_did_after_it_was_put_back(make, saving):
    try:
        env = make()
    except (ImportError, gymnasium.error.DependencyNotInstalled):
        pytest.skip("its simulator is not installed")
    assert saving_for(env) is saving
    walked(env)
    saved = saving.save(env)
    actions = [env.action_space.sample() for _ in range(3)]
    first = [env.step(action) for action in actions]
    for _ in range(2):
        saving.restore(env, saved)
        again = [env.step(action) for action in actions]
        for one, other in zip(first, again, strict=True):
            np.testing.assert_allclose(one[0], other[0], rtol=1e-4, atol=0.02 if saving is lander else 1e-6)
            assert one[2] == other[2]


def test_the_counter_of_a_time_limit_is_not_put_back():
    env = gymnasium.make("CartPole-v1", max_episode_steps=5)
    env.reset(seed=0)
    saved = copies.save(env)
    ends = []
    for _ in range(5):
        ends.append(env.step(0)[3])
        copies.restore(env, saved)
    assert ends == [False] * 4 + [True]


class Tally(gymnasium.Wrapper):
    """Counts the steps of an episode and shows the count."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 99, (2,), np.float32)

    def reset(self, **options):
        self.steps = 0
        seen, info = self.env.reset(**options)
        return self._with_count(seen), info

    def step(self, action):
        self.steps += 1
        seen, *rest = self.env.step(action)
        return self._with_count(seen), *rest

    def _with_count(self, seen):
        return np.append(seen, np.float32(self.steps))


def test_a_rewind_puts_wrappers_back_and_shows_what_was_seen_through_them():
    def make(**options):
        return gymnasium.wrappers.FrameStackObservation(Tally(Corridor()), 3)

    task = replace(corridor(Rewind(2)), make_env=make)
    cmdp = InducedCMDPs(task, task.interventions[0], [make()])
    cmdp.seed([0])
    seen = []
    for _ in range(3):  # 3, 4, and 5 is too far: back to 3
        step = cmdp.step(np.array([RIGHT]))
        seen.append(cmdp.observations[0])
    assert step.rescued[0]
    np.testing.assert_array_equal(seen[2], seen[0])
    cmdp.step(np.array([STAY]))
    np.testing.assert_array_equal(cmdp.observations[0], [[2, 0], [3, 1], [3, 2]])  # nothing of the steps undone


def test_getting_to_the_horizon_can_be_a_success_and_no_rescue_makes_it_one():
    def ends(reset, *actions, trigger=lambda s: s[..., 0] >= 5):
        task = replace(corridor(reset, trigger, horizon=4), success=lambda move: ~move.terminated)
        cmdp = InducedCMDPs(task, task.interventions[0], [task.make_env()])
        cmdp.seed([0])
        steps = [cmdp.step(np.array([action])) for action in actions]
        assert not any(step.outcomes[0].any() for step in steps[:-1])
        return task.outcomes[outcome_of(steps[-1].outcomes[0])]

    assert ends(Rewind(), STAY, STAY, STAY, STAY) == "success"
    assert ends(Rewind(), RIGHT, RIGHT, RIGHT, STAY) == "success"  # by a student that was put back on its way
    assert ends(ToStart(), RIGHT, RIGHT, RIGHT) == "rescue"
    assert ends(Drive(lambda s: np.full(s.shape[:-1], STAY), max_steps=9), RIGHT, RIGHT, RIGHT) == "timeout"
    assert ends(Rewind(), LEFT, LEFT) == "failure"
    assert ends(Override(lambda s, a: a, ends=True), STAY, trigger=lambda s, a: a == STAY) == "rescue"
