"""Batches of students under their curriculum policies: backends, executors, workers, records of what happened.

May import all that proposes or learns (teachers, tasks, students, curricula, cmdp) and below; knows no database and no
screen.
"""

from cisr.training.classroom import Batching, Classroom, Register
from cisr.training.execution import Execution
from cisr.training.records import (
    Abandonment,
    Batch,
    BatchProgress,
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
    "BatchProgress",
    "Batching",
    "Breakdown",
    "Checkpoint",
    "Classroom",
    "Deployment",
    "Event",
    "Execution",
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
