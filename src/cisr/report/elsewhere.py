"""Students that were taught elsewhere, to test ours against."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from cisr.classroom import Transcript
from cisr.compare import MEASURES, measure_groups
from cisr.errors import ConfigError
from cisr.report.contents import read

EXPECTED = (
    f"give a CSV file with a header, the column curriculum and one or more of {', '.join(MEASURES)}, and a line for "
    f"each student"
)


def students_in(
    path: Path, task: str, curricula: Sequence[str], under: str = "none"
) -> dict[str, dict[str, list[float]]]:
    """By measure, then by curriculum, a number for each student of a CSV file or of another store of the task.

    Of a store only those count that were deployed `under` the same intervention. Groups of several policies are left
    out: a class of one teacher's students has not the spread of single students.
    """
    found = _of_csv(path) if path.suffix.lower() == ".csv" else _of_store(path, task, under)
    labels = list(dict.fromkeys(label for groups in found.values() for label, values in groups.items() if values))
    if not labels:
        raise ConfigError(f"{path} holds no students that have finished: {EXPECTED}, or the store of a comparison.")
    if not set(labels) & set(curricula):
        raise ConfigError(
            f"{path} has students under {', '.join(labels)}, none under {', '.join(curricula)}: "
            f"the curricula must have the same names."
        )
    return found


def _of_store(path: Path, task: str, under: str) -> dict[str, dict[str, list[float]]]:
    contents = read(path)
    if contents.settings.get("task") != task:
        raise ConfigError(f"{path} is a store of '{contents.settings.get('task')}': give one of '{task}'.")
    students: dict[str, list[Transcript]] = {}
    for group in contents.groups:
        if group.row.policies == 1:
            same = [t for t in group.students if t.deployment is None or t.deployment.under == under]
            students.setdefault(group.label, []).extend(same)
    return measure_groups(students)


def _of_csv(path: Path) -> dict[str, dict[str, list[float]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            measures = [measure for measure in MEASURES if measure in (lines.fieldnames or ())]
            if not measures or "curriculum" not in (lines.fieldnames or ()):
                raise ConfigError(f"{path} has the columns {', '.join(lines.fieldnames or ())}: {EXPECTED}.")
            found: dict[str, dict[str, list[float]]] = {measure: {} for measure in measures}
            for line in lines:
                for measure in measures:
                    found[measure].setdefault(line["curriculum"], []).append(_number(line[measure], measure))
            return found
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"Cannot read the students in {path}: {error}; {EXPECTED}.") from error


def _number(text: str | None, measure: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (measure == "success" and not 0 <= number <= 1):
        wanted = "a share between 0 and 1" if measure == "success" else "a number"
        raise ValueError(f"a {measure} of '{text or ''}' is not {wanted}")
    return number
