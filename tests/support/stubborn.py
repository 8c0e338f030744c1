"""Lakes that do not answer, quit the program or keep memory.

The file that the variable MISCHIEF names says where and how, from the moment it is there; a process that does so leaves
its number in a file beside it.
"""

import ctypes
import dataclasses
import os
import signal
import time
from pathlib import Path

import gymnasium
import tiny

from cisr import Teaching

HELD = []


def block_with_the_lock():
    """A library that never answers and holds Python's lock."""
    ctypes.PyDLL(None).sleep(1000)


def quit_program():
    raise SystemExit("the simulator has had enough")


def interrupt_itself():
    raise KeyboardInterrupt("the simulator pressed Ctrl-C")


def leave_a_child_and_crash():
    """A simulator whose helper survives it, in a session of its own and with all that it had open."""
    if os.fork() == 0:
        os.setsid()
        Path(os.environ["MISCHIEF"]).with_suffix(".child").write_text(f"{os.getpid()}\n")
        time.sleep(1000)
    os.abort()


WAYS = {
    "lock": block_with_the_lock,
    "crash": os.abort,
    "child": leave_a_child_and_crash,
    "sleep": lambda: time.sleep(1000),
    "exit": quit_program,
    "interrupt": interrupt_itself,
    "signal": lambda: os.kill(os.getpid(), signal.SIGINT),
}


def tell(path, where, how):
    written = path.with_suffix(".new")
    written.write_text(f"{where}: {how}")
    written.rename(path)


def maybe(where):
    path = os.environ.get("MISCHIEF", "")
    if os.path.exists(path):
        wanted, how = Path(path).read_text().split(": ")
        if wanted == where:
            Path(path).with_suffix(".pid").write_text(f"{os.getpid()}\n")
            WAYS[how]()


class Stubborn(gymnasium.Wrapper):
    def reset(self, *, seed=None, options=None):
        maybe("reset")
        if seed is not None:
            self._seed = seed
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        maybe("step")
        maybe(f"step after {self._seed}")
        return self.env.step(action)

    def render(self):
        maybe("render")
        return self.env.render()

    def close(self):
        maybe("close")
        self.env.close()


def make_env(**options):
    maybe("make_env")
    return Stubborn(tiny.task.make_env(**options))


def trigger_of(intervention):
    def trigger(state):
        maybe("trigger")
        return intervention.triggers["rescues"](state)

    return dataclasses.replace(intervention, trigger=trigger)


task = dataclasses.replace(
    tiny.task,
    name="stubborn-lake",
    make_env=make_env,
    interventions=tuple(trigger_of(intervention) for intervention in tiny.task.interventions),
)


scenic = dataclasses.replace(
    task,
    name="scenic-lake",
    read_state=lambda env: tiny.task.read_state(env).repeat(2),
    interventions=(),
    safe_evaluation=None,
    place=lambda env, state: tiny.task.place(env, state[:1]),
    training=dataclasses.replace(task.training, n_units=1, deployment_steps=50, teaching=Teaching()),
    appearance=dataclasses.replace(
        task.appearance,
        state_plot={"axes": ["x", "y"], "limits": [[0, 1], [0, 1]], "lines": {}, "interventions": {}},
    ),
)


hidden = dataclasses.replace(task, read_state=lambda env: tiny.task.read_state(env))  # shows no model: is attacked


def pay(transition):
    maybe("reward")
    return transition.move.reward


paying = dataclasses.replace(task, name="paying-lake", reward=pay)


def leaking_env(**options):
    """A lake that keeps 70 MB each time."""
    HELD.append(b"\1" * 70_000_000)
    return tiny.task.make_env(**options)


leaking = dataclasses.replace(tiny.task, name="tiny-lake", make_env=leaking_env)
