"""The tables of a store, and how stores of earlier formats become stores of this one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cisr.store.database import Database

FORMAT = 5
FIRST_WITH_CHECKSUMS = 4
QUICK = "quick"
"""The kind of audit that a store keeps."""

TABLES = {
    "settings": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "runs": "name TEXT PRIMARY KEY, settings TEXT NOT NULL",
    "batches": (
        "name TEXT PRIMARY KEY, roster TEXT NOT NULL, units INTEGER NOT NULL DEFAULT 0, weights_checksum TEXT, "
        "done INTEGER NOT NULL DEFAULT 0, abandoned TEXT"
    ),
    "students": (
        "name TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES batches, place INTEGER NOT NULL, "
        "curriculum TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL, "
        "deployment TEXT, error TEXT, failures_when_broken INTEGER"
    ),
    "units": (
        "student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, intervention TEXT NOT NULL, "
        "steps INTEGER, episodes INTEGER, mean_return REAL NOT NULL, success REAL, "
        "violation REAL NOT NULL, rescues INTEGER, failures INTEGER, multipliers TEXT NOT NULL, "
        "deployment TEXT, stage TEXT NOT NULL, seconds REAL NOT NULL, evaluation TEXT, PRIMARY KEY (student, unit)"
    ),
    "drives": (
        "student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, steps INTEGER NOT NULL, "
        "PRIMARY KEY (student, unit)"
    ),
    "rounds": (
        "study TEXT NOT NULL, round INTEGER NOT NULL, parameters TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0, "
        "score REAL, sem REAL, model TEXT NOT NULL, PRIMARY KEY (study, round)"
    ),
    "findings": "study TEXT PRIMARY KEY, found TEXT NOT NULL",
    "comparisons": "name TEXT PRIMARY KEY, curricula TEXT NOT NULL",
    "trajectories": "student TEXT PRIMARY KEY REFERENCES students, episodes TEXT NOT NULL",
    "audits": "kind TEXT PRIMARY KEY, found TEXT NOT NULL",
    "reproductions": "title TEXT PRIMARY KEY, found TEXT NOT NULL",
}
"""One for each thing that a store keeps, parents before their children."""

EARLIER_NAMES = {"lane": "backend", "scenery": "state plot"}
"""Of settings, in stores made before 0.2."""
EARLIER_STUDENTS = {"perceptron": "mlp"}
"""What kinds of students were called in them."""

TIMES = "seconds"
"""The one column that differs between two runs of the same work. Of it a row's checksum knows the type alone."""

SCHEMA = {
    **{name: f"CREATE TABLE {name} (checksum INTEGER, {columns}) WITHOUT ROWID" for name, columns in TABLES.items()},
    "totals": "CREATE TABLE totals (name TEXT PRIMARY KEY, n_rows INTEGER, checksum INTEGER) WITHOUT ROWID",
}
"""Every row has a checksum over its other columns; `totals` has how many rows a table has, and the checksums' sum, so
that a row cannot go missing."""


class Columns(NamedTuple):
    names: tuple[str, ...]
    """All but the checksum."""
    key: tuple[str, ...]


@cache
def columns_of(table: str) -> Columns:
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.execute(SCHEMA[table])
        rows = empty.execute(f"PRAGMA table_info({table})").fetchall()
    names = tuple(name for _, name, *_ in rows if name != "checksum")
    return Columns(names, tuple(row[1] for row in rows if row[5]))


_GREEDY = """json(CASE (
    SELECT json_extract(value, '$.deterministic_deployment') FROM settings WHERE name = 'definition'
) WHEN 1 THEN 'true' ELSE 'false' END)"""
"""Whether students act greedily once deployed, as format 2 has it: among the numbers of their task."""

