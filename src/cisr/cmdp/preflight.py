"""Does `read_state` read, do `place` and `restore` put environments back, do predicates answer for each state, and
controllers for each action? Asked before any student is trained: a rescue by a `place` that does nothing would leave
students in danger without a word.

`cisr.testing.check_task` checks much more; this takes a few steps in one environment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp.answers import Answers, checked_state
from cisr.cmdp.copies import misgoing
from cisr.cmdp.memory import way_back
from cisr.cmdp.questions import Questions, raised
from cisr.cmdp.saving import Saving
from cisr.core.errors import AnswerError, CisrError, TaskError, described
from cisr.core.intervention import Drive, Override, Place, Rewind
from cisr.core.moves import holds_standing, standing, unwritable
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

MOST_RESETS, MOST_STEPS = 3, 50
"""Tries to find a state that is not the first one."""


Ask = Callable[[], None]
"""Called before the user's code is."""


def check_state_functions(task: Task, ask: Ask = lambda: None) -> None:
    """Complain about functions that are missing, answer nothing or do nothing; an environment that raises is no concern
    of this check: its students will say so."""
    ask()
    try:
        env = task.make_env()
    except users_errors():
        return
    try:
        _look(task, env, ask)
    finally:
        with contextlib.suppress(*users_errors()):
            ask()
            env.close()


def _look(task: Task, env: Any, ask: Ask) -> None:
    try:
        ask()
        env.reset(seed=0)
    except users_errors():
        return
    first = _read(task, env)
    if task.appearance.state_plot is not None and len(first) < 2:
        raise TaskError(
            f"Task '{task.name}' has a state_plot, on which the first two numbers of a state are drawn: its read_state "
            f"answers {len(first)}."
        )
    check_predicates(task, first, env.action_space)
    way = way_back(task, env) if any(isinstance(i.reset, Rewind) for i in task.interventions) else None
    if way is not None:
        _check_restore(task, env, way, ask)
    vectors = Place if way is not None else (Place, Rewind)
    if not any(isinstance(i.reset, vectors) for i in task.interventions):
        return  # nobody is ever placed by a vector
    elsewhere = _another_state(task, env, first, ask)
    if elsewhere is not None:
        ask()
        _check_place(task, env, first, elsewhere)


def check_predicates(task: Task, state: np.ndarray, actions: gymnasium.Space[Any]) -> None:
    """Ask danger, success, triggers and controllers about several copies of a state (d,): one answer for each is
    expected.

    There are more copies than numbers in a state, or code that indexes the wrong axis could answer the right shape.
    """
    n = len(state) + 1
    states = np.stack([state] * n)  # (d + 1, d)
    move = standing(states)
    asked: list[tuple[str, Any, Any]] = [
        (f"danger '{name}'", partial(holds_standing, danger), (move,)) for name, danger in task.dangers.items()
    ]
    asked.append(("success", partial(holds_standing, task.success), (move,)))
    nobody = np.zeros(n, bool)  # whether an action is done here is not known
    for intervention in task.interventions:
        action = np.stack([np.asarray(actions.sample())] * n) if intervention.judges_actions else None
        about = (states,) if action is None else (states, action)
        asked += [(f"trigger '{name}' of '{intervention.name}'", f, about) for name, f in intervention.triggers.items()]
        questions = Questions(task, intervention, n, actions)
        match intervention.reset:
            case Drive(controller):
                questions.actions("controller", controller, states, used=nobody)
                asked.append((f"until of '{intervention.name}'", intervention.safe, (states,)))
            case Override(act):
                questions.actions("act", act, *about, used=nobody)
    for what, predicate, about in asked:
        check_verdict(f"The {what} of task '{task.name}'", predicate, about, states.shape)


