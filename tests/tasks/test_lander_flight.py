"""The lander's triggers, resets and reward on numbers worked out by hand, on numpy and jax, left and right."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from cisr import Move, ToStart, Transition, get_task
from cisr.tasks.lunar_lander.flight import DIMENSION, HULL, moved, reward, shaping, steadied

TASK = get_task("lunar-lander")
LIBRARIES = pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
SIDES = pytest.mark.parametrize("side", [1, -1], ids=["right", "left"])
NEAR = {np: 1e-12, jnp: 1e-6}


def state(x=0.0, y=0.0, vx=0.0, vy=0.0, angle=0.0, spin=0.0, left=0.0, right=0.0):
    """Eight numbers that are seen, and bodies about there in Box2D's units, tilted and moving."""
    seen = [x, y, vx, vy, angle, spin, left, right]
    hull = [10 + 10 * x, 4.6 + y * 20 / 3, angle, vx * 5, vy * 7.5, spin * 2.5]
    legs = [hull[0] + 0.8, hull[1] - 0.5, 0.6, 1.0, -2.0, 0.3], [hull[0] - 0.8, hull[1] - 0.5, -0.6, 1.1, -2.1, -0.3]
    return np.array([*seen, *hull, *legs[0], *legs[1]])


def fired(name, xp, given):
    triggers = TASK.intervention(name).triggers
    return {what for what, trigger in triggers.items() if bool(trigger(xp.asarray(given)))}


OFF, OVER, NOTHING = {"off the pad"}, {"over the pad"}, set()


@LIBRARIES
@SIDES
@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        # Narrow: the feet, 0.09 below, may not be under 20 · (0.25 − 0.2) = 1.
        ("Narrow", 0.25, 1.089, OFF),
        ("Narrow", 0.25, 1.091, NOTHING),
        # Wide: nor under 0.5 · (0.5 − 0.2) = 0.15.
        ("Wide", 0.5, 0.239, OFF),
        ("Wide", 0.5, 0.241, NOTHING),
        ("Narrow", 0.5, 1.5, OFF),
        # The pad ends at 0.2, and 0.2 is still on it.
        ("Narrow", 0.2, 0.05, NOTHING),
        ("Wide", 0.2, 0.05, NOTHING),
        ("Narrow", 0.2001, 0.05, OFF),
        ("Wide", 0.2001, 0.05, OFF),
        # Just outside the pad 0.09 is what counts: the funnel has no height yet.
        ("Wide", 0.2001, 0.0899, OFF),
        ("Wide", 0.2001, 0.0902, NOTHING),
        # Near the edge, however high.
        ("Wide", 0.9, 1.5, OFF),
        ("Wide", 0.8999, 1.5, NOTHING),
        ("Wide", 1.2, 1.5, OFF),
        # High over the pad nothing is asked of a lander at rest.
        ("Narrow", 0.0, 1.4, NOTHING),
        ("Wide", 0.1999, 0.0, NOTHING),
    ],
)
def test_beside_the_pad_the_feet_stay_above_the_funnel(xp, side, name, x, y, expected):
    assert fired(name, xp, state(side * x, y)) == expected


@LIBRARIES
@SIDES
@pytest.mark.parametrize("name", ["Narrow", "Wide"])
@pytest.mark.parametrize(
    ("y", "vy", "angle", "expected"),
    [
        # At y = 0 the limits are 0.3 and 0.5, and reaching them is enough.
        (0.0, 0.299, 0.0, NOTHING),
        (0.0, 0.3, 0.0, OVER),
        (0.0, 0.0, 0.499, NOTHING),
        (0.0, 0.0, 0.5, OVER),
        # At y = 0.05 they are 0.8 and 1.
        (0.05, 0.79, 0.99, NOTHING),
        (0.05, 0.81, 0.0, OVER),
        (0.05, 0.0, 1.01, OVER),
        # Below −0.03 nobody is slow enough.
        (-0.029, 0.0, 0.0, NOTHING),
        (-0.031, 0.0, 0.0, OVER),
    ],
)
def test_over_the_pad_speed_and_tilt_are_limited_by_height(xp, side, name, y, vy, angle, expected):
    for x in (0.0, 0.1, 0.2):
        assert fired(name, xp, state(side * x, y, vy=-side * vy, angle=side * angle)) == expected
    assert fired(name, xp, state(side * 0.1, y, vx=5.0, spin=9.0, vy=vy, angle=-angle)) == expected


def test_speed_and_tilt_do_not_count_beside_the_pad_nor_the_funnel_over_it():
    assert fired("Wide", np, state(0.5, 1.0, vy=-30.0, angle=3.0)) == NOTHING
    assert fired("Narrow", np, state(0.0, 0.01, vy=-0.1)) == NOTHING


