"""Which teacher finds a good curriculum policy, and with how many students?

    python benchmarks/teachers.py                                       on a made-up score
    python benchmarks/teachers.py --landscape [TABLE] [--picture PNG]   on recorded students

All teachers but ours begin with the same 10 random policies and choose from then on (random search goes on at random);
ours begins with the interventions in turn. Each policy is tried on one student. After so many students a teacher is
judged by the regret of the policy that it would return: how far the true score of that policy lies below the highest
there is.

Recorded students come from a table of `benchmarks/landscape.py`; without a value, `--landscape` takes the one that
lies beside this file, of Frozen Lake with the paper's students. True are the means of the table. Teachers are told
the recorded policy that stood for the one they proposed, and with the same seed all meet a policy's students in the
same order. The made-up score has the shape of a curriculum's: one wrong first intervention ruins everything; among
the rest it is fine-tuning. Noise has a standard deviation of 0.1.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cisr.core.errors import CisrError
from cisr.curricula.space import Parameters, SearchSpace
from cisr.teachers import GPUCB, GammaPrior, Hyperpriors, RandomSearch, Teacher, TopTwo
from recorded import TABLE, Recorded, lake_space

Floats = NDArray[np.float64]

TEACHERS = ("random", "paper", "ours", "tpe", "gp")
INITIAL, NOISE_SD = 10, 0.1
NEVER_WORKS = 1.0
"""Policies with a lower true score are useless: most of their students never reach the goal."""

RETURN, VIOLATION, INTERVENTION = GammaPrior(1.0, 1.0), GammaPrior(0.05, 0.02), GammaPrior(0.2, 0.2)
FROZEN_LAKE = Hyperpriors(
    signal=GammaPrior(1.0, 0.2),
    lengthscales={
        "return_1": RETURN,
        "violation_1": VIOLATION,
        "return_2": RETURN,
        "violation_2": VIOLATION,
        "intervention_1": INTERVENTION,
        "intervention_2": INTERVENTION,
        "intervention_3": INTERVENTION,
    },
    noise=GammaPrior(0.01, 0.1),
)
"""The paper's table for the teacher in Frozen Lake."""


class World(Protocol):
    """Where teachers search: `Recorded` or `MadeUp`."""

    space: SearchSpace
    highest: float
    """The highest true score."""

    def truth(self, point: Parameters) -> float: ...

    def students(self, seed: int) -> Callable[[Parameters], tuple[Parameters, float]]:
        """Trains a student of a point: the point that was really tried, and the student's score."""


class MadeUp:
    space = lake_space(("0", "1", "2"))
    highest = 5.5

    def truth(self, point: Parameters) -> float:
        """-0.2 if i1 = 2, else (4.6, 4.8)[i1] + (0.1, 0, 0.7)[i2]·t + ½[i3 = 2]·s·(1 - t[i2 = 2]).

        t and s are bumps over the first and over the second pair of thresholds; the highest score is 5.5.
        """
        r1, v1, r2, v2 = (float(point[name]) for name in ("return_1", "violation_1", "return_2", "violation_2"))
        i1, i2, i3 = (int(point[f"intervention_{j}"]) for j in (1, 2, 3))
        if i1 == 2:
            return -0.2
        t = math.exp(-(((r1 - 2.5) / 1.5) ** 2) - ((v1 - 0.08) / 0.06) ** 2)
        s = math.exp(-(((r2 - 2) / 2) ** 2) - ((v2 - 0.1) / 0.08) ** 2)
        return (4.6, 4.8)[i1] + (0.1, 0.0, 0.7)[i2] * t + 0.5 * (i3 == 2) * s * (1 - t * (i2 == 2))

    def students(self, seed: int) -> Callable[[Parameters], tuple[Parameters, float]]:
        rng = np.random.default_rng([seed, 1])
        return lambda point: (point, self.truth(point) + rng.normal(0.0, NOISE_SD))


