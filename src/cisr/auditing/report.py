"""The whole audit of a task: its promises are checked, then each intervention is proven safe, refuted, or attacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cisr.auditing.arguments import check_attackers, check_budget, check_confidence
from cisr.auditing.exact import ExactAudit, exact_audit
from cisr.auditing.verdict import EventualSafety, eventual_safety
from cisr.cmdp.finite import model_of
from cisr.core.callback import Callback, check_callback, ignore
from cisr.core.checks import check_names
from cisr.core.errors import NotInstalled
from cisr.core.intervention import NONE
from cisr.core.libraries import GYMNASIUM
from cisr.core.seeding import check_seed
from cisr.core.task import Task, check_task_given
from cisr.store import Store
from cisr.store.provenance import audited
from cisr.system.interrupts import interrupts_told_apart
from cisr.training import STEP_TIMEOUT
from cisr.training.apart import play_apart, rehearse, say_once
from cisr.training.classroom import check_workers
from cisr.training.execution import check_backend

if GYMNASIUM:  # finite tasks are audited without
    from cisr.auditing.contracts import NOT_FOUND, ContractViolation, examine
    from cisr.auditing.own_play import OwnPlay, failures_seen
    from cisr.cmdp.time_limits import shortened_by_its_own
if TYPE_CHECKING:
    from cisr.auditing.agreement import PlayedEpisode
    from cisr.auditing.counterexample import Counterexample
    from cisr.auditing.falsification import Falsification
    from cisr.auditing.play import Script

Status = Literal["certified", "refuted", "not refuted", "not audited"]

SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Attackers may be trained on an accelerator of which this process has some memory too."""
QUICK_EPISODES = 20
"""Episodes of each attacker, at least, that a quick audit has time for."""
QUICK_ATTACK: dict[str, Any] = {"budget": None, "built_in": ("random", "sticky")}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is known about the safety of one intervention."""

    name: str
    counts: bool
    """`none` is shown for information."""
    status: Status
    """Of learning safety. `not refuted` is a bound for the attackers that were tried, no proof."""
    reason: str
    eventual: EventualSafety
    falsification: Falsification | None = None
    own_play: OwnPlay | None = None
    """Failures in what the audit played to check promises."""
    reaches_goal: bool | None = None
    """Whether any policy whatsoever succeeds under it, its tolerances ignored. None: not known."""

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        own = self.own_play.counterexample if self.own_play else None
        attacked = self.falsification.counterexamples if self.falsification else ()
        return (*attacked, *([] if own is None else [own]))

    def to_json(self) -> dict[str, Any]:
        attacked = None if self.falsification is None else self.falsification.to_json()
        own_play = None if self.own_play is None else self.own_play.to_json()
        return vars(self) | {"eventual": asdict(self.eventual), "falsification": attacked, "own_play": own_play}


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What safety a task's interventions really give."""

    task: str
    scale: str
    verdicts: tuple[Verdict, ...]
    exact: ExactAudit | None
    """Proofs and numbers, for a finite task that breaks no promise."""
    broken: tuple[ContractViolation, ...]
    """Promises that the task's code breaks: where there are any, nothing is certified."""
    promises_checked: bool
    """False where there is no Gymnasium to check them with."""
    warnings: tuple[str, ...] = ()
    """What to know before students are trained."""
    notes: tuple[str, ...] = ()
    """The warnings, and what the audit did not do."""

    def __getitem__(self, name: str) -> Verdict:
        return {verdict.name: verdict for verdict in self.verdicts}[name]

    @property
    def refuted(self) -> bool:
        """Is there an intervention that does not keep students safe, or a broken promise?"""
        return bool(self.broken) or any(v.status == "refuted" for v in self.verdicts if v.counts)

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        return tuple(example for verdict in self.verdicts for example in verdict.counterexamples)

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "scale": self.scale,
            "refuted": self.refuted,
            "interventions": [verdict.to_json() for verdict in self.verdicts],
            "exact": None if self.exact is None else self.exact.to_json(),
            "promises_checked": self.promises_checked,
            "broken_promises": [str(promise) for promise in self.broken],
            "notes": list(self.notes),
        }


class QuickAudit(NamedTuple):
    """A quick audit for a store: verdicts and promises as JSON."""

    found: dict[str, Any]
    kept: bool
    """Whether the store holds it already."""


