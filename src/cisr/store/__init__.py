"""The store: one SQLite file for a study and its comparisons, weights beside it.

What it promises: a finished unit is on disk before the next begins; a crash, a kill or a full disk loses at most the
unit in progress; nothing is pickled. A batch's weights are one safetensors file, written aside, renamed into place and
counted in the same SQLite transaction as its units, so database and weights never disagree. One process writes at a
time. Rows are keyed by names, not by order of arrival: the same work gives the same store, cell by cell, apart from
times. What is not as it was written is noticed before it is used: rows when a store is opened, weights when they are
loaded; see `cisr.store.check`.

May import training and below; knows nothing of how results are shown.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cisr.core.checks import check_no_text
from cisr.core.errors import CisrError, ConfigError, StoreError
from cisr.store.changes import differences
from cisr.store.checksums import DamagedStore
from cisr.store.database import Database, StoreInUse
from cisr.store.findings import KeepsFindings, StoredTrial
from cisr.store.nonsense import nonsense
from cisr.store.place import check_may_write, real_path
from cisr.store.register import KeepsStudents
from cisr.store.rows import as_json, owner_of
from cisr.store.schema import EARLIER_NAMES, EARLIER_STUDENTS
from cisr.store.weights import Weights, file_name

__all__ = ["Store", "StoredTrial", "opened", "owner_of"]


class Store(KeepsStudents, KeepsFindings):
    """Open or make a store. `Store(None)` lives in memory and is gone with the process.

    `Store(path, read_only=True)` takes no lock and changes nothing, so it can look at a study that is running: it sees
    what was finished when it first read. Who reads the same store again and again may be `trusting` between: rows are
    not checked then.
    """

    def __init__(self, path: Path | str | None, *, read_only: bool = False, trusting: bool = False) -> None:
        self.path = None if path is None else real_path(path)
        self.read_only = read_only
        if self.path is not None and not read_only:
            check_may_write(self.path)
        self._weights = Weights(self.path)
        self._db = Database(self.path, read_only=read_only, trusting=trusting)
        try:
            if not trusting and (odd := next(nonsense(self._db), None)) is not None:
                raise DamagedStore(self._db, self.path, odd)
            if not read_only:
                self._tidy()
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return str(self._db)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """A store that was made for what was then refused is not left behind; one whose students had begun stays."""
        if isinstance(error, CisrError) and self._db.made:
            with suppress(CisrError):  # the first error is the one to tell
                students = self.transcripts()
                began = self.has_results() or any(t.error for t in students)
                self._db.unwanted = not began and (isinstance(error, ConfigError) or not students)
        self.close()

    def close(self) -> None:
        self._db.close()

    # Settings

    def settings(self) -> dict[str, Any]:
        """Those of the whole store."""
        rows = self._db.named_rows("settings")
        found = {EARLIER_NAMES.get(row["name"], row["name"]): json.loads(row["value"]) for row in rows}
        if "student" in found:
            found["student"] = EARLIER_STUDENTS.get(found["student"], found["student"])
        return found

    def runs(self) -> dict[str, dict[str, Any]]:
        """The studies and comparisons by name: the seed of each and all else that defines it."""
        return {row["name"]: json.loads(row["settings"]) for row in self._db.named_rows("runs")}

    def bind_settings(self, settings: Mapping[str, Any]) -> None:
        """Record settings of the store. Where there are results, they must agree; what was begun under others and
        never gave a result is forgotten."""
        kept, given, mend = self._of_those(settings), settings, ""
        backend = kept.get("backend")
        if backend in ("gymnasium", "compiled") and backend != settings["backend"]:  # all else differs with it
            kept, given = {"backend": backend}, {"backend": settings["backend"]}
            mend = f"go on with the backend {backend} (`--backend {backend}`), or "
        self._bind(differences(kept, given), list(self.runs()), self.has_results(), mend)
        self.record(settings)

    def bind_run(self, name: str, settings: Mapping[str, Any]) -> None:
        """The same for what defines a study or comparison."""
        kept = {f"run {name}": self.runs().get(name)}
        self._bind(differences(kept, {f"run {name}": settings}), [name], self.has_results(name))
        with self._db.transaction():
            self._db.insert("runs", {"name": name, "settings": as_json(settings)})

    def _bind(self, differing: str, runs: Sequence[str], has_results: bool, mend: str = "") -> None:
        if differing and has_results:
            aside = "" if self._handed_out() else ", or set its old results aside with --fresh"
            raise StoreError(f"{self} {differing}: {mend}give another store{aside}.")
        if differing:
            self._take_out(runs)

    def record(self, settings: Mapping[str, Any]) -> None:
        """Note settings, whatever was there before."""
        with self._db.transaction():
            for name, value in settings.items():
                self._db.insert("settings", {"name": name, "value": as_json(value)})

    def agrees(self, settings: Mapping[str, Any]) -> bool:
        return not differences(self._of_those(settings), settings)

    def _of_those(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        kept = self.settings()
        return {name: kept.get(name) for name in settings}

    def has_results(self, run: str | None = None) -> bool:
        """Has a student of this study or comparison, or of any, finished a unit, or been handed out?"""
        students = [name for (name,) in self._db.rows("SELECT DISTINCT student FROM units")]
        return any(run is None or owner_of(name) == run for name in students + self._handed_out())

    def _handed_out(self) -> list[str]:
        """Students that are trained elsewhere."""
        elsewhere = self._db.rows("SELECT name FROM students WHERE json_extract(config, '$.kind') = 'elsewhere'")
        return [name for (name,) in elsewhere]

    # Starting over and setting aside

    def start_over(self, batches: Collection[str]) -> None:
        """Forget all that students have done in these batches: they are taught again from their first unit, in the same
        places, and so to the same numbers."""
        check_no_text("The batches", batches)
        undone = {"deployment": None, "error": None, "failures_when_broken": None}
        with self._db.transaction():
            for batch in batches:
                for (student,) in self._db.rows("SELECT name FROM students WHERE batch = ?", (batch,)):
                    for table in ("trajectories", "drives", "units"):
                        self._db.remove(table, {"student": student})
                    self._db.change("students", {"name": student}, undone)
                anew = {"units": 0, "weights_checksum": None, "done": 0, "abandoned": None}
                self._db.change("batches", {"name": batch}, anew)
        self._tidy()

    def set_aside(self, runs: Collection[str]) -> Path | None:
        """Move the results of these studies and comparisons into a store of their own beside this one; None: none.

        That store is a copy of the whole, made and complete before anything is taken out of this one.
        """
        check_no_text("The runs to set aside", runs)
        if not any(self.has_results(run) for run in runs):
            self._take_out(runs)
            return None
        if self.path is None:
            raise StoreError("A store in memory has no place to set results aside: give a store with a path.")
        numbered = (self.path.with_name(f"{self.path.stem}-aside-{k}{self.path.suffix}") for k in itertools.count(1))
        aside = next(
            path for path in numbered if not os.path.lexists(path) and not os.path.lexists(Weights.folder_of(path))
        )
        with self._db.guard("write"):
            self._weights.copy_to(aside, self._weights_files())
        self._db.copy_to(aside)
        self._take_out(runs)
        self._tidy()
        return aside

    def runs_beside(self, run: str) -> list[str]:
        """A run and those whose students were trained in one batch with its own."""
        rosters = self._db.rows("SELECT roster FROM batches")
        shared = [{owner_of(name) for name in json.loads(roster)} for (roster,) in rosters]
        together = {run}
        while more := {owner for owners in shared if owners & together for owner in owners} - together:
            together |= more
        return sorted(together)

    def _take_out(self, runs: Collection[str]) -> None:
        with self._db.transaction():
            for (name,) in self._db.rows("SELECT name FROM students"):
                if owner_of(name) in runs:
                    for table in ("trajectories", "drives", "units"):
                        self._db.remove(table, {"student": name})
                    self._db.remove("students", {"name": name})
            for (name,) in self._db.rows("SELECT name FROM batches WHERE name NOT IN (SELECT batch FROM students)"):
                self._db.remove("batches", {"name": name})
            for run in runs:
                for table, column in (("rounds", "study"), ("findings", "study"), ("comparisons", "name")):
                    self._db.remove(table, {column: run})
                self._db.remove("runs", {"name": run})
            reproduced = self.reproduction()
            if reproduced and set(reproduced["repetitions"]) & set(runs):
                self._db.remove("reproductions", {"title": reproduced["title"]})

    # Inside

    def _tidy(self) -> None:
        """Sweep away weights that no batch has; note the checksums of those from before there were any."""
        with self._db.guard("write"):
            self._weights.drop_all_but(self._weights_files())
            unknown = "SELECT name, units FROM batches WHERE units > 0 AND weights_checksum IS NULL"
            for name, units in self._db.rows(unknown):
                if (checksum := self._weights.checksum(file_name(name, units))) is not None:
                    with self._db.transaction():
                        self._db.change("batches", {"name": name}, {"weights_checksum": checksum})

    def _weights_files(self) -> set[str]:
        return {file_name(*row) for row in self._db.rows("SELECT name, units FROM batches WHERE units > 0")}


@contextmanager
def opened(store: Store | Path | str | None, patience: float = 0.0) -> Iterator[Store]:
    """A store that was given stays open; one that is opened here is closed again. `patience` is how many seconds to
    wait for another process that has it."""
    if isinstance(store, Store):
        yield store
    else:
        with _when_free(store, time.monotonic() + patience) as own:
            yield own


def _when_free(store: Path | str | None, deadline: float) -> Store:
    while True:
        try:
            return Store(store)
        except StoreInUse:
            if time.monotonic() >= deadline:
                raise
