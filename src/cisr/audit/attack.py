"""Falsification: attack an intervention, and say how often the attackers got through.

Attackers are frozen before they are judged: what a trained one did in training is reported, but bounds come from
episodes of its final policy, on real Gymnasium environments and from seeds that training never used. How many episodes
are judged is settled before the first of them, so that the exact binomial bound applies; rehearsals, which are not
judged, tell how long episodes are.

Nothing here proves safety. Without a failure the result is a bound for these attackers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cisr.audit.counterexample import Counterexample, replay
from cisr.audit.play import Arena, Attacker, Episode, RandomAttacker, Script, ScriptedAttacker, StickyAttacker
from cisr.audit.trained import Trained, train_attacker
from cisr.errors import ConfigError
from cisr.intervention import Intervention
from cisr.lesson import choose_lane
from cisr.seeding import check_seed, derive_seed
from cisr.task import Task

BUILT_IN = ("random", "sticky", "trained")
TRAINING_SHARE = 0.5
MOST_REHEARSALS = 20
REHEARSAL_SHARE = 0.2
KEPT = 3
"""Counterexamples that are kept of each attacker."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What one frozen attacker did."""

    attacker: str
    episodes: int
    """Judged ones, fixed beforehand."""
    failures: int
    """Judged episodes that ended in danger."""
    upper_bound: float
    """Failures per episode are at most this many, at the confidence that all attackers share."""
    steps: int
    """Environment steps, rehearsals included."""
    rehearsals: int
    rehearsal_failures: int
    counterexamples: tuple[Counterexample, ...]

    @property
    def rate(self) -> float:
        return self.failures / self.episodes

    @property
    def failed(self) -> bool:
        return self.failures + self.rehearsal_failures > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "attacker": self.attacker,
            "episodes": self.episodes,
            "failures": self.failures,
            "rate": self.rate,
            "upper_bound": self.upper_bound,
            "steps": self.steps,
            "rehearsals": self.rehearsals,
            "rehearsal_failures": self.rehearsal_failures,
            "counterexamples": [str(example) for example in self.counterexamples],
        }


@dataclass(frozen=True, kw_only=True)
class Training:
    """What it took to train the attacker; failures seen here are in no bound."""

    students: int
    lane: str
    steps: int
    """Environment steps, scouting included."""
    failures: int
    """While students learned. On the compiled lane they are failures of the twin, and refute nothing by themselves."""
    scouting_failures: int
    """Among the random episodes on Gymnasium that training began with."""
    counterexamples: tuple[Counterexample, ...]
    """From scouting."""

    @property
    def failed(self) -> bool:
        """Was there a failure on a real environment?"""
        return self.scouting_failures > 0 or (self.failures > 0 and self.lane == "gymnasium")

    def to_json(self) -> dict[str, Any]:
        return {
            "students": self.students,
            "lane": self.lane,
            "steps": self.steps,
            "failures": self.failures,
            "scouting_failures": self.scouting_failures,
            "counterexamples": [str(example) for example in self.counterexamples],
        }


@dataclass(frozen=True, kw_only=True)
class Falsification:
    """How an intervention stood up to its attackers."""

    task: str
    scale: str
    intervention: str
    confidence: float
    budget: int
    """Environment steps that were allowed; those taken come near."""
    attacks: tuple[Attack, ...]
    training: Training | None
    notes: tuple[str, ...]
    """What could not be done, and why."""

    @property
    def training_failures(self) -> int:
        return self.training.failures + self.training.scouting_failures if self.training else 0

    @property
    def refuted(self) -> bool:
        """Was any failure seen on a real environment: in a judged episode, a rehearsal or in training?"""
        return any(part.failed for part in (*self.attacks, *self._trainings))

    @property
    def _trainings(self) -> tuple[Training, ...]:
        return (self.training,) if self.training else ()

    @property
    def upper_bound(self) -> float:
        """Failures per episode of any of the attackers, at the stated confidence."""
        return max(attack.upper_bound for attack in self.attacks)

    @property
    def steps(self) -> int:
        return sum(part.steps for part in (*self.attacks, *self._trainings))

    @property
    def verdict(self) -> str:
        names = ", ".join(attack.attacker for attack in self.attacks)
        if not self.refuted:
            return (
                f"not refuted: at most {self.upper_bound:.2g} failures per episode of these attackers ({names}), "
                f"with confidence {self.confidence:g}"
            )
        if not any(attack.failures for attack in self.attacks):
            return f"refuted: failures were seen in rehearsals or in training, none in judged episodes ({names})"
        worst = max(self.attacks, key=lambda attack: attack.rate)
        return f"refuted: {worst.attacker} play failed in {worst.failures:,} of {worst.episodes:,} episodes"

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        return tuple(example for part in (*self.attacks, *self._trainings) for example in part.counterexamples)

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "scale": self.scale,
            "intervention": self.intervention,
            "verdict": self.verdict,
            "refuted": self.refuted,
            "confidence": self.confidence,
            "upper_bound": self.upper_bound,
            "budget": self.budget,
            "steps": self.steps,
            "training": self.training.to_json() if self.training else None,
            "attacks": [attack.to_json() for attack in self.attacks],
            "notes": list(self.notes),
        }


