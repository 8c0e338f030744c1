"""The store: one SQLite file for a study and its comparisons, weights beside it.

What it promises: a finished unit is on disk before the next begins; a crash, a kill or a full disk loses at most the
unit in progress; nothing is pickled. A batch's weights are one safetensors file, written aside, renamed into place and
named in the same SQLite transaction as its units, so database and weights never disagree. One process writes at a time.
Rows are keyed by names, not by order of arrival: the same work gives the same store, cell by cell, apart from times.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from cisr.classroom import (
    Abandonment,
    Batch,
    Breakdown,
    Checkpoint,
    Enrolment,
    Graduation,
    Transcript,
    UnitRecord,
)
from cisr.curricula import Parameters
from cisr.errors import StoreError
from cisr.store.changes import differences
from cisr.store.database import Database
from cisr.store.rows import as_json, from_unit, identity, to_deployment, to_enrolment, to_unit, units_begun_anew
from cisr.store.weights import Weights
from cisr.students.config import StudentConfig

RUN = "run "
"""Before the name of a study or comparison: the setting that holds its seed and all else that defines it."""


class Round(NamedTuple):
    """One curriculum policy that a teacher tried."""

    parameters: Parameters
    told: bool
    score: float | None
    sem: float | None
    model: dict[str, Any]
    """The hyperparameters of the teacher's model when it proposed this policy; empty if it used none."""


