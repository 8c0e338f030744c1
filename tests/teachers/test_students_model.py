"""What is believed of students not yet seen, against closed forms and common sense."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit

from cisr.curricula import Switching
from cisr.teachers.base import random_point
from cisr.teachers.paths import Kernel, Path, path_of
from cisr.teachers.students_model import FAILED_BELOW, FAILING, NOISE, USUAL_LOG_ODDS, believe, classified, regressed

A, B, AB, BA = Path(("A",), ()), Path(("B",), ()), Path(("A", "B"), ((0.5, 0.5),)), Path(("B", "A"), ((0.5, 0.5),))
BC = Path(("B", "C"), ((0.5, 0.5),))
START = Kernel(start=2.0, opening=0.0, end=0.0, path=0.0, point=0.0)
"""Only the first intervention matters."""


def test_regression_of_three_paths_by_hand():
    """y = 1 and 2 under A, 6 under B. Of n students with mean ȳ: mean v n ȳ / (n v + s), variance v s / (n v + s)."""
    found = regressed(START, [A, AB, B], np.array([1.0, 2.0, 6.0]), [A, AB, B, Path(("C",), ())])
    v, s = 2.0, NOISE
    two, one = 2 * v + s, v + s
    np.testing.assert_allclose(found.mean, [v * 3 / two, v * 3 / two, v * 6 / one, 0.0])
    of_a, of_b = v * s / two, v * s / one
    np.testing.assert_allclose(
        found.covariance, [[of_a, of_a, 0, 0], [of_a, of_a, 0, 0], [0, 0, of_b, 0], [0, 0, 0, v]], atol=1e-12
    )


def test_classification_is_at_the_mode_and_as_curved_as_there():
    """g̃ solves g = v Σ (failed - p(g)); the variance is v - v² n w / (1 + v n w) with w = p (1 - p)."""
    failed = np.array([1.0, 0.0, 0.0])
    found = classified(START, [A, A, AB], failed, [A, BA])
    g = found.mean[0] - USUAL_LOG_ODDS
    p = expit(found.mean[0])
    assert g == pytest.approx(2.0 * (1 - 3 * p), abs=1e-5)
    assert found.covariance[0, 0] == pytest.approx(2.0 / (1 + 2.0 * 3 * p * (1 - p)), rel=1e-4)
    assert (found.mean[1], found.covariance[1, 1]) == (USUAL_LOG_ODDS, 2.0)  # nobody has begun with B


def test_many_students_of_few_paths_say_what_they_say_one_by_one():
    """Against the regression written out, with a row and a column for each student."""
    rng = np.random.default_rng(0)
    paths = [(A, AB, BA, BC)[k] for k in rng.integers(4, size=40)]
    y = rng.normal(size=40)
    at = [A, B, AB, BC]
    found = regressed(FAILING, paths, y, at)
    weights = FAILING(at, paths) @ np.linalg.inv(FAILING(paths, paths) + NOISE * np.eye(40))
    np.testing.assert_allclose(found.mean, weights @ y, atol=1e-10)
    np.testing.assert_allclose(found.covariance, FAILING(at, at) - weights @ FAILING(paths, at), atol=1e-10)


def test_to_believe_takes_no_longer_because_many_have_tried_the_same():
    paths = [A, B, AB, BA] * 25_000
    scores = np.random.default_rng(0).normal(size=len(paths))
    assert believe(paths, scores, [A]).failing.mean.shape == (1,)  # one by one, 80 GB


@pytest.mark.parametrize("n", [10, 30, 200])
@pytest.mark.parametrize("seed", range(6))
def test_the_mode_is_found_however_many_failed(n, seed):
    """There g = K (failed - p(g)). Plain Newton's steps go to and fro between these."""
    space = Switching.space(("A", "B", "C"), 2, (0.0, 1.0), (0.0, 1.0))
    paths = [path_of(random_point(space, seed, k), space) for k in range(n)]
    likely = np.array([0.9 if path.interventions[0] == "C" else 0.1 for path in paths])
    failed = (np.random.default_rng(seed).random(n) < likely).astype(float)
    found = classified(FAILING, paths, failed, paths)
    expected = USUAL_LOG_ODDS + FAILING(paths, paths) @ (failed - expit(found.mean))
    np.testing.assert_allclose(found.mean, expected, atol=1e-4)


def scores_of(n_learned, n_failed):
    return np.array([5.0] * n_learned + [0.0] * n_failed)


