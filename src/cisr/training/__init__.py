"""Batches of students under their curriculum policies: backends, executors, workers, records of what happened.

May import all that proposes or learns (teachers, tasks, students, curricula, cmdp) and below; knows no database and no
screen.
"""

from typing import TYPE_CHECKING

from cisr.core.libraries import late
from cisr.training.classroom import Batching, Classroom, Register
from cisr.training.execution import Execution
from cisr.training.ray_cluster import Ray
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

if TYPE_CHECKING:
    from cisr.training.gymnasium import student_on
    from cisr.training.sb3 import actor_on
else:
    __getattr__ = late(__name__, {"student_on": "cisr.training.gymnasium", "actor_on": "cisr.training.sb3"})

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
    "Ray",
    "Register",
    "StudentSpec",
    "TrainingSetup",
    "Transcript",
    "UnitLog",
    "UnitRecord",
    "actor_on",
    "charged_score",
    "default_observe",
    "default_score",
    "student_on",
]
