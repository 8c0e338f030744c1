"""Past one machine: what the one process that writes and teaches can bear.

    python benchmarks/scale.py --json scale.json

- *Store*: checkpoints per second that a store takes from batches of one student, empty and with many students in it.
- *Teacher*: how long `ask` of TopTwo takes with so many trials told, as a race leaves them.
- *Students*: how much memory the main process takes with so many students, taught from the first to the last, and how
  long it takes to open their store again.
- *Cluster*: so many workers that replay recorded units. The time that a unit takes is simulated; all that the main
  process does with it (to load what arrives, to write, to synchronise, to deal out the next batch) is really done.
  The share of the workers' time that is spent in units falls where the main process cannot follow.

All units are those of one student, recorded before. `docs/howto/cluster.md` says what was found.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

import cisr
from cisr.curricula import Parameters, Switching
from cisr.store import Store
from cisr.training import Batch, Batching, Checkpoint, Classroom, Event, Graduation, StudentSpec, TrainingSetup
from cisr.training.executors import InThisProcess
from cisr.training.worker import Job, loaded

N_UNITS = 5
TASK = cisr.get_task("frozen-lake", "quick", "mlp").with_training(n_units=N_UNITS, deployment_steps=500)
SETUP = TrainingSetup(task=TASK, backend="compiled")


def students(n: int) -> list[StudentSpec]:
    config = TASK.training.student
    assert isinstance(config, cisr.StudentConfig)
    return [StudentSpec(name=f"study/{k:06d}/00", policy=cisr.Fixed("SR1"), config=config, seed=0) for k in range(n)]


def recorded() -> list[Event]:
    """What a student that is really trained comes to, unit by unit."""
    job = Job(SETUP, Batch(name="recorded", students=tuple(students(1))), None)
    events = [event for _, event in InThisProcess().run([job])]
    return [event for event in events if isinstance(event, Checkpoint | Graduation)]


def widened(event: Event, n: int) -> Event:
    """The same for a batch of n such students."""
    if isinstance(event, Checkpoint):
        weights = {name: np.repeat(array, n, axis=0) for name, array in event.weights.items()}
        return event._replace(weights=weights, records=event.records * n, errors=event.errors * n)
    assert isinstance(event, Graduation)
    return Graduation(event.deployments * n, event.errors * n)


class Replay:
    """An executor of simulated workers: each takes `unit` seconds for a unit, which pass on a clock of their own. What
    the receiver does with a unit takes the time that it takes, and all workers wait for it if they have to."""

    def __init__(self, events: Sequence[Event], n_workers: int, unit: float) -> None:
        self._pickles = [cloudpickle.dumps(event) for event in events]
        self._n_workers, self._unit = n_workers, unit
        self.clock = 0.0
        self.writing = 0.0
        self.units = 0

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Batch, Event]]:
        waiting = iter(jobs)
        rng = np.random.default_rng(0)
        at_work: list[tuple[float, int, Batch, int]] = []  # when it is done, who, with what, how many events before
        for worker, job in zip(range(self._n_workers), waiting, strict=False):
            at_work.append((self._unit * rng.uniform(), worker, job.batch, 0))
        heapq.heapify(at_work)
        while at_work:
            due, worker, batch, k = heapq.heappop(at_work)
            self.clock = max(self.clock, due)
            began = time.perf_counter()
            yield batch, loaded(self._pickles[k])
            spent = time.perf_counter() - began
            self.clock += spent
            self.writing += spent
            self.units += k < len(self._pickles) - 1
            if k + 1 == len(self._pickles):
                job_next = next(waiting, None)
                if job_next is None:
                    continue
                batch, k = job_next.batch, -1
            takes = self._unit if k + 2 < len(self._pickles) else 0.0  # the last event is no unit
            heapq.heappush(at_work, (self.clock + takes, worker, batch, k + 1))

    def close(self) -> None:
        pass


def replayed(store: Store, n: int, size: int, replay: Replay) -> int:
    """Has n students taught in batches of `size` by the simulated cluster; returns how many were."""
    with Classroom(SETUP, store, batching=Batching(1, size), n_workers=1) as room:
        room._executor = replay
        return len({transcript.name: transcript for transcript in room.teach(students(n))})


def store_rate(n_students: int, size: int, n_units: int, folder: Path) -> dict[str, Any]:
    """Checkpoints of batches of one student each second, in a store with so many students."""
    events = recorded()
    with Store(folder / "store") as store:
        replayed(store, n_students, size, Replay([widened(event, size) for event in events], 1, 0.0))
        others = [
            StudentSpec(name=f"other/{k:06d}/00", policy=cisr.Fixed("SR1"), config=s.config, seed=0)
            for k, s in enumerate(students(n_units // N_UNITS))
        ]
        alone = [Batch(name=spec.name, students=(spec,)) for spec in others]
        began = time.perf_counter()
        store.register(others, lambda enrolled: alone if enrolled else [])
        enrolled = time.perf_counter() - began
        usage, began = time.process_time(), time.perf_counter()
        for event in events:
            for batch in alone:
                if isinstance(event, Checkpoint):
                    store.keep_checkpoint(batch, event)
        wall, cpu = time.perf_counter() - began, time.process_time() - usage
    kept = len(alone) * N_UNITS
    return {
        "students in the store": n_students,
        "checkpoints per s": kept / wall,
        "ms of the processor for one": 1000 * cpu / kept,
        "ms to enrol a student": 1000 * enrolled / len(others),
    }


def asked(n_trials: int) -> dict[str, Any]:
    """A race: new policies with TopTwo's own chance, the others drawn from those tried."""
    space = Switching.space(("SR1", "SR2", "HR"), n_switches=2, return_range=(0.0, 6.0), violation_range=(0.0, 1.0))
    teacher = cisr.TopTwo(space, seed=0)
    rng = np.random.default_rng(0)
    tried: list[Parameters] = teacher.ask(3)
    for k in range(n_trials):
        if k >= 3 and rng.random() < 5 / (k + 1):
            tried.append(cisr.RandomSearch(space, seed=k).ask()[0])
        point = tried[k] if k < 3 else tried[rng.integers(len(tried))]
        score = 0.0 if rng.random() < 0.07 else 5.0 + rng.normal()
        teacher.tell(point, score, None, [score])
    began = time.process_time()
    teacher.ask()
    once = time.process_time() - began
    began = time.process_time()
    teacher.best()
    return {
        "trials told": n_trials,
        "different policies": len(tried),
        "s of the processor to ask": once,
        "s of the processor for the best": time.process_time() - began,
    }


