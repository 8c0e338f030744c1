"""Does an environment that is put back to where it was copied go on from there as it did?

What cannot be copied (a simulator's own memory, an open handle, a global of a module) is not put back, and students
would learn from rescues that leave something of the undone steps behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cisr.cmdp.answers import Answers, checked_state, copied
from cisr.cmdp.luck import equal_luck
from cisr.cmdp.saving import Env, Saving, Snapshot
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

N_BEFORE, N_AFTER = 5, 15
"""Steps before it is copied, and steps that are compared."""
ROUNDING, OF_CHANGE = 1e-6, 1e-3
"""Relative to the largest of a number, and to how much it changes."""
SEED = 0

Course = np.ndarray
"""(n, k) what n steps came to: state, observation, reward and end."""


def misgoing(task: Task, env: Env, way: Saving, ask: Callable[[], None]) -> str | None:
    """How it goes on otherwise than before, in words; None where it does not, and where random numbers cannot be made
    equal, or the environment raises, so that nobody knows."""
    try:
        saved, actions = _copied(env, way, ask)
        courses = [_course(task, env, saved, actions, ask)]
        for _ in range(2):
            ask()
            way.restore(env, saved)
            courses.append(_course(task, env, saved, actions, ask))
        first, second, third = courses
        if (difference := _difference(first, second)) is None:
            return None
        if _difference(second, third) is not None:  # by chance, or because even more was left behind
            again = [_course(task, env, *_copied(env, way, ask), ask) for _ in range(2)]
            if _difference(*again) is not None:
                return None
    except users_errors():
        return None
    return difference


def _copied(env: Env, way: Saving, ask: Callable[[], None]) -> tuple[Snapshot, list[Any]]:
    """A copy of the environment in the middle of an episode, and actions to go on by; the same every time."""
    env.action_space.seed(SEED)
    actions = [env.action_space.sample() for _ in range(N_BEFORE + N_AFTER)]
    ask()
    env.reset(seed=SEED)
    for action in actions[:N_BEFORE]:
        ask()
        _, _, terminated, truncated, _ = env.step(copied(action))
        if terminated or truncated:
            env.reset(seed=SEED)
            break
    ask()
    return way.save(env), actions[N_BEFORE:]


def _course(task: Task, env: Env, saved: Snapshot, actions: Sequence[Any], ask: Callable[[], None]) -> Course:
    """Time limits run on through rescues: `truncated` is not looked at."""
    answers, steps = Answers(env.observation_space), []
    with equal_luck(saved.shared, SEED):
        for action in actions:
            ask()
            observation, reward, terminated, _, _ = env.step(copied(action))
            seen = answers.observation(observation, "The environment's step")
            state = checked_state(task.read_state(env))
            steps.append(np.concatenate([state, seen.ravel(), [reward, terminated]]).astype(float))
            if terminated:
                break
    return np.stack(steps)


def _difference(one: Course, other: Course) -> str | None:
    n = min(len(one), len(other))
    both = np.concatenate([one, other])
    with np.errstate(invalid="ignore"):
        tolerance = ROUNDING * np.abs(both).max(axis=0) + OF_CHANGE * (both.max(axis=0) - both.min(axis=0))
        near = np.abs(one[:n] - other[:n]) <= np.nan_to_num(tolerance, nan=0.0, posinf=0.0)
    differing = np.argwhere(~(near | (one[:n] == other[:n]) | (np.isnan(one[:n]) & np.isnan(other[:n]))))
    if not len(differing):
        return None if len(one) == len(other) else f"its episode ends after {len(other)} steps instead of {len(one)}"
    step, k = differing[0].tolist()
    return f"after {step + 1} steps it told {other[step, k]:.6g} where it had told {one[step, k]:.6g}"
