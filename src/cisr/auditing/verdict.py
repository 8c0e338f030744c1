"""Verdicts on an intervention of a finite task: learning safety (Proposition 2) and eventual safety (Proposition 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cisr.auditing.reachability import Reach, explore, failing_moves
from cisr.cmdp.induced import NOWHERE, Induced
from cisr.core.constraints import Form, tolerances
from cisr.core.intervention import Intervention
from cisr.core.model import said

State = tuple[float, ...]
Status = Literal["certified", "refuted", "undecided"]
Kind = Literal[
    "starts in danger",
    "starts in the trigger set",
    "resets into the trigger set",
    "fails outside the trigger set",
    "fails on the drive",
    "fails by the override",
]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One breach of Proposition 2's conditions."""

    kind: Kind
    state: State
    """The state it starts from."""
    action: int | None = None
    probability: float
    """Of the move, given state and action; of the state, for a start."""
    next_state: State | None = None
    """The state moved to: where the failure happens, or the rescue."""
    landed: State | None = None
    """Where the reset put the student."""


@dataclass(frozen=True, kw_only=True)
class Offence:
    """A failure that can happen under the intervention."""

    state: State
    action: int
    probability: float
    next_state: State
    landed: State | None = None
    """Where the rescue put the student, if it is the rescue that led into danger."""
    driven: bool = False
    """Whether it happens on a drive; the action is then the controller's."""


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """One step of a path in M_i."""

    state: State
    action: int
    landed: State
    """Where the student stands after the step."""
    rescued: bool
    driven: bool = False
    """Whether it is a step of the controller's, whose action it then is."""


@dataclass(frozen=True, kw_only=True)
class LearningSafety:
    """Whether students stay out of D while they learn, whatever they do."""

    status: Status
    """`certified`: D is unreachable in M_i within its horizon, for every policy. `refuted`: `offences` can happen, or
    episodes start in D."""
    by_proposition_2: bool | None
    """Whether Proposition 2's conditions hold, which are sufficient and not necessary. None: not decided."""
    reason: str
    violations: tuple[Violation, ...] = ()
    """Every breach of Proposition 2's conditions."""
    offences: tuple[Offence, ...] = ()
    """Every failure that can happen in M_i, the soonest first."""
    path: tuple[PathStep, ...] = ()
    """A shortest path from the start to the state of the first offence; empty when that is a start state or there is
    none."""


@dataclass(frozen=True, kw_only=True)
class EventualSafety:
    """Whether every policy that is feasible in M_i is feasible in M."""

    given: bool
    tau: float
    """τ_i"""
    kappa: float
    """κ_i"""
    task_kappa: float
    """κ"""
    failure_bound: float | None
    """What the argument behind Proposition 1 makes of P(failure in M), for policies feasible in M_i. None: nothing."""
    reason: str


def learning_safety(induced: Induced) -> LearningSafety:
    violations = proposition_2(induced)
    reach = explore(induced)
    failing = failing_moves(induced, reach)
    if len(failing) or induced.judged.doomed.any():
        path = tuple(_path(induced, reach, failing[0])) if len(failing) else ()
        offences = tuple(_offences(induced, failing))
        return LearningSafety(
            status="refuted",
            by_proposition_2=False,
            reason=_how_it_fails(induced, offences, path),
            violations=violations,
            offences=offences,
            path=path,
        )
    if induced.unmodelled:
        return LearningSafety(
            status="undecided",
            by_proposition_2=False if violations else None,
            reason=f"Not decided exactly: {induced.unmodelled}; no failure can happen before the first rescue. "
            "See falsification.",
            violations=violations,
        )
    how = "by Proposition 2" if not violations else "by reachability, although Proposition 2 does not apply"
    return LearningSafety(
        status="certified",
        by_proposition_2=not violations,
        reason=f"No policy can fail within {induced.judged.horizon} steps, {how}.",
        violations=violations,
    )


def proposition_2(induced: Induced) -> tuple[Violation, ...]:
    """Every breach of the conditions, over the states that M can reach when failures end the episode.

    With D counted as part of D_i: the start lies outside D_i, every reset lands outside D_i, and no action leads from
    outside D_i into D in one step. Then a student always stands outside D_i, where no move fails, so D is out of reach.
    A drive is a reset that must not come by D either. For actions (`Override`): the start lies outside D, and from
    every state that can be reached under the intervention each action that is let through, and each that is done
    instead, leads outside D with probability 1.
    """
    model, judged = induced.model, induced.judged
    inside = induced.trigger | judged.dangerous | judged.perilous  # (n,) D_i ∪ D
    violations = [
        Violation(
            kind="starts in danger" if judged.doomed[s] else "starts in the trigger set",
            state=induced.vector(s),
            probability=float(model.start[s]),
        )
        for s in np.flatnonzero((model.start > 0) & inside)
    ]
    resets = np.flatnonzero((induced.put != NOWHERE) & induced.explored[model.source])
    for k, probability in _merged(induced, resets[inside[induced.put[resets]]]):
        landed = induced.vector(induced.put[k])
        violations.append(
            Violation(kind="resets into the trigger set", **_move(induced, k, probability), landed=landed)
        )
    outside = induced.explored & ~inside
    for k, probability in _merged(induced, np.flatnonzero(judged.failed & outside[model.source])):
        violations.append(Violation(kind=_how(induced, k), **_move(induced, k, probability)))
    return tuple(violations)


