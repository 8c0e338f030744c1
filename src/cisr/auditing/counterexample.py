"""Counterexamples: failures under an intervention, as files that anyone can play again.

A file holds the seed, the actions, and all that was seen; nothing of the attacker is needed to replay it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cisr.auditing.play import Arena, AuditProgress, Episode, RecordedStep, same
from cisr.core.callback import Callback, ignore
from cisr.core.checks import shown
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.seeding import check_seed
from cisr.core.task import Task
from cisr.system.files import read_json, write_text
from cisr.training.apart import play_apart

FORMAT, VERSION = "cisr counterexample", 1
CANDIDATE = "cisr candidate"
KEPT = 3
"""Counterexamples that are kept of each attacker."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Counterexample:
    """An episode with a failure, and where it happened."""

    task: str
    scale: str
    intervention: str
    attacker: str
    episode: Episode

    def __str__(self) -> str:
        episode = self.episode
        return (
            f"{episode.danger} in step {len(episode.steps)} under '{self.intervention}', after {episode.rescues} "
            f"rescues, caused by {self.attacker} play from seed {episode.seed}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task,
            "scale": self.scale,
            "intervention": self.intervention,
            "attacker": self.attacker,
            "seed": self.episode.seed,
            "danger": self.episode.danger,
            "start": self.episode.start.tolist(),
            "turns": [
                {
                    "action": step.action,
                    "reward": step.reward,
                    "state": step.state.tolist(),
                    "rescued": step.rescued,
                    "put_to": None if step.put_to is None else step.put_to.tolist(),
                    **({} if step.done is None else {"done": step.done}),
                    **({"driven": step.driven} if step.driven else {}),
                }
                for step in self.episode.steps
            ],
        }

    def save(self, path: Path | str) -> None:
        """States may hold infinities and NaN: the file then has Python's words for them, which `load` understands."""
        write_text(path, json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: Path | str) -> Counterexample:
        return _from_json(read_json(path, "a counterexample from"), path)


def counterexamples(
    task: Task, under: Intervention, attacker: str, failed: Sequence[Episode]
) -> tuple[Counterexample, ...]:
    """The first of an attacker's failures."""
    where = names_of(task, under)
    return tuple(Counterexample(**where, attacker=attacker, episode=episode) for episode in failed[:KEPT])


def names_of(task: Task, under: Intervention) -> dict[str, str]:
    """Where attacks were made, as records say it."""
    return {"task": task.name, "scale": task.training.scale, "intervention": under.name}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An episode that failed in a JAX environment. Whether it does on Gymnasium's is for that one to say."""

    task: str
    scale: str
    intervention: str
    attacker: str
    danger: str
    seed: int
    actions: tuple[Any, ...]

    def __str__(self) -> str:
        return (
            f"{self.danger} in step {len(self.actions)} under '{self.intervention}' in the JAX environment, caused by "
            f"{self.attacker} play from seed {self.seed}"
        )

    def to_json(self) -> dict[str, Any]:
        return {"format": CANDIDATE, "version": VERSION, **vars(self), "actions": list(self.actions)}

    def save(self, path: Path | str) -> None:
        write_text(path, json.dumps(self.to_json()) + "\n")

    def played(self, task: Task, intervention: Intervention | None = None) -> Counterexample | None:
        """The same on Gymnasium's environment, if it fails there.

        `intervention` need be given only where it is not one of the task's.
        """
        _check_same_task(self.task, task)
        under = intervention or task.intervention(self.intervention)
        with Arena(task, under) as arena:
            episode = arena.play(Reciting(self.actions), self.seed, f"The candidate from seed {self.seed}")
        if episode.danger is None:
            return None
        return Counterexample(**names_of(task, under), attacker=self.attacker, episode=episode)


