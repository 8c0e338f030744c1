"""Constraint accounting, in array code that both backends share.

A student's constraints are [visits to D, rescues by each trigger] with tolerances [κ_i, τ_i, …]. After t steps
of its own in an episode with event counts n the *running value* of a constraint is

    mean form   v_t = n / t − tolerance        sum form   v_t = n − tolerance        v_0 = 0.

The cost of a step is the increment v_t − v_{t−1}, so the costs of an episode add up to its constraint value.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from cisr.core.intervention import Array, Intervention

Form = Literal["mean", "sum"]


class Account(NamedTuple):
    """What an episode has run up so far."""

    counts: Array  # (..., m) events
    steps: Array  # (...) the student's own
    driven: Array  # (...) steps of controllers, which the clock counts and means do not

    @property
    def clock(self) -> Array:
        """Steps of the environment, (...)."""
        return self.steps + self.driven


def opening(shape: tuple[int, ...], m: int, xp: Any = np) -> Account:
    """The accounts of episodes that have not begun."""
    return Account(counts=xp.zeros((*shape, m)), steps=xp.zeros(shape), driven=xp.zeros(shape))


def tolerances(intervention: Intervention) -> tuple[float, ...]:
    """(m,): κ_i, then τ_i for each trigger."""
    return (intervention.kappa, *(intervention.tau for _ in intervention.triggers))


def violation(values: Array) -> Array:
    """Rescues beyond the tolerance, all triggers together: (..., m) -> (...)."""
    return values[..., 1:].sum(axis=-1)


def value(form: Form, account: Account, tolerance: Array) -> Array:
    """Running values v_t, (..., m)."""
    steps = account.steps[..., None]
    total = account.counts / (steps + (steps == 0)) if form == "mean" else account.counts
    return (total - tolerance) * (steps > 0)


def book(
    form: Form, account: Account, events: Array, tolerance: Array, driven: Array | int = 0
) -> tuple[Account, Array]:
    """Enter one step's events (..., m), and the steps driven in it; returns the new account and the step's costs
    (..., m)."""
    after = Account(account.counts + events, account.steps + 1, account.driven + driven)
    return after, value(form, after, tolerance) - value(form, account, tolerance)
