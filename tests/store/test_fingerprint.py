"""What changes a fingerprint and what does not, on a module that a user might have written."""

import ast
import importlib
import sys
import textwrap

import gymnasium
import pytest
from gymnasium.envs.registration import WrapperSpec

from cisr.store.fingerprint import fingerprint
from cisr.store.fingerprint.environment import fingerprint_of_environment
from cisr.store.provenance import identity
from cisr.training.setup import make_setup

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
from cisr import Intervention, Place, Rewind, StudentConfig, Task, Training

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
    training=Training(student=StudentConfig(n_envs=1)),
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
            settings, unknown = identity(make_setup(module.task))
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


def test_a_space_that_was_sampled_from_is_the_same_space():
    box, one_of_three = gymnasium.spaces.Box(-1.0, 1.0, (2,)), gymnasium.spaces.Discrete(3)
    both = gymnasium.spaces.Dict({"box": box, "one": one_of_three})
    before = [fingerprint(space).content for space in (box, one_of_three, both)]
    for space in (box, one_of_three, both):
        space.sample()
    assert [fingerprint(space).content for space in (box, one_of_three, both)] == before
    assert fingerprint(gymnasium.spaces.Discrete(4)).content != before[1]


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


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Write a module, with another beside it, and tell the fingerprint of the trigger in it."""
    counter = iter(range(100))

    def reading(source, other=""):
        folder = tmp_path / str(next(counter))
        folder.mkdir()
        (folder / "usertask.py").write_text(source)
        (folder / "other.py").write_text(other)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            for name in ("usertask", "other"):
                sys.modules.pop(name, None)
            return fingerprint(importlib.import_module("usertask").trigger)

    yield reading
    for name in ("usertask", "other"):
        sys.modules.pop(name, None)


F = "def trigger(s): return "
ENUM = "import enum\nclass Z(enum.Enum):\n    A = 1\n    B = 2\n"
DATA = "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    "
SLOTS = DATA.replace("@dataclass", "@dataclass(slots=True)")
BESIDE = "import importlib.util as u, os\nat = os.path.join(os.path.dirname(__file__), 'other.py')\n"
LOADED = (
    BESIDE + "spec = u.spec_from_file_location('lab', at)\nm = u.module_from_spec(spec)\nspec.loader.exec_module(m)\n"
)
PAIRS = {
    "vectorize": "import numpy as np\n@np.vectorize\ndef trigger(s): return s > @@",
    "a bound builtin": f"holes = frozenset({{5, @@}}).__contains__\n{F}holes(s)",
    "a method of a dictionary": f"get = {{5: 1, @@: 2}}.get\n{F}get(s)",
    "a method of an array": f"import numpy as np\ntake = np.array([5, @@]).take\n{F}take(s)",
    "exec with a name": f"ns = {{'__name__': 'lab'}}\nexec('def h(s): return s > @@', ns)\nh = ns['h']\n{F}h(s)",
    "a class by exec": f"exec('class H:\\n    def f(self, s): return s > @@')\n{F}H().f(s)",
    "a method of a tuple": "from typing import NamedTuple\nclass L(NamedTuple):\n    x: float\n"
    f"    def near(self, s): return s > @@\nl = L(1)\n{F}l.near(s)",
    "a method of a list": f"class L(list):\n    def near(self, s): return s > @@\nl = L([1])\n{F}l.near(s)",
    "an attribute of a dictionary": f"class L(dict): pass\nl = L(a=1)\nl.r = @@\n{F}s > l.r",
    "a default factory": f"import collections\nl = collections.defaultdict(lambda: @@)\n{F}s > l['q']",
    "a mask": f"import numpy as np\nA = np.ma.array([1, 2, 3], mask=[0, 0, @@ == 1])\n{F}s > A",
    "a method of an array class": "import numpy as np\nclass T(np.ndarray):\n    def near(self, s): return s > @@\n"
    f"A = np.zeros(3).view(T)\n{F}A.near(s)",
    "a dictionary by enumeration": f"{ENUM}L = {{Z.A: @@, Z.B: 7}}\n{F}s > L[Z.A]",
    "a dictionary by numpy numbers": f"import numpy as np\nL = {{np.int64(1): @@, np.int64(2): 7}}\n{F}s > L[1]",
    "a dictionary by sets": f"L = {{frozenset([1]): @@, frozenset([2]): 7}}\n{F}s > L[frozenset([1])]",
    "the order of a dictionary": f"f = lambda s: 1\nc = dict([('a', f), ('b', len)][:: 2 * @@ - 3])\n{F}list(c)[0]",
    "the value of a member": f"import enum\nclass Z(enum.Enum):\n    FAR = @@\nL = Z.FAR\n{F}s > L.value",
    "the factory of a field": f"{DATA}x: list = field(default_factory=lambda: [@@])\n{F}s > C().x[0]",
    "the default of a field": f"{SLOTS}x: int = @@\n{F}s > C().x",
    "more than the fields": f"{DATA}n: int\nb = C(1)\nb.r = @@\n{F}s > b.r",
    "an attribute of a function": f"{F}s > trigger.limit\ntrigger.limit = @@",
    "single dispatch": "import functools\n@functools.singledispatch\ndef f(s): return s\n"
    f"@f.register\ndef _(s: int): return s > @@\n{F}f(s)",
    "vmap": f"import jax\nf = jax.vmap(lambda s: s > @@)\n{F}f(s)",
    "the axes of vmap": f"import jax\nf = jax.vmap(lambda s, t: s > t, in_axes=(0, @@))\n{F}f(s, s)",
    "a decorator inside": "def clip(x): return lambda f: (lambda s: f(s) > x)\n"
    "def trigger(s):\n    @clip(@@)\n    def g(s): return s\n    return g(s)",
    "a metaclass": f"class M(type):\n    def lim(cls): return @@\nclass C(metaclass=M): pass\n{F}s > C.lim()",
    "state that is not pickled": "class C:\n    def __init__(self, a): self.a = a\n"
    f"    def __reduce__(self): return (C, (0,))\nc = C(@@)\n{F}s > c.a",
    "a hash": f"class C:\n    def __hash__(self): return @@\nc = C()\n{F}hash(c)",
    "a global called code": f"code = 5\n{F}s > code + @@",
    "defaults by keyword": "def trigger(s):\n    def f(*, a=@@, b): return a > b\n    return f(b=s)",
    "what np is": f"import @@ as np\n{F}np.sum(s)",
}
IN_OTHER = {
    "run as a path": f"import runpy\n{BESIDE}h = runpy.run_path(at)['near']\n{F}h(s)",
    "loaded and not registered": f"{LOADED}h = m.near\n{F}h(s)",
    "an object of an unregistered module": f"{LOADED}h = m.H()\n{F}h.near(s)",
    "a module under another name": "import other\ndef trigger(s):\n    m = other\n    return s > m.limit",
    "a module that is passed on": f"import other\ndef f(m, s): return s > m.limit\n{F}f(other, s)",
    "a module in a dictionary": f"import other\nM = {{'a': other}}\n{F}s > M['a'].limit",
    "imported inside": "def trigger(s):\n    from other import limit\n    return limit < s",
    "imported with others": "def trigger(s, t):\n    from other import near, limit as l\n    return near(l, s, t)",
}
OTHER = "limit = @@\ndef near(s): return s > @@\nclass H:\n    def near(self, s): return s > @@\n"


@pytest.mark.parametrize("pair", PAIRS)
def test_what_does_something_else_is_told_apart(read, pair):
    first, second = ("jax.numpy", "numpy") if pair == "what np is" else ("1", "2")
    one, again, two = (read(PAIRS[pair].replace("@@", value)) for value in (first, first, second))
    assert one.parts == again.parts != two.parts
    assert one.unknown == ()


@pytest.mark.parametrize("pair", IN_OTHER)
def test_another_module_is_read_however_it_is_come_by(read, pair):
    one, again, two = (read(IN_OTHER[pair], OTHER.replace("@@", value)) for value in ("1", "1", "2"))
    assert one.parts == again.parts != two.parts
    assert one.unknown == ()


HARMLESS = {
    "a local annotation": ("def trigger(s):\n    x@@ = 1\n    return s > x", "", ": int"),
    "a bare annotation": ("def trigger(s):\n    @@\n    x = 1\n    return s > x", "", "x: int"),
    "a generic class": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass C(@@):\n    def f(self, s): return 1\n"
        f"c = C()\n{F}c.f(s)",
        "object",
        "Generic[T]",
    ),
    "a protocol": (
        f"from typing import Protocol\nclass C@@:\n    def f(self, s): return 1\nclass D(C): pass\n{F}D().f(s)",
        "",
        "(Protocol)",
    ),
    "slots": (
        f"from dataclasses import dataclass\n@dataclass@@\nclass C:\n    x: int = 1\nc = C()\n{F}s > c.x",
        "",
        "(slots=True)",
    ),
    "a cast": (f"import typing\nfrom typing import cast\n{F}@@", "s > 1", "cast(int, s) > typing.cast('int', 1)"),
}


@pytest.mark.parametrize("pair", HARMLESS)
def test_what_does_the_same_is_the_same(read, pair):
    source, before, after = HARMLESS[pair]
    assert read(source.replace("@@", before)).parts == read(source.replace("@@", after)).parts


def test_a_function_that_was_compiled_by_numpy_is_not_known():
    import numpy as np

    hole = np.frompyfunc(lambda s: s > 1, 1, 1)
    assert "cannot be read" in fingerprint(lambda s: hole(s)).unknown[0]
    sine = np.sin
    assert fingerprint(lambda s: sine(s)).parts["sine"] == "numpy.sin"


NODE = (
    "class N:\n    def __init__(self, n=None): self.n, self.near = n, set()\n    def __getattr__(self, name): 1 / 0\n"
)
AWKWARD = {
    "a list in itself": "L = [1]\nL.append(L)",
    "a dictionary in itself": "L = {}\nL['a'] = L",
    "a deep list": "L = []\nfor _ in range(3000): L = [L]",
    "a deep tree of two": "L = []\nfor _ in range(60): L = [L, L]",
    "a linked list": f"{NODE}L = None\nfor _ in range(3000): L = N(L)",
    "neighbours in sets": f"{NODE}L = [N(k) for k in range(16)]\nfor a in L: a.near |= {{b for b in L if b is not a}}",
    "alike in a set": f"{NODE}L = {{N(), N(), N(1), N(1)}}",
    "only sets": f"{NODE}L = N()\nL.near |= {{N(1), N(2)}}\nfor b in list(L.near): b.near |= {{L, *L.near}}",
    "a mock": "from unittest.mock import MagicMock\nL = MagicMock()",
    "a wrapped that fails": "class C:\n    @property\n    def __wrapped__(self): raise ValueError\nL = C()",
    "an endless one": "class C(list):\n    def __reduce_ex__(self, p): return (list, (), None, iter(int, 1))\nL = C()",
    "a huge number": "L = 10 ** 5000",
    "many objects": f"{NODE}L = [N(k) for k in range(30_000)]",
    "a long sum": "L = eval('lambda: ' + '+'.join(['L'] * 500))",
}


@pytest.mark.parametrize("what", AWKWARD)
def test_nothing_that_a_user_keeps_stops_it(read, what):
    source = f"{AWKWARD[what]}\n{F}L"
    found = read(source)
    assert len(found.parts) <= 20_010
    assert found.parts == read(source).parts


def test_what_is_too_large_is_said(monkeypatch):
    monkeypatch.setattr("cisr.store.fingerprint.reader.MOST_READ", 100)
    many = [object() for _ in range(1000)]
    assert "too large" in fingerprint(lambda: many).unknown[0]
    numbers = list(range(1000))
    assert fingerprint(lambda: numbers).unknown == ()


def test_lambdas_on_one_line_are_told_apart_without_columns(tmp_path):
    import subprocess

    (tmp_path / "lab.py").write_text("a, b = (lambda s: s > 3), (lambda s: s > 7)\n")
    code = "import lab\nfrom cisr.store.fingerprint import fingerprint as f\nassert f(lab.a) != f(lab.b)"
    paths = ":".join([str(tmp_path), *sys.path])
    environ = {"PYTHONNODEBUGRANGES": "1", "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], env=environ, check=True)


class Registered(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)


class Shifted(gymnasium.Wrapper):
    def __init__(self, env, by):
        super().__init__(env)


def environment(**registered):
    options = {"entry_point": Registered, "disable_env_checker": True} | registered
    gymnasium.register("cisr-test/Registered-v0", **options)
    try:
        return fingerprint_of_environment(gymnasium.make("cisr-test/Registered-v0")).parts
    finally:
        gymnasium.registry.pop("cisr-test/Registered-v0")


def shifted(by):
    return (WrapperSpec(name="Shifted", entry_point=f"{__name__}:Shifted", kwargs={"by": by}),)


@pytest.mark.parametrize(
    "changed",
    [
        {"entry_point": lambda: Registered()},
        {"max_episode_steps": 7},
        {"kwargs": {"size": 2}},
        {"additional_wrappers": (1,)},
        {"additional_wrappers": (2,)},
    ],
    ids=["factory", "steps", "options", "wrapper", "another wrapper"],
)
def test_how_an_environment_is_registered_is_part_of_it(changed, monkeypatch):
    monkeypatch.setattr(Registered, "__init__", lambda self, size=1: None)
    if "additional_wrappers" in changed:
        changed = {"additional_wrappers": shifted(*changed["additional_wrappers"])}
        assert environment(**changed) != environment(additional_wrappers=shifted(3))
    assert environment() == environment() != environment(**changed)


def test_two_wrappers_of_one_name_are_both_read():
    def wrapper(pay):
        class Shaped(gymnasium.RewardWrapper):
            PAYS = pay

        return Shaped

    def wrapped(outer, inner):
        return fingerprint_of_environment(wrapper(outer)(wrapper(inner)(Registered()))).parts

    assert wrapped(1, 5) == wrapped(1, 5)
    assert len({str(wrapped(*pays)) for pays in ((1, 5), (9, 5), (5, 1))}) == 3
