"""Environments that are put back by copies go on as they did; those that do not are refused before anybody trains."""

import os
import random

import gymnasium
import numpy as np
import pytest

from cisr import Intervention, Rewind, Task, TaskError
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.cmdp.preflight import check_state_functions
from cisr.saving import copies


class Cart(gymnasium.Env):
    """Position and speed; what is seen and read is the position."""

    def __init__(self, **options):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.1, 0.1)
        self.speed = 0.0
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.1 * (action - 1) + self.noise()
        self.x += self.speed
        return np.array([self.x], np.float32), 0.0, False, False, {}

    def noise(self):
        return 0.01 * self.np_random.normal()


class SlotCart(Cart):
    """Keeps its speed in a slot."""

    __slots__ = ("speed",)


class PrivateSlots(Cart):
    __slots__ = ("__v", "empty")

    @property
    def speed(self):
        return self.__v

    @speed.setter
    def speed(self, v):
        self.__v = v


class Inherited(PrivateSlots):
    pass


class SlotWrapper(gymnasium.Wrapper):
    """Pushes on, by what it was last told."""

    __slots__ = ("last",)

    def reset(self, **options):
        self.last = 1
        return self.env.reset(**options)

    def step(self, action):
        action, self.last = self.last, action
        return self.env.step(action)


def wrapped(**options):
    return SlotWrapper(Cart())


KINDS = (Cart, SlotCart, PrivateSlots, Inherited, wrapped)


class Elsewhere(Cart):
    """Its speed is kept where no copy gets to."""

    def reset(self, **options):
        self.make()
        return super().reset(**options)

    speed = property(lambda self: self.get(), lambda self, v: self.put(v))


class InAClosure(Elsewhere):
    def make(self):
        kept = [0.0]
        self.get, self.put = lambda: kept[0], lambda v: kept.__setitem__(0, v)


MEMORY = {}


class InAGlobal(Elsewhere):
    def make(self):
        self.get, self.put = lambda: MEMORY["v"], lambda v: MEMORY.update(v=v)


class Handle:
    """Is copied as a new one, as simulators' handles are."""

    def __init__(self):
        self.v = 0.0

    def __reduce__(self):
        return Handle, ()


class BehindAHandle(Elsewhere):
    def make(self):
        self.handle = Handle()

    def get(self):
        return self.handle.v

    def put(self, v):
        self.handle.v = v


class View(Cart):
    """Its speed is a view into what a copy makes a new array of."""

    def reset(self, **options):
        self.numbers = np.zeros(2)
        self.v = self.numbers[1:]
        return super().reset(**options)

    def get(self):
        return float(self.numbers[1])

    def put(self, v):
        self.v[0] = v

    speed = property(get, put)


class SharedParts(Cart):
    """Keeps position and speed as views of one array, as simulators do; a copy has two arrays."""

    def __init__(self, **options):
        super().__init__(**options)
        self.both = np.zeros(2)
        self.at, self.moving = self.both[:1], self.both[1:]

    def step(self, action):
        self.moving *= 0.9
        self.moving += 0.1 * (action - 1)
        self.at += self.moving
        self.x = float(self.both[0])
        return np.array([self.x], np.float32), 0.0, False, False, {}


NOT_PUT_BACK = (SharedParts, InAClosure, InAGlobal, BehindAHandle, View)


class OfThePlatform(Cart):
    def noise(self):
        return int.from_bytes(os.urandom(4)) / 2**36


class OfTheProcess(Cart):
    def noise(self):
        return 0.01 * random.random() + 0.01 * np.random.random()


class OfItsOwn(Cart):
    """Generators of several kinds, at some depth."""

    def __init__(self, **options):
        super().__init__()
        self.deep = {"rng": [np.random.default_rng(0), random.Random(0)], "old": np.random.RandomState(0)}

    def noise(self):
        one, other = self.deep["rng"]
        return 0.01 * (one.normal() + other.random() + self.deep["old"].normal())


NOISY = (OfThePlatform, OfTheProcess, OfItsOwn)


def task(make_env, steps=1, **fields):
    fence = Intervention(name="fence", trigger=lambda s: abs(s[..., 0]) > 0.5, reset=Rewind(steps), tau=0.1)
    return Task(
        name="cart",
        make_env=lambda **options: make_env(),
        read_state=lambda env: np.array([env.unwrapped.x]),
        danger=lambda move: abs(move.state[..., 0]) > 2,
        success=lambda move: move.terminated,
        interventions=(fence,),
        horizon=40,
        **fields,
    )


@pytest.mark.parametrize("make_env", KINDS, ids=lambda kind: kind.__name__)
def test_attributes_in_slots_are_put_back(make_env):
    env = make_env()
    env.reset(seed=0)
    for action in (2, 2, 0):
        env.step(action)
    saved = copies.save(env)
    courses = []
    for _ in range(3):
        env.np_random = np.random.default_rng(0)
        courses.append([float(env.step(action)[0][0]) for action in (2, 1, 1, 0)])
        copies.restore(env, saved)
    assert courses[0] == courses[1] == courses[2]


def test_a_slot_that_was_empty_is_emptied():
    env = Inherited()
    env.reset(seed=0)
    saved = copies.save(env)
    env.empty = 1
    copies.restore(env, saved)
    assert not hasattr(env, "empty")


def test_episodes_with_slots_are_those_without():
    tasks, rescues = [task(kind, steps=2) for kind in (Cart, SlotCart)], 0
    rows = [InducedCMDPs(t, t.interventions[0], [t.make_env()]) for t in tasks]
    for row in rows:
        row.seed([0])
    for action in np.random.default_rng(1).integers(1, 3, 38):
        steps = [row.step(np.array([action])) for row in rows]
        np.testing.assert_array_equal(*(row.observations for row in rows))
        rescues += int(steps[0].rescued[0])
    assert rescues > 5


@pytest.mark.parametrize("make_env", NOT_PUT_BACK, ids=lambda kind: kind.__name__)
def test_what_a_copy_does_not_put_back_is_refused_in_one_line(make_env):
    with pytest.raises(TaskError, match=r"^Task 'cart': its environment was put back by a copy and did not go on as"):
        check_state_functions(task(make_env))


@pytest.mark.parametrize("make_env", [*KINDS, *NOISY], ids=lambda kind: kind.__name__)
def test_environments_that_are_put_back_are_not_refused_whatever_their_luck(make_env):
    check_state_functions(task(make_env))


def test_generators_are_left_as_they_were():
    shared = np.random.default_rng(0)

    class Common(Cart):
        def noise(self):
            return 0.0 * len(vars(self))

        def reset(self, **options):
            self.rng = shared
            return super().reset(**options)

    before, everyones = shared.bit_generator.state, (random.getstate(), np.random.get_state()[1].tolist())
    check_state_functions(task(Common))
    assert shared.bit_generator.state == before
    assert (random.getstate(), np.random.get_state()[1].tolist()) == everyones


def test_whoever_says_how_to_save_is_not_asked_about_copies():
    def save(env):
        return env.x, env.speed

    def restore(env, saved):
        env.x, env.speed = saved

    check_state_functions(task(InAClosure, save=save, restore=restore))
