"""What a student meets in its next unit: its curriculum policy moves on, from what was observed of the last one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from cisr.core.checks import check_number, shown
from cisr.core.errors import ConfigError, described
from cisr.core.seeding import generator
from cisr.curricula import Observation, Stage, fresh_starts
from cisr.system.interrupts import users_errors
from cisr.training.records import StudentSpec, UnitLog, UnitRecord


class Lesson(NamedTuple):
    stage: Stage
    intervention: str
    switched: bool
    """Whether the intervention is another one than in the unit before."""
    anew: bool
    """Whether the student is to start over, knowing nothing."""


def observed_by(observe: Callable[[UnitLog], Any], unit: UnitLog) -> Any:
    """What the teacher sees of a unit; the function is the user's, and the record stays as it is."""
    who = f"The observe of a study, asked about unit {unit.unit} under '{unit.intervention}',"
    try:
        seen = observe(copy.deepcopy(unit))
    except MemoryError:
        raise
    except users_errors() as error:
        raise ConfigError(f"{who} raised {described(error)}.") from error
    for name in Observation._fields:
        check_number(
            f"{who} answered {shown(seen)}, a cisr.Observation is expected: its {name}", getattr(seen, name, None)
        )
    return seen


def next_lesson(
    student: StudentSpec, unit: int, before: UnitRecord | None, observe: Callable[[UnitLog], Any]
) -> Lesson:
    """That of a unit, 1 … N_s; `before` is the record of the last one, None before the first."""
    stage = before.stage if before else student.policy.first_stage
    observed = observed_by(observe, before.log) if before else Observation()
    now = student.policy.next_stage(stage, observed, generator(student.seed, "curriculum", unit))
    try:
        json.dumps(now)
    except (TypeError, ValueError) as error:
        whose = f"The curriculum of student '{student.name}'"
        raise ConfigError(f"{whose} goes on to stage {shown(now)}, which is no JSON: {error}.") from error
    name = student.policy.intervention(now)
    return Lesson(
        stage=now,
        intervention=name,
        switched=before is not None and before.log.intervention != name,
        anew=fresh_starts(now) > fresh_starts(stage),
    )
