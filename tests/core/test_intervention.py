"""Interventions: what may be written in one, and the one that never helps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.core.intervention import NONE, Intervention, Place, Rewind, ToStart


def always(state):
    return np.ones(state.shape[:-1], bool)


@pytest.mark.parametrize("name", ["", " ", " SR1", "SR1 ", "\tSR1"])
def test_a_name_without_substance_or_with_blanks_around_it_is_refused(name):
    with pytest.raises(ConfigError, match="without blanks"):
        Intervention(name=name, trigger=always, reset=ToStart(), tau=0.0)


@pytest.mark.parametrize("symbol", ["tau", "kappa"])
@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf"), -float("inf")])
def test_tolerances_are_finite_and_not_negative(symbol, tolerance):
    with pytest.raises(ConfigError, match=rf"'SR1' has {symbol}={tolerance}"):
        Intervention(**{"name": "SR1", "trigger": always, "reset": ToStart(), "tau": 0.0, symbol: tolerance})


@pytest.mark.parametrize("steps", [0, -1, 1.5])
def test_a_rewind_goes_back_at_least_one_step(steps):
    with pytest.raises(ConfigError, match=rf"Rewind\({steps}\)"):
        Rewind(steps)


def test_a_rewind_goes_back_one_step_unless_told_otherwise():
    assert Rewind() == Rewind(1)


@pytest.mark.parametrize(("n_history", "n_uniforms"), [(0, 0), (-1, 0), (1, -1)])
def test_a_place_needs_some_history_and_cannot_draw_less_than_nothing(n_history, n_uniforms):
    with pytest.raises(ConfigError, match=f"n_history={n_history}, n_uniforms={n_uniforms}"):
        Place(lambda state, history, u: state, n_history=n_history, n_uniforms=n_uniforms)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("shape", [(1,), (5, 3), (2, 4, 1)])
def test_none_never_triggers_whatever_the_states_shape(xp, shape):
    verdict = np.asarray(NONE.trigger(xp.ones(shape)))
    assert verdict.shape == shape[:-1]
    assert verdict.dtype == bool
    assert not verdict.any()
