"""What students meet under a curriculum, and what two curricula have in common."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from cisr.curricula import Observation, Switching
from cisr.teachers.base import random_point
from cisr.teachers.paths import Kernel, Path, path_of
from cisr.teachers.students_model import FAILING, QUALITY

SPACE = Switching.space(("A", "B", "C"), 2, (-1.0, 3.0), (-0.1, 0.3))


def point(interventions, *thresholds):
    names = {f"intervention_{k}": name for k, name in enumerate(interventions, 1)}
    numbers = [(f"return_{k}", f"violation_{k}") for k in range(1, len(interventions))]
    pairs = zip(numbers, thresholds, strict=True)
    return {key: value for keys, values in pairs for key, value in zip(keys, values, strict=True)} | names


def test_thresholds_are_scaled_by_the_ranges_of_the_search():
    path = path_of(point("ABC", (1.0, 0.1), (3.0, -0.1)), SPACE)
    assert path.interventions == ("A", "B", "C")
    np.testing.assert_allclose(path.thresholds, [(0.5, 0.5), (1.0, 0.0)])


def test_a_first_stage_that_nothing_is_asked_of_is_not_met():
    path = path_of(point("ABC", (-0.5, 0.1), (1.0, 0.1)), SPACE)
    assert path.interventions == ("B", "C")
    np.testing.assert_allclose(path.thresholds, [(0.5, 0.5)])


@pytest.mark.parametrize("first", [(0.1, 0.1), (-0.5, -0.05)])
def test_a_return_or_a_violation_that_zeros_do_not_pass_keeps_the_first_stage(first):
    assert path_of(point("ABC", first, (1.0, 0.1)), SPACE).interventions == ("A", "B", "C")


def test_only_one_stage_is_skipped_before_the_first_unit():
    assert path_of(point("ABC", (0.0, 0.0), (0.0, 0.0)), SPACE).interventions == ("B", "C")


def test_equal_neighbours_are_one_stage_with_the_stricter_of_their_thresholds():
    path = path_of(point("AAC", (1.0, 0.2), (2.0, 0.1)), SPACE)
    assert path.interventions == ("A", "C")
    np.testing.assert_allclose(path.thresholds, [(0.75, 0.5)])
    assert path == path_of(point("AAC", (2.0, 0.1), (1.0, 0.2)), SPACE)
    np.testing.assert_allclose(path_of(point("AAC", (1.0, 0.1), (2.0, 0.2)), SPACE).thresholds, [(0.75, 0.5)])


def test_a_threshold_between_equal_neighbours_is_forgotten_after_the_switch():
    path = path_of(point("ABB", (1.0, 0.1), (3.0, -0.1)), SPACE)
    assert path.interventions == ("A", "B")
    np.testing.assert_allclose(path.thresholds, [(0.5, 0.5)])


def test_one_intervention_alone_has_no_thresholds_whatever_its_parameters():
    alone = {f"intervention_{k}": "B" for k in (1, 2, 3)}
    assert {path_of(random_point(SPACE, 0, k) | alone, SPACE) for k in range(20)} == {Path(("B",), ())}


def test_a_space_without_switches_has_paths_too():
    space = Switching.space(("A", "B"), 0, (0.0, 1.0), (0.0, 1.0))
    assert path_of({"intervention_1": "B"}, space) == Path(("B",), ())


def test_paths_are_what_students_of_the_policy_meet():
    """A student whose observations pass every threshold meets the path's interventions, one after the other."""
    for k in range(200):
        parameters = random_point(SPACE, 1, k)
        policy, rng = Switching.from_parameters(parameters), np.random.default_rng(0)
        stage, met = policy.first_stage, []
        for observed in [Observation(), *[Observation(mean_return=9.0, violation=-9.0)] * 4]:
            stage = policy.next_stage(stage, observed, rng)
            met.append(policy.intervention(stage))
        assert path_of(parameters, SPACE).interventions == tuple(name for name, _ in itertools.groupby(met))


ONE = Kernel(start=1.0, opening=0.1, end=0.01, path=0.001, point=0.0001, lengthscale=0.5)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (Path(("A", "B"), ((0.5, 0.5),)), Path(("A", "B"), ((0.5, 0.5),)), 1.1111),
        (Path(("A", "B"), ((0.5, 0.5),)), Path(("A", "B"), ((0.9, 0.2),)), 1.111 + 0.0001 * np.exp(-0.5)),
        (Path(("A", "B", "C"), ((0, 0),) * 2), Path(("A", "B"), ((0, 0),)), 1.1),
        (Path(("A", "B", "C"), ((0, 0),) * 2), Path(("A", "C"), ((0, 0),)), 1.01),
        (Path(("A", "B"), ((0, 0),)), Path(("A",), ()), 1.0),
        (Path(("B", "A"), ((0, 0),)), Path(("A",), ()), 0.01),
        (Path(("A", "B"), ((0, 0),)), Path(("B", "A"), ((0, 0),)), 0.0),
        (Path(("A",), ()), Path(("A",), ()), 1.1111),
    ],
)
def test_what_two_paths_have_in_common_adds_up(one, other, common):
    assert ONE([one], [other])[0, 0] == pytest.approx(common) == ONE([other], [one])[0, 0]


def test_curricula_that_begin_alike_share_more_evidence_than_others():
    paths = [path_of(point(names, (1.0, 0.1), (1.0, 0.1)), SPACE) for names in ("ABC", "ACB", "BAC", "CAB")]
    for kernel in (FAILING, QUALITY):
        k = kernel(paths, paths)
        assert k[0, 1] > k[0, 3]  # both begin with A; the other neither begins nor ends as the first does
        assert (np.diag(k) > k.max(axis=1, where=~np.eye(4, dtype=bool), initial=0)).all()


@pytest.mark.parametrize("kernel", [FAILING, QUALITY, ONE])
def test_the_kernel_is_symmetric_and_positive_semidefinite(kernel):
    paths = [path_of(random_point(SPACE, 2, k), SPACE) for k in range(120)]
    k = kernel(paths, paths)
    np.testing.assert_array_equal(k, k.T)
    assert np.linalg.eigvalsh(k).min() > -1e-9
    np.testing.assert_array_equal(k[:50, 50:], kernel(paths[:50], paths[50:]))
