"""Checks of a user's task: promises that are kept are not accused, and broken ones are named with a state."""

import logging
import re
import runpy
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from classics import cart_pole, mountain_car, taxi
from holes import World, brink, place, read, sled

from cisr import Intervention, Place, Rewind, ToStart, get_task
from cisr.auditing.report import quick_audit
from cisr.core.errors import ConfigError
from cisr.testing import check_task

EXAMPLE = Path(__file__).parents[2] / "examples" / "02_bring_your_own.py"

SOUND = {
    "frozen lake, paper": lambda: get_task("frozen-lake", "paper"),
    "frozen lake, quick": lambda: get_task("frozen-lake", "quick"),
    "cliff walking": lambda: runpy.run_path(str(EXAMPLE))["task"],
    "cart pole": lambda: cart_pole,
    "mountain car": lambda: mountain_car,
    "taxi": taxi,
    "taxi in the rain": lambda: taxi(is_rainy=True, fickle_passenger=True),
    "brink": brink,
    "sled": sled,
}


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_a_sound_task_is_not_accused(make):
    for seed in range(3):
        assert not check_task(make(), seed=seed)


def with_trigger(task, trigger, reset=None):
    (first, *_) = task.interventions
    return replace(task, interventions=(replace(first, trigger=trigger, reset=reset or first.reset),))


def the_one(broken):
    assert len(broken) == 1, broken
    return broken[0]


def test_a_trigger_that_reads_a_random_number_is_named_with_a_state():
    luck = np.random.default_rng(0)
    promise = the_one(check_task(with_trigger(brink(), lambda s: s[..., 0] > luck.random(s.shape[:-1]))))
    assert promise.what == "trigger 'rescues' of 'rail'"
    assert "the answer must follow from the state alone" in promise.message
    (shown,) = re.findall(r", in state \[(.*)\]$", str(promise))
    assert len(promise.state) == 1 and float(shown) == pytest.approx(promise.state[0], abs=1e-6)


def test_a_trigger_that_looks_at_the_rest_of_the_batch_is_named():
    promise = the_one(check_task(with_trigger(brink(), lambda s: s[..., 0] >= s[..., 0].mean())))
    assert "when asked alone and" in promise.message


def test_a_trigger_that_counts_its_calls_is_named():
    calls = []

    def every_other(state):
        calls.append(1)
        return np.full(state.shape[:-1], len(calls) % 2 == 0)

    assert "in the same batch again" in the_one(check_task(with_trigger(brink(), every_other))).message


def test_a_trigger_that_changes_the_state_is_named():
    def rounding(state):
        state[..., 0] = state[..., 0].round()
        return state[..., 0] > 5

    promise = the_one(check_task(with_trigger(brink(), rounding)))
    assert promise.message == "changed what it was shown" and promise.state is not None


def test_a_trigger_that_takes_the_first_axis_is_named():
    promise = the_one(check_task(with_trigger(brink(), lambda s: s[0] > 0.9)))
    assert "index the last axis" in promise.message


def test_dangers_and_success_are_held_to_the_same():
    luck = np.random.default_rng(0)
    task = replace(
        brink(),
        danger={"flood": lambda move: move.reward > luck.random(move.reward.shape) - 0.5},
        success=lambda move: 1 / 0,
    )
    flood, success = check_task(task)
    assert flood.what == "danger 'flood'"
    assert success.what == "success" and success.message.startswith("raised ZeroDivisionError")


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda s, history, u: 0 * s + 0.95, r"put the student into \[0.95\], which is in the trigger set"),
        (
            lambda s, history, u: 0 * s + np.random.random(),
            "elsewhere when asked again: what is random must come from u",
        ),
        (lambda s, history, u: 0.5, r"answered shape \(\) for a state of shape \(1,\)"),
        (lambda s, history, u: np.multiply(s, 0, out=s), "changed what it was shown"),
        (lambda s, history, u: s + np.inf, "give finite numbers"),
        (lambda s, history, u: s[3], "raised IndexError"),
    ],
)
def test_a_bad_reset_is_named_with_the_state_that_was_rescued(fn, message):
    promise = the_one(check_task(with_trigger(brink(), lambda s: s[..., 0] >= 0.8, Place(fn))))
    assert promise.what == "reset of 'rail'"
    assert promise.state[0] >= 0.8
    assert re.search(message, promise.message)


@pytest.mark.parametrize("reset", [Rewind(1), ToStart(), Place(lambda s, history, u: 0 * s)])
def test_a_start_inside_the_trigger_set_is_named_for_every_reset(reset):
    promise = the_one(check_task(with_trigger(brink(), lambda s: s[..., 0] == 0.5, reset)))
    assert promise.what == "trigger 'rescues' of 'rail'" and promise.state == (0.5,)
    assert promise.message == "holds where an episode starts"


