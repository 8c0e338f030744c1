"""Bad input by the hundred: command lines and shell lines, each with what the answer must say.

`prepare(folder)` writes the files that command lines name; they are meant to be run in that folder, with the one of
this file on the Python path. The answer is one line on standard error and exit code 2. `bad_calls` has calls from
Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from cisr import Store

BIG = "9" * 5000
LONG = "x" * 300


class CommandLine(NamedTuple):
    """`cisr WORDS` and a part of the one line that it gets."""

    words: tuple[str, ...]
    says: str


class ShellLine(NamedTuple):
    """A line for `sh`, in which `$CISR` runs cisr; what may be on standard error, and the exit code."""

    line: str
    says: str
    code: int


# Files

TASK = "import dataclasses, tiny\n"
MODULES: dict[str, str | bytes] = {
    "raises.py": "raise RuntimeError('no licence [/] in\\nthis [red]house')\n",
    "leaves.py": "import sys\nsys.exit(0)\n",
    "interrupts.py": "class Odd(BaseException): pass\nraise Odd('a strange end')\n",
    "unparsable.py": "def task(:\n    return\n",
    "holds_nul.py": b"task = 1\0\n",
    "latin.py": b"task = 'caf\xe9'\n",
    "endless.py": "def task():\n    return task()\n",
    "needy.py": "def task(size):\n    return size\n",
    "failing.py": "def task():\n    raise KeyError('[/]')\n\ndef leave():\n    raise SystemExit(0)\n",
    "wrong.py": "number, text, nothing, words = 5, 'x', None, ['a']\nclass task: pass\n",
    "lacking.py": "import nowhere_at_all\n",
    "computed.py": "def __getattr__(name):\n    raise ZeroDivisionError(name)\n",
    "misnamed.py": "from tiny import no_such_thing\n",
    "bad-name.py": "task = 3\n",
    "two.parts.py": "task = 3\n",
    "locked.py": TASK + "import threading\n\n"
    "def made():\n    lock = threading.Lock()\n"
    "    make = tiny.task.make_env\n"
    "    return dataclasses.replace(tiny.task, version=1, make_env=lambda **options: (lock, make(**options))[1])\n",
    "unloadable.py": TASK + "import os\n\n"
    "def load(home):\n    assert os.getpid() == home, 'only at home'\n    return Guard(home)\n\n"
    "class Guard:\n    def __init__(self, home):\n        self.home = home\n"
    "    def __reduce__(self):\n        return load, (self.home,)\n"
    "    def __call__(self, **options):\n        return tiny.task.make_env(**options)\n\n"
    "task = dataclasses.replace(tiny.task, make_env=Guard(os.getpid()))\n",
    "axes.py": TASK + "first = lambda state: state[0] > 1\n"
    "task = dataclasses.replace(tiny.task, interventions=tuple(\n"
    "    dataclasses.replace(i, trigger=first) for i in tiny.task.interventions))\n",
    "typed.py": "from cisr import Task\n\n"
    "def task():\n"
    "    return Task(name='[red]x[/]', make_env=1, danger='hole', success=1, interventions=(), horizon=1)\n",
    "named.py": TASK + "task = dataclasses.replace(tiny.task, name='[/] lake [red]')\n",
    "actions.py": TASK + "import gymnasium\n"
    "def make(**options):\n    env = tiny.task.make_env(**options)\n"
    "    env.action_space = gymnasium.spaces.Text(2)\n    return env\n"
    "task = dataclasses.replace(tiny.task, make_env=make)\n",
    "parts.py": TASK + "import gymnasium\n"
    "def make(**options):\n    env = tiny.fragile.make_env(**options)\n"
    "    env.action_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2))\n    return env\n"
    "task = dataclasses.replace(tiny.task, make_env=make, model=None)\n",
    "unguarded.py": TASK + "from cisr import audit\n"
    "def trigger(state):\n    return tiny.task.interventions[0].trigger(state)\n"
    "first = dataclasses.replace(tiny.task.interventions[0], trigger=trigger)\n"
    "task = dataclasses.replace(tiny.task, interventions=(first,), safe_evaluation=None,\n"
    "    appearance=type(tiny.task.appearance)()).with_teaching(interventions=())\n"
    "audit(task, budget=200)\n",
    "crashing.py": TASK + "import gymnasium, os\n\n"
    "class Crashing(gymnasium.Wrapper):\n"
    "    metadata = {'render_modes': ['rgb_array']}\n"
    "    def render(self):\n        os.abort()\n\n"
    "def make(render_mode=None):\n    return Crashing(tiny.task.make_env())\n\n"
    "never = dataclasses.replace(tiny.task.interventions[0], trigger=lambda state: state[..., 0] > 10**6)\n"
    "task = dataclasses.replace(tiny.task.with_teaching(interventions=()), make_env=make, interventions=(never,),\n"
    "    model=None, safe_evaluation=None, appearance=type(tiny.task.appearance)())\n",
    "no_env.py": TASK + "task = dataclasses.replace(tiny.task, make_env=lambda **options: None)\n",
}

FIXED = '{"kind": "fixed", "intervention": %s}'
SWITCHING = '{"kind": "switching", "interventions": ["SR1", "HR"], "thresholds": %s}'
CURRICULA: dict[str, tuple[str | bytes, str]] = {
    "nested.json": ("[" * 200_000, "nested too deeply"),
    "nested-field.json": ('{"kind":' + '{"a":' * 100_000, "nested too deeply"),
    "digits.json": (SWITCHING % f'[{{"min_return": {BIG}, "max_violation": 0}}]', "digits"),
    "digits-patience.json": (
        f'{{"kind": "patient", "interventions": ["SR1"], "thresholds": [], "patience": {BIG}}}',
        "digits",
    ),
    "huge-patience.json": (
        '{"kind": "patient", "interventions": ["SR1"], "thresholds": [], "patience": 1e3}',
        "'patience' is 1000.0: give a whole number",
    ),
    "bom.json": ('\ufeff{"kind": "none"}', "is not JSON (line 1"),
    "nan.json": (SWITCHING % '[{"min_return": NaN, "max_violation": 0}]', "is NaN: give a finite number"),
    "infinity.json": (SWITCHING % '[{"min_return": 0, "max_violation": -Infinity}]', "is -Infinity"),
    "overflow.json": (SWITCHING % '[{"min_return": 1e999, "max_violation": 0}]', "is Infinity"),
    "bool.json": (SWITCHING % '[{"min_return": true, "max_violation": 0}]', "is true: give a finite number"),
    "text-number.json": (SWITCHING % '[{"min_return": "1", "max_violation": 0}]', 'is "1": give a finite'),
    "thresholds-object.json": (SWITCHING % '{"a": 1}', "'thresholds' is {\"a\": 1}: give a list"),
    "thresholds-none.json": (SWITCHING % "null", "'thresholds' is missing"),
    "thresholds-extra.json": (
        SWITCHING % '[{"min_return": 1, "max_violation": 0, "x": 2}]',
        "give an object with min_return and max_violation",
    ),
    "number-name.json": (FIXED % "5", "'intervention' is 5: give the name of an intervention"),
    "list-name.json": (FIXED % '["SR1"]', "give the name of an intervention"),
    "markup-name.json": (FIXED % '"[/] [red]"', "has no intervention '[/] [red]'"),
    "empty-name.json": (FIXED % '""', "has no intervention ''"),
    "binary.json": (bytes(range(256)), "not UTF-8"),
    "utf16.json": ('{"kind": "none"}'.encode("utf-16"), "not UTF-8"),
    "empty.json": ("", "is not JSON (line 1"),
    "blank.json": ("\n\n", "is not JSON (line 3"),
    "nul.json": (b"\0\0", "is not JSON"),
    "cut.json": ('{"kind": "fi', "is not JSON"),
    "two.json": ('{"kind": "none"}{"kind": "none"}', "is not JSON"),
    "list.json": ('["SR1"]', "give a JSON object with a 'kind'"),
    "string.json": ('"SR1"', "give a JSON object with a 'kind'"),
    "number.json": ("17", "give a JSON object with a 'kind'"),
    "null.json": ("null", "give a JSON object with a 'kind'"),
    "no-kind.json": ("{}", "'kind' is missing"),
    "list-kind.json": ('{"kind": ["fixed"]}', "'kind' is"),
    "unknown-kind.json": ('{"kind": "[/]magic"}', 'is "[/]magic": give one of switching'),
    "extra-field.json": ('{"kind": "none", "[/]": 1}', "has a field '[/]'"),
    "no-interventions.json": ('{"kind": "schedule", "interventions": []}', "give a list of names"),
    "string-interventions.json": ('{"kind": "bandit", "interventions": "SR1"}', "give a list of names"),
    "too-many.json": (SWITCHING % "[]", "2 interventions with 0 thresholds"),
    "surrogate.json": (FIXED % '"\\ud800"', "give a text in UTF-8"),
    "[red]name[/].json": ("{", "[red]name[/].json: ].json is not JSON"),
}

HEADER = "curriculum,success\n"
TABLES: dict[str, tuple[str | bytes, str]] = {
    "oversized.csv": (HEADER + "SR1," + "1" * 200_000 + "\n", "field larger than field limit"),
    "nul.csv": (HEADER.encode() + b"SR1,\0\n", "a success of"),
    "nul-header.csv": (b"\0\0\0", "give a CSV file with a header"),
    "binary.csv": (bytes(range(256)), "not UTF-8"),
    "utf16.csv": (HEADER.encode("utf-16"), "not UTF-8"),
    "empty.csv": ("", "has the columns : give a CSV file"),
    "columns.csv": ("a,b\n1,2\n", "has the columns a, b: give a CSV file"),
    "no-measure.csv": ("curriculum,[/]\nSR1,2\n", "has the columns curriculum, [/]"),
    "no-students.csv": (HEADER, "holds no students"),
    "words.csv": (HEADER + "SR1,[red]often\n", "a success of '[red]often' is not a share"),
    "percent.csv": (HEADER + "SR1,90\n", "a success of '90' is not a share"),
    "nan.csv": (HEADER + "SR1,nan\n", "is not a share"),
    "infinite.csv": ("curriculum,return\nSR1,inf\n", "a return of 'inf' is not a number"),
    "digits.csv": ("curriculum,return\nSR1," + BIG + "\n", "is not a number"),
    "underscore.csv": ("curriculum,return\nSR1,1_0\n", "a return of '1_0' is not a number"),
    "short.csv": ("curriculum,success\nSR1\n", "a success of ''"),
    "others.csv": (HEADER + "[/]x,1\n", "has students under [/]x, none under SR1"),
    "quote.csv": ('curriculum,success\n"SR1,1\n', "a success of ''"),
    "negative.csv": ("curriculum,training_failures\nSR1,-3\n", "training_failures of '-3' is not a number ≥ 0"),
}

EXAMPLE = {
    "format": "cisr counterexample", "version": 1, "task": "tiny-lake", "scale": "own", "intervention": "SR1",
    "attacker": "random", "seed": 0, "danger": "failure", "start": [0],
    "turns": [{"action": 0, "reward": 0.0, "state": [0], "rescued": False, "put_to": None}],
}  # fmt: skip


def example(**changes: Any) -> str:
    return json.dumps({**EXAMPLE, **changes})


REPLAYS: dict[str, tuple[str | bytes, str]] = {
    "nested.json": ("[" * 200_000, "nested too deeply"),
    "digits.json": (f'{{"seed": {BIG}}}', "digits"),
    "binary.json": (bytes(range(256)), "not UTF-8"),
    "list.json": ("[]", "is no counterexample"),
    "text.json": ("{", "is not JSON"),
    "format.json": (example(format="[/]"), "is no counterexample"),
    "version.json": (example(version=9), "has version 9"),
    "no-turns.json": (example(turns=[]), "is damaged"),
    "turns.json": (example(turns=5), "is damaged"),
    "turn.json": (example(turns=[1]), "is damaged"),
    "start.json": (example(start={"a": 1}), "is damaged"),
    "ragged.json": (example(start=[[1], [1, 2]]), "is damaged"),
    "seed.json": (example(seed=-1), "seed"),
    "seed-text.json": (example(seed="x"), "is damaged"),
    "seed-infinite.json": (example(seed=1e400), "is damaged"),
    "seed-huge.json": (example(seed=10**40), "seed"),
    "task.json": (example(task="[/]"), "is one of task '[/]'"),
    "intervention.json": (example(intervention="[red]"), "has no intervention '[red]'"),
    "action.json": (example(turns=[{**EXAMPLE["turns"][0], "action": 77}]), "the action 77"),
    "action-text.json": (example(turns=[{**EXAMPLE["turns"][0], "action": "left"}]), "the action 'left'"),
    "reward.json": (example(turns=[{**EXAMPLE["turns"][0], "reward": [1, 2]}]), "is damaged"),
}  # fmt: skip


def prepare(folder: Path) -> None:
    """Everything that the command lines name."""
    for name, content in MODULES.items():
        _write(folder / name, content)
    for kind, files in (("curricula", CURRICULA), ("tables", TABLES), ("replays", REPLAYS)):
        for name, (content, _) in files.items():
            _write(folder / kind / name, content)
    _write(folder / "good.json", '{"kind": "none"}')
    _write(folder / "good.csv", "\ufeffcurriculum,success\nSR1,0.5\nSR1,0.25\n")
    _write(folder / "example.json", example())
    _write(folder / "junk.sqlite", bytes(range(256)) * 40)
    Store(folder / "kept.sqlite").close()
    _write(folder / "kept.sqlite.weights" / "w-1.safetensors", b"weights")
    (folder / "link.json").symlink_to("kept.sqlite")
    (folder / "link.npz").symlink_to("kept.sqlite.weights/w-1.safetensors")
    (folder / "link").symlink_to("kept.sqlite.weights")
    (folder / "folder").mkdir()
    (folder / "[red]folder").mkdir()


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# Command lines

COMPARE, TRAIN = ("compare", "tiny:task", "SR1"), ("train", "tiny:task")
COMMANDS = {
    "train": (), "compare": ("SR1",), "audit": (), "bench": (), "reproduce": (),
}  # fmt: skip

TASKS = {
    "": "There is no task ''",
    "lava": "There is no task 'lava'",
    "[red]lake[/]": "There is no task '[red]lake[/]'",
    "\\[lake": "There is no task '\\[lake'",
    "lake\nlake": "There is no task",
    "lake\x1b[31m": "There is no task 'lake\\x1b[31m'",
    "l" * 5000: "There is no task",
    ":": "names no module",
    ":task": "names no module",
    "tiny:": "names nothing in the module",
    "..tiny:task": "'..tiny'",
    ".:task": "'.'",
    "tiny..x:task": "'tiny..x'",
    "no where:task": "Cannot import 'no where'",
    "[/]:[/]": "Cannot import '[/]'",
    "tiny:[/]": "has no '[/]'",
    "tiny:task.name": "is a str",
    "tiny:task:task": "has no 'task:task'",
    "nowhere.py:task": "There is no file nowhere.py",
    "nowhere/else.py:task": "There is no file nowhere/else.py",
    "folder:task": "has no 'task'",
    "two.parts.py:task": "two.parts.py",
    "bad-name.py:task": "'bad-name.py:task' is a int",
    "json.py:task": "There is no file json.py",
    "raises:task": "Importing 'raises' raised RuntimeError: no licence [/] in this [red]house (raises.py:1",
    "raises.py:task": "RuntimeError: no licence [/]",
    "leaves:task": "Importing 'leaves' raised SystemExit",
    "interrupts:task": "Importing 'interrupts' raised Odd: a strange end",
    "unparsable:task": "SyntaxError: invalid syntax (unparsable.py, line 1)",
    "holds_nul:task": "SyntaxError",
    "latin:task": "SyntaxError",
    "endless:task": "raised RecursionError",
    "needy:task": "raised TypeError: task() missing 1 required positional argument: 'size'",
    "failing:task": "raised KeyError: '[/]'",
    "failing:leave": "raised SystemExit",
    "wrong:number": "'wrong:number' is a int: name a cisr.Task",
    "wrong:text": "is a str",
    "wrong:nothing": "is a NoneType",
    "wrong:words": "is a list",
    "wrong:task": "is a task",
    "lacking:task": "Cannot import 'lacking' for the task 'lacking:task': No module named 'nowhere_at_all'",
    "misnamed:task": "cannot import name 'no_such_thing'",
    "typed:task": "The make_env of task '[red]x[/]' is 1: give a function",
    "os:getcwd": "is a str",
    "cisr:Task": "raised TypeError",
    "tiny:student": "is a StudentConfig",
}

TARGETS = {
    "folder/": "Cannot write folder: it is a folder",
    "[red]folder": "Cannot write [red]folder: it is a folder",
    "good.json/x{suffix}": "Cannot write good.json/x",
    "/dev/null/x{suffix}": "Cannot write /dev/null/x",
    "/proc/nowhere/x{suffix}": "Cannot write /proc/nowhere/x",
    "x" * 300 + "{suffix}": "name too long",
    "": "it is a folder",
}

OUTPUTS = {
    ("compare", "--json"): ".json",
    ("compare", "--figure"): ".png",
    ("train", "--json"): ".json",
    ("train", "--curriculum"): ".json",
    ("audit", "--json"): ".json",
    ("bench", "--json"): ".json",
    ("tasks", "--json"): ".json",
    ("reproduce", "--json"): ".json",
    ("reproduce", "--figure"): ".png",
}

KEPT = (
    "kept.sqlite", "link.json", "./folder/../kept.sqlite-wal", "kept.sqlite-shm", "kept.sqlite-JOURNAL",
    "kept.sqlite.lock", "kept.sqlite.weights/w-1.safetensors", "kept.sqlite.weights/new/x.npz",
    "link/x.onnx", "link.npz",
)  # fmt: skip
"""A store, its parts, and ways to them."""
WRITERS = (
    ("report", "kept.sqlite", "--out"), ("deploy", "kept.sqlite", "--json"), ("audit", "tiny:task", "--out"),
    ("export", "kept.sqlite", "csv", "--out"), ("export", "kept.sqlite", "optuna", "--out"),
    ("export", "kept.sqlite", "tensorboard", "--out"), (*COMPARE, "--tensorboard"), (*COMPARE, "--video"),
)  # fmt: skip

COUNTS = {
    ("compare", "--students"): ("0", "-1", "10" * 9, BIG, "1e18", "[/]", "3.5", "nan"),
    ("compare", "--batch"): ("0", "-1", "1000000000", BIG),
    ("compare", "--workers"): ("-1", "1000000000", BIG, "x"),
    ("compare", "--seed"): ("-1", "1" + "0" * 30, BIG, "0.5", "4294967296"),
    ("train", "--students"): ("0", "-1", "1000000000000"),
    ("train", "--rounds"): ("-1", "1000000000000", "1e18", BIG),
    ("train", "--initial"): ("0", "1000000000000"),
    ("train", "--at-once"): ("0", "1000000000000"),
    ("train", "--patience"): ("0", "-5", "1e3"),
    ("train", "--batch"): ("0", "1000000000"),
    ("train", "--seed"): ("-1", "99999999999999999999"),
    ("audit", "--budget"): ("0", "-1", "1000000000000000000", BIG, "x"),
    ("audit", "--confidence"): ("0", "1", "-1", "nan", "inf", "2", "[/]"),
    ("audit", "--seed"): ("-1", "99999999999999999999"),
    ("audit", "--workers"): ("-1", "1000000000"),
    ("bench", "--repetitions"): ("0", "-1", "1000000000000"),
    ("bench", "--seconds"): ("0", "-1", "nan", "inf", "1e+300", "x"),
    ("bench", "--students"): ("0", "-1", "1000000000000"),
    ("bench", "--seed"): ("-1", "99999999999999999999"),
    ("reproduce", "--teachers"): ("0", "-1", "1000000000000"),
    ("reproduce", "--students"): ("0", "-1", "1000000000000"),
    ("reproduce", "--seed"): ("-1", "99999999999999999999"),
}


def _call(command: str, *options: str) -> tuple[str, ...]:
    """A call that is right but for its options."""
    task = {"tasks": (), "reproduce": ("frozen-lake", "--scale", "quick")}.get(command, ("tiny:task",))
    return (command, *task, *COMMANDS.get(command, ()), *options)


def _command_lines() -> list[CommandLine]:
    lines = [CommandLine(("train", name), says) for name, says in TASKS.items()]
    lines += [
        CommandLine((command, name, *COMMANDS[command]), TASKS[name])
        for command in ("compare", "audit", "bench", "reproduce")
        for name in ("[red]lake[/]", "raises:task", "typed:task", "wrong:number", "failing:leave")
    ]
    lines += [CommandLine(("compare", "tiny:task", f"curricula/{name}"), says) for name, (_, says) in CURRICULA.items()]
    lines += [CommandLine((*COMPARE, "--against", f"tables/{name}"), says) for name, (_, says) in TABLES.items()]
    lines += [
        CommandLine(("audit", "tiny:task", "--replay", f"replays/{name}"), says) for name, (_, says) in REPLAYS.items()
    ]
    lines += [
        CommandLine(_call(command, option, target.format(suffix=suffix)), says if suffix in target else "Cannot write")
        for (command, option), suffix in OUTPUTS.items()
        for target, says in TARGETS.items()
    ]
    lines += [
        CommandLine(_call(command, option, target), "" if option == "--figure" else "kept.sqlite")
        for command, option in OUTPUTS
        for target in KEPT
    ]
    lines += [CommandLine((*words, target), "kept.sqlite") for words in WRITERS for target in KEPT]
    lines += [CommandLine(_call(*of, number), number[:20]) for of, numbers in COUNTS.items() for number in numbers]
    for words, says in OTHERS.items():
        lines.append(CommandLine(words, says))
    return lines


OTHERS: dict[tuple[str, ...], str] = {
    ("nonsense",): "No such command 'nonsense'",
    ("[/]",): "No such command '[/]'",
    ("train",): "Missing argument 'TASK'",
    ("compare", "tiny:task"): "Missing argument 'CURRICULUM...'",
    (*TRAIN, "--nonsense"): "No such option: --nonsense",
    (*TRAIN, "--rounds"): "Option '--rounds' requires an argument",
    (*TRAIN, "extra", "[/]"): "unexpected extra argument",
    (*TRAIN, "--scale", "[/]"): "'[/]' is not one of 'paper', 'quick'",
    (*TRAIN, "--backend", "x"): "'x' is not one of",
    (*TRAIN, "--backend", "compiled"): "has no JAX environment",
    (*TRAIN, "--executor", "slurm"): "'slurm' is not one of 'serial', 'processes', 'ray'",
    (*TRAIN, "--address", "auto"): "--address is about a Ray cluster and the executor is processes",
    (*TRAIN, "--gpus", "--executor", "serial"): "--gpus is about a Ray cluster and the executor is serial",
    (*TRAIN, "--executor", "serial", "--workers", "2"): "The executor serial has no workers, not 2",
    (*TRAIN, "--executor", "ray", "--workers", "0"): "A Ray cluster is to train with 0 workers",
    (*TRAIN, "--executor", "ray", "--gpus", "--backend", "gymnasium"): "GPUs train on the compiled backend",
    (*TRAIN, "--teacher", ""): "is not one of",
    (*TRAIN, "--student", "[red]tall"): "kinds such as '[red]tall'",
    (*TRAIN, "--evaluate-safely=yes"): "does not take a value",
    ("train", "frozen-lake", "--student", "[/]"): "no student '[/]'",
    (*TRAIN, "--store", "folder"): "folder",
    (*TRAIN, "--store", "junk.sqlite"): "junk.sqlite",
    (*TRAIN, "--store", "/dev/null/s"): "Cannot write",
    (*TRAIN, "--store", "s.sqlite", "--json", "s.sqlite"): "--store and --json are both s.sqlite",
    (*TRAIN, "--json", "a.json", "--curriculum", "./a.json"): "--curriculum and --json are both",
    (*COMPARE, "--json", "a.png", "--figure", "a.png"): "--figure and --json are both a.png",
    ("compare", "tiny:task", "good.json", "--json", "good.json"): "--json would replace good.json",
    (*COMPARE, "--against", "good.csv", "--json", "good.csv"): "--json would replace good.csv",
    (*COMPARE, "--figure", "a.jpeg2"): "give a name that ends in",
    (*COMPARE, "--figure", "figure"): "give a name that ends in",
    (*COMPARE, "--figure", "a.[/]"): "give a name that ends in",
    (*COMPARE, "--video", "film.avi"): "ends in .gif or .mp4",
    (*COMPARE, "--video", "folder/"): "it is a folder",
    (*COMPARE, "--trajectories", "t.png"): "has no state plot",
    ("compare", "lunar-lander", "Wide", "--trajectories", "t.txt"): "give a name that ends in",
    ("compare", "tiny:task", "SR9"): "There is no curriculum 'SR9'",
    ("compare", "tiny:task", "[/]"): "There is no curriculum '[/]'",
    ("compare", "tiny:task", ""): "is a directory",
    ("compare", "tiny:task", "folder"): "folder: is a directory",
    ("compare", "tiny:task", "x" * 5000): "There is no curriculum",
    ("compare", "tiny:task", "gone.json"): "gone.json: no such file",
    ("compare", "tiny:task", "/dev/zero"): "/dev/zero: it is larger than",
    ("compare", "tiny:task", "Back-0"): "Rewind(0)",
    ("compare", "tiny:task", "Back-" + BIG): "There is no curriculum",
    ("compare", "tiny:task", "Back-999999999999"): "There is no curriculum",
    ("compare", "tiny:task", "Incremental-" + BIG): "There is no curriculum",
    ("compare", "tiny:task", "Incremental-0"): "Rewind(0)",
    ("compare", "lunar-lander", "Back-2"): "has no intervention 'Back-2'",
    ("compare", "tiny:task", "SR1", "HR", "--students", "99999"): "199998 students in all",
    (*COMPARE, "--against", "gone.csv"): "Cannot read the students in gone.csv",
    (*COMPARE, "--against", "gone.sqlite"): "gone.sqlite",
    (*COMPARE, "--against", "folder"): "folder",
    (*COMPARE, "--against", "junk.sqlite"): "junk.sqlite",
    ("compare", "axes:task", "SR1"): "index its last axis: state[..., 0]",
    ("train", "axes:task"): "index the last axis of the state",
    ("compare", "no_env:task", "SR1"): "made None",
    ("compare", "actions:task", "SR1"): "students act in Discrete, MultiDiscrete",
    ("bench", "no_env:task"): "made None",
    ("audit", "parts:task"): "do not fit the action space Dict",
    ("audit", "tiny:task", "--intervention", "[/]"): "has no intervention '[/]'",
    ("audit", "tiny:task", "--replay", "gone.json"): "gone.json: no such file",
    ("audit", "tiny:task", "--replay", "folder"): "folder: there is no file that ends in .json",
    ("audit", "tiny:task", "--out", "good.json"): "good.json",
    ("audit", "tiny:task", "--out", "/proc/nowhere"): "Cannot write",
    ("bench", "tiny:task", "--backends", ""): "There is no backend ''",
    ("bench", "tiny:task", "--backends", "[/],x"): "There is no backend '[/]'",
    ("bench", "tiny:task", "--backends", "compiled"): "has no JAX environment",
    ("bench", "tiny:task", "--intervention", "[/]"): "has no intervention '[/]'",
    ("reproduce", "tiny:task"): "The paper has no table for 'tiny-lake'",
    ("reproduce", "named:task"): "The paper has no table for '[/] lake [red]'",
    ("reproduce", "frozen-lake", "--way", "mine"): "is not one of",
    ("reproduce", "frozen-lake", "--figure", "a.bmpx"): "give a name that ends in",
    (*COMPARE, "--store", "s", "--json", "s.lock"): "where the store keeps what belongs to it",
    (*COMPARE, "--store", "s", "--json", "s-wal"): "where the store keeps what belongs to it",
    (*COMPARE, "--store", "s", "--figure", "s.weights/curves.png"): "where the store keeps what belongs to it",
    ("train", "tiny:task", "--store", "s", "--curriculum", "s.weights"): "where the store keeps what belongs to it",
    ("report", "."): "A store cannot be",
    ("train", "computed:task"): "'computed:task' raised ZeroDivisionError: task",
    ("report", "gone.sqlite"): "gone.sqlite",
    ("report", "folder"): "folder",
    ("report", "junk.sqlite"): "junk.sqlite",
    ("report", "[/]"): "[/]",
    ("report", "/dev/null"): "/dev/null",
    ("report", "good.json"): "good.json",
    ("report", "gone.sqlite", "--task", "tiny:task"): "give --replay with it",
    ("watch", "gone.sqlite"): "gone.sqlite",
    ("watch", LONG): "there can be none",
    ("report", LONG): "there can be none",
    ("ask", LONG): "name too long",
    ("audit", "tiny:task", "--replay", LONG): "file name too long",
    (*COMPARE, "--store", "kept.sqlite-wal"): "would be a part of the store",
    (*COMPARE, "--store", "kept.sqlite.weights/s.sqlite"): "would be a part of the store",
    ("watch", "junk.sqlite"): "junk.sqlite",
    ("watch", "/dev/null"): "/dev/null",
    ("watch", "folder", "--host", ""): "give another --host",
    ("watch", "folder", "--port", "65536"): "65536",
}

COMMAND_LINES = _command_lines()

SHELL_LINES = [
    ShellLine("$CISR tasks >&-", "", 0),
    ShellLine("$CISR tasks 2>&-", "", 0),
    ShellLine("$CISR tasks <&- >&- 2>&-", "", 0),
    ShellLine("$CISR train lava 2>&-", "", 2),
    ShellLine("$CISR train lava 2>/dev/full", "", 2),
    ShellLine("$CISR tasks >/dev/full", "cisr: Cannot write to standard output: no space left on device", 2),
    ShellLine("$CISR --help >/dev/full", "cisr: Cannot write to standard output: no space left on device", 2),
    ShellLine("$CISR audit tiny:task >/dev/full", "cisr: Cannot write to standard output: no space left", 2),
    ShellLine("$CISR tasks | head -1", "", 0),
    ShellLine("$CISR --help | true", "", 0),
    ShellLine("PYTHONIOENCODING=ascii $CISR tasks", "", 0),
    ShellLine("PYTHONIOENCODING=ascii:strict $CISR train 'läva'", "cisr: There is no task 'l?va'", 2),
    ShellLine("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $CISR audit tiny:task --out ä", "", 0),
    ShellLine("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $CISR report ä", "cisr: ", 2),
    ShellLine("$CISR train \"$(printf '\\377')\"", "give a text in UTF-8", 2),
    ShellLine("$CISR compare locked:made SR1 --store s1", "cannot be sent to a worker process: TypeError", 2),
    ShellLine("$CISR compare unloadable:task SR1 --store s2", "cannot be loaded there: AssertionError: only", 2),
    ShellLine("$CISR compare unguarded:task SR1 --store s8", "it is imported, and a worker process imports it", 2),
    ShellLine("$CISR compare unloadable.py:task SR1 --students 1 --store s3 --workers 0", "", 0),
    ShellLine("$CISR audit crashing:task --budget 2000 --out 'a b'", "", 1),
    ShellLine("$CISR train tiny:task --debug --rounds -1", "Traceback", 1),
    ShellLine("mkdir gone && cd gone && rmdir ../gone && $CISR tasks", "cisr: The current folder cannot be used", 2),
    ShellLine("ln -s loop loop; $CISR compare tiny:task SR1 --store loop", "too many levels of symbolic links", 2),
    ShellLine("ulimit -n 12; $CISR compare tiny:task SR1 --students 1 --store s4", "Too many open files", 2),
    ShellLine("ulimit -f 20; $CISR compare tiny:task SR1 --students 1 --store s5 --workers 0", "cisr: Cannot write", 2),
    ShellLine("mkfifo pipe; $CISR report pipe", "it is no plain file", 2),
    ShellLine("$CISR report /dev/zero", "it is no plain file", 2),
    ShellLine("env -u HOME $CISR compare tiny:task SR1 --students 1 --store s6 --workers 0", "", 0),
    ShellLine("TMPDIR=/nowhere $CISR compare tiny:task SR1 --students 1 --store s7 --workers 1", "", 0),
    ShellLine("$CISR compare tiny:task SR1 --students 1 --workers 0 --store 'a%20?mode=ro#x'", "", 0),
]
"""Where the answer depends on the streams or on worker processes."""
