"""What environments do that their own words deny: observations beyond the bounds of their space, episodes that do not
follow from their seed. No certificate rests on these, and results that others are to get again do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
from gymnasium import spaces

from cisr.auditing.trials import Trials, short
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
    """Episodes that are begun again in another environment; the first that goes on otherwise is told."""
    mend = "call super().reset(seed=seed) and draw from self.np_random alone"
    with closing(task.make_env()) as env:
        for start, moves in trials.beginnings(N_SEEDS, N_MOVES):
            env.reset(seed=start.seed)
            now = np.array(task.read_state(env))
            pairs = [(standing(start.state), standing(now))]
            for move in moves:
                _, reward, terminated, _, _ = env.step(move.action)
                pairs.append((move, Move(np.array(task.read_state(env)), float(reward), bool(terminated))))
                if terminated:
                    break
            for number, pair in enumerate(pairs):
                if difference := trials.difference(*pair):
                    yield (
                        f"does not keep to its seed: again from {start.seed}, {difference} after move {number}: {mend}",
                        now,
                    )
                    return
