"""Comparisons on lakes that misbehave: whoever is not to blame has the results of a comparison that nobody disturbed,
whoever is to blame is said to be so, in one line, and once the fault is gone the same command ends well."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faulty import ANSWERS, DEATHS, HANGS, HARMLESS, RAISES, WHERE, Fault
from kills import ENVIRONMENT

Rows = dict[tuple[str, ...], tuple[object, ...]]
LAST_CALL = {"step": 1200, "reset": 40, "make_env": 14, "close": 12, "read_state": 1200, "place": 60}
"""Of a comparison, more or less; of the task's other functions it is 600, and much less where they are compiled."""
STEP_TIMEOUT = "5"
LONGEST, LONGEST_FAREWELL = 300.0, 10.0
"""Seconds: generous on purpose, for machines that are busy."""
DAEMONS = ("die and leave a daemon",)
"""These leave the worker's group of processes on purpose, and nobody has to find them."""


@dataclass(frozen=True)
class Case:
    backend: str
    fault: Fault
    workers: int

    def __str__(self) -> str:
        fault = self.fault
        how_often = "once" if fault.once else "always"
        where = f"{self.backend}, {self.workers} workers, {fault.where}"
        return f"{where}: {fault.how} at call {fault.at}, {how_often}"

    @property
    def kind(self) -> str:
        kinds = {"raises": RAISES, "hangs": HANGS, "dies": DEATHS, "harmless": HARMLESS}
        return next((kind for kind, ways in kinds.items() if self.fault.how in ways), "answers wrongly")


def drawn(seed: int, backend: str) -> Case:
    chance = random.Random(f"{seed} {backend}")
    where = chance.choice(WHERE[backend])
    kinds: list[dict[str, Any]] = [RAISES, DEATHS, HARMLESS]
    if backend == "gymnasium":  # what is compiled is called for a moment only, and nobody watches the clock
        kinds.append(HANGS)
    if where in ANSWERS:
        kinds += [ANSWERS[where]] * 2
    how = chance.choice(sorted(chance.choice(kinds)))
    last = {"gymnasium": LAST_CALL.get(where, 600), "compiled": 1 if where == "jax_env" else 8}[backend]
    alone = how not in HANGS | DEATHS  # these end or block the process that they happen in
    workers = chance.choice((0, 1, 2) if alone else (1, 2))
    return Case(backend, Fault(where, how, chance.randint(1, last), chance.random() < 0.5), workers)


def undisturbed(folder: Path, backend: str) -> Rows:
    store = folder / f"{backend}.sqlite"
    subprocess.run(_command(backend, store, 1), env=ENVIRONMENT, check=True, capture_output=True)
    return _rows(store)


def suffer(case: Case, folder: Path, calm: Rows) -> list[str]:
    """What was wrong."""
    store, mischief = folder / "store.sqlite", folder / "mischief"
    case.fault.tell(mischief)
    wrong = _attempt(case, store, mischief, must_end_well=case.kind == "harmless")
    broken = _broken(store)
    wrong += _differing(_rows(store), calm, ())
    for file in (mischief, mischief.with_suffix(".done")):
        file.unlink(missing_ok=True)
    wrong += [f"without the fault: {what}" for what in _attempt(case, store, mischief, must_end_well=True)]
    found = _rows(store)
    wrong += [f"without the fault: {what}" for what in _differing(found, calm, broken)]
    return wrong + [f"{' '.join(key)} is missing in the end" for key in calm if key not in found]


def _command(backend: str, store: Path, workers: int) -> list[str]:
    return [
        *(sys.executable, "-m", "cisr", "compare", f"faulty:{backend}_lake", "SR1", "HR", "--students", "2"),
        *("--backend", backend, "--store", str(store), "--workers", str(workers)),
    ]


def _attempt(case: Case, store: Path, mischief: Path, must_end_well: bool) -> list[str]:
    words = _command(case.backend, store, case.workers)
    words += ["--step-timeout", STEP_TIMEOUT] if case.kind == "hangs" and mischief.exists() else []
    with (store.parent / "said").open("w+b") as said:
        process = subprocess.Popen(
            words, env={**ENVIRONMENT, "MISCHIEF": str(mischief)}, stdout=said, stderr=said, stdin=subprocess.DEVNULL
        )
        try:
            code = process.wait(timeout=LONGEST)
            wrong = []
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            wrong = [f"did not end within {LONGEST:g} s"]
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines() or [""]
    left = _left_behind(mischief)
    if left and case.fault.how not in DAEMONS:
        wrong.append(f"{len(left)} processes lived on")
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if wrong:
        return wrong
    if any("Traceback" in line for line in lines):
        wrong.append(f"a traceback: {lines[-1][:300]}")
    if code not in ((0,) if must_end_well else (0, 1, 2)):
        wrong.append(f"exit code {code}: {lines[-1][:300]}")
    elif code and not lines[-1].startswith("cisr: "):
        wrong.append(f"exit code {code} without a line: {lines[-1][:300]}")
    return wrong


def _left_behind(mischief: Path) -> list[int]:
    """Processes of a run that live on after it."""
    mark = f"MISCHIEF={mischief}".encode()
    end = time.monotonic() + LONGEST_FAREWELL
    while True:
        left = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    left.append(int(entry.name))
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def _rows(store: Path) -> Rows:
    """Units and deployments by student, without times."""
    if not store.exists():
        return {}
    with closing(sqlite3.connect(store)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        if "units" not in tables:
            return {}
        columns = [row[1] for row in database.execute("PRAGMA table_info(units)")]
        kept = ", ".join(name for name in columns if name not in ("seconds", "checksum", "student", "unit"))
        units = database.execute(f"SELECT student, unit, {kept} FROM units").fetchall()
        deployed = database.execute("SELECT name, deployment FROM students WHERE deployment IS NOT NULL").fetchall()
    rows: Rows = {(student, f"unit {unit}"): tuple(row) for student, unit, *row in units}
    return rows | {(student, "deployment"): (deployment,) for student, deployment in deployed}


def _broken(store: Path) -> tuple[str, ...]:
    if not store.exists():
        return ()
    with closing(sqlite3.connect(store)) as database:
        try:
            return tuple(name for (name,) in database.execute("SELECT name FROM students WHERE error IS NOT NULL"))
        except sqlite3.OperationalError:  # it has no tables yet
            return ()


def _differing(found: Rows, calm: Rows, but: tuple[str, ...]) -> list[str]:
    """Results that are not those of the undisturbed comparison. Who was taught again is in another batch, and rounding
    depends on that."""
    return [f"{' '.join(key)} differs" for key, row in found.items() if key[0] not in but and row != calm.get(key)]
