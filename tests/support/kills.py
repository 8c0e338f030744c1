"""Kills: a small study is killed at random moments and run again until it is done; its store must not notice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stores import cells, units_on_disk

SUPPORT = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
}
TASKS = {"gymnasium": "tiny:task", "compiled": "tiny:compiled"}
"""A task for each backend."""
VICTIMS = ("main", "all", "worker", "worker", "idle worker", "idle worker")
"""Who loses a worker goes on, so there are many of these in one run, and one of the others at its end."""
STOPPED = (
    "was killed 2 times",
    "A worker process cannot start (signal 9)",
    "ended the process in which it was played (signal 9)",
)
"""What a study says that has lost a worker twice in one unit, or a process in which environments are only looked at:
then it stops, and goes on when it is run again."""
LONGEST_START = 6.0
"""Seconds after which a worker that has the processor for itself has finished its first unit."""
LONGEST_WAIT, LONGEST_END = 120.0, 600.0
ORPHANS = 10.0
"""Seconds that a worker has to follow its parent, on a machine that may be busy."""


@dataclass(frozen=True)
class Killed:
    """What one kill did."""

    backend: str
    victim: str
    when: str
    lost: int
    """Units that were on disk before and are not now."""
    orphans: int = 0
    """Workers that live on without their main process."""


def command(store: Path, workers: int, *task: str) -> list[str]:
    """`task` is the task with what else the command is told of it."""
    return [
        *(sys.executable, "-m", "cisr", "train", *(task or ("tiny:task",))),
        *("--store", str(store), "--workers", str(workers)),
    ]


def killed(folder: Path, backend: str, n: int, seed: int) -> Iterator[Killed | str]:
    """Kill studies of a backend n times; a string says of each study that was killed and went on to its end which
    of its cells differ from those of one that nobody disturbed, none if it is empty."""
    undisturbed = folder / f"{backend}.sqlite"
    subprocess.run(command(undisturbed, 1, TASKS[backend]), env=ENVIRONMENT, check=True, capture_output=True)
    wanted = cells(undisturbed)
    done, number = 0, 0
    while done < n:
        number += 1
        moments = random.Random(f"{seed} {backend} {number}")
        store = folder / f"{backend}-{number}.sqlite"
        finished, wrong = False, ""
        while not finished and not wrong:
            outcomes, finished, wrong = _run(store, backend, n - done, moments)
            done += len(outcomes)
            yield from outcomes
        if wrong:
            yield f"{backend}, study {number}: {wrong}"
            continue
        found = cells(store)
        differing = [table for table in sorted({*wanted, *found}) if wanted.get(table) != found.get(table)]
        yield f"{backend}, study {number}: {', '.join(differing)} differ" if differing else ""


def _run(store: Path, backend: str, most: int, moments: random.Random) -> tuple[list[Killed], bool, str]:
    """Go on with a study and kill its workers on the way, then all of it, unless it ends before; the kills, whether it
    is done, and what went wrong."""
    outcomes: list[Killed] = []
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command(store, moments.choice((1, 2)), TASKS[backend]),
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        while len(outcomes) < most:
            when = _wait(process, store, moments)
            victim = moments.choice(VICTIMS)
            on_disk, workers = units_on_disk(store), _children(process.pid)
            if process.poll() is not None:
                break
            if not _kill(process.pid, workers, victim, moments):
                continue
            ended = victim in ("main", "all")
            if ended:
                process.wait()
            orphans = sum(not _gone(worker) for worker in workers) if ended else 0
            outcomes.append(Killed(backend, victim, when, max(0, on_disk - units_on_disk(store)), orphans))
            if ended:
                return outcomes, False, ""
        try:
            process.wait(timeout=LONGEST_END)
        except subprocess.TimeoutExpired:
            process.kill()
            return outcomes, False, f"did not end within {LONGEST_END:g} s"
        said.seek(0)
        words = said.read().decode(errors="replace")
    stopped = bool(outcomes) and any(reason in words for reason in STOPPED)
    wrong = process.returncode != 0 and not stopped
    return outcomes, not stopped, f"exit code {process.returncode}: {words[-500:]}" if wrong else ""


def _wait(process: subprocess.Popen[bytes], store: Path, moments: random.Random) -> str:
    """Until a random moment, or until the process has ended; returns which kind of moment it is."""
    kind = moments.choice(("at any time", "after a unit", "in a write"))
    deadline = time.monotonic() + (LONGEST_START * moments.random() if kind == "at any time" else LONGEST_WAIT)
    stop_at = units_on_disk(store) + (10**9 if kind == "at any time" else moments.randrange(1, 4))
    while process.poll() is None and units_on_disk(store) < stop_at and time.monotonic() < deadline:
        time.sleep(0.02)
    if kind == "after a unit":
        time.sleep(moments.random() * 0.1)
    elif kind == "in a write":
        before = _traces(store)
        while process.poll() is None and _traces(store) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.005)
    return kind


def _traces(store: Path) -> list[tuple[int, int]]:
    """What changes while something is written."""
    traces = []
    for path in (store.with_name(store.name + suffix) for suffix in ("", "-wal", ".weights")):
        try:
            found = path.stat()
        except OSError:
            traces.append((0, 0))
        else:
            traces.append((found.st_mtime_ns, found.st_size))
    return traces


def _kill(main: int, workers: list[int], victim: str, moments: random.Random) -> bool:
    """Whether there was somebody to kill."""
    if victim == "main":
        pids = [main]
    elif victim == "all":
        pids = [main, *workers]
    elif victim == "worker":
        pids = [moments.choice(workers)] if workers else []
    else:
        idle = _idle(workers)
        pids = [moments.choice(idle)] if idle else []
    hit = False
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            hit = True
        except ProcessLookupError:
            pass
    return hit


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []


def _idle(workers: list[int]) -> list[int]:
    """Those that have started and do nothing, for a while at least: theirs is the next batch."""
    for _ in range(20):
        before = {pid: _processor_time(pid) for pid in workers}
        time.sleep(0.05)
        idle = [pid for pid, ticks in before.items() if ticks > 100 and _processor_time(pid) == ticks and _sleeps(pid)]
        if idle:
            return idle
    return []


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _processor_time(pid: int) -> int:
    """In hundredths of a second."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _sleeps(pid: int) -> bool:
    return _stat(pid)[:1] == ["S"]


def _gone(pid: int) -> bool:
    end = time.monotonic() + ORPHANS
    while time.monotonic() < end:
        if _stat(pid)[:1] in ([], ["Z"]):
            return True
        time.sleep(0.01)
    return False