def keep_quick_audit(
    task: Task,
    store: Store,
    callback: Callback = ignore,
    *,
    n_workers: int | None = 0,
    step_timeout: float = STEP_TIMEOUT,
) -> dict[str, Any]:
    """The quick audit of a store's task: verdicts and promises as JSON. What the store holds of the very same task is
    not made again."""
    known = quick_audit_for(task, store, callback, n_workers=n_workers, step_timeout=step_timeout)
    assert known is not None
    if not known.kept:
        store.keep_audit(known.found)
    return known.found


def quick_audit_for(
    task: Task,
    store: Store,
    callback: Callback = ignore,
    *,
    attacks: bool = True,
    n_workers: int | None = 0,
    step_timeout: float = STEP_TIMEOUT,
) -> QuickAudit | None:
    """What the store holds of the very same task, else a new one, which is the caller's to keep once the store is known
    to be of this task. Without `attacks` None of a task that has no model."""
    how: dict[str, Any] = {"n_workers": n_workers, "step_timeout": step_timeout}
    rehearse(task, **how)
    kept, of = store.audit(), audited(task)
    if kept is not None and kept.get("of") == of:
        return QuickAudit(kept, True)
    play = _audit if attacks else _audit_if_finite
    report: AuditReport | None = play_apart(play, task, None, QUICK_ATTACK, listen=callback, **how)
    if report is None:
        return None
    for warning in report.warnings:
        say_once(warning)
    told = report.to_json()
    found = {name: told[name] for name in ("interventions", "promises_checked", "broken_promises")} | {"of": of}
    return QuickAudit(found, False)


@interrupts_told_apart()
def audit(
    task: Task,
    interventions: Sequence[str] | None = None,
    *,
    budget: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
    backend: str = "auto",
    attackers: Mapping[str, Script] | None = None,
    n_workers: int | None = None,
    step_timeout: float = STEP_TIMEOUT,
    callback: Callback = ignore,
) -> AuditReport:
    """Audit the named interventions (None: all of the task's), and `none` for information.

    A finite task is audited exactly. Everything else is attacked for about `budget` environment steps for each
    intervention; `attackers` are scripted worst cases by name, state (d,) -> action. All of it happens in a process of
    its own, unless `n_workers` is 0; `step_timeout` is how many seconds a step or reset of an environment may take.
    """
    check_task_given(task)
    confidence, seed, budget = check_confidence(confidence), check_seed(seed), check_budget(budget)
    check_workers(n_workers)
    check_attackers(attackers)
    check_callback(callback)
    check_backend(backend)
    attack = {
        "budget": budget,
        "confidence": confidence,
        "seed": seed,
        "backend": backend,
        "attackers": attackers,
        "n_workers": n_workers,
    }
    how: dict[str, Any] = {"n_workers": n_workers, "step_timeout": step_timeout, "listen": callback}
    found: AuditReport = play_apart(_audit, task, interventions, attack, **how, environment=SHARED)
    return found


def quick_audit(
    task: Task,
    callback: Callback = ignore,
    *,
    n_workers: int | None = 0,
    step_timeout: float = STEP_TIMEOUT,
) -> AuditReport:
    """What can be said in seconds: promises are checked, then the exact audit, or a few episodes of random play.

    In this process, unless `n_workers` says otherwise.
    """
    how: dict[str, Any] = {"n_workers": n_workers, "step_timeout": step_timeout, "listen": callback}
    found: AuditReport = play_apart(_audit, task, None, QUICK_ATTACK, **how)
    return found


def _audit(task: Task, names: Sequence[str] | None, attack: dict[str, Any], callback: Callback) -> AuditReport:
    if names is not None:
        check_names("The interventions to audit", names)
    chosen = [*dict.fromkeys(n for n in (task.intervention_names if names is None else names) if n != NONE.name)]
    for name in chosen:
        task.intervention(name)
    missing = _missing(task)
    playable = not missing
    notes = [] if playable else [f"{missing} Promises were not checked, and Gymnasium's environment was not attacked."]
    broken, habits, episodes, compiled = examine(task) if playable else ((), (), (), ())
    warnings = [f"{habit}." for habit in habits]
    if playable and not broken and (line := shortened_by_its_own(task)) is not None:
        warnings.append(line)
    model = model_of(task) if playable or task.model is not None else None
    exact = exact_audit(task, chosen, model=model) if model is not None else None
    verdicts = [_verdict(task, name, exact, attack, playable, callback) for name in (*chosen, NONE.name)]
    if broken:  # what is proven is proven of code that keeps its promises
        verdicts, exact = [_withdrawn(verdict) for verdict in verdicts], None
    verdicts = [_held_against_play(task, verdict, episodes, compiled) for verdict in verdicts]
    if playable and any(verdict.status == "certified" for verdict in verdicts):
        notes.append(NOT_FOUND)
    return AuditReport(
        task=task.name,
        scale=task.training.scale,
        verdicts=tuple(verdicts),
        exact=exact,
        broken=broken,
        promises_checked=playable,
        warnings=tuple(warnings),
        notes=(*notes, *warnings),
    )