@LIBRARIES
@SIDES
@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        # Wide, y = x − 0.2: from (0.5, 0.1) up and inwards by 0.1 = |0.3 − 0.1| / 2.
        ("Wide", 0.5, 0.1, (0.4, 0.2)),
        ("Wide", 0.6, -0.2, (0.3, 0.1)),
        # Narrow, y = 100 (x − 0.2): from (0.3, 1) by |10 − 1| / 101.
        ("Narrow", 0.3, 1.0, (0.3 - 9 / 101, 1 + 9 / 101)),
        # Above the line (0.7 at x = 0.9) the way leads outwards and down, and is mirrored.
        ("Wide", 0.9, 1.3, (0.6, 1.6)),
        # By 0.03 is a way of 0.042: doubled twice it is 0.17.
        ("Wide", 0.5, 0.24, (0.38, 0.36)),
        # By 0.06 is a way of 0.085: once.
        ("Wide", 0.5, 0.18, (0.38, 0.30)),
        # By 0.08 is a way of 0.113: long enough.
        ("Wide", 0.5, 0.14, (0.42, 0.22)),
        # On the line there is no way to double: 0.1 along the slope.
        ("Wide", 0.95, 0.75, (0.95 - 0.1 / 2**0.5, 0.75 + 0.1 / 2**0.5)),
        # Over the pad, its end included, the lander is lifted.
        ("Wide", 0.1, 0.02, (0.1, 0.12)),
        ("Narrow", 0.2, -0.05, (0.2, 0.05)),
        ("Narrow", 0.0, 0.0, (0.0, 0.1)),
    ],
)
def test_a_rescue_leads_where_the_construction_says(xp, side, name, x, y, expected):
    reset = TASK.intervention(name).reset.fn
    placed = reset(xp.asarray(state(side * x, y)), xp.zeros((1, DIMENSION)), xp.zeros(0))
    np.testing.assert_allclose(placed[:2], (side * expected[0], expected[1]), atol=NEAR[xp])


@LIBRARIES
def test_a_hair_off_the_reset_line_still_moves_by_a_tenth_at_least(xp):
    for off in (1e-9, 1e-7, 1e-5, 1e-3):
        placed = steadied(1.0)(xp.asarray(state(0.95, 0.75 + off)), None, None)
        assert 0.1 - 1e-6 <= float(np.hypot(placed[0] - 0.95, placed[1] - 0.75 - off)) < 0.2


@LIBRARIES
def test_a_rescue_shifts_hull_and_legs_as_one_upright_and_without_any_speed(xp):
    given = state(0.5, 0.1, vx=0.3, vy=-0.4, angle=0.5, spin=1.0, left=1.0)
    placed = np.asarray(TASK.intervention("Wide").reset.fn(xp.asarray(given), None, None))
    np.testing.assert_allclose(placed[:HULL], [0.4, 0.2, 0, 0, 0, 0, 1, 0], atol=1e-6)
    before, after = given[HULL:].reshape(3, 6), placed[HULL:].reshape(3, 6)
    np.testing.assert_allclose(after[:, :2] - before[:, :2], [[-0.1 * 10, 0.1 * 20 / 3]] * 3, atol=1e-5)
    assert not after[:, 2:].any()


def test_many_states_are_judged_and_moved_at_once_as_one_by_one():
    draws = np.random.default_rng(0).uniform(-1.1, 1.1, (200, 8)) * [1, 1, 1, 1, 1, 1, 0, 0]
    states = np.stack([state(*numbers) for numbers in draws])
    for intervention in TASK.interventions:
        np.testing.assert_array_equal(intervention.triggered(states), [intervention.triggered(s) for s in states])
        if isinstance(intervention.reset, ToStart):
            continue
        reset = intervention.reset.fn
        np.testing.assert_allclose(reset(states, None, None), [reset(s, None, None) for s in states])
        np.testing.assert_allclose(reset(states, None, None), reset(jnp.asarray(states), None, None), atol=1e-4)


@LIBRARIES
def test_shaping_is_gymnasiums_potential(xp):
    # −100 · 0.5 − 100 · 0.13 − 100 · 0.2 + 10
    given = state(0.3, 0.4, vx=0.05, vy=-0.12, angle=-0.2, right=1.0)
    assert float(shaping(xp.asarray(given))) == pytest.approx(-73.0, rel=1e-6)


@LIBRARIES
def test_the_reward_is_the_environments_but_at_rescues_and_at_the_time_limit(xp):
    at, after = state(0.3, 0.4), state(0.0, 0.5)  # potentials −50 and −50, and −50 after a speed is taken away
    fast = state(0.3, 0.4, vy=-0.2)  # −70
    kinds = [
        # move's state, paid, ended, failed, rescued, time limit → reward
        (at, 1.5, False, False, False, False, 1.5),
        (at, -100.0, True, True, False, False, -100.0),
        (fast, 1.5, False, False, True, False, 20.0),
        (fast, -100.0, True, True, True, False, 20.0),  # a crash in the trigger set: the −100 is replaced
        (at, 1.5, False, False, False, True, -100.0),
        (fast, 1.5, False, False, True, True, -100.0),
    ]
    states, paid, ended, failed, rescued, late, expected = (xp.asarray(np.array(k)) for k in zip(*kinds, strict=True))
    afters = xp.asarray(np.stack([after] * len(kinds)))
    found = reward(Transition(Move(states, paid, ended), failed, rescued, afters, late))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_moving_nowhere_only_steadies():
    given = state(0.3, 0.4, vx=0.1, angle=0.2)
    placed = moved(given, np.float64(0), np.float64(0))
    np.testing.assert_allclose(placed[:2], given[:2])
    assert not placed[2:6].any()
