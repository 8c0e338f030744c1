"""A search for failures in a task's JAX environment, of which there can be millions of episodes.

What fails there is a candidate: it is played on Gymnasium's environment, from the same seed and with the same actions,
and refutes an intervention only if it fails there too. The bound is one on failures in the JAX environment. Where
Gymnasium's environment is not installed, candidates are kept, to be played elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cisr.auditing.counterexample import KEPT, Candidate, Counterexample
from cisr.auditing.falsification import upper_bound
from cisr.auditing.play import AuditProgress
from cisr.auditing.twin import Played, Twin, drawn_actions, given_actions, held_actions
from cisr.core.callback import Callback
from cisr.core.intervention import Array, Intervention
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.students import networks, normalisation
from cisr.students.student import Student

MOST_REPLAYS = 200
"""Candidates of an attacker that are played on Gymnasium, or kept."""
AT_ONCE = {"cpu": 256, "gpu": 16_384}
"""Episodes that are played together, by kind of device."""
SEEDS = 2**31
"""Of episodes: they begin at a random one and go up from there."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What one kind of attacker did in the JAX environment."""

    attacker: str
    episodes: int
    """Fixed beforehand."""
    failures: int
    upper_bound: float
    """Failures per episode in the JAX environment are at most this many, at the confidence that all attackers share."""
    steps: int
    replayed: int
    """Candidates that were played on Gymnasium's environment."""
    confirmed: int
    """Those of them that failed there."""
    counterexamples: tuple[Counterexample, ...]
    """Of confirmed ones."""
    candidates: tuple[Candidate, ...]
    """That could not be played here."""

    @property
    def failed(self) -> bool:
        """Was there a failure on a real environment?"""
        return self.confirmed > 0

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {
            "counterexamples": [str(one) for one in self.counterexamples],
            "candidates": len(self.candidates),
        }


def search(
    task: Task,
    under: Intervention,
    attackers: Sequence[str],
    *,
    budget: int,
    confidence: float,
    seed: int,
    students: Sequence[Student],
    playable: bool,
    callback: Callback,
) -> tuple[Search, ...]:
    """Play about `budget` steps, shared by the attackers: `random`, `sticky`, or the trained `students`."""
    each = 1 - (1 - confidence) / len(attackers)
    share = budget // len(attackers)
    return tuple(
        _search(task, under, name, share, each, derive_seed(seed, "search", name), students, playable, callback)
        for name in attackers
    )


def _search(
    task: Task,
    under: Intervention,
    name: str,
    budget: int,
    confidence: float,
    seed: int,
    students: Sequence[Student],
    playable: bool,
    callback: Callback,
) -> Search:
    n = max(budget // task.horizon_under(under), 1)
    n_failed = steps = 0
    found: list[Candidate] = []
    for played in _episodes(task, under, name, n, seed, students):
        failed = played.failed(task)
        n_failed, steps = n_failed + int(failed.sum()), steps + int(played.n_steps.sum())
        for attacker, episode in np.argwhere(failed)[: MOST_REPLAYS - len(found)].tolist():
            found.append(
                Candidate(
                    task=task.name,
                    scale=task.training.scale,
                    intervention=under.name,
                    attacker=name,
                    danger=task.outcomes[int(played.outcomes[attacker, episode])],
                    seed=int(played.seeds[attacker, episode]),
                    actions=tuple(played.actions_of(attacker, episode)),
                )
            )
        callback(AuditProgress(under.name, f"{name} in the JAX environment", int(played.n_steps.sum())))
    same = task.jax_draws is not None  # else an episode of the one is none of the other
    replayed = found if playable and same else []
    confirmed = [example for candidate in replayed if (example := candidate.played(task)) is not None]
    return Search(
        attacker=name,
        episodes=n,
        failures=n_failed,
        upper_bound=upper_bound(n_failed, n, confidence),
        steps=steps,
        replayed=len(replayed),
        confirmed=len(confirmed),
        counterexamples=tuple(confirmed[:KEPT]),
        candidates=tuple(found) if same and not playable else (),
    )


def _episodes(
    task: Task, under: Intervention, name: str, n: int, seed: int, students: Sequence[Student]
) -> Iterator[Played]:
    """n of them, many at a time."""
    rng = generator(seed, "attackers")
    first = int(rng.integers(SEEDS))
    trained = name == "trained"
    twin = Twin(task, under, partial(_as_student, students[0]) if trained else given_actions)
    known = jax.tree.map(lambda *leaves: np.stack(leaves), *map(_known, students)) if trained else ()
    groups = len(students) if trained else 1
    at_once = max(AT_ONCE.get(jax.default_backend(), AT_ONCE["cpu"]) // groups, 1)
    for start in range(0, n, groups * at_once):
        numbers = first + start + np.arange(groups * at_once).reshape(groups, at_once)
        left = n - start
        noise = _noise(twin, name, rng, groups, at_once)
        played = twin.play(known, noise, numbers % SEEDS)
        yield _only(played, left) if left < groups * at_once else played


def _only(played: Played, n: int) -> Played:
    """The first n; those beyond have not been asked for."""
    beyond = np.arange(played.seeds.size).reshape(played.seeds.shape) >= n
    return Played(
        seeds=played.seeds,
        outcomes=np.where(beyond, -1, played.outcomes),
        n_steps=np.where(beyond, 0, played.n_steps),
        actions=played.actions,
        recorded=played.recorded,
    )


def _noise(twin: Twin, name: str, rng: np.random.Generator, groups: int, n: int) -> np.ndarray:
    """(S, T, E, ...) what attackers draw."""
    shape = (groups, twin.horizon, n)
    if name == "sticky":
        return (
            held_actions(twin.distribution, rng, twin.horizon, groups * n)
            .reshape(twin.horizon, groups, n, *_action_shape(twin))
            .swapaxes(0, 1)
        )
    if name == "random":
        return drawn_actions(twin.distribution, rng, shape)
    key = jax.random.key(int(rng.integers(2**32)))
    return np.asarray(twin.distribution.draw(key, shape))


def _action_shape(twin: Twin) -> tuple[int, ...]:
    return np.shape(drawn_actions(twin.distribution, np.random.default_rng(0), ()))


def _known(student: Student) -> tuple[Any, Any]:
    return student.params, student.statistics


def _as_student(like: Student, known: Any, seen: Array, noise: Array) -> Array:
    """As students act who are like this one."""
    params, statistics = known
    numbers = normalisation.see(statistics, like.observation, seen)
    policy = networks.apply(like.config.network, like.observation, params, jnp.asarray(numbers)).policy
    return like.distribution.in_space(like.distribution.act(policy, noise))
