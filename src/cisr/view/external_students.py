"""Students that were taught elsewhere, to test ours against."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from cisr.core.errors import ConfigError
from cisr.experiments.comparison import MEASURES, measure_groups
from cisr.experiments.differences import Sample
from cisr.system.files import read_text
from cisr.training import Transcript
from cisr.view.contents import read

EXPECTED = (
    f"give a CSV file with a header, the column curriculum and one or more of {', '.join(MEASURES)}, and a line for "
    f"each student"
)


def students_in(path: Path, task: str, curricula: Sequence[str], under: str = "none") -> dict[str, dict[str, Sample]]:
    """By measure, then by curriculum, a number for each student of a CSV file or of another store of the task.

    Of a store only those count that were deployed `under` the same intervention. Groups of several policies are left
    out: a class of one teacher's students has not the spread of single students.
    """
    found = _of_csv(path) if path.suffix.lower() == ".csv" else _of_store(path, task, under)
    labels = list(dict.fromkeys(label for groups in found.values() for label, one in groups.items() if one.values))
    if not labels:
        raise ConfigError(f"{path} holds no students that have finished: {EXPECTED}, or the store of a comparison.")
    if not set(labels) & set(curricula):
        raise ConfigError(
            f"{path} has students under {', '.join(labels)}, none under {', '.join(curricula)}: "
            f"the curricula must have the same names."
        )
    return found


def _of_store(path: Path, task: str, under: str) -> dict[str, dict[str, Sample]]:
    contents = read(path)
    if contents.settings.get("task") != task:
        raise ConfigError(f"{path} is a store of '{contents.settings.get('task')}': give one of '{task}'.")
    students: dict[str, list[Transcript]] = {}
    for group in contents.groups:
        if group.row.policies == 1:
            same = [t for t in group.students if t.deployment is None or t.deployment.under == under]
            students.setdefault(group.label, []).extend(same)
    return measure_groups(students)


def _of_csv(path: Path) -> dict[str, dict[str, Sample]]:
    lines = csv.DictReader(io.StringIO(read_text(path, "the students in").removeprefix("\ufeff"), newline=""))
    try:
        columns = lines.fieldnames or ()
        measures = [measure for measure in MEASURES if measure in columns]
        if not measures or "curriculum" not in columns:
            raise ConfigError(f"{path} has the columns {', '.join(columns)}: {EXPECTED}.")
        found: dict[str, dict[str, list[float]]] = {measure: {} for measure in measures}
        for line in lines:
            for measure in measures:
                found[measure].setdefault(line["curriculum"], []).append(_number(line[measure], measure))
        return {what: {label: Sample.of(values) for label, values in groups.items()} for what, groups in found.items()}
    except (csv.Error, ValueError) as error:
        raise ConfigError(f"Cannot read the students in {path}: {error}; {EXPECTED}.") from error


def _number(text: str | None, measure: str) -> float:
    text = text or ""
    least, most, wanted = {
        "success": (0.0, 1.0, "a share between 0 and 1"),
        "training_failures": (0.0, math.inf, "a number ≥ 0"),
    }.get(measure, (-math.inf, math.inf, "a number"))
    try:
        number = float(text) if "_" not in text else math.nan  # Python would read 1_0 as 10
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or not least <= number <= most:
        raise ValueError(f"a {measure} of '{shorten(text, 40)}' is not {wanted}")
    return number
