"""What environments do that their own words deny: observations beyond the bounds of their space, episodes that do not
follow from their seed. No certificate rests on these, and results that others are to get again do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium import spaces

from cisr.auditing.trials import Trials, short
from cisr.cmdp.gymnasium import Env
from cisr.core.moves import Move, standing
from cisr.core.task import Task

N_SEEDS, N_MOVES = 3, 8
"""Episodes that are begun again in another environment, and for how many moves."""


def habits(task: Task, trials: Trials) -> Iterator[tuple[str, np.ndarray | None]]:
    """Each in words, with a state that shows it."""
    yield from _beyond_bounds(task, trials)
    yield from _without_seed(task, trials)


def _beyond_bounds(task: Task, trials: Trials) -> Iterator[tuple[str, np.ndarray | None]]:
    with closing(task.make_env()) as env:
        space = env.observation_space
    if not isinstance(space, spaces.Box):
        return  # of others every observation is looked at when it comes
    seen = np.asarray(trials.moves.observation).astype(space.dtype)
    outside = ((seen < space.low) | (seen > space.high)).reshape(len(seen), -1).any(axis=1)
    for k in np.flatnonzero(outside)[:1]:
        yield f"showed {short(seen[k])}, beyond the bounds of its observation space {space}", trials.moves.state[k]


def _without_seed(task: Task, trials: Trials) -> Iterator[tuple[str, np.ndarray | None]]:
    """The same episodes in two new environments, which wrappers' running statistics have not parted; where they first
    part is told."""
    mend = "call super().reset(seed=seed) and draw from self.np_random alone"
    with closing(task.make_env()) as env, closing(task.make_env()) as other:
        for start, moves in trials.beginnings(N_SEEDS, N_MOVES):
            courses = [_course(task, each, start.seed, [move.action for move in moves]) for each in (env, other)]
            for number, pair in enumerate(zip(*courses, strict=False)):
                if difference := trials.difference(*pair):
                    twice = f"does not keep to its seed: begun twice from {start.seed}"
                    yield f"{twice}, {difference} after move {number}: {mend}", np.asarray(courses[1][0].state)
                    return


def _course(task: Task, env: Env, seed: int, actions: Sequence[Any]) -> list[Move]:
    """Where an episode starts, and its moves."""
    env.reset(seed=seed)
    course = [standing(np.array(task.read_state(env)))]
    for action in actions:
        _, reward, terminated, _, _ = env.step(action)
        course.append(Move(np.array(task.read_state(env)), float(reward), bool(terminated)))
        if terminated:
            break
    return course