class Store:
    """Open or make a store. `Store(None)` lives in memory and is gone with the process.

    `Store(path, read_only=True)` takes no lock and changes nothing, so it can look at a study that is running: it sees
    what was finished when it first read.
    """

    def __init__(self, path: Path | str | None, *, read_only: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self.read_only = read_only
        self._db = Database(self.path, read_only=read_only)
        self._weights = Weights(self.path)
        if not read_only:
            self._tidy()

    def __str__(self) -> str:
        return str(self._db)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def settle(self, settings: Mapping[str, Any], run: str | None = None) -> None:
        """Record settings. Where there are results (of this study or comparison, or any), they must agree; what was
        begun under others and never gave a result is forgotten."""
        kept = self.settings()
        differing = differences({name: kept.get(name) for name in settings}, settings)
        if differing and self.has_results(run):
            raise StoreError(f"{self} {differing}: give another store, or set its old results aside with --fresh.")
        if differing:
            self._take_out(self.runs() if run is None else [run])
        self.record(settings)

    def record(self, settings: Mapping[str, Any]) -> None:
        """Note settings, whatever was there before."""
        with self._db.transaction():
            for name, value in settings.items():
                self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, as_json(value)))

    def agrees(self, settings: Mapping[str, Any]) -> bool:
        kept = self.settings()
        return not differences({name: kept.get(name) for name in settings}, settings)

    def has_results(self, run: str | None = None) -> bool:
        """Has a student of this study or comparison, or of any, finished a unit?"""
        students = self._db.execute("SELECT DISTINCT student FROM units")
        return any(run is None or owner_of(name) == run for (name,) in students)

    def settings(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self._db.execute("SELECT * FROM settings")}

    # The classroom's register

    def enrol(self, enrolments: Sequence[Enrolment], group: Callable[[list[Enrolment]], list[Batch]]) -> list[Batch]:
        known = {enrolment.name: self._known(enrolment) for enrolment in enrolments}
        new = group([enrolment for enrolment in enrolments if known[enrolment.name] is None])
        with self._db.transaction():
            again = group([enrolment for enrolment in enrolments if self._has_broken_down(enrolment.name)])
            for batch in again:
                for student in batch.enrolments:
                    known[student.name] = None
                    self._db.execute("DELETE FROM units WHERE student = ?", (student.name,))
            begun = [self._begin(batch) for batch in (*new, *again)]
        given = {enrolment.name: enrolment for enrolment in enrolments}
        wanted = list(dict.fromkeys(name for name in known.values() if name is not None))
        return [unfinished for name in wanted if (unfinished := self._unfinished(name, given))] + begun

    def _known(self, enrolment: Enrolment) -> str | None:
        """The batch of a student that has been enrolled before."""
        row = self._db.execute(
            "SELECT batch, curriculum, config, seed FROM students WHERE name = ?", (enrolment.name,)
        ).fetchone()
        if row is None:
            return None
        batch, curriculum, config, seed = row
        known = (curriculum, as_json(StudentConfig.from_json(json.loads(config)).to_json()), seed)
        for what, kept, given in zip(("curriculum", "settings", "seed"), known, identity(enrolment), strict=True):
            if kept != given:
                raise StoreError(
                    f"{self} holds student '{enrolment.name}' with another {what} ({_short(str(kept))}; now "
                    f"{_short(str(given))}): give another store, or set its old results aside with --fresh."
                )
        return str(batch)

    def _has_broken_down(self, student: str) -> bool:
        row = self._db.execute("SELECT error FROM students WHERE name = ?", (student,)).fetchone()
        return row is not None and row[0] is not None

    def _begin(self, batch: Batch) -> Batch:
        """Note a batch and whose it is. Students of an earlier batch leave their places there empty."""
        taken = {name for (name,) in self._db.execute("SELECT name FROM batches")}
        names = itertools.chain([batch.name], (f"{batch.name} again {k}" for k in itertools.count(1)))
        batch = replace(batch, name=next(name for name in names if name not in taken))
        roster = as_json([student.name for student in batch.enrolments])
        self._db.execute("INSERT INTO batches (name, roster) VALUES (?, ?)", (batch.name, roster))
        for place, student in enumerate(batch.enrolments):
            self._db.execute(
                "INSERT OR REPLACE INTO students (name, batch, place, curriculum, config, seed) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (student.name, batch.name, place, *identity(student)),
            )
        return batch

    def _unfinished(self, batch: str, given: Mapping[str, Enrolment]) -> Batch | None:
        done, roster = self._db.execute("SELECT done, roster FROM batches WHERE name = ?", (batch,)).fetchone()
        if done:
            return None
        with self._db.transaction():
            self._db.execute("UPDATE batches SET abandoned = NULL WHERE name = ?", (batch,))
        return Batch(
            name=batch, enrolments=tuple(given.get(name) or self._enrolment(name) for name in json.loads(roster))
        )

    def _enrolment(self, name: str) -> Enrolment:
        statement = "SELECT name, curriculum, config, seed FROM students WHERE name = ?"
        return to_enrolment(*self._db.execute(statement, (name,)).fetchone())

    def checkpoint(self, batch: Batch) -> Checkpoint | None:
        units, weights = self._db.execute("SELECT units, weights FROM batches WHERE name = ?", (batch.name,)).fetchone()
        if not units:
            return None
        kept = [self._at_checkpoint(batch, student.name, units) for student in batch.enrolments]
        return Checkpoint(
            unit=units,
            weights=self._weights.load(weights),
            records=tuple(one if isinstance(one, UnitRecord) else None for one in kept),
            errors=tuple(one if isinstance(one, Breakdown) else None for one in kept),
        )

    def _at_checkpoint(self, batch: Batch, student: str, units: int) -> UnitRecord | Breakdown:
        home, error, failures = self._db.execute(
            "SELECT batch, error, failures_when_broken FROM students WHERE name = ?", (student,)
        ).fetchone()
        if home != batch.name:
            return Breakdown("is taught again in a later batch", 0)
        if error is not None:
            return Breakdown(error, failures)
        stage = self._db.execute("SELECT stage FROM units WHERE student = ? AND unit = ?", (student, units)).fetchone()
        return UnitRecord(self.transcript(student).units[-1], json.loads(stage[0]))

    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None:
        with self._db.guard():
            file = f"{_digest(batch.name)}-{checkpoint.unit}.safetensors"
            self._weights.save(file, checkpoint.weights)
            (previous,) = self._db.execute("SELECT weights FROM batches WHERE name = ?", (batch.name,)).fetchone()
            with self._db.transaction():
                self._db.execute(
                    "UPDATE batches SET units = ?, weights = ? WHERE name = ?", (checkpoint.unit, file, batch.name)
                )
                for student, record in zip(batch.enrolments, checkpoint.records, strict=True):
                    if record is not None:
                        self._insert_unit(student.name, record)
                self._keep_errors(batch, checkpoint.errors)
            if previous is not None:
                self._weights.drop(previous)

    def keep_graduation(self, batch: Batch, graduation: Graduation) -> None:
        with self._db.transaction():
            self._db.execute("UPDATE batches SET done = 1 WHERE name = ?", (batch.name,))
            for student, deployment in zip(batch.enrolments, graduation.deployments, strict=True):
                if deployment is not None:
                    self._db.execute(
                        "UPDATE students SET deployment = ? WHERE name = ?", (as_json(asdict(deployment)), student.name)
                    )
            self._keep_errors(batch, graduation.errors)

    def keep_abandonment(self, batch: Batch, abandonment: Abandonment) -> None:
        with self._db.transaction():
            self._db.execute("UPDATE batches SET abandoned = ? WHERE name = ?", (abandonment.message, batch.name))

    def transcript(self, name: str) -> Transcript:
        curriculum, config, seed, deployment, error, failures, abandoned = self._db.execute(
            "SELECT curriculum, config, seed, deployment, error, failures_when_broken, abandoned "
            "FROM students JOIN batches ON batch = batches.name WHERE students.name = ?",
            (name,),
        ).fetchone()
        if error is None and abandoned is not None:
            error = f"Student '{name}': {abandoned}"
        cursor = self._db.execute("SELECT * FROM units WHERE student = ? ORDER BY unit", (name,))
        columns = [column[0] for column in cursor.description]
        units = [dict(zip(columns, row, strict=True)) for row in cursor]
        return Transcript(
            name=name,
            curriculum=json.loads(curriculum),
            config=StudentConfig.from_json(json.loads(config)),
            seed=seed,
            units=tuple(map(to_unit, units)),
            deployment=to_deployment(deployment),
            error=error,
            failures_when_broken=0 if error is None else failures,
            fresh_starts=units_begun_anew(units),
        )

    def transcripts(self, prefix: str = "") -> list[Transcript]:
        """All students whose name starts with the prefix, by name."""
        names = self._db.execute("SELECT name FROM students ORDER BY name").fetchall()
        return [self.transcript(name) for (name,) in names if name.startswith(prefix)]

    def weights(self, name: str) -> dict[str, Any]:
        """The arrays of one student's learner, as of its last finished unit."""
        row = self._db.execute(
            "SELECT batches.weights, place FROM students JOIN batches ON batch = batches.name WHERE students.name = ?",
            (name,),
        ).fetchone()
        if row is None or row[0] is None:
            raise StoreError(f"{self} has no weights of a student '{name}': see its students for the names.")
        return {key: array[row[1]] for key, array in self._weights.load(row[0]).items()}

    # The teacher's rounds

    def rounds(self, study: str) -> list[Round]:
        rows = self._db.execute(
            "SELECT parameters, told, score, sem, model FROM rounds WHERE study = ? ORDER BY round", (study,)
        )
        return [
            Round(json.loads(parameters), bool(told), score, sem, json.loads(model))
            for parameters, told, score, sem, model in rows
        ]

    def propose(self, study: str, number: int, parameters: Parameters, model: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO rounds (study, round, parameters, model) VALUES (?, ?, ?, ?)",
                (study, number, as_json(parameters), as_json(model)),
            )

    def tell(self, study: str, number: int, score: float | None, sem: float | None) -> None:
        with self._db.transaction():
            self._db.execute(
                "UPDATE rounds SET told = 1, score = ?, sem = ? WHERE study = ? AND round = ?",
                (score, sem, study, number),
            )

    def keep_findings(self, study: str, found: Mapping[str, Any]) -> None:
        """What a finished study found: its best policy and what its teacher's model looks like."""
        with self._db.transaction():
            self._db.execute("INSERT OR REPLACE INTO findings VALUES (?, ?)", (study, as_json(found)))

    def drop_finding(self, name: str) -> None:
        with self._db.transaction():
            self._db.execute("DELETE FROM findings WHERE study = ?", (name,))

    def findings(self) -> dict[str, dict[str, Any]]:
        """What each finished study found, by its name."""
        return {study: json.loads(found) for study, found in self._db.execute("SELECT * FROM findings ORDER BY study")}

    # Setting aside

    def set_aside(self, runs: Sequence[str]) -> Path | None:
        """Move the results of these studies and comparisons into a store of their own beside this one; None: none.

        That store is a copy of the whole, made and complete before anything is taken out of this one.
        """
        if not any(self.has_results(run) for run in runs):
            self._take_out(runs)
            return None
        if self.path is None:
            raise StoreError("A store in memory has no place to set results aside: give a store with a path.")
        numbered = (self.path.with_name(f"{self.path.stem}-aside-{k}{self.path.suffix}") for k in itertools.count(1))
        aside = next(path for path in numbered if not path.exists() and not Weights.folder_of(path).exists())
        with self._db.guard():
            self._weights.copy_to(aside)
        self._db.copy_to(aside)
        self._take_out(runs)
        self._tidy()
        return aside

    def runs_beside(self, run: str) -> list[str]:
        """A run and those whose students were trained in one batch with its own."""
        rosters = self._db.execute("SELECT roster FROM batches").fetchall()
        shared = [{owner_of(name) for name in json.loads(roster)} for (roster,) in rosters]
        together = {run}
        while more := {owner for owners in shared if owners & together for owner in owners} - together:
            together |= more
        return sorted(together)

    def runs(self) -> list[str]:
        """Names of the studies and comparisons."""
        return [name.removeprefix(RUN) for name in self.settings() if name.startswith(RUN)]

    def _take_out(self, runs: Sequence[str]) -> None:
        with self._db.transaction():
            for (name,) in self._db.execute("SELECT name FROM students").fetchall():
                if owner_of(name) in runs:
                    self._db.execute("DELETE FROM units WHERE student = ?", (name,))
                    self._db.execute("DELETE FROM students WHERE name = ?", (name,))
            self._db.execute("DELETE FROM batches WHERE name NOT IN (SELECT batch FROM students)")
            for run in runs:
                self._db.execute("DELETE FROM rounds WHERE study = ?", (run,))
                self._db.execute("DELETE FROM settings WHERE name = ?", (RUN + run,))
                for finding in self.findings():
                    if finding == run or finding.endswith(f" {run}"):
                        self._db.execute("DELETE FROM findings WHERE study = ?", (finding,))

    # Inside

    def _tidy(self) -> None:
        try:
            with self._db.guard():
                self._weights.drop_all_but({name for (name,) in self._db.execute("SELECT weights FROM batches")})
        except BaseException:
            self.close()
            raise

    def _insert_unit(self, student: str, record: UnitRecord) -> None:
        fields = from_unit(student, record)
        names = ", ".join(fields)
        self._db.execute(f"INSERT INTO units ({names}) VALUES ({', '.join('?' * len(fields))})", list(fields.values()))

    def _keep_errors(self, batch: Batch, errors: Sequence[Breakdown | None]) -> None:
        for student, error in zip(batch.enrolments, errors, strict=True):
            if error is not None:
                self._db.execute(
                    "UPDATE students SET error = ?, failures_when_broken = ? WHERE name = ? AND batch = ?",
                    (*error, student.name, batch.name),
                )


@contextmanager
def opened(store: Store | Path | str | None) -> Iterator[Store]:
    """A store that was given stays open; one that is opened here is closed again."""
    if isinstance(store, Store):
        yield store
    else:
        with Store(store) as own:
            yield own


def owner_of(student: str) -> str:
    """The study or comparison that a student belongs to: its name has no slash, labels of curricula may."""
    return student.partition("/")[0]


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