def test_the_more_fail_the_more_are_believed_to_fail():
    log_odds = []
    for k in range(7):
        paths = [A] * 6 + [B]
        scores = np.append(scores_of(6 - k, k), 5.0 if k == 6 else 0.0)  # somebody learns, somebody fails
        log_odds.append(believe(paths, scores, [A]).failing.mean[0])
    assert all(a < b for a, b in itertools.pairwise(log_odds))


def test_the_more_students_are_seen_the_surer_is_what_is_believed_of_them():
    sds = [believe([A] * n + [B], scores_of(n, 1), [A]) for n in (1, 3, 10, 30)]
    for model in ("failing", "quality"):
        variances = [getattr(posterior, model).covariance[0, 0] for posterior in sds]
        assert all(a > b for a, b in itertools.pairwise(variances))


def test_a_path_whose_beginning_always_fails_is_believed_to_fail_before_it_is_tried():
    paths = [A] * 6 + [B] * 6
    posterior = believe(paths, scores_of(6, 6), [AB, BC])
    likely = expit(posterior.failing.mean)
    assert likely[0] < 0.1 and likely[1] > 0.4
    worth = posterior.draw(4000, np.random.default_rng(0))
    assert np.quantile(worth[1], 0.9) < np.quantile(worth[0], 0.5)


def test_one_failure_is_less_than_certainty():
    assert expit(believe([A] * 5 + [B], scores_of(5, 1), [B]).failing.mean[0]) < 0.6


def test_those_that_failed_say_nothing_of_how_good_the_others_are():
    """A has the better students, and one that failed; only the belief about failing knows of it."""
    paths, scores = [A] * 4 + [B] * 4, np.array([6.0, 6.1, 5.9, 0.0, 4.0, 4.1, 3.9, 4.0])
    posterior = believe(paths, scores, [A, B])
    assert posterior.quality.mean[0] > posterior.quality.mean[1] + 1
    assert posterior.failing.mean[0] > posterior.failing.mean[1]
    assert posterior.floor == 0.0


@pytest.mark.parametrize(("scale", "shift"), [(100.0, 0.0), (1e-9, 0.0), (1e9, 0.0), (1.0, -500.0), (3.0, 1e4)])
def test_scale_and_shift_of_scores_change_nothing_but_scale_and_shift(scale, shift):
    rng = np.random.default_rng(5)
    paths = [(A, B, AB, BA)[k] for k in rng.integers(4, size=30)]
    scores = np.where(rng.random(30) < 0.3, 0.1 * rng.random(30), 4 + rng.random(30))
    at = [A, B, AB, BA, BC]
    worths = [believe(paths, s, at).draw(50, np.random.default_rng(1)) for s in (scores, scale * scores + shift)]
    np.testing.assert_allclose((worths[1] - shift) / scale, worths[0], rtol=1e-6, atol=1e-9)


def test_who_scores_in_the_lowest_three_tenths_has_failed():
    scores = np.array([0.0, 10 * FAILED_BELOW - 0.01, 10 * FAILED_BELOW + 0.01, 10.0])
    posterior = believe([A] * 4, scores, [A])
    assert posterior.floor == pytest.approx((10 * FAILED_BELOW - 0.01) / 2)


@pytest.mark.parametrize("score", [0.0, 0.1, 3.0, -1e6, 1e-9])
def test_where_all_score_the_same_that_is_what_is_expected(score):
    posterior = believe([A, B, AB], np.full(3, score), [A, BC])
    assert np.isfinite(posterior.draw(100, np.random.default_rng(0))).all()
    np.testing.assert_allclose(posterior.quality.mean, 0.0, atol=1e-9)
    assert (posterior.location, posterior.floor, posterior.quality.covariance[0, 0] > 0) == (score, score, True)


@pytest.mark.parametrize("n", [3, 30])
def test_groups_far_apart_stay_apart_however_alike_their_students_are(n):
    scores = np.array([500.0] * n + [250.0] * 5 + [0.0])
    worth = believe([A] * n + [B] * 5 + [Path(("C",), ())], scores, [A, B]).draw(2000, np.random.default_rng(0))
    assert np.median(worth[0]) > 400 and np.median(worth[1]) < 350


def test_one_student_is_enough_to_begin_with():
    worth = believe([A], np.array([2.0]), [A, B]).draw(1000, np.random.default_rng(0))
    assert abs(worth[0].mean() - 2.0) < 0.1 and worth[0].std() < worth[1].std()
