"""Programs over mixtures of policies against the occupancy-measure program written out."""

import numpy as np
import pytest
from random_cmdps import random_task
from scipy.optimize import linprog
from scipy.sparse import csr_array

from cisr.auditing.numbers import best_return
from cisr.auditing.planning import Process, avoiding, best, highest, maximise
from cisr.cmdp.finite import induce, judge


def written_out(induced, form):
    """max Σ x·reward over x_t(s, a) under flow equations and tolerances, as one program; None: infeasible."""
    model, horizon = induced.model, induced.judged.horizon
    n, pairs = model.n_states, model.n_states * model.n_actions

    def expected(amounts):
        return np.bincount(model.pair, model.probability * amounts, minlength=pairs)

    flow = np.zeros((horizon * n, horizon * pairs))
    for t in range(horizon):
        for pair in range(pairs):
            flow[t * n + pair // model.n_actions, t * pairs + pair] = 1
    for k in np.flatnonzero(induced.lands >= 0):
        for t in range(horizon - 1):
            flow[(t + 1) * n + induced.lands[k], t * pairs + model.pair[k]] -= model.probability[k]
    one = induced.intervention
    costs = [expected(induced.failed)]
    costs += [expected(trigger(model.states[model.target])) for trigger in one.triggers.values()]
    limits = np.array([one.kappa, *[one.tau] * len(one.triggers)]) * (horizon if form == "mean" else 1)
    answer = linprog(
        -np.tile(expected(model.reward), horizon),
        A_ub=np.tile(costs, horizon),
        b_ub=limits,
        A_eq=flow,
        b_eq=np.concatenate([model.start, np.zeros((horizon - 1) * n)]),
        method="highs",
    )
    return None if answer.status == 2 else -answer.fun


@pytest.mark.parametrize("form", ["sum", "mean"])
def test_mixtures_of_policies_solve_the_program_written_out(form):
    solved = 0
    for seed in range(150):
        task = random_task(np.random.default_rng(seed), form=form, n_triggers=1 + seed % 2)
        induced = induce(judge(task, task.model()), task.interventions[0])
        expected, optimum = written_out(induced, form), best_return(induced, form)
        assert (optimum is None) == (expected is None), seed
        if optimum is not None:
            assert optimum.value == pytest.approx(expected, abs=1e-6), seed
            assert optimum.bound == pytest.approx(expected, abs=1e-6), seed
            solved += 1
    assert 50 < solved < 150  # both answers were met


def one_state(horizon, gain, costs):
    """One state that goes on for ever; each action has its gain and costs."""
    return Process(
        moves=csr_array(np.ones((len(gain), 1))),
        start=np.ones(1),
        gain=np.broadcast_to(gain, (horizon, len(gain))),
        costs=np.array(costs, float),
        allowed=np.ones((horizon, len(gain)), bool),
    )


def test_a_cost_that_may_be_met_half_the_time_earns_half():
    # Ten steps of an action that gains 1 and costs 1, or of one that does neither; at most 5 may be spent.
    assert maximise(one_state(10, [1.0, 0.0], [[1], [0]]), np.array([5.0])).value == pytest.approx(5.0)


def test_limits_that_nobody_can_meet_are_infeasible():
    assert maximise(one_state(10, [1.0, 0.0], [[1], [0.5]]), np.array([4.9])) is None
    assert maximise(one_state(10, [1.0, 0.0], [[1], [0.5]]), np.array([5.0])).value == pytest.approx(0.0)


def test_without_prices_the_best_policy_takes_every_gain():
    assert best(one_state(4, [1.0, 0.0], [[3], [0]]), np.zeros(1)).tolist() == [4.0, 12.0]
    assert best(one_state(4, [1.0, 0.0], [[3], [0]]), np.ones(1)).tolist() == [0.0, 0.0]


def test_the_most_that_can_be_gained_grows_with_the_steps_left():
    half = csr_array(np.array([[0.5]]))  # one action: gains 1, goes on half the time
    assert highest(half, np.array([1.0]), 3)[:, 0].tolist() == [0.0, 1.0, 1.5, 1.75]


def test_an_action_with_no_safe_sequel_is_safe_in_the_last_step_only():
    # State 0: action 0 stays, action 1 goes to state 1, where both actions do harm.
    moves = csr_array(np.array([[1, 0], [0, 1], [0, 0], [0, 0]], float))
    harm = np.array([False, False, True, True])
    allowed = avoiding(moves, harm, np.array([1.0, 0.0]), 3)
    assert allowed[:, 1].tolist() == [False, False, True]
    assert allowed[:, 0].all() and not allowed[:, 2:].any()
    assert avoiding(moves, harm, np.array([0.5, 0.5]), 3) is None
