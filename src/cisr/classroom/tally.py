"""Counts what happens in a row of environments, episode by episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cisr.classroom.lane import UnitSummary
from cisr.classroom.records import Deployment
from cisr.cmdp import Step
from cisr.constraints import violation
from cisr.task import Task


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
    """Adds up the steps of E environments and closes an episode's account when it ends."""

    def __init__(self, task: Task, n_envs: int) -> None:
        self.episodes: list[Episode] = []
        self._outcomes = task.outcomes
        self.failures = 0
        self.rescues = 0
        self._clock = 0
        self._values = np.zeros((n_envs, len(task.constraints)))
        self._rewards = np.zeros(n_envs)
        self._began = np.zeros(n_envs, int)
        self._failures = np.zeros(n_envs, int)
        self._rescues = np.zeros(n_envs, int)

    def add(self, step: Step) -> None:
        """Enter one step of every environment."""
        self._clock += 1
        self._values = step.constraint_values
        self._rewards += step.rewards
        self._failures += step.failed
        self._rescues += step.rescued
        for k in map(int, np.flatnonzero(step.terminated | step.truncated)):
            ways = [*step.ways[k], True]
            self._close(k, self._outcomes[ways.index(True)])

    def open_since_before(self, clock: int) -> bool:
        """Is any episode still running that began before that time?"""
        return bool((self._began < clock).any())

    def close(self) -> None:
        """Close the round. Where no episode has ended, those cut off count: better than knowing nothing."""
        cut_off = [k for k in range(len(self._began)) if self._began[k] < self._clock]
        nothing_ended = not self.episodes
        for k in cut_off:
            if nothing_ended:
                self._close(k, "other")
            else:
                self.failures += int(self._failures[k])
                self.rescues += int(self._rescues[k])

    def _close(self, k: int, outcome: str) -> None:
        episode = Episode(
            total_reward=float(self._rewards[k]),
            steps=int(self._clock - self._began[k]),
            failures=int(self._failures[k]),
            rescues=int(self._rescues[k]),
            outcome=outcome,
            constraint_values=self._values[k].copy(),
            began=int(self._began[k]),
        )
        self.episodes.append(episode)
        self.failures += episode.failures
        self.rescues += episode.rescues
        self._rewards[k] = 0.0
        self._began[k] = self._clock
        self._failures[k] = self._rescues[k] = 0


def deployment_of(task: Task, episodes: Sequence[Episode], under: str, violation_score: float | None) -> Deployment:
    """Sum up the episodes of a deployment; `violation_score` replaces the return of episodes with a rescue."""
    returns = [episode.total_reward for episode in episodes]
    scores = [
        episode.total_reward if violation_score is None or not episode.rescues else violation_score
        for episode in episodes
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


def summary_of(tallies: Sequence[Tally]) -> UnitSummary:
    """Sum up the rounds of one student's unit."""
    episodes = [episode for tally in tallies for episode in tally.episodes]

    def mean(of: Callable[[Episode], float]) -> float:
        return float(np.mean([of(episode) for episode in episodes])) if episodes else 0.0

    return UnitSummary(
        episodes=len(episodes),
        mean_return=mean(lambda e: e.total_reward),
        success=mean(lambda e: e.outcome == "success"),
        violation=mean(lambda e: violation(e.constraint_values)),
        rescues=sum(tally.rescues for tally in tallies),
        failures=sum(tally.failures for tally in tallies),
    )
