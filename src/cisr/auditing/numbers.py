"""Exact numbers on a finite task and its interventions, by dynamic and linear programming.

Limits on expected failures and rescues, each trigger by itself, as students have them. Sums: E[failures] ≤ κ_i and
E[rescues] ≤ τ_i. Means: students are held to E[n/L] ≤ τ_i over episodes of L steps, which is not linear in the
occupancy measure. L is at most T, so E[n] ≤ T·E[n/L] ≤ T·τ_i: the programs use that. It lets through every policy that
keeps the means and some that do not, so best returns are upper bounds then. A limit of 0 is the same in both forms and
is kept exactly: actions from which the event could not be avoided for sure are struck out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from cisr.auditing.planning import Optimum, Process, avoiding, best, highest, maximise
from cisr.cmdp.finite import induce
from cisr.cmdp.induced import NOWHERE, Induced, JudgedModel
from cisr.core.constraints import Form, tolerances
from cisr.core.intervention import NONE, Rewind

MAX_STATES = 1_000
MAX_CHOICES = 5_000_000
"""Most (step, state, action) triples: what time and memory grow with."""


@dataclass(frozen=True, kw_only=True)
class TaskNumbers:
    """What policies can do in M itself within the horizon. None: every policy may fail."""

    best_return: float
    best_return_never_failing: float | None
    best_success: float
    """Highest probability of a success."""
    best_success_never_failing: float | None
    highest_failure_probability: float


@dataclass(frozen=True, kw_only=True)
class InterventionNumbers:
    """What policies can do in M_i within the horizon."""

    highest_failure_probability: float
    """That any policy can cause in M_i, feasible or not; 0 when certified."""
    limits: str
    """What the tolerances come to in the programs."""
    best_return: float | None
    """No policy within the tolerances earns more in M_i; for sums one earns this. None: no policy meets them."""
    price: float | None
    """Best return in M among policies that never fail, minus `best_return`: what a student gives up, at least, that
    learns the best feasible policy of M_i. Below 0 where rescues can be made use of."""
    first_trigger_bound: float | None
    """Upper bound on P(failure in M) of policies that are feasible in M_i. None: there are none."""
    proposition_1_bound: float | None
    """The same by the argument behind Proposition 1."""
    note: str
    """What there is to say in words."""


def too_large(judged: JudgedModel) -> str | None:
    """Why there are no numbers for a task of this size, if so."""
    model = judged.model
    choices = model.n_states * model.n_actions * judged.horizon
    if model.n_states > MAX_STATES:
        return f"No exact numbers: {model.n_states:,} states are more than {MAX_STATES:,}, they would take too long."
    if choices > MAX_CHOICES:
        return f"No exact numbers: {choices:,} choices (states × actions × steps) are more than {MAX_CHOICES:,}."
    return None


def not_markov(induced: Induced) -> str | None:
    """Why there are no numbers for this intervention, if so."""
    reset = induced.intervention.reset
    if isinstance(reset, Rewind) and reset.steps > 1:
        return f"No exact numbers: a rewind of {reset.steps} steps depends on more than the present state."
    return f"No exact numbers: {induced.unmodelled}." if induced.unmodelled else None


def task_numbers(judged: JudgedModel) -> TaskNumbers:
    alone = induce(judged, NONE)
    returns, failure = _process(alone, judged.model.reward), _process(alone, judged.failed)
    success = _process(alone, judged.succeeded & judged.over & ~judged.failed)
    at_last = _expected(alone, judged.succeeded & ~judged.failed)  # the time limit ends the episode as well
    success = dataclasses.replace(success, gain=np.vstack([success.gain[:-1], at_last]))
    careful = avoiding(returns.moves, failure.gain[0] > 0, judged.model.start, judged.horizon)
    return TaskNumbers(
        best_return=_best(returns),
        best_return_never_failing=None if careful is None else _best(returns, careful),
        best_success=min(1.0, _best(success)),
        best_success_never_failing=None if careful is None else min(1.0, _best(success, careful)),
        highest_failure_probability=min(1.0, _best(failure)),
    )


def intervention_numbers(
    induced: Induced, form: Form, task: TaskNumbers, proposition_1_bound: float | None
) -> InterventionNumbers:
    optimum = best_return(induced, form)
    limits = (
        "sums: E[failures] ≤ κ_i, E[rescues] ≤ τ_i for each trigger"
        if form == "sum"
        else "what means imply: E[failures] ≤ T·κ_i, E[rescues] ≤ T·τ_i for each trigger"
    )
    safest = task.best_return_never_failing
    note = ""
    if optimum is None:
        note = "No policy meets the tolerances."
    elif safest is None:
        note = "No price: every policy of the task may fail."
    return InterventionNumbers(
        highest_failure_probability=min(1.0, _best(_process(induced, induced.failed))),
        limits=limits,
        best_return=None if optimum is None else optimum.value,
        price=None if optimum is None or safest is None else safest - optimum.value,
        first_trigger_bound=first_trigger_bound(induced, form),
        proposition_1_bound=proposition_1_bound,
        note=note,
    )


def best_return(induced: Induced, form: Form) -> Optimum | None:
    """The best return in M_i under its tolerances, for means an upper bound; None where no policy meets them."""
    return _limited(_process(induced, induced.model.reward), induced, form)


def first_trigger_bound(induced: Induced, form: Form) -> float | None:
    """An upper bound on P(failure in M) of policies feasible in M_i; None where there are none.

    Until the first trigger M and M_i are the same process. A policy that meets the first trigger in s' at step t fails
    in M with probability at most h(s', T − t), the highest failure probability of any policy from s' in the steps left.
    So its failure probability in M is at most

        P(fails in M_i before any trigger) + Σ_{s', t} P(first trigger in s' at step t) · h(s', T − t),

    where every probability is one in M_i with a flag "has triggered". The largest value of this over all policies of
    the flagged M_i that keep the limits, which include the feasible ones of M_i, is a linear program. M and M_i have
    the same T here. An override triggers before the move: in the place of h is then the highest failure probability of
    the student's own action, done after all.
    """
    judged, model = induced.judged, induced.model
    plain, alone = _process(induced, judged.failed), induce(induced.task, NONE)
    fails, moves = _expected(alone, alone.failed), _matrix(alone, alone.lands)
    h = highest(moves, fails, judged.horizon)[::-1][1:]  # (T, n) after each of the steps
    if induced.intervention.judges_actions:
        triggers = induced.rescued
        vetoed = _expected(induced, triggers) > 0  # (n * A,)
        gain = np.stack([np.where(vetoed, fails + moves @ later, plain.gain[0]) for later in h])  # (T, n * A)
    else:
        triggers = induced.rescued & ~judged.over
        first = _matrix(induced, np.where(triggers, induced.base[model.target], NOWHERE))[:, : h.shape[1]]
        gain = np.stack([plain.gain[0] + first @ later for later in h])  # (T, n * A)

    unflagged = _matrix(induced, np.where(triggers, NOWHERE, induced.lands))
    flagging = _matrix(induced, np.where(triggers, induced.lands, NOWHERE))
    nothing = csr_array(plain.moves.shape)
    flagged = Process(
        moves=vstack([hstack([unflagged, flagging]), hstack([nothing, plain.moves])]).tocsr(),
        start=np.concatenate([model.start, np.zeros_like(model.start)]),
        gain=np.hstack([gain, np.zeros_like(gain)]),
        costs=np.empty((2 * gain.shape[1], 0)),
        allowed=np.ones((judged.horizon, 2 * gain.shape[1]), bool),
    )
    optimum = _limited(flagged, induced, form)
    return None if optimum is None else min(1.0, optimum.bound)


def _limited(process: Process, induced: Induced, form: Form) -> Optimum | None:
    """The best gain under the tolerances of M_i; a process of several copies of M_i has the costs of each."""
    copies = len(process.start) // induced.model.n_states
    harm = np.zeros(process.moves.shape[0], bool)
    costs, limits = [], []
    longest = 1 if form == "sum" else induced.judged.horizon
    for events, tolerance in zip((induced.failed, *induced.fired.T), tolerances(induced.intervention), strict=True):
        expected = np.tile(_expected(induced, events), copies)  # (n * A,)
        if tolerance == 0:
            harm |= expected > 0
        else:
            costs.append(expected)
            limits.append(longest * tolerance)
    allowed = avoiding(process.moves, harm, process.start, len(process.gain))
    if allowed is None:
        return None
    limited = dataclasses.replace(process, costs=np.stack(costs, axis=1) if costs else process.costs, allowed=allowed)
    return maximise(limited, np.array(limits))


def _process(induced: Induced, gain: np.ndarray) -> Process:
    """M_i with a gain for each move (m,), without limits."""
    expected = _expected(induced, gain)
    shape = (induced.judged.horizon, len(expected))
    return Process(
        moves=_matrix(induced, induced.lands),
        start=induced.model.start,
        gain=np.broadcast_to(expected, shape),
        costs=np.empty((len(expected), 0)),
        allowed=np.broadcast_to(True, shape),
    )


def _best(process: Process, allowed: np.ndarray | None = None) -> float:
    chosen = process if allowed is None else dataclasses.replace(process, allowed=allowed)
    return float(best(chosen, np.empty(0))[0])


def _expected(induced: Induced, amounts: np.ndarray) -> np.ndarray:
    """The expectation of an amount for each move, (n * A,)."""
    model = induced.model
    return np.bincount(model.pair, model.probability * amounts, minlength=model.n_states * model.n_actions)


def _matrix(induced: Induced, lands: np.ndarray) -> Any:
    """Where (state, action) pairs lead, as a sparse matrix (n * A, n); NOWHERE leads out of it."""
    model, on = induced.model, lands != NOWHERE
    shape = (model.n_states * model.n_actions, model.n_states)
    return csr_array((model.probability[on], (model.pair[on], lands[on])), shape=shape)
