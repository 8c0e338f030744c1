"""The classroom's register: who is taught in which batch, and how far each has come."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from cisr.core.checks import check_text
from cisr.core.errors import StoreError
from cisr.store.database import Database
from cisr.store.meaning import making_sense_of
from cisr.store.rows import as_json, from_unit, identity, to_deployment, to_spec, to_unit, units_begun_anew
from cisr.store.weights import Weights, file_name
from cisr.students.kinds import student_from_json
from cisr.training import Abandonment, Batch, Breakdown, Checkpoint, Graduation, StudentSpec, Transcript, UnitRecord

LAST = "\U0010ffff"
"""The last letter there is."""


class KeepsStudents:
    """A store as a `cisr.training.Register`."""

    _db: Database
    _weights: Weights

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
                    for table in ("drives", "units"):
                        self._db.remove(table, {"student": student.name})
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
        known = (curriculum, as_json(student_from_json(json.loads(config)).to_json()), seed)
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
        names = itertools.chain([batch.name], (f"{batch.name} again {k}" for k in itertools.count(1)))
        batch = replace(batch, name=next(name for name in names if not self._db.named_rows("batches", {"name": name})))
        roster = as_json([student.name for student in batch.students])
        self._db.insert("batches", {"name": batch.name, "roster": roster})
        for place, student in enumerate(batch.students):
            curriculum, config, seed = identity(student)
            row = {"name": student.name, "batch": batch.name, "place": place}
            self._db.insert("students", row | {"curriculum": curriculum, "config": config, "seed": seed})
        return batch

    def _unfinished(self, batch: str, given: Mapping[str, StudentSpec]) -> Batch | None:
        kept = self._db.named_row("batches", batch)
        if kept["done"]:
            return None
        with self._db.transaction():
            self._db.change("batches", {"name": batch}, {"abandoned": None})
        roster = json.loads(kept["roster"])
        students = (given.get(name) or to_spec(self._db.named_row("students", name)) for name in roster)
        return Batch(name=batch, students=tuple(students))

    def spec(self, name: str) -> StudentSpec | None:
        """A student that has been enrolled; None where there is none of that name."""
        rows = self._db.named_rows("students", {"name": check_text("The name of a student", name)})
        return to_spec(rows[0]) if rows else None

    def checkpoint(self, batch: Batch) -> Checkpoint | None:
        noted = self._db.named_row("batches", batch.name)
        units = noted["units"]
        if not units:
            return None
        kept = [self._at_checkpoint(batch, student.name, units) for student in batch.students]
        return Checkpoint(
            unit=units,
            weights=self._weights.load(file_name(batch.name, units), noted["weights_checksum"]),
            records=tuple(one if isinstance(one, UnitRecord) else None for one in kept),
            errors=tuple(one if isinstance(one, Breakdown) else None for one in kept),
        )

    def _at_checkpoint(self, batch: Batch, student: str, units: int) -> UnitRecord | Breakdown:
        row = self._db.named_row("students", student)
        if row["batch"] != batch.name:
            return Breakdown("is taught again in a later batch", 0)
        if row["error"] is not None:
            return Breakdown(row["error"], row["failures_when_broken"])
        ((stage,),) = self._db.rows("SELECT stage FROM units WHERE student = ? AND unit = ?", (student, units))
        return UnitRecord(self.transcript(student).units[-1], json.loads(stage))

    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None:
        with self._db.transaction():
            checksum = self._weights.save(file_name(batch.name, checkpoint.unit), checkpoint.weights)
            previous = self._db.named_row("batches", batch.name)["units"]
            now = {"units": checkpoint.unit, "weights_checksum": checksum}
            self._db.change("batches", {"name": batch.name}, now)
            at_home = self._at_home(batch)
            for student, record in zip(batch.students, checkpoint.records, strict=True):
                if record is not None and student.name in at_home:
                    self._db.insert("units", from_unit(student.name, record))
                    if record.log.driven:
                        drive = {"student": student.name, "unit": checkpoint.unit, "steps": record.log.driven}
                        self._db.insert("drives", drive)
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
        return {
            student.name
            for student in batch.students
            if self._db.row("SELECT 1 FROM students WHERE name = ? AND batch = ?", (student.name, batch.name))
        }

    def _keep_errors(self, batch: Batch, errors: Sequence[Breakdown | None]) -> None:
        for student, error in zip(batch.students, errors, strict=True):
            if error is not None:
                broken = {"error": error.message, "failures_when_broken": error.failures}
                self._db.change("students", {"name": student.name, "batch": batch.name}, broken)

    def transcript(self, name: str) -> Transcript:
        row = self._db.row(
            "SELECT curriculum, config, seed, deployment, error, failures_when_broken, abandoned "
            "FROM students JOIN batches ON batch = batches.name WHERE students.name = ?",
            (check_text("The name of a student", name),),
        )
        if row is None:
            raise StoreError(f"{self} has no student '{name}': see its students for the names.")
        curriculum, config, seed, deployment, error, failures, abandoned = row
        if error is None and abandoned is not None:
            error = f"Student '{name}': {abandoned}"
        units = self._db.named_rows("units", {"student": name})
        driven = {row["unit"]: row["steps"] for row in self._db.named_rows("drives", {"student": name})}
        return Transcript(
            name=name,
            curriculum=json.loads(curriculum),
            config=student_from_json(json.loads(config)),
            seed=seed,
            units=tuple(to_unit(row, driven.get(row["unit"], 0)) for row in units),
            deployment=to_deployment(deployment),
            error=error,
            failures_when_broken=0 if error is None else failures,
            fresh_starts=units_begun_anew(units),
        )

    def transcripts(self, prefix: str = "") -> list[Transcript]:
        """All students whose name starts with the prefix, by name."""
        check_text("The beginning of students' names", prefix)
        after = prefix + LAST if prefix else b""  # all bytes come behind all texts
        names = self._db.rows("SELECT name FROM students WHERE name >= ? AND name < ? ORDER BY name", (prefix, after))
        return [self.transcript(name) for (name,) in names]

    def marks(self) -> dict[str, tuple[Any, ...]]:
        """By student, in the order of `transcripts`, what changes whenever its transcript does."""
        rows = self._db.rows(
            "SELECT students.name, students.checksum, abandoned, n, last FROM students "
            "JOIN batches ON batch = batches.name LEFT JOIN "
            "(SELECT student, count(*) AS n, max(unit), checksum AS last FROM units GROUP BY student) "
            "ON student = students.name ORDER BY students.name"
        )
        return {name: tuple(mark) for name, *mark in rows}

    def weights(self, name: str) -> dict[str, Any]:
        """The arrays of one student's learner, as of its last finished unit."""
        row = self._db.row(
            "SELECT batch, place, units, weights_checksum FROM students JOIN batches ON batch = batches.name "
            "WHERE students.name = ? AND units > 0",
            (check_text("The name of a student", name),),
        )
        if row is None:
            raise StoreError(f"{self} has no weights of a student '{name}': see its students for the names.")
        batch, place, units, checksum = row
        with making_sense_of(f"{self} with its weights"):
            return {key: array[place] for key, array in self._weights.load(file_name(batch, units), checksum).items()}


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