def _audit_if_finite(
    task: Task, names: Sequence[str] | None, attack: dict[str, Any], callback: Callback
) -> AuditReport | None:
    if (_missing(task) and task.model is None) or model_of(task) is None:
        return None
    return _audit(task, names, attack, callback)


def _missing(task: Task) -> str:
    """Why its episodes cannot be played here, though students can be trained on its JAX environment; "" if they can."""
    if not GYMNASIUM:
        return "Gymnasium is not installed."
    if task.jax_env is not None:
        try:
            task.make_env().close()
        except NotInstalled as error:
            return str(error)
    return ""


def _withdrawn(verdict: Verdict) -> Verdict:
    """A verdict on a task that breaks a promise: failures that were found stay, guarantees do not."""
    reason = "The task's code breaks a promise: mend it and audit again."
    verdict = replace(verdict, reaches_goal=None)
    if verdict.status == "certified":
        verdict = replace(verdict, status="not audited", reason=reason)
    if verdict.eventual.given:
        verdict = replace(verdict, eventual=replace(verdict.eventual, given=False, failure_bound=None, reason=reason))
    return verdict


def _held_against_play(
    task: Task, verdict: Verdict, episodes: Sequence[PlayedEpisode], compiled: Sequence[PlayedEpisode]
) -> Verdict:
    """A verdict once the audit's own play is looked at: a failure refutes it, whatever was proven of a model. One in
    the JAX environment, where students are trained, refutes what was proven; else it is a claim about that alone."""
    if not verdict.counts or verdict.status == "refuted" or not (episodes or compiled):
        return verdict
    seen = failures_seen(task, verdict.name, episodes)
    if seen is None and verdict.status == "certified":
        seen = failures_seen(task, verdict.name, compiled, on_jax=True)
    if seen is None:
        return verdict
    proven = " A model says that no policy can fail: the task's code departs from it." * (verdict.status == "certified")
    refuted = replace(verdict, status="refuted", reason=f"{seen}.{proven}", own_play=seen)
    if not proven or not verdict.eventual.given:
        return refuted
    reason = "Episodes failed that the model rules out: nothing follows from it."
    return replace(refuted, eventual=replace(verdict.eventual, given=False, failure_bound=None, reason=reason))


def _verdict(
    task: Task, name: str, exact: ExactAudit | None, attack: dict[str, Any], playable: bool, callback: Callback
) -> Verdict:
    intervention = task.intervention(name)
    lasts = task.horizon_under(intervention)
    eventual = eventual_safety(intervention, task.constraint_form, task.kappa, lasts, task.horizon)
    known: dict[str, Any] = {"name": name, "counts": name != NONE.name, "eventual": eventual}
    if exact is not None and exact[name].learning.status != "undecided":
        learning = exact[name].learning
        status: Status = "certified" if learning.status == "certified" else "refuted"
        proven = {"eventual": exact[name].eventual, "reaches_goal": exact[name].reaches_goal}
        return Verdict(**known | proven, status=status, reason=learning.reason)
    searchable = task.jax_env is not None and attack["budget"] is not None and attack.get("backend") != "gymnasium"
    if not playable and not searchable:
        reason = "Not decided exactly, and without Gymnasium's environment nothing can be attacked."
        return Verdict(**known, status="not audited", reason=reason)
    from cisr.auditing.attack import falsify  # brings in jax, for students that attack

    if attack["budget"] is None:
        attack = {**attack, "budget": 2 * QUICK_EPISODES * lasts}
    if name == NONE.name:  # nobody doubts that students can fail without help: random play shows how often
        enough = min(attack["budget"], max(attack["budget"] // 10, task.horizon))
        attack = {**attack, "built_in": ("random",), "attackers": None, "budget": enough}
    if not playable:
        attack = {**attack, "backend": "compiled", "attackers": None}
    found = falsify(task, name, playable=playable, callback=callback, **attack)
    status = "refuted" if found.refuted else "not refuted" if playable else "not audited"
    reason = found.verdict[0].upper() + found.verdict[1:] + "."
    return Verdict(**known, status=status, reason=reason, falsification=found)
