"""One step of the intervention-induced CMDP M_i: its rules, once, in array code for numpy and jax alike.

In this order: the student moves; danger, success and the triggers are judged on the state moved to; if a trigger fired,
the student is rescued *within the same step*, which keeps the environment's reward; the events are accounted for. A
failure ends the episode, whatever the environment makes of it: D is a set of terminal states. Whoever starts inside D
fails in the first step, and whoever is put there by a rescue fails in the step of the rescue. The clock runs on through
rescues.

`terminated`, `truncated` and *rescued* are three separate facts, and they decide what a learner may bootstrap:
- a rescue by `Rewind` or `Place` is an ordinary transition to the reset state: values are bootstrapped through it;
- a rescue by `ToStart` ends the episode as terminal: nothing is bootstrapped;
- the time limit sets `truncated`; students treat it as terminal unless told to bootstrap it.
A rescue that comes after the episode has ended (the student failed inside the trigger set) is counted, but nobody is
left to be placed.

Moving, remembering and placing are for those who use this: host environments, compiled ones and finite models.
"""

from __future__ import annotations

from typing import NamedTuple

from cisr.core import constraints
from cisr.core.constraints import Account, Form
from cisr.core.intervention import Array
from cisr.core.task import Move, Transition


class Judged(NamedTuple):
    """A move, judged."""

    move: Move
    dangers: Array  # (..., n) which of the task's dangers hold
    success: Array  # (...)
    fired: Array  # (..., k) which of the intervention's triggers fired
    failed: Array  # (...) the move visited D
    rescued: Array  # (...) a trigger fired
    over: Array  # (...) the move itself ended the episode


class Terms(NamedTuple):
    """What an intervention sets for the episode."""

    form: Form
    tolerance: Array  # (m,)
    horizon: Array | int  # () steps
    to_start: Array | bool  # () a rescue ends the episode


class Step(NamedTuple):
    """What a step came to."""

    reward: Array  # (...) the environment's
    costs: Array  # (..., m) constraint increments
    constraint_values: Array  # (..., m) running values of the episodes so far
    terminated: Array  # (...)
    truncated: Array  # (...)
    rescued: Array  # (...)
    failed: Array  # (...)
    outcomes: Array  # (..., n) which of the task's outcomes hold, but for the last, which always does


def judge(move: Move, dangers: Array, success: Array, fired: Array) -> Judged:
    failed = dangers.any(axis=-1)
    return Judged(move, dangers, success, fired, failed, fired.any(axis=-1), move.terminated | failed)


def to_be_placed(judged: Judged, to_start: Array | bool) -> Array:
    """Whose episodes go on somewhere else, (...)."""
    placed = judged.rescued & ~judged.over
    return placed & (not to_start if isinstance(to_start, bool) else ~to_start)


def conclude(
    judged: Judged, terms: Terms, account: Account, after: Array, landed: Array | None, cut_off: Array | bool = False
) -> tuple[Account, Step, Transition]:
    """The step as a whole, once rescues have put students `after` it (..., d).

    `landed` are the dangers that hold there (..., n), None where a rescue cannot lead into D; `cut_off` says where the
    environment itself ended the episode by a time limit.
    """
    xp = judged.failed.__array_namespace__()
    dangers, failed = judged.dangers, judged.failed
    if landed is not None:
        dangers = dangers | (landed & to_be_placed(judged, terms.to_start)[..., None])
        failed = dangers.any(axis=-1)
    events = xp.concat([failed[..., None], judged.fired], axis=-1)
    account, costs = constraints.book(terms.form, account, events, terms.tolerance)
    sent_back = judged.rescued & ~judged.over & terms.to_start
    terminated = judged.over | failed | sent_back
    truncated = (cut_off | (account.steps >= terms.horizon)) & ~terminated
    ends = xp.stack([judged.success, sent_back, truncated], axis=-1)
    step = Step(
        reward=judged.move.reward,
        costs=costs,
        constraint_values=constraints.value(terms.form, account, terms.tolerance),
        terminated=terminated,
        truncated=truncated,
        rescued=judged.rescued,
        failed=failed,
        outcomes=xp.concat([dangers, ends], axis=-1),
    )
    return account, step, Transition(judged.move, failed, judged.rescued, after, truncated)