def make(name: str, space: SearchSpace, seed: int) -> Teacher:
    match name:
        case "random":
            return RandomSearch(space, seed=seed)
        case "paper":
            return GPUCB(space, seed=seed, n_initial=INITIAL, priors=FROZEN_LAKE)
        case "ours":
            return TopTwo(space, seed=seed)
        case "tpe" | "gp":
            from optuna_teacher import OptunaTeacher

            return OptunaTeacher(space, seed=seed, sampler=name, n_initial=INITIAL)
    raise AssertionError(name)


@dataclass(frozen=True, kw_only=True)
class Search:
    """One teacher with one seed."""

    found: list[float]
    """True score of the policy that it would return after 1, 2, … students."""
    seconds: list[float]
    """How long each `ask` took."""


def search(world: World, n_students: int, name: str, seed: int) -> Search:
    teacher, train = make(name, world.space, seed), world.students(seed)
    found, seconds = [], []
    for k in range(n_students):
        start = time.perf_counter()
        (point,) = teacher.ask()
        seconds.append(time.perf_counter() - start)
        if k > 0:  # asked for after the clock has stopped: both need the same fit of a model
            found.append(world.truth(teacher.best()))
        teacher.tell(*train(point))
    return Search(found=[*found, world.truth(teacher.best())], seconds=seconds)


