"""What students do, episode by episode, on the task's own environment: played here, drawn and filmed elsewhere.

A task with a `state_plot` has pictures of where its students went. The store keeps a few episodes of its finished
students for that, because a report reads nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from cisr.cmdp.episodes import outcome_of
from cisr.core.errors import NotInstalled
from cisr.core.libraries import GYMNASIUM
from cisr.core.seeding import derive_seed
from cisr.core.task import Task
from cisr.experiments.trajectories import Point, Trajectory
from cisr.store import Store
from cisr.store.load_student import StoredStudent, stored_student
from cisr.students.kinds import Actor
from cisr.training import STEP_TIMEOUT, Transcript
from cisr.training.apart import play_apart

if GYMNASIUM:  # compiled students do without
    import gymnasium

    from cisr.cmdp.gymnasium import InducedCMDPs

Act = Callable[[Any], Any]
"""From an observation to an action."""

N_STUDENTS, N_EPISODES = 5, 2
"""Finished students of each curriculum whose episodes are kept, and how many of each."""
MOST_POINTS = 200
"""Of an episode without rescues; longer ones are thinned."""


class PlayedStep(NamedTuple):
    """One step of an episode; the first has only a state."""

    state: np.ndarray  # (d,) moved to, before any rescue
    after: np.ndarray  # (d,) where the step left the student
    rescued: bool
    total: float  # the rewards so far
    outcome: str | None  # how the episode ended with this step


def play(
    task: Task, act: Act, env: gymnasium.Env[Any, Any], *, under: str = "none", seed: int = 0
) -> Iterator[PlayedStep]:
    """One episode in M_i, step by step; `env` is one that the task made."""
    cmdp = InducedCMDPs(task, task.intervention(under), [env])
    observation = cmdp.seed([seed])[0]
    start = np.array(task.read_state(env))
    yield PlayedStep(start, start, False, 0.0, None)
    total, ended = 0.0, False
    while not ended:
        step = cmdp.step(np.array([act(observation)]))
        observation = cmdp.observations[0]
        total += float(step.reward[0])
        ended = bool(step.terminated[0] or step.truncated[0])
        outcome = task.outcomes[outcome_of(step.outcomes[0])] if ended else None
        after = np.array(task.read_state(env))
        yield PlayedStep(cmdp.transition.move.state[0], after, bool(step.rescued[0]), total, outcome)


def by_student(student: Actor, seed: int = 0) -> Act:
    """A student acting as it does when deployed."""
    return lambda observation: student.predict(observation, seed=seed)


def at_random(task: Task, seed: int = 0) -> Act:
    """Actions by chance: a student that knows nothing yet."""
    env = task.make_env()
    env.action_space.seed(seed)
    return lambda observation: env.action_space.sample()


def trajectory(task: Task, act: Act, *, under: str = "none", seed: int = 0) -> Trajectory:
    """Play one episode and draw it on the first two numbers of the true state."""
    env = task.make_env()
    flights: list[list[Point]] = [[]]
    steps = -1
    for step in play(task, act, env, under=under, seed=seed):
        steps += 1
        flights[-1].append(_point(step.state))
        if step.rescued and step.outcome is None:
            flights.append([_point(step.after)])
    env.close()
    assert step.outcome is not None
    every = math.ceil(steps / MOST_POINTS)
    return Trajectory(
        flights=tuple((*flight[:-1:every], flight[-1]) for flight in flights),
        outcome=step.outcome,
        failed=step.outcome in task.dangers,
        total=step.total,
        steps=steps,
    )


def _point(state: np.ndarray) -> Point:
    x, y = (round(float(number), 4) for number in state[:2])
    return x, y


def keep_trajectories(
    store: Store,
    task: Task,
    groups: Mapping[str, Sequence[Transcript]],
    seed: int,
    under: str = "none",
    *,
    n_workers: int | None = None,
    step_timeout: float = STEP_TIMEOUT,
) -> None:
    """Play the first finished students of each curriculum and keep their episodes; nothing is played twice.

    Every student flies the same episodes, so their lines can be compared.
    """
    if task.appearance.state_plot is None or not GYMNASIUM:
        return  # where students were trained without Gymnasium there are no pictures
    kept = store.trajectories()
    wanted = [t.name for group in groups.values() for t in [t for t in group if t.deployment][:N_STUDENTS]]
    missing = {student: stored_student(store, student) for student in wanted if student not in kept}
    if missing:
        try:
            played = play_apart(_played, task, missing, seed, under, n_workers=n_workers, step_timeout=step_timeout)
        except NotInstalled:
            if task.jax_env is None:
                raise
            return  # what it needs is missing too
        store.keep_trajectories(played)


def _played(
    task: Task, students: Mapping[str, StoredStudent], seed: int, under: str, tell: Callable[[], None]
) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [asdict(episode) for episode in episodes(task, name, student, seed, under)]
        for name, student in students.items()
    }


def episodes(task: Task, name: str, student: StoredStudent, seed: int, under: str) -> list[Trajectory]:
    """A few episodes of a student of a store."""
    act = by_student(student.ready(task), derive_seed(seed, name, "trajectories"))
    return [trajectory(task, act, under=under, seed=episode_seed(seed, k)) for k in range(N_EPISODES)]


def episode_seed(seed: int, number: int) -> int:
    """The seed of an episode that is shown, the same for all students."""
    return derive_seed(seed, "trajectory", number)
