"""The GP-UCB teacher: what it proposes and returns, against brute force and random search."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace
from cisr.teachers import GPUCB, RandomSearch, Teacher
from cisr.teachers.base import random_point
from cisr.teachers.gp_ucb import default_priors

SMALL = SearchSpace(
    parameters=(
        Real(name="r", low=-1.0, high=3.0),
        Choice(name="c", options=("a", "b", "c")),
        Real(name="v", low=0.0, high=0.2),
    )
)
LAKE = SearchSpace(
    parameters=(
        Real(name="return_1", low=-0.5, high=5.5),
        Real(name="violation_1", low=0.0, high=0.2),
        Real(name="return_2", low=-0.5, high=5.5),
        Real(name="violation_2", low=0.0, high=0.2),
        *(Choice(name=f"intervention_{i}", options=("SR1", "SR2", "HR")) for i in (1, 2, 3)),
    )
)


def smooth(point: Parameters) -> float:
    """A bump in each of the three options, highest (1.0) under "b" at r = 1.6, v = 0.12."""
    top, r, v = {"a": (0.6, 0.0, 0.05), "b": (1.0, 1.6, 0.12), "c": (0.3, 2.5, 0.18)}[str(point["c"])]
    return top * math.exp(-(((float(point["r"]) - r) / 1.2) ** 2) - ((float(point["v"]) - v) / 0.06) ** 2)


def small_teacher(n: int = 12, *, seed: int = 0) -> GPUCB:
    teacher = GPUCB(SMALL, seed=seed, n_initial=5)
    for k in range(n):
        point = random_point(SMALL, 99, k)
        teacher.tell(point, smooth(point))
    return teacher


@pytest.mark.parametrize("seed", range(3))
def test_the_proposal_has_the_highest_ucb_of_a_fine_grid(seed):
    teacher = small_teacher(n=8 + 4 * seed, seed=seed)
    grid: list[Parameters] = [
        {"r": r, "v": v, "c": c}
        for r, v, c in itertools.product(np.linspace(-1, 3, 61), np.linspace(0, 0.2, 61), ("a", "b", "c"))
    ]
    ucb = [mean + 2 * sd for mean, sd in (teacher.posterior(grid), teacher.posterior(teacher.ask()))]
    assert ucb[1][0] >= ucb[0].max() - 1e-6
    assert ucb[1][0] <= ucb[0].max() + 0.01  # the optimum lies between two points of the grid


def test_it_beats_random_search_on_a_smooth_mixed_function():
    def found(teacher: Teacher, seed: int) -> float:
        noise = np.random.default_rng([seed, 1]).normal(0, 0.02, 20)
        for k in range(20):
            (point,) = teacher.ask()
            teacher.tell(point, smooth(point) + noise[k])
        return smooth(teacher.best())

    seeds = range(3)
    modelled = [found(GPUCB(SMALL, seed=seed, n_initial=6), seed) for seed in seeds]
    random = [found(RandomSearch(SMALL, seed=seed), seed) for seed in seeds]
    assert np.mean(modelled) > np.mean(random) + 0.15


def test_asking_is_a_pure_function_of_what_was_told():
    teacher = small_teacher()
    first = teacher.ask(3)
    teacher.best()
    assert teacher.ask(3) == first
    assert teacher.ask() == first[:1]
    again = GPUCB(SMALL, seed=0, n_initial=5)
    for trial in teacher.trials:
        again.tell(json.loads(json.dumps(trial.parameters)), trial.score, trial.sem)
    assert again.ask(3) == first
    assert again.best() == teacher.best()


def test_points_of_one_batch_differ():
    first, second, third = small_teacher().ask(3)
    assert first != second != third != first


def test_a_batch_takes_the_rest_of_the_initial_design_first():
    initial: list[Parameters] = [{"r": 0.0, "c": "a", "v": 0.1}, {"r": 0.0, "c": "b", "v": 0.1}]
    teacher = GPUCB(SMALL, seed=3, n_initial=3, initial=initial)
    assert teacher.ask(3) == [*initial, random_point(SMALL, 3, 2)]
    teacher.tell(initial[0], 1.0)
    assert teacher.ask(2) == [initial[1], random_point(SMALL, 3, 2)]
    assert teacher.ask(4)[:2] == teacher.ask(2)


def test_the_initial_design_is_that_of_random_search():
    assert GPUCB(SMALL, seed=5).ask(10) == RandomSearch(SMALL, seed=5).ask(10)


def test_a_failed_class_is_avoided_and_never_the_best():
    teacher = GPUCB(SMALL, seed=0, n_initial=0)
    failed: Parameters = {"r": 1.0, "c": "b", "v": 0.1}
    teacher.tell(failed, None)
    assert teacher.ask() == [random_point(SMALL, 0, 1)]
    assert teacher.hyperparameters() == {}
    teacher.tell({"r": 1.0, "c": "a", "v": 0.1}, 0.4)
    teacher.tell({"r": 2.0, "c": "c", "v": 0.1}, 0.9)
    assert teacher.best()["c"] == "c"
    mean, _ = teacher.posterior([failed, {"r": 2.0, "c": "c", "v": 0.1}])
    assert mean[0] < mean[1]
    assert teacher.ask() != [failed]


def test_it_returns_the_best_observed_however_poor_its_neighbours():
    teacher = GPUCB(SMALL, seed=0)
    for r, score in [(0.0, 1.05), *[(0.02 * i, 0.0) for i in range(1, 6)], *[(2.5 + 0.02 * i, 1.0) for i in range(6)]]:
        teacher.tell({"r": r, "c": "a", "v": 0.1}, score)
    assert teacher.best()["r"] == 0.0


@pytest.mark.parametrize(
    "parameters",
    [
        (Real(name="x", low=0.0, high=1.0),),
        (Real(name="x", low=0.0, high=1.0), Choice(name="c", options=("only",))),
        (Choice(name="c", options=("a", "b")), Choice(name="d", options=("a", "b", "c"))),
        (Real(name="x", low=-200.0, high=200.0), *(Choice(name=f"c{i}", options=("a", "b", "c")) for i in range(40))),
    ],
    ids=["one real", "one combination", "no reals", "3^40 combinations"],
)
def test_spaces_of_every_kind_work(parameters):
    space = SearchSpace(parameters=parameters)
    teacher = GPUCB(space, seed=0, n_initial=4)
    for k in range(8):
        points = teacher.ask(2)
        for point in points:
            space.check(point)
        teacher.tell(points[0], float(k % 3))
    space.check(teacher.best())


def test_equal_scores_and_repeated_points_do_no_harm():
    teacher = GPUCB(SMALL, seed=0, n_initial=0)
    for score in (1.0, 1.0, 1.0, 1.0, 2.0, -50.0):
        teacher.tell({"r": 1.0, "c": "b", "v": 0.1}, score)
        SMALL.check(teacher.ask()[0])
        assert teacher.best() == {"r": 1.0, "c": "b", "v": 0.1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"beta": -1.0}, "beta is -1.0"),
        ({"beta": math.nan}, "beta is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"n_initial": 0, "initial": [{"r": 0.0, "c": "a", "v": 0.1}]}, "n_initial is 0"),
        ({"initial": [{"r": 9.0, "c": "a", "v": 0.1}]}, "'r' is 9.0"),
        ({"priors": default_priors(LAKE)}, "give one for each parameter"),
    ],
)
def test_bad_options_are_explained(options, says):
    with pytest.raises(ConfigError, match=says):
        GPUCB(SMALL, **{"seed": 0, **options})


def test_importing_teachers_imports_neither_scikit_learn_nor_scipy():
    program = "import sys, cisr.teachers; assert not {'sklearn', 'scipy'} & set(sys.modules), 'imported'"
    subprocess.run([sys.executable, "-c", program], check=True)
