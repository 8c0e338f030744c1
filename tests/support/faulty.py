"""Lakes that misbehave at a random moment, in a way that follows from a seed.

What goes wrong is said in the file that the variable MISCHIEF names: where (which function of the task), how, at which
call, and whether once or always. The code of the task says nothing of it, so a store takes lakes that misbehave and
lakes that do not for the same task, and what a fault does to everybody else can be told cell by cell.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import tiny

from cisr.core.task import Move

LONG = 1000


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class OfItsOwn(BaseException):
    """As libraries written in other languages raise."""


def _raise(error: BaseException) -> None:
    raise error


def _recurse() -> None:
    _recurse()


def _fork(then: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        then()
    return child


def _wait_in_a_child() -> None:
    time.sleep(LONG)
    os._exit(0)


def _wait_as_a_daemon() -> None:
    os.setsid()
    time.sleep(4 * 60)  # nobody else ends it
    os._exit(0)


def _die_and_leave(child: Callable[[], None]) -> None:
    _fork(child)
    os.kill(os.getpid(), signal.SIGSEGV)


def _end_by_alarm() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGALRM)


def _never(event: threading.Event | None = None) -> None:
    (event or threading.Event()).wait(LONG)


def _spin() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


RAISES: dict[str, Callable[[], object]] = {
    "an error": lambda: _raise(RuntimeError("the ice broke")),
    "an endless message": lambda: _raise(ValueError("[/red]\n\x1b[31m\0" + "ice " * 5000)),
    "half a character": lambda: _raise(ValueError("half \ud800 a letter")),
    "an error without words": lambda: _raise(UnspeakableError()),
    "the end of an iteration": lambda: _raise(StopIteration()),
    "the end of a generator": lambda: _raise(GeneratorExit()),
    "an error beside Exception": lambda: _raise(OfItsOwn("panic")),
    "an exit": lambda: _raise(SystemExit(0)),
    "an interrupt": lambda: _raise(KeyboardInterrupt()),
    "a lack of memory": lambda: _raise(MemoryError("of the simulator")),
    "endless recursion": _recurse,
    "a broken pipe": lambda: _raise(BrokenPipeError(32, "Broken pipe")),
    "a question": input,
    "a question to a child": lambda: subprocess.run(["head", "-c", "1"], check=True, capture_output=True).stdout[0],
}
HANGS: dict[str, Callable[[], object]] = {
    "sleep": lambda: time.sleep(LONG),
    "wait": _never,
    "spin": _spin,
    "hold the lock": lambda: ctypes.PyDLL(None).sleep(LONG),
    "wait for a child": lambda: subprocess.run(["sleep", str(LONG)], check=True),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}
DEATHS: dict[str, Callable[[], object]] = {
    "abort": os.abort,
    "violate a segment": lambda: ctypes.string_at(1),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "alarm": _end_by_alarm,
    "exit with 0": lambda: os._exit(0),
    "exit with 71": lambda: os._exit(71),
    "exit with 72": lambda: os._exit(72),
    "die and leave a child": lambda: _die_and_leave(_wait_in_a_child),
    "die and leave a daemon": lambda: _die_and_leave(_wait_as_a_daemon),
    "close all files": lambda: os.closerange(0, 64),
    "return twice": lambda: _fork(lambda: None),
}
HARMLESS: dict[str, Callable[[], object]] = {
    "leave a child": lambda: _fork(_wait_in_a_child),
    "leave a program": lambda: subprocess.Popen(["sleep", str(LONG)]),
    "leave a thread": lambda: threading.Thread(target=_never, daemon=True).start(),
    "print": lambda: print("[/] ice", "ice" * 10_000, flush=True),
    "write to standard output": lambda: os.write(1, b"\xff" * 100),
    "warn": lambda: warnings.warn("thin ice", stacklevel=1),
    "have warnings raise": lambda: warnings.simplefilter("error"),
    "go elsewhere": lambda: os.chdir("/"),
    "seed": lambda: np.random.seed(0),
    "have arithmetic raise": lambda: np.seterr(all="raise"),
    "keep memory": lambda: sys.modules.setdefault(f"kept {time.monotonic()}", b"\1" * 100_000_000),  # type: ignore[arg-type]
    "ignore signals": lambda: [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGALRM, signal.SIGCHLD)],
}
"""Nobody's numbers change by these."""