def many_students(n: int, size: int, folder: Path) -> dict[str, Any]:
    events = [widened(event, size) for event in recorded()]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    with Store(folder / "store") as store:
        taught = replayed(store, n, size, Replay(events, 500, 60.0))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = time.perf_counter() - began
    usage = time.process_time()
    with Store(folder / "store") as store:
        opened = time.process_time() - usage
    return {
        "students": taught,
        "MB before": before / 1024,
        "MB after": after / 1024,
        "s in all": took,
        "MB on disk": (folder / "store").stat().st_size / 2**20,
        "s of the processor to open again": opened,
    }


def cluster(n_workers: int, unit: float, n_students: int, folder: Path) -> dict[str, Any]:
    replay = Replay(recorded(), n_workers, unit)
    with Store(folder / "store") as store:
        replayed(store, n_students, 1, replay)
    return {
        "workers": n_workers,
        "s of a unit": unit,
        "units": replay.units,
        "share of time in units": replay.units * unit / (n_workers * replay.clock),
        "main process busy": replay.writing / replay.clock,
        "units per s": replay.units / replay.clock,
    }


def apart(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """In a process and a folder of its own: memory that others have taken is no part of it."""
    with tempfile.TemporaryDirectory() as name, multiprocessing.get_context("spawn").Pool(1) as pool:
        folder = () if measure is asked else (Path(name),)
        found: dict[str, Any] = pool.apply(measure, (*arguments, *folder))
    print(f"{measure.__name__}: " + ", ".join(f"{what} {_short(value)}" for what, value in found.items()), flush=True)
    return found


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=int, nargs="*", default=[100, 10_000, 100_000], help="students in it")
    parser.add_argument("--teacher", type=int, nargs="*", default=[100, 1_000, 10_000], help="trials told")
    parser.add_argument("--students", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--workers", type=int, nargs="*", default=[500])
    parser.add_argument("--unit", type=float, nargs="*", default=[60.0, 20.0, 10.0, 5.0, 2.0, 1.0], help="seconds")
    parser.add_argument("--json", type=Path, help="where to put what was found")
    given = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    found = {
        "store": [apart(store_rate, n, min(n, 100), 1_000) for n in given.store],
        "teacher": [apart(asked, n) for n in given.teacher],
        "students": [apart(many_students, n, 100) for n in given.students],
        "cluster": [apart(cluster, n, unit, n) for n in given.workers for unit in given.unit],
    }
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
