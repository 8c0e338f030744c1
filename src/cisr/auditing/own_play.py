"""Failures in the play of the audit itself, under an intervention: evidence that no proof on a model can outweigh."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cisr.auditing.agreement import PlayedEpisode
from cisr.auditing.counterexample import Candidate, Counterexample, names_of
from cisr.auditing.trials import short
from cisr.core.errors import CisrError
from cisr.core.seeding import derive_seed
from cisr.core.task import Task

ATTEMPTS = 3
"""Seeds from which a failure is played again in a fresh environment."""
MOST_ACTIONS = 20
"""Of an episode, in words."""


@dataclass(frozen=True, kw_only=True)
class OwnPlay:
    """Episodes that the audit played under one intervention, some of which ended in danger."""

    failures: int
    episodes: int
    danger: str
    """The danger that ended the first of these failures. All that follows is about this episode."""
    start: tuple[float, ...]
    actions: tuple[Any, ...]
    """The student's."""
    states: tuple[tuple[float, ...], ...]
    """The states moved to, before any rescue."""
    counterexample: Counterexample | None
    """The same actions in a fresh environment, where they fail there too."""
    on_jax: bool = False
    """Whether this was the task's JAX environment."""

    def __str__(self) -> str:
        n, more = len(self.actions), len(self.actions) - MOST_ACTIONS
        shown = ", ".join(str(action) for action in self.actions[-MOST_ACTIONS:])
        by = f"actions {f'… {shown} (the last {MOST_ACTIONS} of {n})' if more > 0 else shown}"
        again = "" if self.counterexample or self.on_jax else "; a fresh environment did not fail by the same actions"
        where = " in the JAX environment" * self.on_jax
        return (
            f"{self.failures} of {self.episodes} episodes that the audit played under it{where} failed, the first from "
            f"start {short(self.start)} by {by}: {self.danger} in step {n}, in state {short(self.states[-1])}{again}"
        )

    def to_json(self) -> dict[str, Any]:
        example = None if self.counterexample is None else str(self.counterexample)
        return vars(self) | {"counterexample": example}


def failures_seen(task: Task, name: str, episodes: Sequence[PlayedEpisode], *, on_jax: bool = False) -> OwnPlay | None:
    """What failed of the episodes that were played under the intervention of this name; None where nothing did."""
    played = [episode for episode in episodes if episode.intervention.name == name]
    failed = [episode for episode in played if episode.danger is not None]
    if not failed:
        return None
    first = failed[0]
    assert first.danger is not None
    return OwnPlay(
        failures=len(failed),
        episodes=len(played),
        danger=first.danger,
        start=tuple(first.start.tolist()),
        actions=first.actions,
        states=tuple(tuple(step.move.state.tolist()) for step in first.steps),
        counterexample=None if on_jax else _played_again(task, name, first),
        on_jax=on_jax,
    )


def _played_again(task: Task, name: str, episode: PlayedEpisode) -> Counterexample | None:
    where = {**names_of(task, task.intervention(name)), "attacker": "audit", "danger": str(episode.danger)}
    for attempt in range(ATTEMPTS):
        candidate = Candidate(**where, seed=derive_seed(0, "own play", attempt), actions=episode.actions)
        with suppress(CisrError):
            if (found := candidate.played(task)) is not None:
                return found
    return None
