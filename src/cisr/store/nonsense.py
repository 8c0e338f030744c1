"""What in a store no program of ours would have written: cells without meaning, and cells that contradict others."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cisr.core.checks import shown
from cisr.store.database import Database
from cisr.store.meaning import COLUMNS, SETTINGS, said_in_json
from cisr.store.schema import EARLIER_NAMES


def nonsense(database: Database) -> Iterator[str]:
    """Whatever in a database no program of ours would have written, in words."""
    found = False
    for table, columns in COLUMNS.items():
        for row in database.named_rows(table):
            for name, check in columns.items():
                if table == "settings" and name == "value":
                    setting = EARLIER_NAMES.get(row["name"], row["name"])
                    check = said_in_json(SETTINGS[setting]) if setting in SETTINGS else check
                if not check(row[name]):
                    found = True
                    yield f"the {name} of a row of {table} makes no sense ({shown(row[name])})"
    if not found:
        yield from _contradictions(database)


def _contradictions(database: Database) -> Iterator[str]:
    """Between cells that make sense by themselves."""
    for table, _, parent, _ in database.rows("PRAGMA foreign_key_check"):
        yield f"a row of {table} belongs to none of {parent}"
        return
    students = {row["name"]: row for row in database.named_rows("students")}
    deployed = [row["deployment"] for row in (*students.values(), *database.named_rows("units")) if row["deployment"]]
    ends = {tuple(sorted(json.loads(deployment)["outcomes"])) for deployment in deployed}
    if len(ends - {()}) > 1:  # a student elsewhere need not tell
        yield "its students' episodes do not end in the same ways"
    units: dict[str, list[int]] = {}
    for student, unit in database.rows("SELECT student, unit FROM units ORDER BY student, unit"):
        units.setdefault(student, []).append(unit)
    for student, numbers in units.items():
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"student '{student}' has the units {shown(numbers)}"
    at_home: dict[str, list[str]] = {}
    for name, student in students.items():
        at_home.setdefault(student["batch"], []).append(name)
    for batch in database.named_rows("batches"):
        roster = json.loads(batch["roster"])
        if any(name not in students for name in roster):
            yield f"batch '{batch['name']}' has students whom nobody has enrolled"
        for name in at_home.get(batch["name"], []):
            student = students[name]
            if student["place"] >= len(roster) or roster[student["place"]] != name:
                yield f"student '{name}' has a place in batch '{batch['name']}' that is not its own"
            elif student["error"] is None and len(units.get(name, [])) != batch["units"]:
                yield f"student '{name}' has not as many units as its batch"
            elif batch["done"] and student["error"] is None and student["deployment"] is None:
                yield f"student '{name}' has finished without being deployed"
    rounds: dict[str, list[int]] = {}
    for study, round_ in database.rows("SELECT study, round FROM rounds ORDER BY study, round"):
        rounds.setdefault(study, []).append(round_)
    for study, numbers in rounds.items():
        if numbers != list(range(len(numbers))):
            yield f"study '{study}' has the rounds {shown(numbers)}"
