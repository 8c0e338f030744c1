"""Batches of students under their curriculum policies: backends, executors, workers, records of what happened.

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
    Event,
    Graduation,
    Progress,
    StudentSpec,
    TrainingSetup,
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
    "Event",
    "Graduation",
    "Progress",
    "Register",
    "StudentSpec",
    "TrainingSetup",
    "Transcript",
    "UnitLog",
    "UnitRecord",
    "charged_score",
    "default_observe",
    "default_score",
]