class Candle(World):
    """Burns down: every step is dearer than the one before. The clock is no part of what `place` restores."""

    def __init__(self):
        super().__init__(1, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.clock = np.array([0.0]), 0
        return self.seen(), {}

    def step(self, action):
        self.clock += 1
        self.state = self.state + (1 if action else -1) * self.drift()
        return self.seen(), self.pay(), self.clock >= 30, False, {}

    def drift(self):
        return 0.1

    def pay(self):
        return -float(self.clock)


class SlowCandle(Candle):
    """The clock matters to the motion, not to the reward."""

    def drift(self):
        return 0.1 / (1 + self.clock)

    def pay(self):
        return 0.0


def candle(env, read=read, place=place, **changes):
    far = Intervention(name="far", trigger=lambda s: abs(s[..., 0]) > 1, reset=Rewind(2), tau=0.0)
    return replace(
        brink(),
        name="candle",
        make_env=lambda **_: env(),
        interventions=(far,),
        horizon=40,
        read_state=read,
        place=place,
        **changes,
    )


@pytest.mark.parametrize("env", [Candle, SlowCandle])
def test_a_restore_that_forgets_the_clock_is_named_with_a_state(env):
    promise = the_one(check_task(candle(env)))
    assert promise.what == "place" and "forgets something: 1 step later" in promise.message
    assert promise.state is not None


@pytest.mark.parametrize("env", [Candle, SlowCandle])
def test_a_clock_in_the_state_is_no_broken_promise(env):
    def read_all(env):
        return np.array([*env.unwrapped.state, env.unwrapped.clock])

    def place_all(env, state):
        env.unwrapped.clock = int(state[1])
        return place(env, state[:1])

    assert not check_task(candle(env, read_all, place_all))


def test_a_restore_that_lands_beside_is_named():
    promise = the_one(check_task(replace(sled(), place=lambda env, state: place(env, np.round(state, 1)))))
    assert promise.what == "place" and "led elsewhere: state[0] is" in promise.message


def test_a_restore_that_shows_something_else_is_named():
    promise = the_one(check_task(replace(sled(), place=lambda env, state: place(env, state) + 1)))
    assert promise.what == "place" and "showed the observation" in promise.message


def remembered(env):
    return env.unwrapped.state.copy(), env.unwrapped.clock


def put_back(env, saved):
    env.unwrapped.state, env.unwrapped.clock = saved[0].copy(), saved[1]
    return env.unwrapped.seen()


def put_back_silently(env, saved):
    put_back(env, saved)


def without_the_clock(env, saved):
    env.unwrapped.state = saved[0].copy()
    return env.unwrapped.seen()


def only_once(env, saved):
    """Hands out what was saved: the next steps change it."""
    env.unwrapped.state, env.unwrapped.clock = saved
    return env.unwrapped.seen()


class Melting(Candle):
    """Moves its state in place."""

    def step(self, action):
        self.clock += 1
        self.state += (1 if action else -1) * self.drift()
        return self.seen(), self.pay(), self.clock >= 30, False, {}


@pytest.mark.parametrize(
    ("env", "restore", "message"),
    [
        (Candle, lambda env, saved: env.unwrapped.seen(), "led elsewhere: state[0] is"),  # does nothing
        (Candle, lambda env, saved: None, "led elsewhere: state[0] is"),
        (Candle, without_the_clock, "forgets something: 1 step later"),
        (SlowCandle, without_the_clock, "forgets something: 1 step later"),
        (Candle, lambda env, saved: put_back(env, saved) + 1, "showed the observation"),
        (Melting, only_once, "led elsewhere: state[0] is"),
    ],
)
def test_a_restore_that_does_not_put_back_what_was_saved_is_named(env, restore, message):
    promise = the_one(check_task(candle(env, place=None, save=remembered, restore=restore)))
    assert promise.what == "restore" and message in promise.message and promise.state is not None


@pytest.mark.parametrize("env", [Candle, SlowCandle, Melting])
@pytest.mark.parametrize("restore", [put_back, put_back_silently])
def test_a_restore_that_puts_back_what_was_saved_is_no_broken_promise(env, restore):
    assert not check_task(candle(env, place=None, save=remembered, restore=restore))


class Flickering(Candle):
    """Its luck is where nobody finds it."""

    def reset(self, *, seed=None, options=None):
        self.luck = [np.random.default_rng(seed)]
        return super().reset(seed=seed)

    def drift(self):
        return 0.1 * self.luck[0].random()


def test_luck_that_goes_on_is_nothing_that_a_restore_forgets(caplog):
    assert not check_task(candle(Flickering, place=None, save=remembered, restore=put_back))
    assert "what follows `restore` was not compared" in caplog.text


def test_without_save_and_restore_copies_are_held_to_the_same():
    assert not check_task(candle(Melting, place=None))


def test_reading_that_steps_the_world_is_named():
    def read_and_push(env):
        env.unwrapped.state = env.unwrapped.state + 0.01
        return read(env)

    promise = the_one(check_task(replace(sled(), read_state=read_and_push)))
    assert promise.what == "read_state" and "when asked again" in promise.message


class Commons(Candle):
    """All environments share one state."""

    shared = np.zeros(1)

    @property
    def state(self):
        return Commons.shared

    @state.setter
    def state(self, value):
        Commons.shared = value


def test_environments_that_share_their_state_are_named():
    found = {promise.what: promise for promise in check_task(candle(Commons))}
    assert "they share something" in found["the environment"].message


class Lottery(World):
    """Keeps its randomness where nobody finds it."""

    def __init__(self):
        super().__init__(1, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.hidden = np.array([0.5]), [seed or 0]
        return self.seen(), {}

    def step(self, action):
        self.hidden[0] = (self.hidden[0] * 1103515245 + 12345) % 2**31
        self.state = np.array([self.hidden[0] / 2**31])
        return self.seen(), 0.0, False, False, {}


def test_randomness_that_cannot_be_made_equal_is_no_accusation(caplog):
    with caplog.at_level(logging.WARNING):
        assert not check_task(replace(brink(), make_env=lambda **_: Lottery()))
    assert caplog.text.count("random numbers cannot be made equal") == 1


class GlobalLuck(Lottery):
    def step(self, action):
        self.state = np.array([np.random.random()])
        return self.seen(), 0.0, False, False, {}


def test_randomness_of_the_whole_process_follows_from_no_seed():
    promise = the_one(check_task(replace(brink(), make_env=lambda **_: GlobalLuck())))
    assert promise.what == "the environment" and "does not keep to its seed: begun twice from" in promise.message
    assert "after move 1: call super().reset(seed=seed)" in promise.message and promise.state is not None


def test_a_start_that_ignores_its_seed_is_named_and_no_certificate_is_withdrawn_for_it():
    class Anywhere(type(brink().make_env())):
        def reset(self, *, seed=None, options=None):
            return super().reset()

    task = replace(brink(), make_env=lambda **_: Anywhere())
    assert "begun twice from" in the_one(check_task(task)).message
    report = quick_audit(task)
    assert not report.broken and any("does not keep to its seed" in note for note in report.notes)


def test_observations_beyond_the_bounds_of_their_space_are_named():
    class Narrow(type(sled().make_env())):
        def __init__(self, **options):
            super().__init__(**options)
            self.observation_space = gymnasium.spaces.Box(-0.5, 0.5, (2,), np.float32)

    promise = the_one(check_task(replace(sled(), make_env=lambda **_: Narrow())))
    assert promise.what == "the environment" and "beyond the bounds of its observation space Box" in promise.message


def test_an_environment_that_raises_is_named():
    class Broken(Candle):
        def step(self, action):
            raise RuntimeError("the simulator lost its licence")

    promise = the_one(check_task(candle(Broken)))
    assert promise.what == "the environment" and "lost its licence" in promise.message


def test_a_time_limit_of_the_environment_is_no_broken_promise():
    limited = replace(sled(), make_env=lambda **_: gymnasium.wrappers.TimeLimit(sled().make_env(), 20))
    assert not check_task(limited)


def test_a_time_limit_of_the_environment_below_the_horizon_is_said(caplog):
    """Once, however often it is asked; nothing is said where episodes come to their horizon."""
    said = "task 'sled 19' cuts its episodes off after 19 steps (TimeLimit), before the horizon of 60"
    for steps in (19, 60):
        make_env = partial(limited_sled, steps)
        task = replace(sled(), name=f"sled {steps}", make_env=make_env)
        for _ in range(2):
            assert not check_task(task)
        assert any(said in note for note in quick_audit(task).notes) == (steps == 19)
    assert caplog.text.count(said) == caplog.text.count("TimeLimit") == 1


def limited_sled(steps, **options):
    return gymnasium.wrappers.TimeLimit(sled().make_env(**options), steps)


def test_bad_input_is_one_clear_line():
    with pytest.raises(ConfigError, match="number of steps is 0"):
        check_task(brink(), n_steps=0)
