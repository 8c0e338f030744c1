"""Falsification: attack an intervention, and say how often the attackers got through.

Attackers are frozen before they are judged: what a trained one did in training is reported, but bounds come from
episodes of its final policy, on real Gymnasium environments and from seeds that training never used. How many episodes
are judged is fixed before the first of them, so that the exact binomial bound applies; rehearsals, which are not
judged, tell how long episodes are.

Nothing here proves safety. Without a failure the result is a bound for these attackers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cisr.auditing.counterexample import Counterexample, replay
from cisr.auditing.falsification import Attack, Falsification, Training, upper_bound
from cisr.auditing.play import Arena, Attacker, Episode, RandomAttacker, Script, ScriptedAttacker, StickyAttacker
from cisr.auditing.progress import AuditProgress
from cisr.auditing.trained import Trained, obstacle_to_training, train_attacker
from cisr.auditing.verdict import check_attackers, check_budget, check_confidence
from cisr.cmdp.answers import check_environment
from cisr.core.callback import Callback, ignore
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task
from cisr.training.setup import choose_backend

BUILT_IN = ("random", "sticky", "trained")
TRAINING_SHARE = 0.5
MOST_REHEARSALS = 20
REHEARSAL_SHARE = 0.2
KEPT = 3
"""Counterexamples that are kept of each attacker."""


def falsify(
    task: Task,
    intervention: Intervention | str,
    *,
    budget: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
    backend: str = "auto",
    attackers: Mapping[str, Script] | None = None,
    built_in: Sequence[str] = BUILT_IN,
    n_workers: int | None = None,
    callback: Callback = ignore,
) -> Falsification:
    """Try to fail under an intervention, for about `budget` environment steps in all.

    `attackers` are scripted worst cases by name, state (d,) -> action; `built_in` chooses among random, sticky and
    trained. Half of the budget trains the trained one, on `backend`; the frozen attackers share the rest equally.
    """
    under = task.intervention(intervention) if isinstance(intervention, str) else intervention
    check_attackers(attackers)
    budget, confidence, seed = check_budget(budget), check_confidence(confidence), check_seed(seed)
    scripts = dict(attackers or {})
    names = _checked_names(scripts, built_in)
    choose_backend(task, backend)
    root = derive_seed(seed, "falsify", task.name, under.name)
    horizon = task.horizon_under(under)
    notes: list[str] = []
    trained: Trained | None = None
    if "trained" in names and (obstacle := obstacle_to_training(task)):
        names.remove("trained")
        notes.append(f"no attacker was trained: {obstacle}")
    _check_actions(task, names)
    share = _share(budget, names, horizon)
    if "trained" in names:
        trained = train_attacker(
            task,
            under,
            budget=int(budget * TRAINING_SHARE),
            seed=derive_seed(root, "training"),
            backend=backend,
            n_workers=n_workers,
            callback=callback,
        )
        notes += [f"a student that was trained to attack gave up: {error}" for error in trained.errors]
        if trained.attacker is None:
            names.remove("trained")
    attacks = []
    with Arena(task, under) as arena:
        for name in names:
            attacker = _attacker(name, arena, horizon, scripts, trained)
            played = _play(arena, attacker, share, horizon, derive_seed(root, "frozen", name), name, callback)
            attacks.append(_sum_up(task, under, name, played, 1 - (1 - confidence) / len(names)))
    found = _found(task, under, confidence, budget, attacks, trained)
    return replace(found, notes=(*notes, *found.notes, *_replays_that_differ(task, under, found)))


def _found(
    task: Task, under: Intervention, confidence: float, budget: int, attacks: Sequence[Attack], trained: Trained | None
) -> Falsification:
    training = _training(task, under, trained) if trained else None
    notes: tuple[str, ...] = ()
    if training and training.failures and training.backend == "compiled":
        seen = f"the JAX environment saw {training.failures:,} failures in training"
        notes = (f"{seen}: claims about that environment alone",)
    return Falsification(
        task=task.name,
        scale=task.training.scale,
        intervention=under.name,
        confidence=confidence,
        budget=budget,
        attacks=tuple(attacks),
        training=training,
        notes=notes,
    )


def _replays_that_differ(task: Task, under: Intervention, found: Falsification) -> list[str]:
    replays = [(example, replay(task, example, under)) for example in found.counterexamples]
    return [f"{example}: a replay differs, {again.difference}" for example, again in replays if not again]


@dataclass(frozen=True, kw_only=True)
class _Played:
    """An attacker's episodes: how they ended, and a few failures in full."""

    rehearsed: list[bool]
    judged: list[bool]
    steps: int
    kept: list[Episode]


