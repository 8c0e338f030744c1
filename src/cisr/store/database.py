"""The database of a store: a SQLite file that one process writes at a time and others may read meanwhile.

Rows are written by `insert`, `change` and `remove`, which keep checksums; a file is read as a whole when it is opened,
and refused if a row, a table or a page is not what was written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from cisr.core.errors import StoreError
from cisr.store.checksums import BROKEN, DamagedStore, checksum, condition, counted, damage, one_line
from cisr.store.place import Lock, beside, check_no_journal, tidy_up
from cisr.store.schema import FORMAT, SCHEMA, TABLES, columns_of, migrate, tables_of

SQLITE_HEADER = b"SQLite format 3\0"
LONGEST_WAIT = 5.0
"""Seconds that a reader waits for a program that lets nobody read; ours does not."""
KEPT = "Finished units are kept: mend this and run the same command again."


class StoreInUse(StoreError):  # noqa: N818
    """A store that another process is writing."""


class Database:
    """Open or make it; without a path it lives in memory. To read takes no lock and changes no row.

    `trusting` reads a damaged one too, so that one can say what is wrong with it.
    """

    def __init__(self, path: Path | None, *, read_only: bool, trusting: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self.format_found = FORMAT
        """That of the file, before it was migrated."""
        self.made = False
        """Whether there was none before."""
        self.unwanted = False
        """Whether its file is to go when it is closed."""
        self._held = ExitStack()  # the lock and the connection, to let go in the opposite order
        with self.guard("read" if read_only else "write"):
            try:
                self._open(trusting)
            except BaseException:
                self.close()
                raise

    def __str__(self) -> str:
        return f"The store {self._path}" if self._path else "The store"

    def close(self) -> None:
        self._held.close()

    # Reading and writing

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.guard("read"):
            return self.execute(statement, values).fetchall()

    def row(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = self.rows(statement, values)
        return found[0] if found else None

    def named_rows(self, table: str, where: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Whole rows by column, in the order of their keys; their checksums are left out."""
        names = columns_of(table).names
        which, values = condition(where or {})
        found = self.rows(f"SELECT {', '.join(names)} FROM {table} WHERE {which}", values)
        return [dict(zip(names, row, strict=True)) for row in found]

    def named_row(self, table: str, name: str) -> dict[str, Any]:
        """The row of that name, which must be there."""
        (found,) = self.named_rows(table, {"name": name})
        return found

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        """A new row, or one in the place of another with the same key."""
        key = {name: row[name] for name in columns_of(table).key}
        with counted(self.execute, table, key):
            marks = ", ".join("?" * len(row))
            self.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])

    def change(self, table: str, where: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        """Where says which rows; none of the columns that it names may be changed."""
        which, values = condition(where)
        with counted(self.execute, table, where):
            setting = ", ".join(f"{name} = ?" for name in changes)
            self.execute(f"UPDATE {table} SET {setting} WHERE {which}", [*changes.values(), *values])

    def remove(self, table: str, where: Mapping[str, Any]) -> None:
        which, values = condition(where)
        with counted(self.execute, table, where):
            self.execute(f"DELETE FROM {table} WHERE {which}", values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is kept together, or none of it."""
        with self.guard("write"):
            self._check_still_there()
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._check_still_there()
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self.execute("ROLLBACK")
                raise

    def copy_to(self, path: Path) -> None:
        """The whole database as another file."""
        with self.guard("write"), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    @contextmanager
    def guard(self, doing: str) -> Iterator[None]:
        """Turn what the disk or SQLite says while one is to `read` or to `write` into one line."""
        try:
            yield
        except (*BROKEN, OSError) as error:
            raise self._in_words(error, "read" if self._read_only else doing) from error

    def damage(self) -> Iterator[str]:
        """Whatever in the database is not what was written, from the coarse to the fine, in words."""
        return damage(self.execute)

    # Opening

    def _open(self, trusting: bool) -> None:
        if self._path is None:
            self._connect(":memory:")
            self._make()
        elif self._read_only:
            self._open_to_read(self._path, trusting)
        else:
            self._open_to_write(self._path)

    def _check(self) -> None:
        if (found := next(self.damage(), None)) is not None:
            raise self.damaged(found)

    def _open_to_write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._check_header(path)
        lock = Lock(path)
        if not lock.take():
            raise StoreInUse(f"{self} is in use by another process: wait for it, or give another path.")
        self._held.callback(lock.release)
        check_no_journal(path)
        self.made = not path.exists()
        self._held.callback(self._remove_if_unwanted, path)
        self._connect(str(path.absolute()))
        self._file = os.stat(path)
        found = self._format()
        if self.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            self.execute("PRAGMA journal_mode=MEMORY")  # a kill while a file gets its first page leaves no journal
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")
        self.execute("PRAGMA wal_autocheckpoint=1")  # whatever becomes of the log, the file has all that was finished
        self.execute("PRAGMA foreign_keys=ON")
        if found is None:
            self._make()
        else:
            migrate(self, found)
        self._check()

    def _open_to_read(self, path: Path, trusting: bool) -> None:
        """What is read is a copy in memory: of one moment, whatever is written meanwhile, and nobody has to wait."""
        if not path.is_file():
            raise StoreError(f"There is no store {path}: give a file that `cisr train` or `compare` has made.")
        self._check_header(path)
        check_no_journal(path)
        # Without a log beside it nobody writes; in a folder that cannot be written SQLite must be told not to try.
        logged = beside(path, "-wal").exists()
        unwritable = not logged and not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK))
        worth_tidying = not unwritable and not logged  # the log of a store that turns out to be damaged is left alone
        self._connect(":memory:")
        try:
            try:
                self._copy_from(path, immutable=unwritable)
            except sqlite3.OperationalError:  # on a full disk there is no room for what SQLite keeps beside a file
                if logged or unwritable:
                    raise
                self._copy_from(path, immutable=True)
            found = self._format()
            if found is None:
                raise StoreError(self._not_a_store())
            migrate(self, found)
            if not trusting:
                self._check()
            self.execute("PRAGMA query_only=ON")
            worth_tidying |= not unwritable and not trusting
        finally:
            if worth_tidying:
                tidy_up(path)

    def _copy_from(self, path: Path, *, immutable: bool) -> None:
        address = path.resolve().as_uri() + ("?immutable=1" if immutable else "?mode=ro")
        end = time.monotonic() + LONGEST_WAIT

        def wait(status: int, remaining: int, total: int) -> None:
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
                raise StoreError(f"{self} is locked by another program: wait for it, or end it.")

        with closing(sqlite3.connect(address, uri=True, timeout=LONGEST_WAIT / 10)) as file:
            file.backup(self._connection, progress=wait)

    def _connect(self, address: str) -> None:
        self._connection = sqlite3.connect(address, isolation_level=None)
        self._held.callback(self._connection.close)
        self._connection.create_function("checksum", -1, checksum, deterministic=True)
        self.execute("PRAGMA trusted_schema=OFF")  # a store may come from anywhere

    def _make(self) -> None:
        with self.transaction():
            self.make_tables()
            self.insert("settings", {"name": "format", "value": str(FORMAT)})

    def make_tables(self) -> None:
        self.execute(SCHEMA["totals"])
        for table in TABLES:
            self.make_table(table)

    def make_table(self, table: str) -> None:
        self.execute(SCHEMA[table])
        self.execute("INSERT INTO totals VALUES (?, 0, 0)", (table,))

    def _format(self) -> int | None:
        """Which format a store has; None of an empty file, which has none yet."""
        kinds = {name: kind for kind, name in self.execute("SELECT type, name FROM sqlite_master")}
        if not kinds and self.execute("PRAGMA page_count").fetchone()[0] <= 1:
            return None
        if not {"settings", "students", "units"} <= set(kinds):
            raise StoreError(self._not_a_store())
        row = self.execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
        if row is None or not str(row[0]).isdecimal() or not int(row[0]):
            raise self.damaged("it does not say of which format it is")
        found = self.format_found = int(row[0])
        if found > FORMAT:
            raise StoreError(
                f"{self} was made by a newer version of cisr (format {found}, this one reads {FORMAT}): update cisr."
            )
        if found < FORMAT and kinds != dict.fromkeys(tables_of(found), "table"):
            raise self.damaged("it does not have the tables of its format")
        return found

    def _check_header(self, path: Path) -> None:
        if path.exists():
            with open(path, "rb") as file:
                header = file.read(len(SQLITE_HEADER))
            if header not in (b"", SQLITE_HEADER):
                raise StoreError(self._not_a_store())

    def _check_still_there(self) -> None:
        """Else one would write into a file that nobody can find any more."""
        if self._path is None or self._read_only:
            return
        try:
            there = os.path.samestat(os.stat(self._path), self._file)
        except FileNotFoundError:
            there = False
        if not there:
            raise StoreError(
                f"{self} was removed or replaced while it was in use, and nothing more is written to it: put it back, "
                f"or give another path."
            )

    def _remove_if_unwanted(self, path: Path) -> None:
        """After the connection is closed and before others may have the file."""
        with suppress(OSError):  # then it stays, and does no harm
            if self.unwanted and os.path.samestat(os.stat(path), self._file):
                path.unlink()

    def damaged(self, what: str) -> DamagedStore:
        return DamagedStore(self, self._path, what)

    def _not_a_store(self) -> str:
        return f"{self._path} is not a store of cisr: give another path."

    # Inside

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _in_words(self, error: Exception, doing: str) -> StoreError:
        if isinstance(error, UnicodeDecodeError):
            return self.damaged(f"it holds text that is none ({error.reason})")
        if isinstance(error, sqlite3.DatabaseError):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                return self.damaged(one_line(error))
            said = f"Cannot {doing} {self._path}: {one_line(error)}."
        else:
            assert isinstance(error, OSError)
            said = f"Cannot {doing} {error.filename or self._path}: {error.strerror or error}."
        return StoreError(said if doing == "read" else f"{said} {KEPT}")
