"""One step of the intervention-induced CMDP M_i: its rules, once, in array code for numpy and jax alike.

In this order: an `Override` judges state and action and may act in the student's place; the environment moves; danger,
success and the other triggers are judged on the state moved to; if a trigger fired, the student is rescued *within the
same step*, which keeps the environment's reward; the events are accounted for. A failure ends the episode, whatever the
environment makes of it: D is a set of terminal states. Whoever starts inside D fails in the first step, and whoever is
put there by a rescue, or driven through it, fails in the step of the rescue. The clock runs on through rescues.

`terminated`, `truncated` and *rescued* are three separate facts, and they decide what a learner may bootstrap:
- a rescue by `Rewind`, `Place`, `Drive` or `Override` is an ordinary transition to where it leaves the student: values
  are bootstrapped through it;
- a rescue by `ToStart`, or by an `Override` that ends episodes, ends it as terminal: nothing is bootstrapped; so does a
  drive on which the environment ends the episode, which is no success of the student's;
- the time limit sets `truncated`; students treat it as terminal unless told to bootstrap it.
A rescue that comes after the episode has ended (the student failed inside the trigger set) is counted, but nobody is
left to be placed or driven.

A success is an end that the student came to by itself: danger comes first, and whoever is sent back, or driven as time
runs out, has not succeeded, whatever the move was.

A drive pays nothing: whoever was paid for it would learn to be driven. Its steps count for the clock, and for none of
the means that a student is held to, which are over its own steps.

Moving, remembering, placing and driving are for those who use this: host environments, compiled ones and finite models.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cisr.core import constraints
from cisr.core.constraints import Account, Form
from cisr.core.intervention import PUTTING, Array, Drive, Intervention
from cisr.core.moves import Move, Transition
from cisr.core.task import Task


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
    puts: Array | bool  # () a rescue puts the student into another state
    drives: Array | bool  # () a rescue drives the student to another state
    max_driven: Array | int = 0  # () steps of one drive


def terms_of(task: Task, intervention: Intervention) -> Terms:
    """Of one intervention that is known beforehand."""
    reset = intervention.reset
    return Terms(
        form=task.constraint_form,
        tolerance=np.array(constraints.tolerances(intervention)),
        horizon=task.horizon_under(intervention),
        to_start=intervention.ends_episodes,
        puts=isinstance(reset, PUTTING),
        drives=isinstance(reset, Drive),
        max_driven=reset.max_steps if isinstance(reset, Drive) else 0,
    )


class Ride(NamedTuple):
    """The drives of one step."""

    driving: Array  # (...) who is still being driven
    steps: Array  # (...) driven so far
    dangers: Array  # (..., n) met on the way
    over: Array  # (...) the environment ended the episode on the way
    cut_off: Array  # (...) its own time limit did


class Step(NamedTuple):
    """What a step came to."""

    reward: Array  # (...) the environment's
    costs: Array  # (..., m) constraint increments
    constraint_values: Array  # (..., m) running values of the episodes so far
    terminated: Array  # (...)
    truncated: Array  # (...)
    rescued: Array  # (...)
    failed: Array  # (...)
    driven: Array  # (...) steps that a controller drove
    outcomes: Array  # (..., n) which of the task's outcomes hold, but for the last, which always does


def judge(move: Move, dangers: Array, success: Array, fired: Array) -> Judged:
    failed = dangers.any(axis=-1)
    return Judged(move, dangers, success, fired, failed, fired.any(axis=-1), move.terminated | failed)


def to_be_placed(judged: Judged, puts: Array | bool) -> Array:
    """Whose episodes go on in another state, (...)."""
    return judged.rescued & ~judged.over & puts


def set_off(judged: Judged, terms: Terms, account: Account, cut_off: Array | bool) -> Ride:
    """Who is driven now: those whose episodes go on after the move."""
    xp = judged.failed.__array_namespace__()
    on_time = ~(cut_off | (account.clock + 1 >= terms.horizon))
    never = xp.zeros_like(judged.failed)
    return Ride(
        driving=judged.rescued & ~judged.over & terms.drives & on_time,
        steps=xp.zeros_like(account.driven),
        dangers=xp.zeros_like(judged.dangers),
        over=never,
        cut_off=never,
    )


def driven_on(
    ride: Ride, terms: Terms, account: Account, move: Move, dangers: Array, safe: Array, cut_off: Array | bool
) -> Ride:
    """The drives after one more step of everybody who was driving; `account` is that of before the student's step."""
    driving = ride.driving
    steps = ride.steps + driving
    met = ride.dangers | (dangers & driving[..., None])
    over = ride.over | (move.terminated & driving)
    late = ride.cut_off | (cut_off & driving)
    out_of_time = account.clock + 1 + steps >= terms.horizon
    arrived = met.any(axis=-1) | over | late | safe | out_of_time | (steps >= terms.max_driven)
    return Ride(driving & ~arrived, steps, met, over, late)


def conclude(
    judged: Judged,
    terms: Terms,
    account: Account,
    after: Array,
    landed: Array | None,
    cut_off: Array | bool = False,
    ride: Ride | None = None,
) -> tuple[Account, Step, Transition]:
    """The step as a whole, once rescues have left students `after` it (..., d).

    `landed` are the dangers that hold there (..., n), None where no rescue puts anybody into D; `cut_off` says where
    the environment itself ended the episode by a time limit; `ride` is None where nobody can be driven.
    """
    xp = judged.failed.__array_namespace__()
    dangers, failed, driven = judged.dangers, judged.failed, xp.zeros_like(account.driven)
    sent_back = judged.rescued & ~judged.over & terms.to_start
    if landed is not None:
        dangers = dangers | (landed & to_be_placed(judged, terms.puts)[..., None])
    if ride is not None:
        dangers, driven, cut_off = dangers | ride.dangers, ride.steps, cut_off | ride.cut_off
        sent_back = sent_back | ride.over
    if landed is not None or ride is not None:
        failed = dangers.any(axis=-1)
    events = xp.concat([failed[..., None], judged.fired], axis=-1)
    account, costs = constraints.book(terms.form, account, events, terms.tolerance, driven)
    terminated = judged.over | failed | sent_back
    truncated = (cut_off | (account.clock >= terms.horizon)) & ~terminated
    by_itself = (terminated | truncated) & ~(failed | sent_back) & (driven == 0)
    ends = xp.stack([judged.success & by_itself, sent_back, truncated], axis=-1)
    step = Step(
        reward=judged.move.reward,
        costs=costs,
        constraint_values=constraints.value(terms.form, account, terms.tolerance),
        terminated=terminated,
        truncated=truncated,
        rescued=judged.rescued,
        failed=failed,
        driven=driven,
        outcomes=xp.concat([dangers, ends], axis=-1),
    )
    return account, step, Transition(judged.move, failed, judged.rescued, after, truncated)