def eventual_safety(
    intervention: Intervention, form: Form, kappa: float, horizon: int, task_horizon: int
) -> EventualSafety:
    """Proposition 1: τ_i + κ_i ≤ κ, where it applies. `horizon` is M_i's own, T_i; M's is T.

    Until the first rescue M and M_i are the same process. Let T_i ≥ T. Whoever fails in the T steps of M has failed in
    these steps of M_i before any rescue, or was rescued there at least once, by one of the k triggers:

        P(failure in M) ≤ E[failures in M_i] + Σ_k E[rescues in M_i by trigger k],

    and events of M_i after step T can only add to the right side. Sums: it is at most κ_i + k·τ_i, and a failure ends
    the episode, so E[failures in M] is the left side: the proposition. Means: an episode of at most T_i steps with an
    event has a mean of at least 1/T_i, so the right side is at most T_i·(κ_i + k·τ_i), and the mean of failures in M is
    at most the left side. τ_i + κ_i ≤ κ is not enough then, unless both are 0: one rescue among 200 steps under the
    teacher may be one failure in the first step without it.

    T_i < T: a policy may keep all tolerances of M_i and fail at step T_i + 1 of M, so nothing follows.
    """
    total = sum(tolerances(intervention))
    k = len(intervention.triggers)
    symbols = "τ_i + κ_i" if k == 1 else f"{k}·τ_i + κ_i"
    bound = total if form == "sum" else horizon * total
    condition, given = (x <= kappa or math.isclose(x, kappa) for x in (total, bound))
    sums = f"{symbols} = {total:g} {'≤' if condition else '>'} κ = {kappa:g}"
    shorter = horizon < task_horizon
    if shorter:
        reason = (
            f"Episodes last {horizon:,} steps here and {task_horizon:,} in the task: of later steps nothing is known."
        )
    elif not condition:
        reason = f"{sums}: Proposition 1 does not apply."
    elif given:
        reason = f"{sums}: every policy feasible here is feasible in the task (Proposition 1)."
    else:
        reason = f"{sums}, but Proposition 1 is about sums: per-episode means need T·({symbols}) = {bound:g} ≤ κ."
    return EventualSafety(
        given=given and not shorter,
        tau=intervention.tau,
        kappa=intervention.kappa,
        task_kappa=kappa,
        failure_bound=None if shorter else min(1.0, bound),
        reason=reason,
    )


def _how_it_fails(induced: Induced, offences: Sequence[Offence], path: Sequence[PathStep]) -> str:
    model = induced.model
    if len(doomed := np.flatnonzero(induced.judged.doomed)):
        s = doomed[0]
        return f"Episodes start in danger: in state {said(induced.vector(s))} with probability {model.start[s]:.4g}."
    first = offences[0]
    rescued = "" if first.landed is None else f", from where the rescue leads into danger, to {said(first.landed)}"
    whose = "the controller's action" if first.driven else "action"
    return (
        f"In state {said(first.state)}, {_after(len(path))}, {whose} {first.action} fails "
        f"with probability {first.probability:.4g} by moving to {said(first.next_state)}{rescued}."
    )


def _path(induced: Induced, reach: Reach, failing: int) -> Iterable[PathStep]:
    """The shortest way to where a move fails."""
    model = induced.model
    for k in reach.path(induced, int(model.source[failing])):
        yield PathStep(
            state=induced.vector(model.source[k]),
            action=_action(induced, k),
            landed=induced.vector(induced.lands[k]),
            rescued=bool(induced.rescued[k]),
            driven=bool(induced.driven[k]),
        )


def _after(steps: int) -> str:
    return f"reached after {steps} step{'s' * (steps > 1)}" if steps else "where episodes start"


def _offences(induced: Induced, failing: np.ndarray) -> Iterable[Offence]:
    for k, probability in _merged(induced, failing):
        led = induced.put[k]
        landed = None if led == NOWHERE else induced.vector(led)
        yield Offence(**_move(induced, k, probability), landed=landed, driven=bool(induced.driven[k]))


def _how(induced: Induced, k: int) -> Kind:
    if induced.driven[k]:
        return "fails on the drive"
    by_override = induced.intervention.judges_actions and induced.rescued[k]
    return "fails by the override" if by_override else "fails outside the trigger set"


def _action(induced: Induced, k: int) -> int:
    """The student's, or the controller's that drives."""
    return int(induced.judged.move.action[k] if induced.driven[k] else induced.model.action[k])


def _move(induced: Induced, k: int, probability: float) -> dict[str, Any]:
    """Move k of M_i, in the words of violations and offences."""
    model = induced.model
    return {
        "state": induced.vector(model.source[k]),
        "action": _action(induced, k),
        "probability": probability,
        "next_state": induced.vector(model.target[k]),
    }


def _merged(induced: Induced, moves: np.ndarray) -> list[tuple[int, float]]:
    """Moves that share state, action and next state as one, with their probabilities added up; order kept. Those of
    drives, which are there for every action, once."""
    model = induced.model
    moves = moves[~induced.driven[moves] | (model.action[moves] == 0)]
    keys = zip(model.pair[moves].tolist(), model.target[moves].tolist(), strict=True)
    total: dict[tuple[int, int], float] = {}
    first: dict[tuple[int, int], int] = {}
    for k, key in zip(moves.tolist(), keys, strict=True):
        first.setdefault(key, k)
        total[key] = total.get(key, 0.0) + float(model.probability[k])
    return [(k, total[key]) for key, k in first.items()]
