"""One episode of a student of a store, played once more and kept step by step, with pictures where they are wanted."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cisr.core.task import Task
from cisr.experiments.playing import PlayedStep, by_student, episode_seed, play
from cisr.experiments.trajectories import Trajectory
from cisr.store.load_student import StoredStudent
from cisr.training import STEP_TIMEOUT
from cisr.training.apart import play_apart

MOST_MOMENTS, MOST_PICTURES = 1_000, 300
"""Of an episode; longer ones are thinned. Rescues and ends are never left out."""

Picture = Callable[[Any], bytes]
"""From what an environment draws to a picture as it is kept."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a student is after so many steps; a rescue is a moment of its own, after the move that led to it."""

    state: tuple[float, ...]
    """The first two numbers of the state, or the one that there is."""
    step: int
    total: float | None = None
    """The rewards so far; None where they were not kept."""
    rescued: bool = False
    picture: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Replay:
    student: str
    under: str
    moments: tuple[Moment, ...]
    outcome: str
    failed: bool
    """Whether the outcome is one of the task's dangers."""
    total: float
    steps: int

    @staticmethod
    def of(student: str, under: str, kept: Trajectory) -> Replay:
        """An episode that a store has kept for pictures; of its steps every so-manieth."""
        moments: list[Moment] = []
        n = sum(map(len, kept.flights)) - len(kept.flights)
        done = 0
        for number, flight in enumerate(kept.flights):
            for k, point in enumerate(flight):
                done += bool(k)
                step = round(done * kept.steps / max(n, 1))
                moments.append(Moment(state=point, step=step, rescued=bool(number) and not k))
        return Replay(
            student=student,
            under=under,
            moments=tuple(moments),
            outcome=kept.outcome,
            failed=kept.failed,
            total=kept.total,
            steps=kept.steps,
        )


class Wanted(NamedTuple):
    """An episode that is to be played."""

    name: str
    student: StoredStudent
    under: str
    """The intervention."""
    seed: int
    """Of its run."""
    number: int
    """0, 1, …; every student is given the same ones."""


def replays(
    task: Task, wanted: Sequence[Wanted], picture: Picture | None = None, step_timeout: float = STEP_TIMEOUT
) -> list[Replay]:
    """Play these episodes in a process of its own. With `picture`, what the environment draws is kept too, where it
    does."""
    for episode in wanted:
        task.intervention(episode.under)  # complains about names that it does not have
    found: list[Replay] = play_apart(_play_all, task, wanted, picture, step_timeout=step_timeout)
    return found


def _play_all(task: Task, wanted: Sequence[Wanted], picture: Picture | None, tell: Callable[[], None]) -> list[Replay]:
    return [_played(task, episode, picture) for episode in wanted]


def _played(task: Task, wanted: Wanted, picture: Picture | None) -> Replay:
    name, student, under, seed, number = wanted
    actor, chosen = student.ready(task), episode_seed(seed, number)

    def steps(env: Any) -> Iterator[PlayedStep]:
        act = by_student(copy.copy(actor), chosen)  # a copy, that draws as if for the first time
        return play(task, act, env, under=under, seed=chosen)

    n = sum(1 for _ in steps(task.make_env())) - 1
    env = None if picture is None else _drawing(task)
    every = math.ceil(n / (MOST_MOMENTS if env is None else MOST_PICTURES)) or 1
    if env is None:
        env, picture = task.make_env(), None
    moments: list[Moment] = []
    for k, step in enumerate(steps(env)):
        if k % every and not step.rescued and step.outcome is None:
            continue
        drawn = b"" if picture is None else picture(env.render())
        moments.append(Moment(state=_shown(step.state), step=k, total=step.total, picture=drawn))
        if step.rescued:
            put = step.state if step.outcome is not None else step.after  # the end of an episode puts nobody anywhere
            moments.append(Moment(state=_shown(put), step=k, total=step.total, rescued=True, picture=drawn))
    env.close()
    assert step.outcome is not None
    return Replay(
        student=name,
        under=under,
        moments=tuple(moments),
        outcome=step.outcome,
        failed=step.outcome in task.dangers,
        total=step.total,
        steps=n,
    )


def _drawing(task: Task) -> Any:
    """An environment that draws itself; None where the task has none."""
    try:
        env = task.make_env(render_mode="rgb_array")
        env.reset(seed=0)
        return env if env.render() is not None else None
    except Exception:  # whatever the user's code raises: then there are no pictures
        return None


def _shown(state: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(number), 4) for number in state[:2])
