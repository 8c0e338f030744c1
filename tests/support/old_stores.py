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

FORMAT_4 = """
CREATE TABLE audits (checksum INTEGER, kind TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (checksum INTEGER, name TEXT PRIMARY KEY, roster TEXT NOT NULL, units INTEGER NOT NULL DEFAULT
    0, weights_checksum TEXT, done INTEGER NOT NULL DEFAULT 0, abandoned TEXT) WITHOUT ROWID;
INSERT INTO batches VALUES (1735820901853483028, 'compare/SR1/000', '["compare/SR1/000"]',1,
    '7538249181c3b619e8869df2206afd09',0,NULL);
CREATE TABLE comparisons (checksum INTEGER, name TEXT PRIMARY KEY, curricula TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO comparisons VALUES (2968880546562467068, 'compare', '["SR1"]');
CREATE TABLE findings (checksum INTEGER, study TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reproductions (checksum INTEGER, title TEXT PRIMARY KEY, found TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rounds (checksum INTEGER, study TEXT NOT NULL, round INTEGER NOT NULL, parameters TEXT NOT NULL, told
    INTEGER NOT NULL DEFAULT 0, score REAL, sem REAL, model TEXT NOT NULL, PRIMARY KEY (study, round)) WITHOUT
    ROWID;
INSERT INTO rounds VALUES (2438100213604216840, 'study',0, '{"r": 1.0}',1,2.5,NULL, '{}');
CREATE TABLE runs (checksum INTEGER, name TEXT PRIMARY KEY, settings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE settings (checksum INTEGER, name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO settings VALUES (1174700660809439942, 'format', '4');
CREATE TABLE students (checksum INTEGER, name TEXT PRIMARY KEY, batch TEXT NOT NULL REFERENCES batches, place
    INTEGER NOT NULL, curriculum TEXT NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL, deployment TEXT, error
    TEXT, failures_when_broken INTEGER) WITHOUT ROWID;
INSERT INTO students VALUES (3448886728024374110, 'compare/SR1/000', 'compare/SR1/000',0, '{"intervention": '
    || '"SR1", "kind": "fixed"}', '{"bootstrap_time_limit": false, "clip_range": 0.2, "clip_range_vf": null, '
    || '"deterministic": false, "ent_coef": 0.01, "gae_lambda": 0.95, "gamma": 0.99, "last_learning_rate": '
    || 'null, "learning_rate": 0.001, "max_grad_norm": 0.5, "multiplier_bound": 0.5, "multiplier_rate": 1.0, '
    || '"n_candidates": 1, "n_envs": 2, "n_epochs": 2, "n_minibatches": 2, "n_steps": 32, "network": '
    || '{"activation": "tanh", "hidden": [8], "kind": "mlp"}, "rounds_per_unit": 2, "updates_per_round": 2, '
    || '"vf_coef": 0.25}',1,NULL,NULL,NULL);
CREATE TABLE totals (name TEXT PRIMARY KEY, n_rows INTEGER, checksum INTEGER) WITHOUT ROWID;
INSERT INTO totals VALUES ('audits',0,0);
INSERT INTO totals VALUES ('batches',1,1735820901853483028);
INSERT INTO totals VALUES ('comparisons',1,2968880546562467068);
INSERT INTO totals VALUES ('findings',0,0);
INSERT INTO totals VALUES ('reproductions',0,0);
INSERT INTO totals VALUES ('rounds',1,2438100213604216840);
INSERT INTO totals VALUES ('runs',0,0);
INSERT INTO totals VALUES ('settings',1,1174700660809439942);
INSERT INTO totals VALUES ('students',1,3448886728024374110);
INSERT INTO totals VALUES ('trajectories',0,0);
INSERT INTO totals VALUES ('units',1,1702089095296163609);
CREATE TABLE trajectories (checksum INTEGER, student TEXT PRIMARY KEY REFERENCES students, episodes TEXT NOT NULL)
    WITHOUT ROWID;
CREATE TABLE units (checksum INTEGER, student TEXT NOT NULL REFERENCES students, unit INTEGER NOT NULL, intervention
    TEXT NOT NULL, steps INTEGER NOT NULL, episodes INTEGER NOT NULL, mean_return REAL NOT NULL, success REAL NOT
    NULL, violation REAL NOT NULL, rescues INTEGER NOT NULL, failures INTEGER NOT NULL, multipliers TEXT NOT NULL,
    deployment TEXT, stage TEXT NOT NULL, seconds REAL NOT NULL, evaluation TEXT, PRIMARY KEY (student, unit))
    WITHOUT ROWID;
INSERT INTO units VALUES (1702089095296163609, 'compare/SR1/000',1,
    'SR1',128,3,3.00000000000000044408e-01,3.33333333333333314829e-01,-0.1,4,0, '[0.1, '
    || '0.14285714285714285]',NULL, '0',1.5, '{"episodes": 7, "failures": 1, "mean_return": '
    || '0.3333333333333333, "outcomes": {"success": 1.0}, "rescues": 0, "score": 0.3333333333333333, "steps": '
    || '100, "under": "none", "visits": null}');
""".replace("\n    ", " ")
"""Of version 0.2.0: a student of a comparison after its first unit, and a study's first trial, with their checksums."""


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
