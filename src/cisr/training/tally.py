"""Counts what happens to a batch of students, episode by episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cisr.cmdp.rules import Step
from cisr.core.constraints import violation
from cisr.core.task import Task
from cisr.training.backend import UnitSummary
from cisr.training.records import Deployment


class Episode(NamedTuple):
    total_reward: float
    steps: int
    failures: int
    rescues: int
    outcome: str
    constraint_values: np.ndarray  # (m,)
    began: int
    """When it began, in steps of its environment since the tally was opened."""


class Tally:
    """Adds up the steps of S students with E environments each and closes an episode's account when it ends."""

    def __init__(self, task: Task, n_students: int, n_envs: int) -> None:
        shape = (n_students, n_envs)
        self.episodes: list[list[Episode]] = [[] for _ in range(n_students)]
        """Of each student."""
        self.failures = np.zeros(n_students, int)
        """Of each student, in all steps."""
        self.rescues = np.zeros(n_students, int)
        self._task = task
        self._clock = 0
        self._values = np.zeros((*shape, len(task.constraints)))
        self._rewards = np.zeros(shape)
        self._began = np.zeros(shape, int)
        self._failures = np.zeros(shape, int)
        self._rescues = np.zeros(shape, int)

    def add(self, step: Step) -> None:
        """Enter one step of everyone, (S, E) in every field."""
        self._clock += 1
        self._values = step.constraint_values
        self._rewards += step.reward
        self._failures += step.failed
        self._rescues += step.rescued
        self.failures += step.failed.sum(axis=1)
        self.rescues += step.rescued.sum(axis=1)
        for k, e in np.argwhere(step.terminated | step.truncated).tolist():
            self._close(k, e, self._task.outcome(step.outcomes[k, e].tolist()))

    def open_since_before(self, clock: int) -> np.ndarray:
        """Has each student an episode still running that began before that time? (S,)"""
        return np.asarray((self._began < clock).any(axis=1))

    def close(self) -> None:
        """Close the round. Where none of a student's episodes has ended, those cut off count: better than nothing."""
        for k, episodes in enumerate(self.episodes):
            if not episodes:
                for e in np.flatnonzero(self._began[k] < self._clock).tolist():
                    self._close(k, e, "other")

    def _close(self, k: int, e: int, outcome: str) -> None:
        self.episodes[k].append(
            Episode(
                total_reward=float(self._rewards[k, e]),
                steps=int(self._clock - self._began[k, e]),
                failures=int(self._failures[k, e]),
                rescues=int(self._rescues[k, e]),
                outcome=outcome,
                constraint_values=self._values[k, e].copy(),
                began=int(self._began[k, e]),
            )
        )
        self._rewards[k, e] = 0.0
        self._began[k, e] = self._clock
        self._failures[k, e] = self._rescues[k, e] = 0


def deployment_of(task: Task, episodes: Sequence[Episode], under: str) -> Deployment:
    """Sum up the episodes of a deployment."""
    violation_score = task.violation_score(under)
    returns = [episode.total_reward for episode in episodes]
    scores = [
        violation_score if violation_score is not None and (e.rescues or e.failures) else e.total_reward
        for e in episodes
    ]
    return Deployment(
        under=under,
        steps=sum(episode.steps for episode in episodes),
        episodes=len(episodes),
        mean_return=float(np.mean(returns)),
        score=float(np.mean(scores)),
        failures=sum(episode.failures for episode in episodes),
        rescues=sum(episode.rescues for episode in episodes),
        outcomes={name: float(np.mean([e.outcome == name for e in episodes])) for name in task.outcomes},
    )


def summary_of(rounds: Sequence[Tally], k: int) -> UnitSummary:
    """Sum up the rounds of student k's unit."""
    episodes = [episode for tally in rounds for episode in tally.episodes[k]]

    def mean(of: Callable[[Episode], float]) -> float:
        return float(np.mean([of(episode) for episode in episodes])) if episodes else 0.0

    return UnitSummary(
        episodes=len(episodes),
        mean_return=mean(lambda e: e.total_reward),
        success=mean(lambda e: e.outcome == "success"),
        violation=mean(lambda e: violation(e.constraint_values)),
        rescues=sum(int(tally.rescues[k]) for tally in rounds),
        failures=sum(int(tally.failures[k]) for tally in rounds),
    )