ODD_NUMBERS: dict[str, Any] = {
    "not a number": np.nan,
    "infinity": np.inf,
    "nothing": None,
    "words": "ice",
    "a list": [[0.0]],
    "a complex number": 1j,
    "an object": object(),
}


def _odd_steps() -> dict[str, Callable[[Any], Any]]:
    ways: dict[str, Callable[[Any], Any]] = {
        "no step": lambda answer: None,
        "a list for a step": list,
        "four parts of a step": lambda answer: answer[:4],
        "a step of before 2022": lambda answer: (*answer[:2], answer[2] or answer[3], answer[4]),
    }
    for name, value in ODD_NUMBERS.items():
        ways[f"{name} for a reward"] = lambda answer, v=value: (answer[0], v, *answer[2:])
        ways[f"{name} for an observation"] = lambda answer, v=value: (v, *answer[1:])
        if value is not np.inf:
            ways[f"{name} for an end"] = lambda answer, v=value: (*answer[:2], v, *answer[3:])
    ways["a huge reward"] = lambda answer: (answer[0], 1e300, *answer[2:])
    ways["a hole in an observation"] = lambda answer: (_with_a_hole(answer[0]), *answer[1:])
    ways["half an observation"] = lambda answer: (np.asarray(answer[0])[:1], *answer[1:])
    return ways


def _with_a_hole(seen: Any) -> np.ndarray:
    array = np.array(seen, float)
    array.flat[0] = np.nan
    return array


STEPS = _odd_steps()
RESETS: dict[str, Callable[[Any], Any]] = {
    "no reset": lambda answer: None,
    "an observation alone": lambda answer: answer[0],
    "three parts of a reset": lambda answer: (*answer, {}),
    "a hole in a first observation": lambda answer: (_with_a_hole(answer[0]), answer[1]),
    "half a first observation": lambda answer: (np.asarray(answer[0])[:1], answer[1]),
}
STATES: dict[str, Callable[[Any], Any]] = {
    "no state": lambda state: None,
    "two states": lambda state: np.concatenate([state, state]),
    "a state in words": lambda state: ["ice"],
    "a number for a state": lambda state: 0,
}
VERDICTS: dict[str, Callable[[Any], Any]] = {
    "no verdict": lambda verdict: None,
    "one verdict for all": lambda verdict: np.True_,
    "numbers for verdicts": lambda verdict: np.asarray(verdict).astype(float),
    "verdicts of another shape": lambda verdict: np.asarray(verdict)[..., None],
}
REWARDS: dict[str, Callable[[Any], Any]] = {
    "no pay": lambda paid: None,
    "pay that is no number": lambda paid: paid * np.nan,
    "endless pay": lambda paid: np.asarray(paid) + np.inf,
    "pay of another shape": lambda paid: paid[..., None],
}
JAX_STEPS: dict[str, Callable[[Move], Any]] = {
    "no outcome": lambda outcome: None,
    "a JAX environment that pays no number": lambda outcome: outcome._replace(reward=outcome.reward * jnp.nan),
    "a JAX environment that pays no number at last": lambda outcome: outcome._replace(
        reward=jnp.where(outcome.terminated, jnp.nan, outcome.reward)
    ),
    "a JAX environment that pays infinity": lambda outcome: outcome._replace(reward=outcome.reward + jnp.inf),
    "a JAX environment that pays double": lambda outcome: outcome._replace(reward=outcome.reward[..., None]),
    "a JAX environment that ends by a number": lambda outcome: outcome._replace(
        terminated=outcome.terminated.astype(float)
    ),
    "a JAX environment that moves by halves": lambda outcome: outcome._replace(state=outcome.state + 0.5),
}
ACTS = RAISES | HANGS | DEATHS | HARMLESS
ANSWERS = {"step": STEPS, "reset": RESETS, "read_state": STATES, "trigger": VERDICTS, "danger": VERDICTS,
           "reward": REWARDS, "jax_env.step_env": JAX_STEPS}  # fmt: skip
