"""A search for failures in a task's JAX environment, of which there can be millions of episodes.

What fails there is a candidate: it is played on Gymnasium's environment, from the same seed and with the same actions,
and refutes an intervention only if it fails there too. The bound is one on failures in the JAX environment. Where
Gymnasium's environment is not installed, candidates are kept, to be played elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from cisr.auditing.counterexample import KEPT, Candidate, Counterexample
from cisr.auditing.falsification import upper_bound
from cisr.auditing.play import AuditProgress
from cisr.auditing.twin import RUNNING, Draws, Played, Twin, drawn_actions, given_actions, held_actions
from cisr.core.callback import Callback
from cisr.core.intervention import NONE, Array, Intervention
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.students import networks, normalisation
from cisr.students.student import Student

MOST_REPLAYS = 200
"""Candidates of an attacker that are played on Gymnasium, or kept."""
AT_ONCE = {"cpu": 256, "gpu": 65_536}
"""Episodes that are played together, by kind of device."""
MOST_NUMBERS = 2**29
"""That they may take in memory."""
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
    n = max(budget // len(attackers) // task.horizon_under(under), 1)
    given = Twin(task, under, given_actions)

    def of(name: str) -> Plan:
        own = derive_seed(seed, "search", name)
        if name != "trained":
            return Plan(name=name, twin=given, known=(), groups=1, episodes=n, seed=own)
        some = students[:n]
        known = jax.tree.map(lambda *leaves: np.stack(leaves), *map(_known, some))
        twin = Twin(task, under, partial(_as_student, some[0]))
        return Plan(name=name, twin=twin, known=known, groups=len(some), episodes=n // len(some), seed=own)

    return tuple(_search(task, under, of(name), each, playable, callback) for name in attackers)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Of one kind of attacker, made beforehand."""

    name: str
    twin: Twin
    known: Any
    """What each of them knows (S, ...)."""
    groups: int
    """S, attackers of this kind."""
    episodes: int
    """Of each of them."""
    seed: int


def _search(
    task: Task, under: Intervention, plan: Plan, confidence: float, playable: bool, callback: Callback
) -> Search:
    name, n = plan.name, plan.groups * plan.episodes
    wanted = 0 if under.name == NONE.name else MOST_REPLAYS  # nobody doubts those
    n_failed = steps = 0
    found: list[Candidate] = []
    for played in _episodes(plan):
        failed = played.failed(task)
        n_failed, steps = n_failed + int(failed.sum()), steps + int(played.n_steps.sum())
        for attacker, episode in np.argwhere(failed)[: wanted - len(found)].tolist():
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
    confirmed = [example for candidate in replayed if (example := candidate.played(task, under)) is not None]
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


def _episodes(plan: Plan) -> Iterator[Played]:
    """All of them, many at a time: the host draws for the next while the device plays."""
    twin = plan.twin
    most = min(AT_ONCE.get(jax.default_backend(), AT_ONCE["cpu"]), MOST_NUMBERS // twin.numbers_per_episode)
    batches = -(-plan.episodes // max(most // plan.groups, 1))
    at_once = -(-plan.episodes // batches)  # alike, for each other size would be compiled anew
    first = int(generator(plan.seed, "episodes").integers(SEEDS))

    def drawn(batch: int) -> tuple[np.ndarray | int, Draws]:
        rng = generator(plan.seed, "attackers", batch)
        numbers = np.arange(plan.groups * at_once).reshape(plan.groups, at_once)
        seeds = (first + batch * numbers.size + numbers) % SEEDS
        return _noise(plan, rng, at_once), twin.draws(seeds)

    for batch, (noise, draws) in enumerate(_ahead(drawn, batches)):
        if isinstance(noise, int):  # for learned policies the device draws
            noise_of_all = twin.distribution.draw(jax.random.key(noise), (plan.groups, twin.horizon, at_once))
        else:
            noise_of_all = jnp.swapaxes(noise, 1, 2)
        yield _only(twin.play(plan.known, noise_of_all, draws), plan.episodes - batch * at_once)


T = TypeVar("T")


def _ahead(make: Callable[[int], T], n: int) -> Iterator[T]:
    """make(0) … make(n − 1), each made by another thread before it is asked for."""
    with ThreadPoolExecutor(1, "draws") as pool:  # more would wait for each other: to seed a generator is Python's work
        following = pool.submit(make, 0)
        for k in range(1, n + 1):
            made = following.result()
            if k < n:
                following = pool.submit(make, k)
            yield made


def _only(played: Played, n: int) -> Played:
    """The first n of each attacker; those beyond have not been asked for."""
    asked = np.arange(played.seeds.shape[1]) < n
    return replace(
        played, outcomes=np.where(asked, played.outcomes, RUNNING), n_steps=np.where(asked, played.n_steps, 0)
    )


def _noise(plan: Plan, rng: np.random.Generator, n: int) -> np.ndarray | int:
    """(S, E, T, ...) what attackers draw, or a seed for it."""
    twin = plan.twin
    if plan.name == "sticky":
        return held_actions(twin.distribution, rng, twin.horizon, n)[None]
    if plan.name == "random":
        return drawn_actions(twin.distribution, rng, (1, n, twin.horizon))
    return int(rng.integers(2**32))


def _known(student: Student) -> tuple[Any, Any]:
    return student.params, student.statistics


def _as_student(like: Student, known: Any, seen: Array, noise: Array) -> Array:
    """As students act who are like this one."""
    params, statistics = known
    numbers = normalisation.see(statistics, like.observation, seen)
    policy = networks.apply(like.config.network, like.observation, params, jnp.asarray(numbers)).policy
    return like.distribution.in_space(like.distribution.act(policy, noise))
