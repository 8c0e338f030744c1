"""A Ray cluster whose nodes die: is the study still the same, and what does Ray cost?

    python benchmarks/ray_faults.py --kills 25 --overhead 3 --json ray_faults.json

- *Kills*: a cluster of three nodes on this machine trains small studies. At random moments SIGKILL hits a node with all
  its processes, all nodes at once, or the process of an actor alone; new nodes join later. Every cell and weight of a
  finished store must be that of a serial study, and no worker process may be left.
- *Overhead*: the same students with worker processes of this machine and with as many on a Ray cluster of this machine,
  in turns; from the first kept units to the last one, so that neither pays for its start. Units take a second or more.
  The share of the workers' time that is spent in units says the same on a machine that is busy with other work.

Cases depend on `--seed`, moments on the machine. `docs/howto/cluster.md` says what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

import tiny  # noqa: E402
from ray_nodes import Nodes  # noqa: E402
from stores import cells  # noqa: E402

import cisr  # noqa: E402
from cisr.core.callback import ProgressEvent  # noqa: E402
from cisr.training import BatchProgress, Checkpoint  # noqa: E402

N_NODES = 3
VICTIMS = ("node", "node", "node", "actor", "all nodes")


class Killer:
    """Kills until it is stopped, and sees to it that there are nodes again some time later."""

    def __init__(self, nodes: Nodes, most: int, pause: float, moments: random.Random) -> None:
        self.killed: Counter[str] = Counter()
        self._nodes, self._there = nodes, N_NODES
        self._most, self._pause, self._moments = most, pause, moments
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._kill, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _kill(self) -> None:
        while self.killed.total() < self._most and not self._over.wait(self._pause * self._moments.random() * 2):
            victim = self._moments.choice(VICTIMS)
            if victim == "actor":
                actors = self._nodes.actors()
                if not actors:
                    continue
                os.kill(self._moments.choice(actors), signal.SIGKILL)
            else:
                for _ in range(1 if victim == "node" else self._there):
                    self._nodes.kill(self._moments.randrange(self._there))
                    self._there -= 1
            self.killed[victim] += 1
            self._over.wait(self._pause * self._moments.random())
            while self._there < N_NODES:
                self._nodes.add()
                self._there += 1


def kills(n: int, seed: int, pause: float, folder: Path) -> dict[str, Any]:
    moments = random.Random(seed)
    killed: Counter[str] = Counter()
    studies, differing, left = 0, [], 0
    nodes = Nodes(N_NODES)
    try:
        while killed.total() < n:
            calm, stormy = folder / f"calm-{studies}", folder / f"stormy-{studies}"
            study(calm, seed + studies, cisr.Execution(executor="serial", batch=1))
            killer = Killer(nodes, n - killed.total(), pause, moments)
            try:
                on_ray = cisr.Ray(address=nodes.address)
                study(stormy, seed + studies, cisr.Execution(executor=on_ray, batch=1))
            finally:
                killer.stop()
            killed += killer.killed
            studies += 1
            wanted, found = cells(calm), cells(stormy)
            differing += [f"study {studies}: {table}" for table in wanted if wanted[table] != found.get(table)]
            left += len(nodes.workers()) if not nodes.without_workers() else 0
            print(f"{killed.total()} kills, {studies} studies, wrong: {differing or 'nothing'}", flush=True)
    finally:
        remaining = nodes.close()
    return {
        "nodes": N_NODES,
        "kills": dict(killed),
        "studies": studies,
        "tables that differ": differing,
        "workers left": left,
        "processes left": len(remaining),
    }


def study(store: Path, seed: int, execution: cisr.Execution) -> None:
    cisr.Study(tiny.task, seed=seed, store=store, execution=execution).run()


def overhead(repetitions: int, folder: Path) -> dict[str, Any]:
    """Seconds of each run, and the ratio of the medians."""
    workers = os.cpu_count() or 1
    task = cisr.get_task("frozen-lake", "quick", "mlp")
    seconds: dict[str, list[float]] = {"processes": [], "ray": []}
    shares: dict[str, list[float]] = {"processes": [], "ray": []}
    units: list[float] = []
    for k in range(repetitions):
        for name, executor in (("processes", "processes"), ("ray", cisr.Ray(address="local"))):
            clock = _Clock(warm=workers)
            cisr.compare(
                task,
                {"SR1": cisr.Fixed("SR1")},
                n_students=2 * workers,
                seed=k,
                store=folder / f"{name}-{k}",
                execution=cisr.Execution(executor=executor, backend="gymnasium", n_workers=workers, batch=1),
                callback=clock,
            )
            seconds[name].append(clock.seconds)
            shares[name].append(sum(clock.units) / (workers * clock.seconds))
            units += clock.units
            print(f"{name}: {clock.seconds:.1f} s, in units {shares[name][-1]:.3f}", flush=True)
        assert cells(folder / f"ray-{k}") == cells(folder / f"processes-{k}")
    return {
        "workers": workers,
        "seconds": seconds,
        "share of time in units": shares,
        "seconds of a unit, median": median(units),
        "seconds, ray/processes": median(seconds["ray"]) / median(seconds["processes"]),
        "shares, processes/ray": median(shares["processes"]) / median(shares["ray"]),
    }


class _Clock:
    """From the moment when every worker has kept a unit to the last one."""

    def __init__(self, warm: int) -> None:
        self._warm, self._kept = warm, 0
        self.seconds = 0.0
        self.units: list[float] = []

    def __call__(self, heard: ProgressEvent) -> None:
        if isinstance(heard, BatchProgress) and isinstance(heard.event, Checkpoint):
            self._kept += 1
            if self._kept == self._warm:
                self._began = time.perf_counter()
            elif self._kept > self._warm:
                self.seconds = time.perf_counter() - self._began
                self.units += [record.log.seconds for record in heard.event.records if record is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, help="how many")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between two kills, on average")
    parser.add_argument("--overhead", type=int, default=0, help="how often to measure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to put what was found")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        if given.kills:
            found["faults"] = kills(given.kills, given.seed, given.pause, Path(name))
        if given.overhead:
            found["overhead"] = overhead(given.overhead, Path(name))
    text = json.dumps(found, indent=2)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    faults = found.get("faults", {})
    sys.exit(any(faults.get(what) for what in ("tables that differ", "workers left", "processes left")))


if __name__ == "__main__":
    main()