def searches(world: World, n_students: int, teachers: list[str], seeds: range) -> dict[str, list[Search]]:
    """Each teacher with each seed, in parallel."""
    jobs = [(name, seed) for name in teachers for seed in seeds]
    results: dict[str, list[Search]] = {name: [] for name in teachers}
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read by the workers as they start
    with multiprocessing.get_context("spawn").Pool() as pool:
        for k, result in enumerate(pool.imap(functools.partial(_search, world, n_students), jobs)):
            results[jobs[k][0]].append(result)
            print(f"\r{k + 1} of {len(jobs)} searches ({jobs[k][0]}) ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def _search(world: World, n_students: int, job: tuple[str, int]) -> Search:
    return search(world, n_students, *job)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A teacher after so many students, over all seeds."""

    teacher: str
    students: int
    regret: float
    interval: tuple[float, float]
    mean: float
    """Mean true score of the returned policies."""
    lowest: float
    never_works: float
    """Share of the returned policies."""
    ms_per_ask: float
    """Of the asks since the row before; the median over seeds, because the first has imports to do."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Regret of ours minus that of another teacher, seed by seed."""

    teacher: str
    students: int
    mean: float
    interval: tuple[float, float]
    p: float
    """How often random signs part the two as far."""


def interval(values: Floats) -> tuple[float, float]:
    """95 % for the mean, by Student's t."""
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def sign_flip_p(differences: Floats, n_draws: int = 99_999) -> float:
    """Two-sided p of a mean difference of 0, if each difference were as likely with the opposite sign."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_draws, len(differences)))
    as_far = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9
    return float((1 + as_far.sum()) / (1 + n_draws))


def rows_of(results: dict[str, list[Search]], counts: list[int], highest: float) -> list[Row]:
    rows = []
    for name, found in results.items():
        for before, n in zip([0, *counts], counts, strict=False):
            scores = np.array([search.found[n - 1] for search in found])
            rows.append(
                Row(
                    teacher=name,
                    students=n,
                    regret=float(highest - scores.mean()),
                    interval=interval(highest - scores),
                    mean=float(scores.mean()),
                    lowest=float(scores.min()),
                    never_works=float(np.mean(scores < NEVER_WORKS)),
                    ms_per_ask=1000 * float(np.median([np.mean(search.seconds[before:n]) for search in found])),
                )
            )
    return rows


def differences_of(results: dict[str, list[Search]], counts: list[int]) -> list[Difference]:
    differences = []
    for name in results:
        for n in counts if name != "ours" and "ours" in results else ():
            pairs = zip(results[name], results["ours"], strict=True)
            lost = np.array([other.found[n - 1] - ours.found[n - 1] for other, ours in pairs])
            differences.append(
                Difference(
                    teacher=name, students=n, mean=float(lost.mean()), interval=interval(lost), p=sign_flip_p(lost)
                )
            )
    return differences


def draw(results: dict[str, list[Search]], highest: float, path: Path) -> None:
    """Mean regret against students spent, with 95 % bands, from the end of the random design on."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(7, 4.2), layout="constrained")).add_subplot()
    for name, found in results.items():
        regret = highest - np.array([search.found for search in found])  # (S, n)
        spent = np.arange(min(INITIAL, regret.shape[1]), regret.shape[1] + 1)
        regret = regret[:, spent - 1]
        low, high = np.transpose([interval(column) for column in regret.T])
        (line,) = axes.plot(spent, regret.mean(axis=0), label=name)
        axes.fill_between(spent, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    axes.set(xlabel="students", ylabel="regret of the returned policy")
    axes.set_xlim(left=float(spent[0]))
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, ncols=len(results), loc="upper right")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landscape", type=Path, nargs="?", const=TABLE, help="a table of recorded students")
    parser.add_argument("--seeds", type=int, help="how many repetitions, at least 2 (made-up: 24, recorded: 100)")
    parser.add_argument("--first-seed", type=int, default=0, help="where the repetitions start")
    parser.add_argument("--students", help="when to judge (made-up: 30, recorded: 10,30,60)")
    parser.add_argument("--teachers", help="of random, paper, ours, tpe and gp (made-up: the first three)")
    parser.add_argument("--json", type=Path, help="where to put all numbers")
    parser.add_argument("--picture", type=Path, help="where to draw regret against students spent")
    given = parser.parse_args()

    world: World = Recorded.load(given.landscape) if given.landscape else MadeUp()
    n_seeds, students, teachers = (100, "10,30,60", TEACHERS) if given.landscape else (24, "30", TEACHERS[:3])
    seeds = range(given.first_seed, given.first_seed + max(2, given.seeds or n_seeds))
    counts = sorted({int(n) for n in (given.students or students).split(",")})
    names = given.teachers.split(",") if given.teachers else list(teachers)
    if counts[0] < 1 or not set(names) <= set(TEACHERS):
        parser.error(f"--students are numbers from 1 on, --teachers some of {','.join(TEACHERS)}")
    results = searches(world, counts[-1], names, seeds)
    rows, differences = rows_of(results, counts, world.highest), differences_of(results, counts)

    print(f"Returned policies, {len(seeds)} seeds from {seeds[0]}; the highest true score is {world.highest:.3f}")
    print("teacher  students  regret  95 % interval    mean  lowest  never works  ms per ask")
    for r in rows:
        print(
            f"{r.teacher:8s} {r.students:8d}  {r.regret:6.3f}  [{r.interval[0]:5.3f}, {r.interval[1]:5.3f}]"
            f"  {r.mean:6.3f}  {r.lowest:6.3f}  {r.never_works:10.0%}  {r.ms_per_ask:10.1f}"
        )
    if differences:
        print("\nRegret, paired        mean  95 % interval        p")
    for d in differences:
        what = f"ours - {d.teacher}"
        print(f"{what:14s} {d.students:3d}  {d.mean:7.3f}  [{d.interval[0]:6.3f}, {d.interval[1]:6.3f}]  {d.p:.4f}")

    if given.json:
        record: dict[str, Any] = {
            "landscape": given.landscape and given.landscape.name,
            "seeds": [seeds.start, seeds.stop],
            "highest": world.highest,
            "rows": [asdict(row) for row in rows],
            "differences": [asdict(difference) for difference in differences],
            "found": {name: [search.found for search in found] for name, found in results.items()},
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if given.picture:
        draw(results, world.highest, given.picture)


if __name__ == "__main__":
    try:
        main()
    except (CisrError, OSError) as error:
        sys.exit(str(error))