def falsify(
    task: Task,
    intervention: Intervention | str,
    *,
    budget: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
    lane: str = "auto",
    attackers: Mapping[str, Script] | None = None,
    built_in: Sequence[str] = BUILT_IN,
    n_workers: int | None = None,
    progress: Callable[[str, int], None] = lambda what, steps: None,
) -> Falsification:
    """Try to fail under an intervention, for about `budget` environment steps in all.

    `attackers` are scripted worst cases by name, state (d,) -> action; `built_in` chooses among random, sticky and
    trained. Half of the budget trains the trained one, on `lane`; the rest is shared equally by the frozen attackers.
    `progress(what, steps)` hears of steps just taken.
    """
    under = task.intervention(intervention) if isinstance(intervention, str) else intervention
    scripts = dict(attackers or {})
    names = _checked_names(scripts, built_in)
    if not 0 < confidence < 1:
        raise ConfigError(f"The confidence is {confidence}: give a number between 0 and 1, such as 0.95.")
    check_seed(seed)
    choose_lane(task, lane)
    root = derive_seed(seed, "falsify", task.name, under.name)
    horizon = task.horizon_under(under)
    notes: list[str] = []
    if "trained" in names and (obstacle := _obstacle_to_training(task)):
        names.remove("trained")
        notes.append(f"no attacker was trained: {obstacle}")
    share = _share(budget, names, horizon)

    trained: Trained | None = None
    if "trained" in names:
        trained = train_attacker(
            task,
            under,
            budget=int(budget * TRAINING_SHARE),
            seed=derive_seed(root, "training"),
            lane=lane,
            n_workers=n_workers,
            progress=lambda steps: progress("training", steps),
        )
        notes += [f"a student that was trained to attack gave up: {error}" for error in trained.errors]
        if trained.attacker is None:
            names.remove("trained")
    attacks = []
    with Arena(task, under) as arena:
        for name in names:
            attacker = _attacker(name, arena, horizon, scripts, trained)
            played = _play(arena, attacker, share, horizon, derive_seed(root, "frozen", name), name, progress)
            attacks.append(_sum_up(task, under, name, played, 1 - (1 - confidence) / len(names)))
    training = _training(task, under, trained) if trained else None
    if training and training.failures and training.lane == "compiled":
        notes.append(f"the compiled twin saw {training.failures:,} failures in training: claims about the twin alone")
    found = Falsification(
        task=task.name,
        scale=task.scale,
        intervention=under.name,
        confidence=confidence,
        budget=budget,
        attacks=tuple(attacks),
        training=training,
        notes=tuple(notes),
    )
    differing = [(example, again) for example in found.counterexamples if not (again := replay(task, example, under))]
    unlike = [f"{example}: a replay differs, {again.difference}" for example, again in differing]
    return replace(found, notes=found.notes + tuple(unlike))


def upper_bound(failures: int, episodes: int, confidence: float) -> float:
    """Clopper and Pearson's exact one-sided bound: the largest p with P(Bin(n, p) ≤ failures) ≥ 1 − confidence.

    It is the `confidence` quantile of Beta(failures + 1, n − failures), so without a failure 1 − (1 − confidence)^(1/n).
    """
    from scipy.stats import beta

    return 1.0 if failures == episodes else float(beta.ppf(confidence, failures + 1, episodes - failures))


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
    progress: Callable[[str, int], None],
) -> _Played:
    """Rehearse, settle the number of episodes, and play them all."""
    failed: list[bool] = []
    kept: list[Episode] = []
    steps = 0

    def episode() -> None:
        nonlocal steps
        played = arena.play(attacker, derive_seed(seed, "episode", len(failed)))
        failed.append(played.danger is not None)
        steps += len(played.turns)
        if failed[-1] and len(kept) < KEPT:
            kept.append(played)
        progress(name, len(played.turns))

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
        lane=trained.lane,
        steps=trained.steps,
        failures=trained.failures,
        scouting_failures=len(failed),
        counterexamples=_counterexamples(task, under, "scouting", failed[:KEPT]),
    )


def _counterexamples(
    task: Task, under: Intervention, attacker: str, episodes: Sequence[Episode]
) -> tuple[Counterexample, ...]:
    return tuple(
        Counterexample(task=task.name, scale=task.scale, intervention=under.name, attacker=attacker, episode=episode)
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


def _obstacle_to_training(task: Task) -> str | None:
    from cisr.classroom.gymnasium import specs_of

    try:
        specs_of(task)
    except ConfigError as error:
        return str(error)
    return None
