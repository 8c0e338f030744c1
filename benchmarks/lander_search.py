"""How often does a search of the paper's size find the switch from Narrow to Wide?

    python benchmarks/lander_search.py [--searches N] [--json FILE]

Teachers search the paper's space for the lander, 14 policies on classes of 10 students, against made-up students, whose
returns have about the means and the scatter of those that were trained (docs/results/lunar-lander-gpu.md): 15 of 100
learn nothing under Wide alone, all learn something under Narrow alone, and Narrow followed by Wide is the best there
is. A threshold of return that is not above 0 is passed before the first unit, as it is for real students; of the
others none is better than another, and the second threshold never matters. So it is an easy landscape.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from cisr import get_task
from cisr.core.errors import CisrError
from cisr.core.seeding import check_seed
from cisr.curricula.space import Parameters
from cisr.experiments.search import default_teacher, random_teacher, search_space
from cisr.teachers import Teacher, TopTwo

POLICIES, CLASS = 14, 10


class Kind(NamedTuple):
    """Returns of students: normal, but for a share of them that learn nothing."""

    mean: float
    sd: float
    lost: float = 0.0

    def draw(self, rng: np.random.Generator, n: int) -> list[float]:
        learned = rng.normal(self.mean, self.sd, n)
        return list(np.where(rng.random(n) < self.lost, rng.normal(LOST.mean, LOST.sd, n), learned))

    @property
    def expected(self) -> float:
        return (1 - self.lost) * self.mean + self.lost * LOST.mean


LOST = Kind(-40.0, 150.0)
KINDS = {
    "Narrow": Kind(200.0, 42.0),
    "Wide": Kind(232.0, 25.0, lost=0.15),
    "Narrow, then Wide": Kind(236.0, 30.0),
    "Wide, then Narrow": Kind(210.0, 42.0, lost=0.1),
}


def met(point: Parameters) -> str:
    """The interventions that a student meets."""
    first, second = (str(point[f"intervention_{k}"]) for k in (1, 2))
    if float(point["return_1"]) <= 0 or first == second:
        return second
    return f"{first}, then {second}"


def searched(how: str, seed: int) -> str:
    """What one search returns."""
    task = get_task("lunar-lander", student="two-layer")
    space = search_space(task)
    make: dict[str, Callable[[], Teacher]] = {
        "paper": lambda: default_teacher(task)(space, seed),
        "random": lambda: random_teacher(space, seed),
        "ours": lambda: TopTwo(space, seed=seed, n_initial=4),
    }
    teacher, rng = make[how](), np.random.default_rng([seed, 1])
    for _ in range(POLICIES):
        (point,) = teacher.ask()
        scores = KINDS[met(point)].draw(rng, CLASS)
        teacher.tell(point, fmean(scores), stdev(scores) / math.sqrt(CLASS), scores)
    return met(teacher.best())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=100, help="of each teacher (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first search (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="where to put the numbers")
    given = parser.parse_args()
    if given.searches < 1:
        parser.error("--searches is 1 or more")
    seeds = range(check_seed(given.seed), given.seed + given.searches)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read by the workers as they start
    rows = []
    with multiprocessing.get_context("spawn").Pool() as pool:
        for how in ("paper", "random", "ours"):
            found = pool.map(functools.partial(searched, how), seeds, chunksize=1)
            counts = {kind: found.count(kind) for kind in KINDS}
            expected = fmean(KINDS[kind].expected for kind in found)
            rows.append({"teacher": how, "searches": len(found), "returned": counts, "mean_return": expected})
            print(f"{how:8s} {expected:6.1f}  " + "  ".join(f"{kind}: {n}" for kind, n in counts.items()), flush=True)
    if given.json:
        made_up = {kind: {**of._asdict(), "expected": of.expected} for kind, of in KINDS.items()}
        record = {"students": made_up, "policies": POLICIES, "class": CLASS, "rows": rows}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (CisrError, OSError) as error:
        sys.exit(str(error))
