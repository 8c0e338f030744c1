"""What a student meets in its next unit: its curriculum policy moves on, from what was observed of the last one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cisr.core.seeding import generator
from cisr.curricula import Observation, Stage, fresh_starts
from cisr.training.records import StudentSpec, UnitLog, UnitRecord


class Lesson(NamedTuple):
    stage: Stage
    intervention: str
    switched: bool
    """Whether the intervention is another one than in the unit before."""
    anew: bool
    """Whether the student is to start over, knowing nothing."""


def next_lesson(
    student: StudentSpec, unit: int, before: UnitRecord | None, observe: Callable[[UnitLog], Any]
) -> Lesson:
    """That of a unit, 1 … N_s; `before` is the record of the last one, None before the first."""
    stage = before.stage if before else student.policy.first_stage
    observed = observe(before.log) if before else Observation()
    now = student.policy.next_stage(stage, observed, generator(student.seed, "curriculum", unit))
    name = student.policy.intervention(now)
    return Lesson(
        stage=now,
        intervention=name,
        switched=before is not None and before.log.intervention != name,
        anew=fresh_starts(now) > fresh_starts(stage),
    )
