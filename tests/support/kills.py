"""Kills: a small study is killed at random moments and run again until it is done; its store must not notice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stores import cells, units_on_disk

SUPPORT = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}
TASKS = {"gymnasium": "tiny:task", "compiled": "tiny:compiled"}
"""A task for each lane."""
VICTIMS = ("main", "group", "worker", "idle worker")
N_WORKERS = 2
LONGEST_START = 8.0
"""Seconds after which a study that trains has written its first unit, more or less."""


@dataclass(frozen=True)
class Killed:
    """What one kill did."""

    lane: str
    victim: str
    lost: int
    """Units that were on disk before and are not now."""


def command(store: Path, workers: int, *task: str) -> list[str]:
    """`task` is the task with what else the command is told of it."""
    return [
        *(sys.executable, "-m", "cisr", "train", *(task or ("tiny:task",))),
        *("--store", str(store), "--workers", str(workers)),
    ]


def killed(folder: Path, lane: str, n: int, seed: int) -> Iterator[Killed | str]:
    """Kill studies of a lane n times; a string says which cells of a study that was killed and went on differ."""
    moments = random.Random(f"{seed} {lane}")
    undisturbed = folder / f"{lane}.sqlite"
    subprocess.run(command(undisturbed, 1, TASKS[lane]), env=ENVIRONMENT, check=True, capture_output=True)
    wanted = cells(undisturbed)
    done, number = 0, 0
    while done < n:
        number += 1
        store = folder / f"{lane}-{number}.sqlite"
        while True:
            victim = moments.choice(VICTIMS) if done < n else None
            outcome = _run(store, lane, victim, moments)
            if outcome is None:
                break
            done += 1
            yield outcome
        found = cells(store)
        for table in sorted({*wanted, *found}):
            if wanted.get(table) != found.get(table):
                yield f"{lane}, study {number}: {table} differs"


def _run(store: Path, lane: str, victim: str | None, moments: random.Random) -> Killed | None:
    """Go on with a study and kill it somewhere on the way, unless it ends before; None when it is done."""
    process = subprocess.Popen(
        command(store, N_WORKERS, TASKS[lane]),
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    before = units_on_disk(store)
    if victim is None or moments.random() < 0.1:  # as it starts
        deadline, stop_at = time.monotonic() + (LONGEST_START * moments.random() if victim else 600), 10**9
    else:
        deadline, stop_at = time.monotonic() + 60, before + moments.randrange(1, 6)
    while process.poll() is None and units_on_disk(store) < stop_at and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(moments.random() * 0.05)
    on_disk = units_on_disk(store)
    hit = victim is not None and process.poll() is None and _kill(process, victim, moments)
    process.wait(timeout=600)  # who loses a worker goes on with another
    if hit:
        return Killed(lane, str(victim), lost=max(0, on_disk - units_on_disk(store)))
    if process.returncode != 0:
        assert process.stderr is not None
        raise RuntimeError(f"{lane}: exit code {process.returncode}: {process.stderr.read().decode()[-500:]}")
    return None


def _kill(process: subprocess.Popen[bytes], victim: str, moments: random.Random) -> bool:
    """Whether there was somebody to kill."""
    try:
        if victim == "main":
            process.send_signal(signal.SIGKILL)
        elif victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            workers = sorted(_children(process.pid), key=_processor_time)
            if not workers:
                return False
            os.kill(workers[0] if victim == "idle worker" else moments.choice(workers), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _processor_time(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
