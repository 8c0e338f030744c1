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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from cisr.core.errors import StoreError
from cisr.curricula import Parameters
from cisr.store.changes import differences
from cisr.store.database import DamagedStore, Database
from cisr.store.meaning import making_sense_of, nonsense
from cisr.store.place import real_path
from cisr.store.rows import as_json, from_unit, identity, to_deployment, to_spec, to_unit, units_begun_anew
from cisr.store.schema import EARLIER_NAMES, QUICK
from cisr.store.weights import Weights, file_name
from cisr.students.config import StudentConfig
from cisr.training import (
    Abandonment,
    Batch,
    Breakdown,
    Checkpoint,
    Graduation,
    StudentSpec,
    Transcript,
    UnitRecord,
)


class StoredTrial(NamedTuple):
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
        self.path = None if path is None else real_path(path)
        self.read_only = read_only
        self._weights = Weights(self.path)
        self._db = Database(self.path, read_only=read_only)
        try:
            if (odd := next(nonsense(self._db), None)) is not None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    # Settings

    def settings(self) -> dict[str, Any]:
        """Those of the whole store."""
        rows = self._db.named_rows("settings")
        return {EARLIER_NAMES.get(row["name"], row["name"]): json.loads(row["value"]) for row in rows}

    def runs(self) -> dict[str, dict[str, Any]]:
        """The studies and comparisons by name: the seed of each and all else that defines it."""
        return {row["name"]: json.loads(row["settings"]) for row in self._db.named_rows("runs")}

    def bind_settings(self, settings: Mapping[str, Any]) -> None:
        """Record settings of the store. Where there are results, they must agree; what was begun under others and
        never gave a result is forgotten."""
        self._bind(differences(self._of_those(settings), settings), list(self.runs()), self.has_results())
        self.record(settings)

    def bind_run(self, name: str, settings: Mapping[str, Any]) -> None:
        """The same for what defines a study or comparison."""
        kept = {f"run {name}": self.runs().get(name)}
        self._bind(differences(kept, {f"run {name}": settings}), [name], self.has_results(name))
        with self._db.transaction():
            self._db.insert("runs", {"name": name, "settings": as_json(settings)})

    def _bind(self, differing: str, runs: Sequence[str], has_results: bool) -> None:
        if differing and has_results:
            raise StoreError(f"{self} {differing}: give another store, or set its old results aside with --fresh.")
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
        """Has a student of this study or comparison, or of any, finished a unit?"""
        students = self._db.rows("SELECT DISTINCT student FROM units")
        return any(run is None or owner_of(name) == run for (name,) in students)

    # The classroom's register

    def register(
        self, students: Sequence[StudentSpec], group: Callable[[list[StudentSpec]], list[Batch]]
    ) -> list[Batch]:
        known = {spec.name: self._known(spec) for spec in students}
        new = group([spec for spec in students if known[spec.name] is None])
        with self._db.transaction():
            again = group([spec for spec in students if self._has_broken_down(spec.name)])
            for batch in again:
                for student in batch.students:
                    known[student.name] = None
                    self._db.remove("units", {"student": student.name})
            begun = [self._begin(batch) for batch in (*new, *again)]
        given = {spec.name: spec for spec in students}
        wanted = list(dict.fromkeys(name for name in known.values() if name is not None))
        return [unfinished for name in wanted if (unfinished := self._unfinished(name, given))] + begun

    def _known(self, spec: StudentSpec) -> str | None:
        """The batch of a student that has been enrolled before."""
        row = self._db.row("SELECT batch, curriculum, config, seed FROM students WHERE name = ?", (spec.name,))
        if row is None:
            return None
        batch, curriculum, config, seed = row
        known = (curriculum, as_json(StudentConfig.from_json(json.loads(config)).to_json()), seed)
        for what, kept, given in zip(("curriculum", "settings", "seed"), known, identity(spec), strict=True):
            if kept != given:
                raise StoreError(
                    f"{self} holds student '{spec.name}' with another {what} ({_short(str(kept))}; now "
                    f"{_short(str(given))}): give another store, or set its old results aside with --fresh."
                )
        return str(batch)

    def _has_broken_down(self, student: str) -> bool:
        return self._db.row("SELECT 1 FROM students WHERE name = ? AND error IS NOT NULL", (student,)) is not None

    def _begin(self, batch: Batch) -> Batch:
        """Note a batch and whose it is. Students of an earlier batch leave their places there empty."""
        taken = {name for (name,) in self._db.rows("SELECT name FROM batches")}
        names = itertools.chain([batch.name], (f"{batch.name} again {k}" for k in itertools.count(1)))
        batch = replace(batch, name=next(name for name in names if name not in taken))
        roster = as_json([student.name for student in batch.students])
        self._db.insert("batches", {"name": batch.name, "roster": roster})
        for place, student in enumerate(batch.students):
            curriculum, config, seed = identity(student)
            row = {"name": student.name, "batch": batch.name, "place": place}
            self._db.insert("students", row | {"curriculum": curriculum, "config": config, "seed": seed})
        return batch

    def _unfinished(self, batch: str, given: Mapping[str, StudentSpec]) -> Batch | None:
        ((done, roster),) = self._db.rows("SELECT done, roster FROM batches WHERE name = ?", (batch,))
        if done:
            return None
        with self._db.transaction():
            self._db.change("batches", {"name": batch}, {"abandoned": None})
        return Batch(name=batch, students=tuple(given.get(name) or self._spec(name) for name in json.loads(roster)))

    def _spec(self, name: str) -> StudentSpec:
        ((curriculum, config, seed),) = self._db.rows(
            "SELECT curriculum, config, seed FROM students WHERE name = ?", (name,)
        )
        return to_spec(name, curriculum, config, seed)

    def checkpoint(self, batch: Batch) -> Checkpoint | None:
        ((units, checksum),) = self._db.rows(
            "SELECT units, weights_checksum FROM batches WHERE name = ?", (batch.name,)
        )
        if not units:
            return None
        kept = [self._at_checkpoint(batch, student.name, units) for student in batch.students]
        return Checkpoint(
            unit=units,
            weights=self._weights.load(file_name(batch.name, units), checksum),
            records=tuple(one if isinstance(one, UnitRecord) else None for one in kept),
            errors=tuple(one if isinstance(one, Breakdown) else None for one in kept),
        )

    def _at_checkpoint(self, batch: Batch, student: str, units: int) -> UnitRecord | Breakdown:
        ((home, error, failures),) = self._db.rows(
            "SELECT batch, error, failures_when_broken FROM students WHERE name = ?", (student,)
        )
        if home != batch.name:
            return Breakdown("is taught again in a later batch", 0)
        if error is not None:
            return Breakdown(error, failures)
        ((stage,),) = self._db.rows("SELECT stage FROM units WHERE student = ? AND unit = ?", (student, units))
        return UnitRecord(self.transcript(student).units[-1], json.loads(stage))

    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None:
        with self._db.transaction():
            checksum = self._weights.save(file_name(batch.name, checkpoint.unit), checkpoint.weights)
            ((previous,),) = self._db.rows("SELECT units FROM batches WHERE name = ?", (batch.name,))
            now = {"units": checkpoint.unit, "weights_checksum": checksum}
            self._db.change("batches", {"name": batch.name}, now)
            at_home = self._at_home(batch)
            for student, record in zip(batch.students, checkpoint.records, strict=True):
                if record is not None and student.name in at_home:
                    self._db.insert("units", from_unit(student.name, record))
            self._keep_errors(batch, checkpoint.errors)
        if previous:
            with self._db.guard("write"):
                self._weights.drop(file_name(batch.name, previous))

    def keep_graduation(self, batch: Batch, graduation: Graduation) -> None:
        with self._db.transaction():
            self._db.change("batches", {"name": batch.name}, {"done": 1})
            at_home = self._at_home(batch)
            for student, deployment in zip(batch.students, graduation.deployments, strict=True):
                if deployment is not None and student.name in at_home:
                    self._db.change("students", {"name": student.name}, {"deployment": as_json(asdict(deployment))})
            self._keep_errors(batch, graduation.errors)

    def keep_abandonment(self, batch: Batch, abandonment: Abandonment) -> None:
        with self._db.transaction():
            self._db.change("batches", {"name": batch.name}, {"abandoned": abandonment.message})

    def _at_home(self, batch: Batch) -> set[str]:
        """Its students that are not taught again in a later batch."""
        return {name for (name,) in self._db.rows("SELECT name FROM students WHERE batch = ?", (batch.name,))}

    def _keep_errors(self, batch: Batch, errors: Sequence[Breakdown | None]) -> None:
        for student, error in zip(batch.students, errors, strict=True):
            if error is not None:
                broken = {"error": error.message, "failures_when_broken": error.failures}
                self._db.change("students", {"name": student.name, "batch": batch.name}, broken)

    def transcript(self, name: str) -> Transcript:
        ((curriculum, config, seed, deployment, error, failures, abandoned),) = self._db.rows(
            "SELECT curriculum, config, seed, deployment, error, failures_when_broken, abandoned "
            "FROM students JOIN batches ON batch = batches.name WHERE students.name = ?",
            (name,),
        )
        if error is None and abandoned is not None:
            error = f"Student '{name}': {abandoned}"
        units = self._db.named_rows("units", {"student": name})
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
        names = self._db.rows("SELECT name FROM students ORDER BY name")
        return [self.transcript(name) for (name,) in names if name.startswith(prefix)]

    def weights(self, name: str) -> dict[str, Any]:
        """The arrays of one student's learner, as of its last finished unit."""
        row = self._db.row(
            "SELECT batch, place, units, weights_checksum FROM students JOIN batches ON batch = batches.name "
            "WHERE students.name = ? AND units > 0",
            (name,),
        )
        if row is None:
            raise StoreError(f"{self} has no weights of a student '{name}': see its students for the names.")
        batch, place, units, checksum = row
        with making_sense_of(f"{self} with its weights"):
            return {key: array[place] for key, array in self._weights.load(file_name(batch, units), checksum).items()}

    def start_over(self, batches: Collection[str]) -> None:
        """Forget all that students have done in these batches: they are taught again from their first unit, in the same
        places, and so to the same numbers."""
        undone = {"deployment": None, "error": None, "failures_when_broken": None}
        with self._db.transaction():
            for batch in batches:
                for (student,) in self._db.rows("SELECT name FROM students WHERE batch = ?", (batch,)):
                    self._db.remove("trajectories", {"student": student})
                    self._db.remove("units", {"student": student})
                    self._db.change("students", {"name": student}, undone)
                anew = {"units": 0, "weights_checksum": None, "done": 0, "abandoned": None}
                self._db.change("batches", {"name": batch}, anew)
        self._tidy()

    # The teacher's trials

    def trials(self, study: str) -> list[StoredTrial]:
        rows = self._db.rows(
            "SELECT parameters, told, score, sem, model FROM rounds WHERE study = ? ORDER BY round", (study,)
        )
        return [
            StoredTrial(json.loads(parameters), bool(told), score, sem, json.loads(model))
            for parameters, told, score, sem, model in rows
        ]

    def propose(self, study: str, number: int, parameters: Parameters, model: Mapping[str, Any]) -> None:
        row = {"study": study, "round": number, "parameters": as_json(parameters), "model": as_json(model)}
        with self._db.transaction():
            self._db.insert("rounds", row)

    def tell(self, study: str, number: int, score: float | None, sem: float | None) -> None:
        with self._db.transaction():
            self._db.change("rounds", {"study": study, "round": number}, {"told": 1, "score": score, "sem": sem})

    # What was found

    def findings(self) -> dict[str, dict[str, Any]]:
        """What each finished study found, by its name: its best policy and what its teacher's model looks like."""
        return {row["study"]: json.loads(row["found"]) for row in self._db.named_rows("findings")}

    def keep_findings(self, study: str, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("findings", {"study": study, "found": as_json(found)})

    def curricula(self, comparison: str) -> list[str]:
        """In what order a comparison's curricula were last given."""
        row = self._db.row("SELECT curricula FROM comparisons WHERE name = ?", (comparison,))
        return [] if row is None else list(json.loads(row[0]))

    def keep_curricula(self, comparison: str, curricula: Sequence[str]) -> None:
        with self._db.transaction():
            self._db.insert("comparisons", {"name": comparison, "curricula": as_json(list(curricula))})

    def trajectories(self) -> dict[str, list[dict[str, Any]]]:
        """A few episodes of some students, by their names; see `cisr.experiments.trajectories`."""
        return {row["student"]: json.loads(row["episodes"]) for row in self._db.named_rows("trajectories")}

    def keep_trajectories(self, episodes: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        with self._db.transaction():
            for student, played in episodes.items():
                self._db.insert("trajectories", {"student": student, "episodes": as_json(played)})

    def audit(self) -> dict[str, Any] | None:
        """The quick audit of the task; None before the first."""
        row = self._db.row("SELECT found FROM audits WHERE kind = ?", (QUICK,))
        return None if row is None else dict(json.loads(row[0]))

    def keep_audit(self, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("audits", {"kind": QUICK, "found": as_json(found)})

    def drop_audit(self) -> None:
        with self._db.transaction():
            self._db.remove("audits", {"kind": QUICK})

    def reproduction(self) -> dict[str, Any] | None:
        """What a report must know of the reproduction that a store may be; see `cisr.experiments.reproduce.finding`."""
        row = self._db.row("SELECT found FROM reproductions")
        return None if row is None else dict(json.loads(row[0]))

    def keep_reproduction(self, found: Mapping[str, Any]) -> None:
        with self._db.transaction():
            self._db.insert("reproductions", {"title": found["title"], "found": as_json(found)})

    # Setting aside

    def set_aside(self, runs: Collection[str]) -> Path | None:
        """Move the results of these studies and comparisons into a store of their own beside this one; None: none.

        That store is a copy of the whole, made and complete before anything is taken out of this one.
        """
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
                    for table, column in (("trajectories", "student"), ("units", "student"), ("students", "name")):
                        self._db.remove(table, {column: name})
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


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