def check_verdict(who: str, predicate: Any, about: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """One bool for each of the states of a shape (..., d)."""
    mend = "answer one bool for each state, and index its last axis: state[..., 0], not state[0]"
    try:
        verdict = np.asarray(predicate(*map(unwritable, about)))
    except CisrError:
        raise
    except users_errors() as error:
        raise TaskError(f"{who} {raised(error)}, asked about states of shape {shape}: {mend}.") from error
    if verdict.shape != shape[:-1] or verdict.dtype != bool:
        raise TaskError(
            f"{who} answered {verdict.dtype} of shape {verdict.shape}, asked about states of shape {shape}; expected "
            f"was bool of shape {shape[:-1]}: {mend}."
        )


def _read(task: Task, env: Any) -> np.ndarray:
    try:
        return checked_state(task.read_state(env))
    except AnswerError as error:
        raise TaskError(f"Task '{task.name}': {error}") from error
    except users_errors() as error:
        raise TaskError(
            f"Task '{task.name}': its read_state raised {described(error)}. Give a function of the environment that "
            f"returns its state as a vector of numbers (d,)."
        ) from error


def _another_state(task: Task, env: Any, first: np.ndarray, ask: Ask) -> np.ndarray | None:
    """Bring the environment into a state that is not the first one; None where that cannot be done."""
    try:
        for seed in range(1, MOST_RESETS + 1):
            ask()
            env.reset(seed=seed)
            if not np.array_equal(state := _read(task, env), first):
                return state
        env.action_space.seed(0)
        for _ in range(MOST_STEPS):
            ask()
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset(seed=0)
            elif not np.array_equal(state := _read(task, env), first):
                return state
    except TaskError:
        raise
    except users_errors():
        return None
    return None


def _goes_elsewhere(task: Task, env: Any, first: np.ndarray, ask: Ask) -> bool:
    """Whether an episode leaves its first state before it ends."""
    env.action_space.seed(0)
    for _ in range(MOST_STEPS):
        ask()
        try:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        except users_errors():
            return False
        if terminated or truncated:
            return False
        if not np.array_equal(_read(task, env), first):
            return True
    return False


def _check_restore(task: Task, env: Any, way: Saving, ask: Ask) -> None:
    """Save the first state of an episode, go elsewhere in it, and come back."""
    asked = f"Task '{task.name}': its restore, asked to put the environment back to where it was saved,"
    mend = "Give save(env), and restore(env, saved) that puts it back there and returns the observation."
    ask()
    env.reset(seed=0)
    first = _read(task, env)
    ask()
    try:
        saved = way.save(env)
    except CisrError as error:
        raise TaskError(f"Task '{task.name}': {error}") from error
    except users_errors() as error:
        raise TaskError(f"Task '{task.name}': its save raised {described(error)}. {mend}") from error
    if not _goes_elsewhere(task, env, first, ask):
        return
    # before the first restore: that cuts whatever parts of the environment share, and copies would agree from then on
    if way.exact and (difference := misgoing(task, env, way, ask)):
        raise TaskError(
            f"Task '{task.name}': its environment was put back by a copy and did not go on as it had before: "
            f"{difference}. Something in it is not copied, such as a simulator's own memory, an open handle or a "
            f"global: give the task save(env) and restore(env, saved), see `cisr.saving`."
        )
    for _ in range(2):  # a state may be gone back to more than once
        ask()
        try:
            seen = way.restore(env, saved)
        except users_errors() as error:
            raise TaskError(f"{asked} raised {described(error)}. {mend}") from error
        try:
            if seen is not None:
                Answers(env.observation_space).observation(seen, "restore")
        except AnswerError as error:
            raise TaskError(f"Task '{task.name}': {error}") from error
        if not np.allclose(_read(task, env), first, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise TaskError(f"{asked} left it where it was, or led elsewhere. {mend}")


def _check_place(task: Task, env: Any, first: np.ndarray, elsewhere: np.ndarray) -> None:
    asked = f"Task '{task.name}': its place, asked to put the environment back into its first state,"
    mend = "Give a function place(env, state) that puts it there and returns the observation there."
    assert task.place is not None
    try:
        seen = task.place(env, first.copy())
    except users_errors() as error:
        raise TaskError(f"{asked} raised {described(error)}. {mend}") from error
    if seen is None:
        raise TaskError(f"{asked} answered None. {mend}")
    try:
        Answers(env.observation_space).observation(seen, "place")
    except AnswerError as error:
        raise TaskError(f"Task '{task.name}': {error}") from error
    was, wanted, now = (np.nan_to_num(state.astype(float)) for state in (elsewhere, first, _read(task, env)))
    nearby = 0.5 * abs(was - wanted) + 1e-3 * (1 + abs(wanted))  # simulators round; half of the way is no rounding
    if (abs(now - wanted) > nearby).any():
        raise TaskError(f"{asked} left it where it was, or led elsewhere. {mend}")