EARLIER = {
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
"""From each of the first formats to the next; format 3 becomes this one by `from_format_3`."""
NEW_IN_FORMAT_5 = "drives"
"""Units in which controllers drove; of all others, and of all earlier stores, nothing was driven."""
FROM_FORMAT_4 = f"""
CREATE TEMP TABLE kept AS SELECT * FROM units;
DROP TABLE units;
{SCHEMA["units"]};
INSERT INTO units SELECT * FROM kept;
DROP TABLE kept;
"""
"""Students elsewhere need not tell all numbers of a unit. Checksums go along: what was damaged stays so."""
TABLES_OF_FORMAT_3 = ("settings", "batches", "students", "units", "rounds", "findings")


def tables_of(number: int) -> set[str]:
    """Those that a store of an earlier format has."""
    return set(TABLES_OF_FORMAT_3) if number < FIRST_WITH_CHECKSUMS else set(SCHEMA) - {NEW_IN_FORMAT_5}


class Row(NamedTuple):
    table: str
    values: Mapping[str, Any]


def from_format_3(execute: Callable[[str], sqlite3.Cursor]) -> list[Row]:
    """What a store of format 3 holds, as rows of today's tables, parents before their children.

    It kept under names what has tables now: what defines a run among the settings, all else among the findings.
    """
    found: list[Row] = []
    for table in TABLES_OF_FORMAT_3:
        cursor = execute(f"SELECT * FROM {table}")
        columns = [column[0] for column in cursor.description]
        for row in cursor:
            found += _today(table, dict(zip(columns, row, strict=True)))
    order = list(TABLES)
    students = {row.values["name"] for row in found if row.table == "students"}
    kept = [row for row in found if row.table != "trajectories" or row.values["student"] in students]
    return sorted(kept, key=lambda row: order.index(row.table))


def _today(table: str, row: dict[str, Any]) -> Iterator[Row]:
    if table == "settings" and row["name"].startswith("run "):
        yield Row("runs", {"name": row["name"].removeprefix("run "), "settings": row["value"]})
    elif table == "settings" and row["name"] == "format":
        yield Row("settings", {"name": "format", "value": str(FORMAT)})
    elif table == "findings":
        yield from _finding(row["study"], row["found"])
    else:
        yield Row(table, {name: value for name, value in row.items() if (table, name) != ("batches", "weights")})


def _finding(name: str, text: str) -> Iterator[Row]:
    """What it is shows in what it says; any study could have had any name."""
    found = json.loads(text)
    if "best" in found:
        yield Row("findings", {"study": name, "found": text})
    elif "interventions" in found:
        yield Row("audits", {"kind": QUICK, "found": text})
    elif "repetitions" in found:
        yield Row("reproductions", {"title": found["title"], "found": text})
    elif "order" in found:
        curricula = json.dumps(found["order"])
        yield Row("comparisons", {"name": name.removeprefix("order "), "curricula": curricula})
    else:
        for student, episodes in found.items():
            yield Row("trajectories", {"student": student, "episodes": json.dumps(episodes, sort_keys=True)})


def migrate(database: Database, found: int) -> None:
    """Bring a database of an earlier format to this one, step by step, each in a transaction."""
    for number in range(found, 3):
        with database.transaction():
            for statement in EARLIER[number].split(";"):
                database.execute(statement)
            database.execute("UPDATE settings SET value = ? WHERE name = 'format'", (str(number + 1),))
    if found == FIRST_WITH_CHECKSUMS:
        with database.transaction():
            database.make_table(NEW_IN_FORMAT_5)
            try:
                for statement in FROM_FORMAT_4.split(";"):
                    database.execute(statement)
            except sqlite3.OperationalError as error:
                raise database.damaged("its units are not those of format 4") from error
            database.change("settings", {"name": "format"}, {"value": str(FORMAT)})
    elif found < FORMAT:
        with database.transaction():
            try:
                rows = from_format_3(database.execute)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise database.damaged(f"its format {found} cannot be read ({type(error).__name__})") from error
            for table in reversed(TABLES_OF_FORMAT_3):
                database.execute(f"DROP TABLE {table}")
            database.make_tables()
            for row in rows:
                database.insert(*row)