WHERE = {
    "gymnasium": ("step", "reset", "make_env", "close", "read_state", "place", "trigger", "danger", "reward"),
    "compiled": ("jax_env.step_env", "jax_env.reset_env", "jax_env", "trigger", "danger", "reward"),
}
"""Functions of a task that each backend calls; those of a JAX environment are called while it is compiled."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """What goes wrong."""

    where: str
    how: str
    at: int
    """At which call of that function, counted in each process."""
    once: bool
    """Or at each from then on."""

    def tell(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")


def in_worker() -> bool:
    return sys.argv[:1] == ["-c"]


def due(where: str) -> str:
    """How the task is to misbehave now; mostly not at all. What it is to do rather than to answer is done here."""
    path = Path(os.environ.get("MISCHIEF", os.devnull))
    try:
        told = json.loads(path.read_text(encoding="utf-8") or "{}")
    except OSError:
        return ""
    if told.get("where") != where:
        return ""
    calls = int(os.environ.get("CALLS", "0")) + 1
    os.environ["CALLS"] = str(calls)  # where no fingerprint takes it for a part of the task
    how = told["how"]
    if calls < told["at"] or (how in HANGS | DEATHS and not in_worker()):
        return ""
    if told["once"]:
        try:
            path.rename(path.with_suffix(".done"))
        except OSError:  # another process was first
            return ""
    if how in ACTS:
        ACTS[how]()
    return str(how)


def answered(where: str, answer: Any) -> Any:
    change = ANSWERS[where].get(due(where))
    return answer if change is None else change(answer)


class Faulty(gymnasium.Wrapper[Any, Any, Any, Any]):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return answered("reset", self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> Any:
        return answered("step", self.env.step(action))

    def close(self) -> None:
        due("close")
        self.env.close()


def make_env(**options: Any) -> Any:
    due("make_env")
    return Faulty(tiny.task.make_env(**options))


def read_state(env: Any) -> Any:
    return answered("read_state", tiny.task.read_state(env))


def place(env: Any, state: Any) -> Any:
    due("place")
    return tiny.task.place(env, state)


def danger(move: Any) -> Any:
    return answered("danger", tiny.task.dangers["failure"](move))


def reward(transition: Any) -> Any:
    return answered("reward", transition.move.reward)


def _intervention(of_lake: Any) -> Any:
    return dataclasses.replace(of_lake, trigger=lambda state: answered("trigger", of_lake.triggers["rescues"](state)))


class FaultyJaxEnv:
    """The lake's JAX environment."""

    def __init__(self) -> None:
        due("jax_env")
        assert tiny.compiled.jax_env is not None
        self._jax_env = tiny.compiled.jax_env()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jax_env, name)

    def reset_env(self, u: Any, params: Any) -> Any:
        due("jax_env.reset_env")
        return self._jax_env.reset_env(u, params)

    def step_env(self, u: Any, state: Any, action: Any, params: Any) -> Any:
        return answered("jax_env.step_env", self._jax_env.step_env(u, state, action, params))


gymnasium_lake = dataclasses.replace(
    tiny.task.with_training(n_units=2),
    name="faulty-lake",
    make_env=make_env,
    read_state=read_state,
    place=place,
    danger=danger,
    reward=reward,
    interventions=tuple(_intervention(each) for each in tiny.task.interventions),
)
compiled_lake = dataclasses.replace(gymnasium_lake, name="faulty-jax", jax_env=FaultyJaxEnv)
