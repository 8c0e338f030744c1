"""Falsification: attack an intervention, and say how often the attackers got through.

Attackers are frozen before they are judged: what a trained one did in training is reported, but bounds come from
episodes of its final policy, on real Gymnasium environments and from seeds that training never used. How many episodes
are judged is fixed before the first of them, so that the exact binomial bound applies; rehearsals, which are not
judged, tell how long episodes are. On the compiled backend far more episodes are played in the JAX environment
(`search`), and what fails there is played on Gymnasium's.

Nothing here proves safety. Without a failure the result is a bound for these attackers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cisr.auditing.arguments import check_attackers, check_budget, check_confidence
from cisr.auditing.counterexample import KEPT, counterexamples, names_of, replay
from cisr.auditing.falsification import Attack, Falsification, upper_bound
from cisr.auditing.play import (
    Arena,
    Attacker,
    AuditProgress,
    Episode,
    RandomAttacker,
    Script,
    ScriptedAttacker,
    StickyAttacker,
)
from cisr.auditing.search import Search, search
from cisr.auditing.trained import Trained, obstacle_to_training, train_attacker
from cisr.auditing.twin import obstacle_to_tracing
from cisr.core.callback import Callback, ignore
from cisr.core.errors import ConfigError
from cisr.core.intervention import Intervention
from cisr.core.libraries import GYMNASIUM
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task
from cisr.training.setup import choose_backend

if GYMNASIUM:
    from cisr.cmdp.answers import check_environment

BUILT_IN = ("random", "sticky", "trained")
TRAINING_SHARE = 0.5
MOST_REHEARSALS = 20
REHEARSAL_SHARE = 0.2
JUDGED_SHARE, JUDGED_STEPS = 0.25, 100_000
"""What is played on Gymnasium's environment, which takes most of the time, where the JAX environment has the budget: a
share of each attacker's steps, and steps of all attackers at most."""


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
    playable: bool = True,
    callback: Callback = ignore,
) -> Falsification:
    """Try to fail under an intervention, for about `budget` environment steps in all.

    `attackers` are scripted worst cases by name, state (d,) -> action; `built_in` chooses among random, sticky and
    trained. Half of the budget trains the trained one, on `backend`; the frozen attackers share the rest equally. On
    the compiled backend that rest is played in the JAX environment, but for a few judged episodes on Gymnasium's; none,
    where that is not `playable` here.
    """
    under = task.intervention(intervention) if isinstance(intervention, str) else intervention
    check_attackers(attackers)
    budget, confidence, seed = check_budget(budget), check_confidence(confidence), check_seed(seed)
    scripts = dict(attackers or {})
    names = _checked_names(scripts, built_in)
    kind, notes = choose_backend(task, backend), list[str]()
    if kind == "compiled" and (obstacle := obstacle_to_tracing(task, under)):
        reason = f"JAX cannot trace the functions of '{under.name}' ({obstacle})"
        if backend == "compiled":
            raise ConfigError(f"{reason}: write them as array code, or use the gymnasium backend.")
        kind = "gymnasium"
        notes.append(f"the JAX environment was not searched: {reason}")
    root = derive_seed(seed, "falsify", task.name, under.name)
    horizon = task.horizon_under(under)
    trained: Trained | None = None
    if playable and "trained" in names and (obstacle := obstacle_to_training(task)):
        names.remove("trained")
        notes.append(f"no attacker was trained: {obstacle}")
    if playable:
        _check_actions(task, names)
    share = _share(budget, names, horizon)
    if "trained" in names:
        how: dict[str, Any] = {"backend": kind, "n_workers": n_workers, "callback": callback}
        half = int(budget * TRAINING_SHARE)
        trained = train_attacker(task, under, budget=half, seed=derive_seed(root, "training"), **how)
        notes += trained.notes
        if trained.attacker is None:
            names.remove("trained")
    searches: tuple[Search, ...] = ()
    searched = [name for name in names if name not in scripts] if kind == "compiled" else []
    if searched:
        students = trained.students if trained else ()
        how = {"budget": share * len(searched), "confidence": confidence, "seed": root, "callback": callback}
        searches = search(task, under, searched, students=students, playable=playable, **how)
    judged = max(min(int(share * JUDGED_SHARE), JUDGED_STEPS // max(len(searched), 1)), horizon)
    attacks = []
    if playable:
        with Arena(task, under) as arena:
            for name in names:
                attacker = _attacker(name, arena, horizon, scripts, trained)
                each = 1 - (1 - confidence) / len(names)
                steps = judged if name in searched else share
                attacks.append(_play(arena, attacker, name, steps, derive_seed(root, "frozen", name), each, callback))
    found = Falsification(
        **names_of(task, under),
        confidence=confidence,
        budget=budget,
        attacks=tuple(attacks),
        searches=searches,
        training=trained.training if trained else None,
        notes=tuple(notes),
    )
    return replace(found, notes=(*notes, *_replays_that_differ(task, under, found)))


def _replays_that_differ(task: Task, under: Intervention, found: Falsification) -> list[str]:
    replays = [(example, replay(task, example, under)) for example in found.counterexamples]
    return [f"{example}: a replay differs, {again.difference}" for example, again in replays if not again]


def _play(
    arena: Arena, attacker: Attacker, name: str, share: int, seed: int, confidence: float, callback: Callback
) -> Attack:
    """Rehearse, fix the number of episodes, and play them all."""
    task, under = arena.task, arena.intervention
    horizon = task.horizon_under(under)
    failed: list[bool] = []
    kept: list[Episode] = []
    steps = 0

    def episode() -> None:
        nonlocal steps
        played = arena.play(attacker, derive_seed(seed, "episode", len(failed)), f"The attacker '{name}'")
        failed.append(played.danger is not None)
        steps += played.n_steps
        if failed[-1] and len(kept) < KEPT:
            kept.append(played)
        callback(AuditProgress(under.name, name, played.n_steps))

    rehearsals = min(int(share * REHEARSAL_SHARE) // horizon, MOST_REHEARSALS)
    for _ in range(rehearsals):
        episode()
    expected = (steps + horizon) / (rehearsals + 1)  # as if one more had lasted for the whole horizon
    judged = max(int((share - steps) / expected), 1)
    for _ in range(judged):
        episode()
    failures = sum(failed[rehearsals:])
    return Attack(
        attacker=name,
        episodes=judged,
        failures=failures,
        upper_bound=upper_bound(failures, judged, confidence),
        steps=steps,
        rehearsals=rehearsals,
        rehearsal_failures=sum(failed[:rehearsals]),
        counterexamples=counterexamples(task, under, name, kept),
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
