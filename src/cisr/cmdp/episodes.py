"""What episodes come to, in array code for numpy and jax alike.

An account (`Episode`) grows with every step of an environment; a closed one is worth a return, a score, a violation and
an outcome, as the sum (`Sums`) of a single episode. Compiled programs add these up as episodes end; hosts keep them one
by one (`EpisodeLog`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cisr.cmdp.rules import Step
from cisr.core.constraints import violation
from cisr.core.intervention import Array
from cisr.core.task import Task


class Episode(NamedTuple):
    """What an episode has run up so far."""

    steps: Array  # (...) the student's own
    total_reward: Array  # (...)
    failures: Array  # (...)
    rescues: Array  # (...)
    driven: Array  # (...) steps of controllers
    constraint_values: Array  # (..., m)


class Sums(NamedTuple):
    """Episodes of a student, added up."""

    episodes: Array  # (...)
    steps: Array  # (...)
    total_reward: Array  # (...)
    score: Array  # (...) total reward, or the score of a violation where an episode had a rescue or a failure
    violation: Array  # (...) rescues beyond the tolerance
    constraint_values: Array  # (..., m)
    failures: Array  # (...)
    rescues: Array  # (...)
    driven: Array  # (...) steps of controllers
    outcomes: Array  # (..., n) in the order of the task's outcomes


def opening(task: Task, shape: tuple[int, ...], xp: Any = np) -> Episode:
    """The accounts of episodes that have not begun."""
    zero = xp.zeros(shape)
    return Episode(zero, zero, zero, zero, zero, xp.zeros((*shape, len(task.constraints))))


def enter(episode: Episode, step: Step) -> Episode:
    """The accounts after one more step."""
    return Episode(
        steps=episode.steps + 1,
        total_reward=episode.total_reward + step.reward,
        failures=episode.failures + step.failed,
        rescues=episode.rescues + step.rescued,
        driven=episode.driven + step.driven,
        constraint_values=step.constraint_values,
    )


def reopen(episode: Episode, ended: Array) -> Episode:
    """The accounts with new ones in the place of those that have ended (...)."""
    return Episode(*(_where(~ended, field) for field in episode))


def outcome_of(holds: Array) -> Array:
    """Which of a task's outcomes it is, (...): the first that holds (..., n − 1), else the last."""
    n = holds.shape[-1]
    xp = holds.__array_namespace__()
    return xp.where(holds.any(axis=-1), xp.argmax(holds, axis=-1), n)


def close(episode: Episode, holds: Array, violation_score: Array | float) -> Sums:
    """What each episode came to that ended with this step, of whose outcomes these hold (..., n − 1).

    `violation_score` replaces the return of an episode with a rescue or a failure; NaN: nothing does.
    """
    xp = holds.__array_namespace__()
    punished = (episode.rescues + episode.failures > 0) & ~xp.isnan(violation_score)
    return Sums(
        episodes=xp.ones_like(episode.steps),
        steps=episode.steps,
        total_reward=episode.total_reward,
        score=xp.where(punished, violation_score, episode.total_reward),
        violation=violation(episode.constraint_values),
        constraint_values=episode.constraint_values,
        failures=episode.failures,
        rescues=episode.rescues,
        driven=episode.driven,
        outcomes=outcome_of(holds)[..., None] == xp.arange(holds.shape[-1] + 1),
    )


def cut_off(task: Task, episode: Episode) -> Sums:
    """What each episode has come to that is cut off by the end of experience: none of the outcomes holds."""
    xp = episode.steps.__array_namespace__()
    return close(episode, xp.zeros((*episode.steps.shape, len(task.outcomes) - 1), dtype=bool), math.nan)


def nothing(task: Task, shape: tuple[int, ...] = (), xp: Any = np) -> Sums:
    """Sums over no episodes."""
    zero = xp.zeros(shape)
    m, n = xp.zeros((*shape, len(task.constraints))), xp.zeros((*shape, len(task.outcomes)))
    return Sums(zero, zero, zero, zero, zero, m, zero, zero, zero, n)


def add(sums: Sums, closed: Sums, counted: Array) -> Sums:
    """The sums (...) with those of their environments' episodes (..., E) that count."""
    axis = counted.ndim - 1
    return Sums(*(field + _where(counted, each).sum(axis=axis) for field, each in zip(sums, closed, strict=True)))


def add_unfinished(task: Task, sums: Sums, running: Episode) -> Sums:
    """The sums (...) at the end of experience. Rescues, failures and drives of episodes still running (..., E) have
    happened; the rest of them counts where no episode has ended: better than knowing nothing."""
    xp = running.steps.__array_namespace__()
    none_ended = xp.broadcast_to((sums.episodes == 0)[..., None], running.steps.shape)
    return add(sums, cut_off(task, running), none_ended)._replace(
        failures=sums.failures + running.failures.sum(axis=-1),
        rescues=sums.rescues + running.rescues.sum(axis=-1),
        driven=sums.driven + running.driven.sum(axis=-1),
    )


def _where(condition: Array, field: Array) -> Array:
    """The field where the condition (...) holds, 0 elsewhere."""
    xp = condition.__array_namespace__()
    return xp.where(condition.reshape(condition.shape + (1,) * (field.ndim - condition.ndim)), field, 0)


class EpisodeLog:
    """The episodes of S students with E environments each, on the host.

    Those that began within a budget of steps of their environment are kept one by one when they end: numpy's sum over
    all of them rounds less than adding them up one after the other.
    """

    def __init__(
        self, task: Task, n_students: int, n_envs: int, *, budget: float = math.inf, violation_score: float = math.nan
    ) -> None:
        self.closed: list[list[Sums]] = [[] for _ in range(n_students)]
        """Of each student, episode by episode."""
        self.failures = np.zeros(n_students, int)
        """Of each student, in all steps."""
        self.rescues = np.zeros(n_students, int)
        self.driven = np.zeros(n_students, int)
        self._task = task
        self._budget = budget
        self._violation_score = violation_score
        self._clock = 0
        self._running = opening(task, (n_students, n_envs))

    def add(self, step: Step) -> None:
        """Enter one step of everyone, (S, E) in every field."""
        counted = self._counted()
        self._clock += 1
        self._running = enter(self._running, step)
        self.failures += step.failed.sum(axis=1)
        self.rescues += step.rescued.sum(axis=1)
        self.driven += step.driven.sum(axis=1).astype(int)
        ended = step.terminated | step.truncated
        if ended.any():
            self._keep(close(self._running, step.outcomes, self._violation_score), ended & counted)
            self._running = reopen(self._running, ended)

    def running(self) -> np.ndarray:
        """Has each student an episode still running that counts? (S,)"""
        return np.asarray(self._counted().any(axis=1))

    def close(self) -> None:
        """Experience ends. Where none of a student's episodes has ended, those cut off count: better than nothing."""
        none_ended = np.array([not episodes for episodes in self.closed])
        self._keep(cut_off(self._task, self._running), (self._running.steps > 0) & none_ended[:, None])

    def _counted(self) -> np.ndarray:
        return np.asarray(self._clock - self._running.steps < self._budget)

    def _keep(self, closed: Sums, which: np.ndarray) -> None:
        for k, e in np.argwhere(which).tolist():
            self.closed[k].append(Sums(*(np.array(field[k, e]) for field in closed)))


def total(task: Task, closed: Sequence[Sums]) -> Sums:
    """The sums over episodes that were kept one by one."""
    if not closed:
        return nothing(task)
    return Sums(*(np.stack(column).sum(axis=0) for column in zip(*closed, strict=True)))
