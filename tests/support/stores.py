"""What a store holds, looked at from outside."""

import sqlite3
from contextlib import closing
from pathlib import Path


def cells(store: Path) -> dict[str, object]:
    """Every cell of a store apart from times, and every byte of its weights."""
    with closing(sqlite3.connect(store)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found: dict[str, object] = {}
        for table in tables:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "seconds"]
            found[table] = sorted(db.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall(), key=repr)
    folder = store.with_name(store.name + ".weights")
    found["weights"] = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    return found


def units_on_disk(store: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM units").fetchone()[0]
    except sqlite3.Error:
        return 0
