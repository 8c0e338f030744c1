"""Stores of earlier formats, as the versions of their time made them."""

import json
import sqlite3
from contextlib import closing

FORMAT_1 = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
    name TEXT PRIMARY KEY, units INTEGER NOT NULL DEFAULT 0, weights TEXT, done INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE students (
    name TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES batches, place INTEGER NOT NULL,
    curriculum TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL, deployment TEXT, error TEXT
) WITHOUT ROWID;
CREATE TABLE units (
    student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, intervention TEXT NOT NULL,
    steps INTEGER NOT NULL, episodes INTEGER NOT NULL, mean_return REAL NOT NULL, success REAL NOT NULL,
    violation REAL NOT NULL, rescues INTEGER NOT NULL, failures INTEGER NOT NULL,
    multipliers TEXT NOT NULL, deployment TEXT, stage TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (student, unit)
) WITHOUT ROWID;
CREATE TABLE rounds (
    study TEXT NOT NULL, round INTEGER NOT NULL, parameters TEXT NOT NULL, told INTEGER NOT NULL DEFAULT 0,
    score REAL, sem REAL, model TEXT NOT NULL, PRIMARY KEY (study, round)
) WITHOUT ROWID;
CREATE TABLE findings (study TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO settings VALUES ('format', '1');
INSERT INTO batches VALUES ('b', 0, NULL, 0);
"""

FORMAT_3 = """
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
    score REAL, sem REAL, model TEXT NOT NULL, PRIMARY KEY (study, round)
) WITHOUT ROWID;
CREATE TABLE findings (study TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
"""


def make(path, schema, number, *rows, then=""):
    """Write rows (table, {column: value}) into a new store; lists and dictionaries become JSON."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(schema)
        for table, row in (("settings", {"name": "format", "value": str(number)}), *rows):
            values = [json.dumps(value) if isinstance(value, list | dict) else value for value in row.values()]
            marks = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", values)
        database.executescript(then)
        database.commit()