def _play(
    arena: Arena,
    attacker: Attacker,
    share: int,
    horizon: int,
    seed: int,
    name: str,
    callback: Callback,
) -> _Played:
    """Rehearse, fix the number of episodes, and play them all."""
    failed: list[bool] = []
    kept: list[Episode] = []
    steps = 0

    def episode() -> None:
        nonlocal steps
        played = arena.play(attacker, derive_seed(seed, "episode", len(failed)), f"The attacker '{name}'")
        failed.append(played.danger is not None)
        steps += len(played.steps)
        if failed[-1] and len(kept) < KEPT:
            kept.append(played)
        callback(AuditProgress(arena.intervention.name, name, len(played.steps)))

    rehearsals = min(int(share * REHEARSAL_SHARE) // horizon, MOST_REHEARSALS)
    for _ in range(rehearsals):
        episode()
    expected = (steps + horizon) / (rehearsals + 1)  # as if one more had lasted for the whole horizon
    for _ in range(max(int((share - steps) / expected), 1)):
        episode()
    return _Played(rehearsed=failed[:rehearsals], judged=failed[rehearsals:], steps=steps, kept=kept)


def _sum_up(task: Task, under: Intervention, name: str, played: _Played, confidence: float) -> Attack:
    failures, episodes = sum(played.judged), len(played.judged)
    return Attack(
        attacker=name,
        episodes=episodes,
        failures=failures,
        upper_bound=upper_bound(failures, episodes, confidence),
        steps=played.steps,
        rehearsals=len(played.rehearsed),
        rehearsal_failures=sum(played.rehearsed),
        counterexamples=_counterexamples(task, under, name, played.kept),
    )


def _training(task: Task, under: Intervention, trained: Trained) -> Training:
    failed = [episode for episode in trained.scouted if episode.danger is not None]
    return Training(
        students=trained.students,
        backend=trained.backend,
        steps=trained.steps,
        failures=trained.failures,
        scouting_failures=len(failed),
        counterexamples=_counterexamples(task, under, "scouting", failed[:KEPT]),
    )


def _counterexamples(
    task: Task, under: Intervention, attacker: str, episodes: Sequence[Episode]
) -> tuple[Counterexample, ...]:
    return tuple(
        Counterexample(
            task=task.name,
            scale=task.training.scale,
            intervention=under.name,
            attacker=attacker,
            episode=episode,
        )
        for episode in episodes
    )


def _attacker(
    name: str, arena: Arena, horizon: int, scripts: Mapping[str, Script], trained: Trained | None
) -> Attacker:
    if name in scripts:
        return ScriptedAttacker(scripts[name])
    if name == "trained":
        assert trained is not None and trained.attacker is not None
        return trained.attacker
    return RandomAttacker(arena.space) if name == "random" else StickyAttacker(arena.space, horizon)


def _checked_names(scripts: Mapping[str, Script], built_in: Sequence[str]) -> list[str]:
    for name in built_in:
        if name not in BUILT_IN:
            raise ConfigError(f"There is no built-in attacker '{name}': choose among {', '.join(BUILT_IN)}.")
    for name in scripts:
        if name in BUILT_IN:
            raise ConfigError(f"A scripted attacker is called '{name}': that name is taken; choose another.")
    names = [*dict.fromkeys(built_in), *scripts]
    if not names:
        raise ConfigError("There is no attacker: give at least one, built in or scripted.")
    return names


def _share(budget: int, names: Sequence[str], horizon: int) -> int:
    """Steps for each frozen attacker."""
    left = int(budget * (1 - TRAINING_SHARE)) if "trained" in names else budget
    if left // len(names) < horizon:
        least = horizon * len(names) * (2 if "trained" in names else 1)
        raise ConfigError(
            f"The budget is {budget} steps: give at least {least}, one episode of up to {horizon} steps for each of "
            f"the attackers {', '.join(names)}{' and as much for training' * ('trained' in names)}."
        )
    return left // len(names)


def _check_actions(task: Task, names: Sequence[str]) -> None:
    """Attackers act by arrays: of actions in several parts, such as dictionaries, they know nothing."""
    env = task.make_env()
    check_environment(env)
    space = env.action_space
    env.close()
    if space.shape is None or space.dtype is None:
        raise ConfigError(
            f"The attackers {', '.join(names)} do not fit the action space {space} of task '{task.name}': they act in "
            f"Discrete, MultiDiscrete, MultiBinary and Box spaces; wrap the environment so that it has one of these."
        )
