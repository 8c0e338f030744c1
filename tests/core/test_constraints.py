"""Constraint accounting: what a step costs, and that the costs of an episode add up to its constraint value."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cisr.core.constraints import Account, book, opening, tolerances, value
from cisr.core.intervention import Intervention, Rewind


def play(form, events, tolerance, xp=np):
    """Books events (T, ..., m) one step after the other; returns the last account and the costs (T, ..., m)."""
    account, costs = opening(events.shape[1:-1], events.shape[-1], xp), []
    for now in events:
        account, cost = book(form, account, xp.asarray(now), xp.asarray(tolerance))
        costs.append(np.asarray(cost))
    return account, np.stack(costs)


def test_the_mean_form_by_hand():
    # One rescue in the second of four steps, tolerance 0.1: v = −0.1, 1/2 − 0.1, 1/3 − 0.1, 1/4 − 0.1.
    events = np.array([[0, 0], [0, 1], [0, 0], [0, 0]])
    _, costs = play("mean", events, np.array([0.0, 0.1]))
    np.testing.assert_allclose(costs[:, 1], [-0.1, 0.5, 1 / 3 - 1 / 2, 1 / 4 - 1 / 3], atol=1e-12)
    np.testing.assert_allclose(costs[:, 0], 0.0)


def test_the_sum_form_by_hand():
    # v = −2, −1, −1, 0 with tolerance 2: each event costs 1, the tolerance is given once.
    events = np.array([[0, 0], [0, 1], [0, 0], [0, 1]])
    _, costs = play("sum", events, np.array([0.0, 2.0]))
    np.testing.assert_allclose(costs[:, 1], [-2.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_the_tolerance_enters_at_the_first_step_and_never_again(form):
    tolerance = np.array([0.25, 0.5])
    _, costs = play(form, np.zeros((5, 2)), tolerance)
    np.testing.assert_allclose(costs[0], -tolerance)
    np.testing.assert_allclose(costs[1:], 0.0)


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_before_the_first_step_a_constraint_is_worth_nothing(form):
    np.testing.assert_array_equal(value(form, opening((3,), 2), np.array([0.3, 0.7])), np.zeros((3, 2)))


@pytest.mark.parametrize("form", ["mean", "sum"])
@given(
    events=arrays(bool, st.tuples(st.integers(1, 60), st.just(3), st.just(2))),
    tolerance=arrays(float, 2, elements=st.floats(0, 100)),
)
def test_the_costs_of_an_episode_add_up_to_its_constraint_value(form, events, tolerance):
    per_episode = events.mean(axis=0) if form == "mean" else events.sum(axis=0)
    account, costs = play(form, events, tolerance)
    np.testing.assert_allclose(costs.sum(axis=0), per_episode - tolerance, atol=1e-9)
    np.testing.assert_allclose(value(form, account, tolerance), per_episode - tolerance, atol=1e-9)


@pytest.mark.parametrize("form", ["mean", "sum"])
def test_numpy_and_jax_arrays_cost_the_same(form):
    events = np.random.default_rng(7).random((30, 4, 2)) < 0.3
    tolerance = np.array([0.0, 0.1])
    with_numpy, costs = play(form, events, tolerance)
    with_jax, jax_costs = play(form, events, tolerance, jnp)
    np.testing.assert_allclose(jax_costs, costs, atol=1e-6)
    np.testing.assert_array_equal(with_jax.counts, with_numpy.counts)
    np.testing.assert_array_equal(with_jax.steps, with_numpy.steps)


def test_accounts_of_different_length_are_kept_side_by_side():
    account = Account(counts=np.array([[0.0, 1.0], [0.0, 1.0]]), steps=np.array([2.0, 4.0]), driven=np.zeros(2))
    np.testing.assert_allclose(value("mean", account, np.zeros(2))[:, 1], [0.5, 0.25])


def test_an_interventions_tolerances_stand_in_the_order_of_the_constraints():
    intervention = Intervention(name="a", trigger=lambda s: s[..., 0] > 0, reset=Rewind(), tau=0.2, kappa=0.3)
    assert tolerances(intervention) == (0.3, 0.2)
