"""The best that any policy can do in a finite process of T steps, with and without limits on what it may cost.

With limits the best policy is a linear program over occupancy measures x_t(s, a), the probability of being in s and
doing a at step t:

    max Σ_t,s,a x_t(s,a)·gain_t(s,a)   s.t.   Σ x_t(s,a)·cost_j(s,a) ≤ limit_j   and the flow equations
    Σ_a x_0(s,a) = start(s),   Σ_a x_{t+1}(s',a) = Σ_s,a x_t(s,a)·P(s'|s,a).

Written out it has T·n·A variables. Its vertices without the limits are the deterministic policies, so it is solved as
the same program over mixtures of policies (Dantzig–Wolfe): HiGHS finds the best mixture of the policies at hand and a
price λ_j for each cost; the policy that is best at these prices, by backward induction, joins them; when that policy is
no better than the mixture, the mixture is optimal. For any λ ≥ 0, limit·λ + max_π (gain − λ·cost) bounds the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

PRECISION = 1e-9
"""Relative to the size of gains and costs."""
MAX_COLUMNS = 1_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Process:
    """n states with A actions each; (state, action) pairs are numbered state · A + action."""

    moves: Any  # (n * A, n) scipy sparse: probability that the process goes on in a state; the rest ends it
    start: np.ndarray  # (n,)
    gain: np.ndarray  # (T, n * A) expected gain of a step
    costs: np.ndarray  # (n * A, j) expected costs of a step
    allowed: np.ndarray  # (T, n * A) bool; every start state has an allowed action, and those lead to such states

    @property
    def n_actions(self) -> int:
        return int(self.moves.shape[0]) // len(self.start)


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The optimum of a program, between the value of a mixture of policies and a proven bound."""

    value: float
    bound: float


def best(process: Process, prices: np.ndarray, weight: float = 1.0) -> np.ndarray:
    """[gain, costs…] of the policy that is best for weight·gain − prices·costs, (1 + j,), by backward induction."""
    n = len(process.start)
    weights = np.concatenate([[weight], -prices])
    rows = np.arange(n) * process.n_actions
    worth = np.zeros((n, len(weights)))  # of being in a state, under the best policy from here on
    for gain, allowed in zip(process.gain[::-1], process.allowed[::-1], strict=True):
        q = process.moves @ worth
        q[:, 0] += gain
        q[:, 1:] += process.costs
        scores = np.where(allowed, q @ weights, -np.inf).reshape(n, -1)
        worth = q[rows + scores.argmax(axis=1)]
    return np.asarray(process.start @ worth)


def highest(moves: Any, gain: np.ndarray, horizon: int) -> np.ndarray:
    """The most that can be gained from each state with r steps left, (T + 1, n)."""
    n = moves.shape[1]
    table = np.zeros((horizon + 1, n))
    for r in range(1, horizon + 1):
        table[r] = (gain + moves @ table[r - 1]).reshape(n, -1).max(axis=1)
    return table


def avoiding(moves: Any, harm: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray | None:
    """Which actions keep clear of harm (n * A,) for the rest of the horizon for sure, (T, n * A); None: not all can.

    Whether an action does depends on the steps left: with one left nothing needs to be continued.
    """
    n = moves.shape[1]
    allowed = np.zeros((horizon, len(harm)), bool)
    stuck = np.zeros(n)  # states without an allowed action
    for t in reversed(range(horizon)):
        allowed[t] = ~harm & ~(moves @ stuck > 0)
        stuck = 1.0 - allowed[t].reshape(n, -1).any(axis=1)
    return None if stuck[start > 0].any() else allowed


def maximise(process: Process, limits: np.ndarray) -> Optimum | None:
    """The program above; None where no policy meets the limits."""
    columns = [best(process, np.zeros(len(limits)))]
    if len(limits) == 0:
        return Optimum(value=float(columns[0][0]), bound=float(columns[0][0]))
    met = _generate(process, limits, columns, elastic=True)
    if met.value < -PRECISION * _scale(columns):
        return None
    return _generate(process, limits + max(0.0, -met.value), columns, elastic=False)


def _generate(process: Process, limits: np.ndarray, columns: list[np.ndarray], *, elastic: bool) -> Optimum:
    """Adds columns until their best mixture is optimal. Elastic: what is maximised is minus the excess over limits."""
    bound = 0.0 if elastic else np.inf
    while True:
        value, prices = _master(np.array(columns), limits, elastic)
        weights = np.concatenate([[0.0 if elastic else 1.0], -prices])
        column = best(process, prices, weights[0])
        bound = min(bound, float(weights @ column + prices @ limits))
        converged = bound - value <= PRECISION * _scale(columns)
        known = any(np.array_equal(column, other) for other in columns)  # no better, but for rounding
        if converged or known or len(columns) >= MAX_COLUMNS:
            return Optimum(value=value, bound=max(bound, value))
        columns.append(column)


def _master(columns: np.ndarray, limits: np.ndarray, elastic: bool) -> tuple[float, np.ndarray]:
    """The best mixture of the columns (k, 1 + j): its value and the prices of the limits (j,)."""
    k, j = len(columns), len(limits)
    aim = np.concatenate([np.zeros(k), np.ones(j)]) if elastic else -columns[:, 0]
    above = np.hstack([columns[:, 1:].T, -np.eye(j)]) if elastic else columns[:, 1:].T
    whole = np.concatenate([np.ones(k), np.zeros(len(aim) - k)])[None]
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for slack in (0.0, 1e-9 * _scale(columns)):  # limits that are met just so, but for rounding
        answer = linprog(aim, A_ub=above, b_ub=limits + slack, A_eq=whole, b_eq=[1.0], method="highs-ds", options=tight)
        if answer.status == 0:
            break
    else:
        raise ArithmeticError(f"HiGHS could not solve the program over {k} policies: {answer.message}")
    return -float(answer.fun), np.maximum(0.0, -answer.ineqlin.marginals)


def _scale(columns: Sequence[np.ndarray] | np.ndarray) -> float:
    return max(1.0, float(np.abs(columns).max()))
