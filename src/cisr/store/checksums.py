"""Checksums of rows and of whole tables: how a database notices that it is not what was written."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from cisr.core.errors import StoreError
from cisr.store.schema import SCHEMA, TABLES, TIMES, columns_of

LARGEST_SUM = 2**62
BROKEN = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises of a file; it quotes what is broken there, and Python cannot always read that."""


class DamagedStore(StoreError):  # noqa: N818 (an error in name enough)
    """A store that is not what was written."""

    def __init__(self, store: object, path: Path | None, what: str) -> None:
        super().__init__(f"{store} is damaged: {what}. `cisr check {path}` says what can be done.")
        self.what = what


class Execute(Protocol):
    def __call__(self, statement: str, values: Any = (), /) -> sqlite3.Cursor: ...


def damage(execute: Execute) -> Iterator[str]:
    """Whatever in the database is not what was written, from the coarse to the fine, in words."""
    try:
        pages = [found for (found,) in execute("PRAGMA quick_check(1)")]
        if pages != ["ok"]:
            yield f"its pages do not fit together ({pages[0].splitlines()[-1]})"
            return
        found = dict(execute("SELECT name, sql FROM sqlite_master"))
        if found != SCHEMA:
            odd = sorted({name for name in (*found, *SCHEMA) if found.get(name) != SCHEMA.get(name)})
            yield f"its tables are not those of a store ({', '.join(map(repr, odd))})"
            return
        totals = {name: (n, total) for name, n, total in execute("SELECT * FROM totals")}
    except BROKEN as error:
        yield f"its pages cannot be read ({one_line(error)})"
        return
    for table in TABLES:
        try:
            yield from _damaged_rows(execute, table, totals.get(table))
        except BROKEN as error:
            yield f"table {table} cannot be read ({one_line(error)})"


def _damaged_rows(execute: Execute, table: str, expected: tuple[int, int] | None) -> Iterator[str]:
    n_rows, total = 0, 0
    statement = f"SELECT checksum, {row_checksum(table)}, {', '.join(columns_of(table).key)} FROM {table}"
    for kept, found, *key in execute(statement).fetchall():
        n_rows += 1
        total = (total + found) % LARGEST_SUM
        if kept != found:
            yield f"a row of {table} has changed ({', '.join(map(repr, key))})"
    if expected != (n_rows, total):
        wanted = "none" if expected is None else expected[0]
        yield f"table {table} has {n_rows} rows, which do not add up to the {wanted} written"


@contextmanager
def counted(execute: Execute, table: str, where: Mapping[str, Any]) -> Iterator[None]:
    """Around a change of the rows where something holds: they get their checksums, and their table its total."""
    which, values = condition(where)
    statement = f"SELECT checksum FROM {table} WHERE {which}"
    before = [checksum for (checksum,) in execute(statement, values)]
    yield
    execute(f"UPDATE {table} SET checksum = {row_checksum(table)} WHERE {which}", values)
    after = [checksum for (checksum,) in execute(statement, values)]
    ((n_rows, total),) = execute("SELECT n_rows, checksum FROM totals WHERE name = ?", (table,))
    sums = (n_rows + len(after) - len(before), (total + sum(after) - sum(before)) % LARGEST_SUM)
    execute("UPDATE totals SET n_rows = ?, checksum = ? WHERE name = ?", (*sums, table))


def one_line(error: Exception) -> str:
    """SQLite quotes what it finds, line breaks and all."""
    return " ".join(str(error).split())


def row_checksum(table: str) -> str:
    """In SQL."""
    columns = (f"typeof({name})" if name == TIMES else name for name in columns_of(table).names)
    return f"checksum('{table}', {', '.join(columns)})"


def checksum(*values: Any) -> int:
    digest = hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % LARGEST_SUM


def condition(where: Mapping[str, Any]) -> tuple[str, list[Any]]:
    return " AND ".join(f"{name} = ?" for name in where) or "true", [*where.values()]
