"""Stores and their parts, which no output of any command replaces.

A store is a database with its log, lock, journal and folder of weights beside it. Whoever writes a file that a user has
named asks here first: `check_no_store`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from cisr.core.errors import ConfigError

BESIDE_A_STORE = (".weights", ".lock", "-wal", "-shm", "-journal")
"""How the names go on of what a store keeps beside its file."""
HEADER = b"SQLite format 3\0"
TABLES = {"settings", "students", "units"}
"""That every store has, of any format."""


def check_no_store(path: Path, option: str = "") -> None:
    """Complain about an output that would replace a store or a part of one, also through links. `option` is what the
    user has given the path by."""
    store = store_of(path)
    if store is None:
        return
    given = f"{option} is {path}" if option else f"Cannot write {path}"
    if store == path.resolve():
        raise ConfigError(f"{given}, which would replace the store {store}: give another path.")
    raise ConfigError(f"{given}, where the store {store} keeps what belongs to it: give another path.")


def store_of(path: Path) -> Path | None:
    """The store that a path is, or is a part of; None where it is neither."""
    try:
        real = path.resolve()
        stores = (store for part in (real, *real.parents) for store in (part, _owner(part)) if store is not None)
        return next(filter(_is_store, stores), None)
    except (OSError, RuntimeError, ValueError):  # no path of a file: who writes there says so
        return None


def _owner(part: Path) -> Path | None:
    """Whose part this would be by its name; names differ by case alone where the file system says so."""
    for suffix in BESIDE_A_STORE:
        if part.name.lower().endswith(suffix) and len(part.name) > len(suffix):
            return part.with_name(part.name[: -len(suffix)])
    return None


def _is_store(path: Path) -> bool:
    """Also a damaged one, known by its weights or its log. It is looked at without a lock, and nothing is changed."""
    if not path.is_file():
        return False
    if path.with_name(path.name + ".weights").is_dir() or path.with_name(path.name + "-wal").is_file():
        return True
    with path.open("rb") as file:
        if file.read(len(HEADER)) != HEADER:
            return False
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {name for (name,) in tables} >= TABLES
    except (sqlite3.Error, UnicodeDecodeError):  # a database that cannot be read may be a store
        return True
