"""What changes a fingerprint and what does not, on a module that a user might have written."""

import ast
import importlib
import sys
import textwrap

import pytest

from cisr.fingerprint import fingerprint, fingerprint_of_environment
from cisr.identity import identity
from cisr.lesson import make_lesson

HELPERS = '''
"""Things that a user keeps in a module of their own."""
import numpy as np

MARGIN = 0.25
WALL = np.array([1.0, 2.0, 3.0])
SETTINGS = {"gain": 2.0, "names": ["a", "b"]}

def near(x, wide=False):
    """How near."""
    return abs(x) > (2 * MARGIN if wide else MARGIN)

def unused(x):
    return x
'''

TASK = '''
"""A user's task."""
import functools
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np

import helpers
from helpers import near
from cisr import Intervention, Place, Rewind, StudentConfig, Task

EDGE = 0.9
START = 0.5


@dataclass(frozen=True)
class Limits:
    low: float = -1.0
    high: float = 1.0

    def outside(self, x):
        return (x < self.low) | (x > self.high)


class Walker(gymnasium.Env):
    """Walks."""

    SPEED = 0.1
    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = START
        return self.seen(), {}

    def step(self, action):
        # a comment
        self.x += self.SPEED * (2 * action - 1)
        return self.seen(), 0.0, False, False, {}

    def seen(self):
        return np.array([self.x], np.float32)


class Louder(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward * 3.0


if "user/Walker-v0" not in gymnasium.registry:
    gymnasium.register(id="user/Walker-v0", entry_point="usertask:Walker")


def make_env(**options):
    return Louder(gymnasium.make("user/Walker-v0", **options))


def read_state(env):
    return np.array([env.unwrapped.x])


def place(env, state):
    env.unwrapped.x = float(state[0])
    return env.unwrapped.seen()


def closed_over(limit):
    slack = limit / 2
    return lambda state: state[..., 0] > slack


def with_default(state, factor=1.5):
    return state[..., 0] * factor > helpers.SETTINGS["gain"]


def back(state, history, u):
    from helpers import WALL

    return state * 0 + WALL[0] / 10


def reward(transition):
    inner = [k for k in (1, 2)]
    return transition.move.reward + len(inner)


def scaled(move, by):
    return move.state[..., 0] > by


class Judge:
    def __init__(self, threshold):
        self.threshold = threshold

    def __call__(self, move):
        return move.state[..., 0] > self.threshold


limits = Limits(high=1.5)
task = Task(
    name="user",
    make_env=make_env,
    danger={
        "edge": lambda move: move.state[..., 0] > EDGE,
        "outside": lambda move: limits.outside(move.state[..., 0]),
        "scaled": functools.partial(scaled, by=7.0),
        "judge": Judge(8.0),
    },
    success=lambda move: near(move.state[..., 0], wide=True) & False,
    interventions=(
        Intervention(name="a", trigger=closed_over(1.6), reset=Rewind(2), tau=0.1),
        Intervention(name="b", trigger=with_default, reset=Place(back, n_history=1), tau=0.1),
    ),
    horizon=20,
    reward=reward,
    read_state=read_state,
    place=place,
    student=StudentConfig(n_envs=1),
)
'''


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write both modules, import them and tell the identity of the task in them."""
    counter = iter(range(100))

    def loaded(task=TASK, helpers=HELPERS):
        folder = tmp_path / str(next(counter))  # a folder of its own: nothing is cached under its name
        folder.mkdir()
        (folder / "usertask.py").write_text(task)
        (folder / "helpers.py").write_text(helpers)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            for name in ("usertask", "helpers"):
                sys.modules.pop(name, None)
            module = importlib.import_module("usertask")
            settings, unknown = identity(make_lesson(module.task))
        assert unknown == ()
        return settings

    yield loaded
    for name in ("usertask", "helpers"):
        sys.modules.pop(name, None)


EDITS = {
    "a closed-over value": ("closed_over(1.6)", "closed_over(1.7)"),
    "the code of a closure": ("state[..., 0] > slack", "state[..., 0] >= slack"),
    "what a closure is computed from": ("slack = limit / 2", "slack = limit / 4"),
    "a default": ("factor=1.5", "factor=1.6"),
    "the steps of a rewind": ("Rewind(2)", "Rewind(3)"),
    "the function of a place": ("WALL[0] / 10", "WALL[0] / 11"),
    "n_history": ("n_history=1", "n_history=2"),
    "n_uniforms": ("n_history=1)", "n_history=1, n_uniforms=1)"),
    "a constant that danger reads": ("EDGE = 0.9", "EDGE = 0.8"),
    "the code of danger": ("move.state[..., 0] > EDGE", "move.state[..., 0] < EDGE"),
    "a field of an object": ("Limits(high=1.5)", "Limits(high=1.6)"),
    "a default field of its class": ("low: float = -1.0", "low: float = -2.0"),
    "a method of its class": ("(x < self.low) | (x > self.high)", "(x < self.low) & (x > self.high)"),
    "an argument of a partial": ("by=7.0", "by=6.0"),
    "the function of a partial": ("> by", ">= by"),
    "the state of a callable": ("Judge(8.0)", "Judge(9.0)"),
    "the code of a callable": ("> self.threshold", ">= self.threshold"),
    "an argument of a call": ("wide=True", "wide=False"),
    "the reward": ("len(inner)", "sum(inner)"),
    "a comprehension": ("for k in (1, 2)]", "for k in (1, 2) if k]"),
    "read_state": ("np.array([env.unwrapped.x])", "np.array([env.unwrapped.x + 0.0])"),
    "place": ("float(state[0])", "abs(float(state[0]))"),
    "make_env": ("Louder(gymnasium.make(", "(gymnasium.make("),
    "a method of a registered environment": ("(2 * action - 1)", "(2 * action - 2)"),
    "a constant of its class": ("SPEED = 0.1", "SPEED = 0.2"),
    "a constant that it reads": ("START = 0.5", "START = 0.6"),
    "a wrapper": ("reward * 3.0", "reward * 4.0"),
    "a tolerance": ("reset=Rewind(2), tau=0.1", "reset=Rewind(2), tau=0.2"),
    "the horizon": ("horizon=20", "horizon=30"),
    "the version": ('name="user",', 'name="user", version=2,'),
}
IN_HELPERS = {
    "a constant of another module": ("MARGIN = 0.25", "MARGIN = 0.5"),
    "a function of another module": ("abs(x) >", "abs(x) >="),
    "an array that is imported inside a function": ("[1.0, 2.0, 3.0]", "[1.5, 2.0, 3.0]"),
    "an entry of a dictionary": ('"gain": 2.0', '"gain": 3.0'),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_the_task_is_noticed(load, edit):
    before, after = EDITS[edit]
    assert before in TASK
    assert load() != load(TASK.replace(before, after))


@pytest.mark.parametrize("edit", IN_HELPERS)
def test_an_edit_of_a_module_that_the_task_uses_is_noticed(load, edit):
    before, after = IN_HELPERS[edit]
    assert before in HELPERS
    assert load() != load(helpers=HELPERS.replace(before, after))


def without_layout(source):
    """The same program in another layout: no comments, every expression on a line of its own."""
    return ast.unparse(ast.parse(source))


@pytest.mark.parametrize(
    "harmless",
    [
        lambda source: "\n\n# moved down\n\n" + source,
        lambda source: source.replace("# a comment", "# another comment"),
        lambda source: source.replace('"""Walks."""', '"""Runs, and how."""').replace('    """How near."""\n', ""),
        lambda source: source.replace("def place(env, state):", "def place(env: object, state: np.ndarray) -> object:"),
        lambda source: source.replace("    slack = limit / 2\n", "    slack = (\n        limit\n        / 2\n    )\n"),
        without_layout,
        lambda source: source.replace("def unused(x):\n    return x", "def unused(x):\n    return 2 * x"),
    ],
    ids=["lines", "comments", "docstrings", "annotations", "line breaks", "layout", "unused code"],
)
def test_what_does_not_change_the_task_does_not_matter(load, harmless):
    assert load() == load(harmless(TASK), harmless(HELPERS))


def test_the_packages_that_an_environment_comes_from_are_part_of_it(load):
    assert set(load()["packages"]) == {"gymnasium"}


def test_box2d_is_a_package_of_the_lander():
    pytest.importorskip("Box2D")
    from cisr import get_task

    env = get_task("lunar-lander").make_env()
    assert {"gymnasium", "Box2D"} <= set(fingerprint_of_environment(env).packages)
    env.close()


def test_two_functions_on_one_line_are_told_apart():
    one, two = (lambda x: x + 1), (lambda x: x + 2)
    outer = lambda a: lambda b: a + b  # noqa: E731
    assert len({fingerprint(f).parts["code"] for f in (one, two, outer, outer(1))}) == 4


def test_code_without_a_source_is_known_by_its_bytecode():
    def made(source):
        scope = {}
        exec(textwrap.dedent(source), scope)
        return fingerprint(scope["f"]).parts

    plain = made("def f(x):\n    return x + LIMIT\n")
    assert plain == made('def f(x):\n    "doc"\n    # comment\n\n    return x + LIMIT\n')
    assert plain != made("def f(x):\n    return x - LIMIT\n")
    assert plain["LIMIT"] == "not defined"


def test_a_function_that_calls_itself_has_an_end():
    def f(n):
        return 0 if n == 0 else f(n - 1)

    assert fingerprint(f).parts["f()"].startswith("see ")


def test_what_cannot_be_looked_into_is_said():
    import threading

    lock = threading.Lock()
    found = fingerprint(lambda: lock.acquire())
    assert len(found.unknown) == 1 and "lock" in found.unknown[0]


def test_caches_are_no_content():
    import functools

    class Table:
        @functools.cached_property
        def entries(self):
            return [1, 2, 3]

    @functools.lru_cache
    def looked_up(k):
        return k

    table = Table()

    def trigger(state):
        return table.entries[looked_up(0)] > 0

    before = fingerprint(trigger)
    trigger(0)
    assert fingerprint(trigger) == before
