"""Records of the classroom as rows of the database, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from cisr.curricula import fresh_starts, policy_from_json
from cisr.students.kinds import student_from_json
from cisr.training import Deployment, StudentSpec, UnitLog, UnitRecord


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def identity(spec: StudentSpec) -> tuple[str, str, int]:
    """What a student may not change once enrolled: curriculum, settings, seed."""
    return as_json(spec.policy.to_json()), as_json(spec.config.to_json()), spec.seed


def to_spec(row: dict[str, Any]) -> StudentSpec:
    policy, config = policy_from_json(json.loads(row["curriculum"])), student_from_json(json.loads(row["config"]))
    return StudentSpec(name=row["name"], policy=policy, config=config, seed=row["seed"])


def from_unit(student: str, record: UnitRecord) -> dict[str, Any]:
    """Without the steps that controllers drove, which have a table of their own."""
    fields = asdict(record.log)
    del fields["driven"]
    return fields | {
        "multipliers": as_json(fields["multipliers"]),
        "deployment": None if fields["deployment"] is None else as_json(fields["deployment"]),
        "evaluation": None if fields["evaluation"] is None else as_json(fields["evaluation"]),
        "stage": as_json(record.stage),
        "student": student,
    }


def to_unit(row: dict[str, Any], driven: int) -> UnitLog:
    fields = {name: value for name, value in row.items() if name not in ("student", "stage")}
    return UnitLog(
        **fields
        | {
            "driven": driven,
            "multipliers": tuple(json.loads(row["multipliers"])),
            "deployment": to_deployment(row["deployment"]),
            "evaluation": to_deployment(row["evaluation"]),
        }
    )


def units_begun_anew(rows: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    """Of one student's units, those before which it started over, which its stages tell."""
    counts = [0, *(fresh_starts(json.loads(row["stage"])) for row in rows)]
    return tuple(row["unit"] for row, (before, now) in zip(rows, pairwise(counts), strict=True) if now > before)


def to_deployment(text: str | None) -> Deployment | None:
    if text is None:
        return None
    fields = json.loads(text)
    visits = None if fields.get("visits") is None else tuple(fields["visits"])
    return Deployment(**{**fields, "visits": visits})


def owner_of(student: str) -> str:
    """The study or comparison that a student belongs to: its name has no slash, labels of curricula may."""
    return student.partition("/")[0]
