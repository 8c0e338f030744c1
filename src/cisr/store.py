"""The store: one SQLite file for a study and its comparisons, weights beside it.

What it promises: a finished unit is on disk before the next begins; a crash, a kill or a full disk loses at most the
unit in progress; nothing is pickled. A batch's weights are one safetensors file, written aside, renamed into place and
named in the same SQLite transaction as its units, so database and weights never disagree. One process writes at a time.
Rows are keyed by names, not by order of arrival: the same work gives the same store, cell by cell, apart from times.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from cisr.classroom import Batch, Checkpoint, Deployment, Enrolment, Graduation, Transcript, UnitLog, UnitRecord
from cisr.curricula import Parameters, policy_from_json
from cisr.errors import StoreError
from cisr.students.config import StudentConfig

FORMAT = 1

SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
    name TEXT PRIMARY KEY, units INTEGER NOT NULL DEFAULT 0, weights TEXT, done INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE students (
    name TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES batches, place INTEGER NOT NULL,
    curriculum TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL,
    deployment TEXT, error TEXT
) WITHOUT ROWID;
CREATE TABLE units (
    student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, intervention TEXT NOT NULL,
    steps INTEGER NOT NULL, episodes INTEGER NOT NULL, mean_return REAL NOT NULL, success REAL NOT NULL,
    violation REAL NOT NULL, rescues INTEGER NOT NULL, failures INTEGER NOT NULL,
    multipliers TEXT NOT NULL, deployment TEXT, stage TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (student, unit)
) WITHOUT ROWID;
CREATE TABLE rounds (
    study TEXT NOT NULL, round INTEGER NOT NULL, parameters TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0,
    score REAL, sem REAL, model TEXT NOT NULL,
    PRIMARY KEY (study, round)
) WITHOUT ROWID;
CREATE TABLE findings (study TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
"""


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
        self._lock: int | None = None
        self._folder = None if self.path is None else self.path.with_name(self.path.name + ".weights")
        self._in_memory: dict[str, dict[str, Any]] = {}
        with self._guard():
            if read_only:
                address = self._address_to_read()
                self._check_header()
            elif self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._check_header()
                self._take_lock()
            self._db = sqlite3.connect(
                address if read_only else self.path or ":memory:", uri=read_only, isolation_level=None
            )
            try:
                self._open_to_read() if read_only else self._open()
            except BaseException:
                self.close()
                raise

    def _open(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA foreign_keys=ON")
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if not tables:
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO settings VALUES ('format', ?)", (str(FORMAT),))
        self._check_format()
        if (
            self._folder is not None and self._folder.exists()
        ):  # what a crash left between writing weights and naming them
            named = {row[0] for row in self._db.execute("SELECT weights FROM batches")}
            for file in self._folder.iterdir():
                if file.name not in named:
                    file.unlink()

    def _open_to_read(self) -> None:
        self._db.execute("BEGIN")  # all that is read belongs to one moment
        self._check_format()

    def _address_to_read(self) -> str:
        if self.path is None or not self.path.is_file():
            raise StoreError(f"There is no store {self.path}: give a file that `cisr train` or `compare` has made.")
        # Without a log beside it nobody writes; in a folder that cannot be written SQLite must be told not to try.
        log = self.path.with_name(self.path.name + "-wal")
        settled = not log.exists() and not os.access(self.path.parent, os.W_OK)
        return self.path.resolve().as_uri() + ("?immutable=1" if settled else "?mode=ro")

    def _check_format(self) -> None:
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if not {"settings", "students", "units"} <= tables:
            raise StoreError(_not_a_store(self.path))
        found = self._db.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
        if int(found[0]) > FORMAT:
            raise StoreError(
                f"{self} was made by a newer version of cisr (format {found[0]}, this one reads {FORMAT}): update cisr."
            )

    def __str__(self) -> str:
        return f"The store {self.path}" if self.path else "The store"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def settle(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Record settings on first use; complain if they have been recorded with other values. Returns all settings."""
        with self._guard(), self._transaction():
            for name, value in settings.items():
                text = json.dumps(value, sort_keys=True)
                self._db.execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (name, text))
                (kept,) = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
                if kept != text:
                    raise StoreError(
                        f"{self} was made with {name} {_short(kept)}, this run has {_short(text)}: "
                        f"give another store, or the same {name}."
                    )
        return self.settings()

    def settings(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self._db.execute("SELECT * FROM settings")}

    # The classroom's register

    def enrol(self, enrolments: Sequence[Enrolment], group: Callable[[list[Enrolment]], list[Batch]]) -> list[Batch]:
        known = {enrolment.name: self._known(enrolment) for enrolment in enrolments}
        new = group([enrolment for enrolment in enrolments if known[enrolment.name] is None])
        with self._guard(), self._transaction():
            for batch in new:
                self._db.execute("INSERT INTO batches (name) VALUES (?)", (batch.name,))
                for place, student in enumerate(batch.enrolments):
                    self._db.execute(
                        "INSERT INTO students (name, batch, place, curriculum, config, seed) VALUES (?, ?, ?, ?, ?, ?)",
                        (student.name, batch.name, place, *_identity(student)),
                    )
        given = {enrolment.name: enrolment for enrolment in enrolments}
        wanted = list(dict.fromkeys(name for name in known.values() if name is not None))
        return [unfinished for name in wanted if (unfinished := self._unfinished(name, given))] + new

    def _known(self, enrolment: Enrolment) -> str | None:
        """The batch of a student that has been enrolled before."""
        row = self._db.execute(
            "SELECT batch, curriculum, config, seed FROM students WHERE name = ?", (enrolment.name,)
        ).fetchone()
        if row is None:
            return None
        for what, kept, given in zip(("curriculum", "settings", "seed"), row[1:], _identity(enrolment), strict=True):
            if kept != given:
                raise StoreError(
                    f"{self} holds student '{enrolment.name}' with another {what} ({_short(str(kept))}; now "
                    f"{_short(str(given))}): give another store."
                )
        return str(row[0])

    def _unfinished(self, batch: str, given: Mapping[str, Enrolment]) -> Batch | None:
        (done,) = self._db.execute("SELECT done FROM batches WHERE name = ?", (batch,)).fetchone()
        if done:
            return None
        rows = self._db.execute(
            "SELECT name, curriculum, config, seed FROM students WHERE batch = ? ORDER BY place", (batch,)
        )
        return Batch(name=batch, enrolments=tuple(given.get(row[0]) or _enrolment(*row) for row in rows))

    def checkpoint(self, batch: Batch) -> Checkpoint | None:
        units, weights = self._db.execute("SELECT units, weights FROM batches WHERE name = ?", (batch.name,)).fetchone()
        if not units:
            return None
        transcripts = [self.transcript(student.name) for student in batch.enrolments]
        stages = [
            self._db.execute("SELECT stage FROM units WHERE student = ? AND unit = ?", (t.name, units)).fetchone()
            for t in transcripts
        ]
        return Checkpoint(
            unit=units,
            weights=self._load_weights(weights),
            records=tuple(
                UnitRecord(t.units[-1], json.loads(stage[0])) if t.error is None else None
                for t, stage in zip(transcripts, stages, strict=True)
            ),
            errors=tuple(t.error for t in transcripts),
        )

    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None:
        with self._guard():
            file = self._save_weights(f"{_digest(batch.name)}-{checkpoint.unit}.safetensors", checkpoint.weights)
            (previous,) = self._db.execute("SELECT weights FROM batches WHERE name = ?", (batch.name,)).fetchone()
            with self._transaction():
                self._db.execute(
                    "UPDATE batches SET units = ?, weights = ? WHERE name = ?", (checkpoint.unit, file, batch.name)
                )
                for student, record in zip(batch.enrolments, checkpoint.records, strict=True):
                    if record is not None:
                        self._insert_unit(student.name, record)
                self._keep_errors(batch, checkpoint.errors)
            self._drop_weights(previous)

    def keep_graduation(self, batch: Batch, graduation: Graduation) -> None:
        with self._guard(), self._transaction():
            self._db.execute("UPDATE batches SET done = 1 WHERE name = ?", (batch.name,))
            for student, deployment in zip(batch.enrolments, graduation.deployments, strict=True):
                if deployment is not None:
                    self._db.execute(
                        "UPDATE students SET deployment = ? WHERE name = ?", (_json(asdict(deployment)), student.name)
                    )
            self._keep_errors(batch, graduation.errors)

    def transcript(self, name: str) -> Transcript:
        curriculum, config, seed, deployment, error = self._db.execute(
            "SELECT curriculum, config, seed, deployment, error FROM students WHERE name = ?", (name,)
        ).fetchone()
        cursor = self._db.execute("SELECT * FROM units WHERE student = ? ORDER BY unit", (name,))
        columns = [column[0] for column in cursor.description]
        return Transcript(
            name=name,
            curriculum=json.loads(curriculum),
            config=StudentConfig.from_json(json.loads(config)),
            seed=seed,
            units=tuple(_unit(dict(zip(columns, row, strict=True))) for row in cursor),
            deployment=_deployment(deployment),
            error=error,
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
        return {key: array[row[1]] for key, array in self._load_weights(row[0]).items()}

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
        with self._guard(), self._transaction():
            self._db.execute(
                "INSERT INTO rounds (study, round, parameters, model) VALUES (?, ?, ?, ?)",
                (study, number, _json(parameters), _json(model)),
            )

    def tell(self, study: str, number: int, score: float | None, sem: float | None) -> None:
        with self._guard(), self._transaction():
            self._db.execute(
                "UPDATE rounds SET told = 1, score = ?, sem = ? WHERE study = ? AND round = ?",
                (score, sem, study, number),
            )

    def keep_findings(self, study: str, found: Mapping[str, Any]) -> None:
        """What a finished study found: its best policy and what its teacher's model looks like."""
        with self._guard(), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO findings VALUES (?, ?)", (study, _json(found)))

    def findings(self) -> dict[str, dict[str, Any]]:
        """What each finished study found, by its name."""
        return {study: json.loads(found) for study, found in self._db.execute("SELECT * FROM findings ORDER BY study")}

    # Inside

    def _insert_unit(self, student: str, record: UnitRecord) -> None:
        fields = asdict(record.log)
        fields |= {
            "multipliers": _json(fields["multipliers"]),
            "deployment": None if fields["deployment"] is None else _json(fields["deployment"]),
            "stage": _json(record.stage),
            "student": student,
        }
        names = ", ".join(fields)
        self._db.execute(f"INSERT INTO units ({names}) VALUES ({', '.join('?' * len(fields))})", list(fields.values()))

    def _keep_errors(self, batch: Batch, errors: Sequence[str | None]) -> None:
        for student, error in zip(batch.enrolments, errors, strict=True):
            if error is not None:
                self._db.execute("UPDATE students SET error = ? WHERE name = ?", (error, student.name))

    def _save_weights(self, name: str, arrays: Mapping[str, Any]) -> str:
        from safetensors.numpy import save

        if self._folder is None:
            self._in_memory[name] = dict(arrays)
            return name
        self._folder.mkdir(exist_ok=True)
        aside = self._folder / (name + ".new")
        with open(aside, "wb") as file:
            file.write(save(dict(arrays)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._folder / name)
        return name

    def _load_weights(self, name: str) -> dict[str, Any]:
        from safetensors.numpy import load_file

        if self._folder is None:
            return self._in_memory[name]
        try:
            return dict(load_file(self._folder / name))
        except OSError as error:
            raise StoreError(f"{self} lacks its weights {self._folder / name}: {error}.") from error

    def _drop_weights(self, name: str | None) -> None:
        if name is None:
            return
        if self._folder is None:
            del self._in_memory[name]
        else:
            (self._folder / name).unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what the disk or SQLite says into one line."""
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if self.read_only:
                raise StoreError(f"Cannot read {self.path}: {error}.") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise StoreError(f"Cannot write {self.path}: {error}. {_KEPT}") from error
            raise StoreError(
                f"Cannot write {error.filename or self.path}: {error.strerror or error}. {_KEPT}"
            ) from error

    def _check_header(self) -> None:
        assert self.path is not None
        if self.path.exists():
            with open(self.path, "rb") as file:
                header = file.read(len(SQLITE_HEADER))
            if header not in (b"", SQLITE_HEADER):
                raise StoreError(_not_a_store(self.path))

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            return
        assert self.path is not None
        self._lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{self} is in use by another process: wait for it, or give another path.") from error


@contextmanager
def opened(store: Store | Path | str | None) -> Iterator[Store]:
    """A store that was given stays open; one that is opened here is closed again."""
    if isinstance(store, Store):
        yield store
    else:
        with Store(store) as own:
            yield own


SQLITE_HEADER = b"SQLite format 3\0"


def _not_a_store(path: Path | None) -> str:
    return f"{path} is not a store of cisr: give another path."


_KEPT = "Finished units are kept: mend this and run the same command again."


def _identity(enrolment: Enrolment) -> tuple[str, str, int]:
    return _json(enrolment.policy.to_json()), _json(enrolment.config.to_json()), enrolment.seed


def _enrolment(name: str, curriculum: str, config: str, seed: int) -> Enrolment:
    return Enrolment(
        name=name,
        policy=policy_from_json(json.loads(curriculum)),
        config=StudentConfig.from_json(json.loads(config)),
        seed=seed,
    )


def _unit(row: dict[str, Any]) -> UnitLog:
    del row["student"], row["stage"]
    multipliers = tuple(json.loads(row["multipliers"]))
    return UnitLog(**{**row, "multipliers": multipliers, "deployment": _deployment(row["deployment"])})


def _deployment(text: str | None) -> Deployment | None:
    if text is None:
        return None
    fields = json.loads(text)
    visits = None if fields.get("visits") is None else tuple(fields["visits"])
    return Deployment(**{**fields, "visits": visits})


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
