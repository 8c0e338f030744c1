"""What the live page costs with many students: the time to draw it anew after a unit of a batch, and the bytes that a
browser then asks for.

    python benchmarks/live_page.py [--students 1000] [--units 10]

The store is a real one, filled through the register that the classroom uses; only the numbers in it are drawn by chance
instead of being learned.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cisr import Fixed, Store, get_task
from cisr.store.runs import begin, deployed, plan_students
from cisr.training import Batch, Checkpoint, Deployment, Graduation, UnitLog
from cisr.training.new_students import new_student
from cisr.training.records import StudentSpec, UnitRecord
from cisr.training.setup import make_setup
from cisr.view.live.stores import StoreFeed
from cisr.view.page import write_page

CURRICULA = ("SR1", "SR2", "HR", "none")


def fill(store: Store, n_students: int, n_units: int, batch: int = 16) -> Iterator[str]:
    """Batches of students go through their units, all batches of a unit one after the other; yields after each."""
    task = get_task("frozen-lake", "quick").with_training(n_units=n_units)
    setup = make_setup(task)
    begin(store, "compare", setup, deployed(setup, 0))
    plan_students(store, "compare", n_students)
    each = n_students // len(CURRICULA)
    specs = [new_student(task, Fixed(c), 0, f"compare/{c}/{k:03d}") for c in CURRICULA for k in range(each)]

    def group(students: list[StudentSpec]) -> list[Batch]:
        cut = [tuple(students[k : k + batch]) for k in range(0, len(students), batch)]
        return [Batch(name=alike[0].name, students=alike) for alike in cut]

    batches = store.register(specs, group)
    rng = np.random.default_rng(0)
    for unit in range(1, n_units + 1):
        for one in batches:
            nobody = (None,) * len(one.students)
            weights = {"params/w": np.zeros((len(one.students), 4), np.float32)}
            records = tuple(record(unit, spec.policy.interventions_used[0], rng) for spec in one.students)
            store.keep_checkpoint(one, Checkpoint(unit, weights, records, nobody))
            if unit == n_units:
                store.keep_graduation(one, Graduation(tuple(deployment(rng) for _ in one.students), nobody))
            yield f"unit {unit}"


def record(unit: int, intervention: str, rng: np.random.Generator) -> UnitRecord:
    log = UnitLog(
        unit=unit,
        intervention=intervention,
        steps=10_000,
        episodes=100,
        mean_return=float(rng.normal(unit, 1.0)),
        success=float(rng.random()),
        violation=float(rng.random() / 10),
        rescues=int(rng.integers(100)),
        failures=int(rng.integers(3)) if intervention == "none" else 0,
        multipliers=(float(rng.random()), float(rng.random())),
        seconds=1.0,
    )
    return UnitRecord(log, 0)


def deployment(rng: np.random.Generator) -> Deployment:
    success = float(rng.random())
    return Deployment(
        under="none",
        steps=1000,
        episodes=50,
        mean_return=6 * success,
        score=6 * success,
        failures=int(rng.integers(20)),
        rescues=0,
        outcomes={"success": success, "failure": 1 - success},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=1000)
    parser.add_argument("--units", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        taken, sent, have = [], [], dict[str, str]()
        with Store(path) as store:
            feed = StoreFeed(path)
            for number, _ in enumerate(fill(store, given.students, given.units)):
                if number % 25 and number:
                    continue
                began = time.process_time()
                view = feed.view()
                taken.append(time.process_time() - began)
                changed = [s for s in view.sections if have.get(s.key) != view.digests[s.key]]
                sent.append(sum(len(s.text.encode()) for s in changed))
                have = view.digests
        began = time.process_time()
        feed.view()
        last = time.process_time() - began
        report = write_page(path).stat().st_size
    print(f"{given.students} students of {given.units} units; processor time, so other work beside it does not count")
    print(f"first view   {taken[0]:.2f} s, {sent[0] / 1e3:.0f} kB")
    usual, most, size = np.median(taken[1:]), max(taken[1:]), np.median(sent[1:]) / 1e3
    print(f"an update    {usual:.2f} s (at most {most:.2f} s), {size:.0f} kB")
    print(f"the last one {last:.2f} s, when the run has ended: all rows are checked, curricula are tested")
    print(f"the report   {report / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