def load(path: Path | str) -> Counterexample | Candidate:
    """What an audit has kept."""
    fields = read_json(path, "a counterexample from")
    if isinstance(fields, dict) and fields.get("format") == CANDIDATE:
        return _candidate_from_json(fields, path)
    return _from_json(fields, path)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Whether a counterexample came out again."""

    episode: Episode
    """What happened this time."""
    difference: str | None
    """Where it first differs from the file, or None."""

    def __bool__(self) -> bool:
        return self.difference is None


def replay(task: Task, counterexample: Counterexample, intervention: Intervention | None = None) -> Replay:
    """Play the actions again in a fresh environment from the same seed.

    `intervention` need be given only where it is not one of the task's.
    """
    _check_same_task(counterexample.task, task)
    under = intervention or task.intervention(counterexample.intervention)
    recited = Reciting(counterexample.episode.actions)
    with Arena(task, under) as arena:
        episode = arena.play(recited, counterexample.episode.seed)
    return Replay(episode=episode, difference=_difference(counterexample.episode, episode))


def _check_same_task(name: str, task: Task) -> None:
    if name != task.name:
        raise ConfigError(f"The counterexample is one of task '{name}': the task given is '{task.name}'.")


def replay_apart(task: Task, counterexample: Counterexample, **how: Any) -> Replay:
    """The same, as `play_apart` plays."""
    found: Replay = play_apart(_replay, task, counterexample, **how)
    return found


def play_candidates_apart(
    task: Task, candidates: Sequence[Candidate], *, callback: Callback = ignore, **how: Any
) -> list[Counterexample | None]:
    """`Candidate.played` of each, as `play_apart` plays."""
    found: list[Counterexample | None] = play_apart(_play_candidates, task, candidates, listen=callback, **how)
    return found


def _play_candidates(task: Task, candidates: Sequence[Candidate], callback: Callback) -> list[Counterexample | None]:
    played = []
    for candidate in candidates:
        played.append(candidate.played(task))
        callback(AuditProgress(candidate.intervention, candidate.attacker, len(candidate.actions)))
    return played


def _replay(task: Task, counterexample: Counterexample, tell: Any) -> Replay:
    return replay(task, counterexample)


class Reciting:
    """Does what is written; beyond the end of it the last action again, which no longer matters."""

    def __init__(self, actions: Sequence[Any]) -> None:
        self._actions = list(actions)

    def begin(self, seed: int) -> None:
        self._next = 0

    def act(self, observation: np.ndarray, state: np.ndarray) -> Any:
        action = self._actions[min(self._next, len(self._actions) - 1)]
        self._next += 1
        return action


def _difference(file: Episode, now: Episode) -> str | None:
    if not same(file.start, now.start):
        return f"the episode starts in {now.start.tolist()}; the file says {file.start.tolist()}"
    for number, (said, got) in enumerate(zip(file.steps, now.steps, strict=False), start=1):
        for what in ("state", "reward", "rescued", "put_to", "done", "driven"):
            if not same(getattr(said, what), getattr(got, what)):
                shown = [np.asarray(getattr(step, what)).tolist() for step in (got, said)]
                return f"step {number}: {what} is {shown[0]}; the file says {shown[1]}"
    if len(file.steps) != len(now.steps):
        return f"the episode ends after {len(now.steps)} steps; the file says {len(file.steps)}"
    if file.danger != now.danger:
        return f"the episode ends with danger {now.danger}; the file says {file.danger}"
    return None


def _candidate_from_json(fields: dict[str, Any], path: Path | str) -> Candidate:
    if fields.get("version") != VERSION:
        raise ConfigError(f"{path} has version {fields.get('version')} of its format: this program reads {VERSION}.")
    texts = ("task", "scale", "intervention", "attacker", "danger")
    actions = fields.get("actions")
    if not all(isinstance(fields.get(name), str) for name in texts) or not isinstance(actions, list) or not actions:
        raise ConfigError(f"{path} is a damaged candidate: give a file that cisr audit has written.")
    try:
        seed = check_seed(fields.get("seed", -1))
    except ConfigError as error:
        raise ConfigError(f"{path} is a damaged candidate: {error}") from error
    return Candidate(**{name: fields[name] for name in texts}, seed=seed, actions=tuple(actions))


def _from_json(fields: Any, path: Path | str) -> Counterexample:
    found = fields.get("format") if isinstance(fields, dict) else type(fields).__name__
    if found != FORMAT:
        raise ConfigError(f"{path} is no counterexample (its format is {found!r}, expected {FORMAT!r}).")
    if fields.get("version") != VERSION:
        raise ConfigError(f"{path} has version {fields.get('version')} of its format: this program reads {VERSION}.")
    try:
        steps = tuple(
            RecordedStep(
                action=step["action"],
                reward=float(step["reward"]),
                state=_vector(step["state"]),
                rescued=bool(step["rescued"]),
                put_to=None if step["put_to"] is None else _vector(step["put_to"]),
                done=step.get("done"),
                driven=int(step.get("driven", 0)),
            )
            for step in fields["turns"]
        )
        if not steps:
            raise ValueError("it has no turns")
        episode = Episode(
            seed=check_seed(fields["seed"]), start=_vector(fields["start"]), steps=steps, danger=fields["danger"]
        )
        names = {name: str(fields[name]) for name in ("task", "scale", "intervention", "attacker")}
        return Counterexample(**names, episode=episode)
    except (ConfigError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"The counterexample in {path} is damaged: {type(error).__name__}: {error}; make it anew by `cisr audit`."
        ) from error


def _vector(numbers: Any) -> np.ndarray:
    """A state (d,)."""
    vector = np.array(numbers)
    if vector.ndim != 1 or vector.dtype.kind not in "biuf":
        raise ValueError(f"a state is {shown(numbers)}, not a list of numbers")
    return vector
