"""The database of a store: a SQLite file that one process writes at a time and others may read meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from cisr.errors import StoreError

FORMAT = 3

SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
    name TEXT PRIMARY KEY, units INTEGER NOT NULL DEFAULT 0, weights TEXT, done INTEGER NOT NULL DEFAULT 0,
    roster TEXT NOT NULL DEFAULT '[]', abandoned TEXT
) WITHOUT ROWID;
CREATE TABLE students (
    name TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES batches, place INTEGER NOT NULL,
    curriculum TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL,
    deployment TEXT, error TEXT, failures_when_broken INTEGER
) WITHOUT ROWID;
CREATE TABLE units (
    student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, intervention TEXT NOT NULL,
    steps INTEGER NOT NULL, episodes INTEGER NOT NULL, mean_return REAL NOT NULL, success REAL NOT NULL,
    violation REAL NOT NULL, rescues INTEGER NOT NULL, failures INTEGER NOT NULL,
    multipliers TEXT NOT NULL, deployment TEXT, stage TEXT NOT NULL, seconds REAL NOT NULL, evaluation TEXT,
    PRIMARY KEY (student, unit)
) WITHOUT ROWID;
CREATE TABLE rounds (
    study TEXT NOT NULL, round INTEGER NOT NULL, parameters TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0,
    score REAL, sem REAL, model TEXT NOT NULL,
    PRIMARY KEY (study, round)
) WITHOUT ROWID;
CREATE TABLE findings (study TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
"""

_GREEDY = """json(CASE (
    SELECT json_extract(value, '$.deterministic_deployment') FROM settings WHERE name = 'definition'
) WHEN 1 THEN 'true' ELSE 'false' END)"""
"""Whether students act greedily once deployed, as format 2 has it: among the numbers of their task."""

MIGRATIONS = {
    1: """
ALTER TABLE batches ADD COLUMN roster TEXT NOT NULL DEFAULT '[]';
ALTER TABLE batches ADD COLUMN abandoned TEXT;
ALTER TABLE students ADD COLUMN failures_when_broken INTEGER;
UPDATE batches SET roster = (
    SELECT json_group_array(name) FROM (SELECT name FROM students WHERE batch = batches.name ORDER BY place)
);
""",
    2: f"""
ALTER TABLE units ADD COLUMN evaluation TEXT;
UPDATE students SET config = json_set(config, '$.deterministic', {_GREEDY}, '$.n_candidates', 1);
UPDATE settings SET value = json_set(value, '$.deterministic', {_GREEDY}, '$.n_candidates', 1)
    WHERE name = 'student settings' AND json_type(value, '$.base') IS NULL;
UPDATE settings SET value = json_set(value, '$.base.deterministic', {_GREEDY}, '$.base.n_candidates', 1)
    WHERE name = 'student settings' AND json_type(value, '$.base') IS NOT NULL;
UPDATE settings SET value = json_remove(value, '$.deterministic_deployment') WHERE name = 'definition';
""",
}
"""From each earlier format to the next."""

SQLITE_HEADER = b"SQLite format 3\0"
KEPT = "Finished units are kept: mend this and run the same command again."


class Database:
    """Open or make it; without a path it lives in memory. To read takes no lock and changes nothing."""

    def __init__(self, path: Path | None, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._held = ExitStack()  # the lock and the connection, to let go in the opposite order
        with self.guard():
            try:
                if read_only:
                    address = self._address_to_read()
                    self._check_header()
                elif path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._check_header()
                    self._take_lock()
                self._connection = sqlite3.connect(
                    address if read_only else path or ":memory:", uri=read_only, isolation_level=None
                )
                self._held.callback(self._connection.close)
                self._begin_to_read() if read_only else self._begin_to_write()
            except BaseException:
                self.close()
                raise

    def __str__(self) -> str:
        return f"The store {self._path}" if self._path else "The store"

    def close(self) -> None:
        self._held.close()

    def copy_to(self, path: Path) -> None:
        """The whole database as another file."""
        with self.guard(), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is kept together, or none of it."""
        with self.guard():
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn what the disk or SQLite says into one line."""
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if self._read_only:
                raise StoreError(f"Cannot read {self._path}: {error}.") from error
            if isinstance(error, sqlite3.DatabaseError):
                raise StoreError(f"Cannot write {self._path}: {error}. {KEPT}") from error
            raise StoreError(
                f"Cannot write {error.filename or self._path}: {error.strerror or error}. {KEPT}"
            ) from error

    def _begin_to_write(self) -> None:
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")
        self.execute("PRAGMA foreign_keys=ON")
        if not self._tables():
            with self.transaction():
                for statement in SCHEMA.split(";"):
                    self.execute(statement)
                self.execute("INSERT INTO settings VALUES ('format', ?)", (str(FORMAT),))
        self._migrate(self._format())

    def _begin_to_read(self) -> None:
        self.execute("BEGIN")  # all that is read belongs to one moment
        found = self._format()
        if found < FORMAT:  # a reader changes nothing: what it reads is a copy
            self.execute("ROLLBACK")
            file, self._connection = self._connection, sqlite3.connect(":memory:", isolation_level=None)
            self._held.callback(self._connection.close)
            file.backup(self._connection)
            self._migrate(found)

    def _migrate(self, found: int) -> None:
        for number in range(found, FORMAT):
            with self.transaction():
                for statement in MIGRATIONS[number].split(";"):
                    self.execute(statement)
                self.execute("UPDATE settings SET value = ? WHERE name = 'format'", (str(number + 1),))

    def _address_to_read(self) -> str:
        if self._path is None or not self._path.is_file():
            raise StoreError(f"There is no store {self._path}: give a file that `cisr train` or `compare` has made.")
        # Without a log beside it nobody writes; in a folder that cannot be written SQLite must be told not to try.
        log = self._path.with_name(self._path.name + "-wal")
        settled = not log.exists() and not os.access(self._path.parent, os.W_OK)
        return self._path.resolve().as_uri() + ("?immutable=1" if settled else "?mode=ro")

    def _check_header(self) -> None:
        assert self._path is not None
        if self._path.exists():
            with open(self._path, "rb") as file:
                header = file.read(len(SQLITE_HEADER))
            if header not in (b"", SQLITE_HEADER):
                raise StoreError(self._not_a_store())

    def _format(self) -> int:
        if not {"settings", "students", "units"} <= self._tables():
            raise StoreError(self._not_a_store())
        found = int(self.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()[0])
        if found > FORMAT:
            raise StoreError(
                f"{self} was made by a newer version of cisr (format {found}, this one reads {FORMAT}): update cisr."
            )
        return found

    def _tables(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master")}

    def _not_a_store(self) -> str:
        return f"{self._path} is not a store of cisr: give another path."

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such locks on this system
            return
        assert self._path is not None
        lock = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        self._held.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{self} is in use by another process: wait for it, or give another path.") from error
