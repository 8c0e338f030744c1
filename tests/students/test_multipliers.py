"""Multipliers by exponentiated gradient, against numbers worked out by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from cisr.students.multipliers import exponentiated_gradient, multipliers, uniform_log_weights

BOUND = 0.5


def after(rounds, rate=1.0):
    weights = uniform_log_weights(2)
    for violations in rounds:
        weights = exponentiated_gradient(weights, jnp.array(violations), rate)
    return weights


def test_a_new_student_has_multipliers_of_b_over_m_plus_1():
    np.testing.assert_allclose(multipliers(uniform_log_weights(2), BOUND), [BOUND / 3, BOUND / 3], rtol=1e-6)


def test_one_step_by_hand():
    # w ∝ [exp(0), exp(ln 2), 1] = [1, 2, 1]: the multipliers are B·1/4 and B·2/4.
    weights = after([[0.0, np.log(2.0)]])
    np.testing.assert_allclose(multipliers(weights, BOUND), [0.125, 0.25], rtol=1e-6)


def test_the_rate_scales_the_step():
    np.testing.assert_allclose(after([[0.0, np.log(2.0)]], rate=2.0), np.log([1 / 6, 4 / 6, 1 / 6]), rtol=1e-5)


def test_steps_multiply():
    np.testing.assert_allclose(after([[0.1, -0.2], [0.3, 0.4]]), after([[0.4, 0.2]]), rtol=1e-5)


def test_satisfied_constraints_hand_their_weight_to_the_slack():
    shares = np.asarray(multipliers(after([[-0.1, -0.1]]), BOUND))
    assert (shares < BOUND / 3).all()


def test_violations_beyond_200_count_as_200():
    np.testing.assert_array_equal(after([[1e6, -1e6]]), after([[200.0, -200.0]]))


@pytest.mark.parametrize("violation", [200.0, -200.0])
def test_a_hundred_rounds_of_the_largest_violation_overflow_nothing(violation):
    weights = after([[0.0, violation]] * 100)
    assert np.isfinite(weights).all()
    expected = [0.0, BOUND] if violation > 0 else [BOUND / 2, 0.0]
    np.testing.assert_allclose(multipliers(weights, BOUND), expected, atol=1e-6)


def test_multipliers_never_add_up_to_more_than_the_bound():
    rng = np.random.default_rng(0)
    weights = uniform_log_weights(2)
    for _ in range(50):
        weights = exponentiated_gradient(weights, jnp.asarray(rng.normal(scale=5.0, size=2)), 1.0)
        shares = np.asarray(multipliers(weights, BOUND))
        assert (shares >= 0).all()
        assert shares.sum() <= BOUND * (1 + 1e-6)
        np.testing.assert_allclose(np.exp(weights).sum(), 1.0, rtol=1e-5)
