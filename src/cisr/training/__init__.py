"""Batches of students under their curriculum policies: lanes, executors, workers, records of what happened.

May import all that proposes or learns (teachers, tasks, students, curricula, cmdp) and below; knows no database and no
screen.
"""

from cisr.training.classroom import Batching, Classroom, Register
from cisr.training.records import (
    Abandonment,
    Batch,
    Breakdown,
    Checkpoint,
    Deployment,
    Enrolment,
    Event,
    Graduation,
    Lesson,
    Progress,
    Transcript,
    UnitLog,
    UnitRecord,
    charged_score,
    default_observe,
    default_score,
)
from cisr.training.watch import STEP_TIMEOUT

__all__ = [
    "STEP_TIMEOUT",
    "Abandonment",
    "Batch",
    "Batching",
    "Breakdown",
    "Checkpoint",
    "Classroom",
    "Deployment",
    "Enrolment",
    "Event",
    "Graduation",
    "Lesson",
    "Progress",
    "Register",
    "Transcript",
    "UnitLog",
    "UnitRecord",
    "charged_score",
    "default_observe",
    "default_score",
]
