"""What a store holds as plain tables: units, students, trials and comparisons, a row for each.

Columns have types, whether anything is known in them or not; what nobody knows is null, and never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cisr.experiments.comparison import Row
from cisr.experiments.statistics import Estimate, Share
from cisr.store import owner_of
from cisr.students.elsewhere import Elsewhere
from cisr.students.kinds import AnyStudent
from cisr.students.sb3 import SB3Student
from cisr.training import Deployment, Transcript
from cisr.view.contents import Contents, StudyRecord

Kind = Literal["text", "whole", "number", "truth"]
Cell = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class DataTable:
    name: str
    columns: Mapping[str, Kind]
    rows: Sequence[Mapping[str, Cell]]
    """By column; one that is not there is null."""


DEPLOYED: dict[str, tuple[Kind, Callable[[Deployment], Cell]]] = {
    "under": ("text", lambda d: d.under),
    "return": ("number", lambda d: d.mean_return),
    "score": ("number", lambda d: d.score),
    "success": ("number", lambda d: d.success),
    "failures": ("whole", lambda d: d.failures),
    "rescues": ("whole", lambda d: d.rescues),
    "episodes": ("whole", lambda d: d.episodes),
    "steps": ("whole", lambda d: d.steps),
    "driven": ("whole", lambda d: d.driven),
}
UNITS: dict[str, Kind] = {
    "student": "text",
    "unit": "whole",
    "intervention": "text",
    "anew": "truth",
    "return": "number",
    "success": "number",
    "violation": "number",
    "rescues": "whole",
    "failures": "whole",
    "episodes": "whole",
    "steps": "whole",
    "driven": "whole",
    "seconds": "number",
}
STUDENTS: dict[str, Kind] = {
    "student": "text",
    "run": "text",
    "group": "text",
    "learner": "text",
    "seed": "whole",
    "curriculum": "text",
    "settings": "text",
    "units": "whole",
    "status": "text",
    "error": "text",
    "handed_in": "whole",
    "training_failures": "whole",
    "safe_evaluation_failures": "whole",
    "rescues": "whole",
    "driven": "whole",
}
TRIALS: dict[str, Kind] = {
    "study": "text",
    "trial": "whole",
    "status": "text",
    "score": "number",
    "sem": "number",
    "students": "whole",
    "finished": "whole",
    "failed": "whole",
    "curriculum": "text",
    "chosen": "truth",
}


def tables_of(contents: Contents) -> list[DataTable]:
    return [_units(contents), _students(contents), _trials(contents.studies), _comparisons(contents)]


def _units(contents: Contents) -> DataTable:
    units = [(t, unit) for t in contents.students for unit in t.units]
    width = max((len(unit.multipliers) for _, unit in units), default=0)
    named = contents.constraints if len(set(contents.constraints)) == width else [str(k) for k in range(width)]
    multipliers = [f"multiplier_{name}" for name in named]
    columns = UNITS | dict.fromkeys(multipliers, "number") | _deployed_columns("deployed") | _deployed_columns("tried")
    rows = []
    for student, unit in units:
        row: dict[str, Cell] = {
            name: getattr(unit, "mean_return" if name == "return" else name)
            for name in UNITS
            if name not in ("student", "anew")
        }
        row |= {"student": student.name, "anew": unit.unit in student.fresh_starts}
        row |= dict(zip(multipliers, unit.multipliers, strict=False))
        rows.append(row | _deployed("deployed", unit.deployment) | _deployed("tried", unit.evaluation))
    return DataTable(name="units", columns=columns, rows=rows)


def _students(contents: Contents) -> DataTable:
    ends = list(dict.fromkeys(end for t in contents.students if t.deployment for end in t.deployment.outcomes))
    rates: dict[str, Kind] = {f"outcome_{end}": "number" for end in ends}
    rows = []
    for t in contents.students:
        row: dict[str, Cell] = {
            "student": t.name,
            "run": owner_of(t.name),
            "group": t.name.removeprefix(owner_of(t.name) + "/").rpartition("/")[0],
            "learner": _learner(t.config),
            "seed": t.seed,
            "curriculum": _json(t.curriculum),
            "settings": _json(t.config.to_json()),
            "units": len(t.units),
            "status": status(t),
            "error": t.error,
            "handed_in": t.handed_in,
            "training_failures": t.training_failures,
            "safe_evaluation_failures": t.safe_evaluation_failures,
            "rescues": t.rescues,
            "driven": t.driven,
        }
        outcomes = t.deployment.outcomes if t.deployment else {}
        row |= {f"outcome_{end}": outcomes.get(end) for end in ends}
        rows.append(row | _deployed("deployed", t.deployment))
    return DataTable(name="students", columns=STUDENTS | _deployed_columns("deployed") | rates, rows=rows)


def status(student: Transcript) -> str:
    if student.error is not None:
        return "failed"
    return "unfinished" if student.deployment is None else "finished"


def _learner(config: AnyStudent) -> str:
    if isinstance(config, SB3Student):
        return f"sb3:{config.algorithm}"
    return "elsewhere" if isinstance(config, Elsewhere) else "cisr"


def _trials(studies: Sequence[StudyRecord]) -> DataTable:
    tried = [(f"parameter_{name}", v) for s in studies for trial in s.rounds for name, v in trial.parameters.items()]
    parameters: dict[str, Kind] = {name: "number" for name, _ in tried}
    parameters |= {name: "text" for name, value in tried if isinstance(value, str)}
    rows = []
    for study in studies:
        for k, (trial, students) in enumerate(zip(study.rounds, study.classes, strict=True)):
            row: dict[str, Cell] = {
                "study": study.name,
                "trial": k,
                "status": "open" if not trial.told else "failed" if trial.score is None else "scored",
                "score": trial.score,
                "sem": trial.sem,
                "students": len(students),
                "finished": sum(status(t) == "finished" for t in students),
                "failed": sum(status(t) == "failed" for t in students),
                "curriculum": _json(study.policy(trial.parameters)),
                "chosen": None if study.found is None else study.found["best"] == trial.parameters,
            }
            for name, value in trial.parameters.items():
                text = parameters[f"parameter_{name}"] == "text"
                row[f"parameter_{name}"] = str(value) if text else float(value)
            rows.append(row)
    return DataTable(name="trials", columns=TRIALS | parameters, rows=rows)


def _comparisons(contents: Contents) -> DataTable:
    """The rows of the report's tables; estimates and shares in columns of their own."""
    records = [*([contents.reproduction.pooled] if contents.reproduction else []), *contents.comparisons]
    columns: dict[str, Kind] = {"comparison": "text", "curriculum": "text"}
    columns |= dict.fromkeys(("students", "finished", "policies", "unknown_failures"), "whole")
    failures = ("training_failures", "safe_evaluation_failures", "deployment_failures")
    for measure in ("success", "learned", "return", *failures, "rescues", "driven"):
        columns |= {f"{measure}_{part}": "number" for part in ("mean", "sem", "low", "high", "median")}
    for share in ("failed_to_learn", "students_with_failures"):
        columns |= {
            f"{share}_count": "whole",
            f"{share}_of": "whole",
            f"{share}_low": "number",
            f"{share}_high": "number",
        }
    rows = []
    for record in records:
        for group in record.groups:
            row = _flat_row(group.row)
            columns |= dict.fromkeys((name for name in row if name.startswith("outcome_")), "number")
            rows.append({"comparison": record.name, **row})
    return DataTable(name="comparisons", columns=columns, rows=rows)


def _flat_row(row: Row) -> dict[str, Cell]:
    flat: dict[str, Cell] = {}
    for name, value in vars(row).items():
        called = "return" if name == "mean_return" else name
        if isinstance(value, Estimate | Share):
            flat |= {f"{called}_{part}": getattr(value, part) for part in vars(value)}
        elif name == "outcomes":
            flat |= {f"outcome_{end}": rate for end, rate in value.items()}
        elif value is not None:
            flat[called] = value
    return flat


def _deployed_columns(prefix: str) -> dict[str, Kind]:
    return {f"{prefix}_{name}": kind for name, (kind, _) in DEPLOYED.items()}


def _deployed(prefix: str, deployment: Deployment | None) -> dict[str, Cell]:
    if deployment is None:
        return {}
    return {f"{prefix}_{name}": of(deployment) for name, (_, of) in DEPLOYED.items()}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def known(cells: Iterable[Cell]) -> list[Cell]:
    """NaN and infinity, which models may hold, stand for what nobody knows."""
    return [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in cells]
