"""cisr: safe reinforcement learning by curriculum induction."""

import importlib.util
from typing import Any

from cisr.system import interrupts  # noqa: F401 (first: a command can be stopped while the rest is imported)

# isort: split
from cisr.core.appearance import Appearance
from cisr.core.errors import CisrError, ConfigError, NobodyFinished, StoreError, TaskError
from cisr.core.intervention import NONE, Intervention, Place, Rewind, ToStart
from cisr.core.task import Move, Task, Transition
from cisr.core.training import Teaching, Training
from cisr.core.version import __version__
from cisr.curricula import (
    Bandit,
    CurriculumPolicy,
    Fixed,
    Observation,
    Patient,
    Schedule,
    Switching,
    Threshold,
    load_policy,
    save_policy,
)
from cisr.experiments.compare import Comparison, Row, compare
from cisr.experiments.statistics import Estimate, Share
from cisr.experiments.study import Study, StudyResult, random_teacher
from cisr.store import Store
from cisr.store.load_student import load_student
from cisr.students import CNN, MLP, Population, StudentConfig, explorer
from cisr.tasks import get_task
from cisr.training import Deployment, Transcript, UnitLog

__all__ = [
    "CNN",
    "MLP",
    "NONE",
    "Appearance",
    "Bandit",
    "CisrError",
    "Comparison",
    "ConfigError",
    "CurriculumPolicy",
    "Deployment",
    "Estimate",
    "Fixed",
    "InducedCMDP",
    "Intervention",
    "Move",
    "NobodyFinished",
    "Observation",
    "Patient",
    "Place",
    "Population",
    "Rewind",
    "Row",
    "Schedule",
    "Share",
    "Store",
    "StoreError",
    "Student",
    "StudentConfig",
    "Study",
    "StudyResult",
    "Switching",
    "Task",
    "TaskError",
    "Teaching",
    "Threshold",
    "ToStart",
    "Training",
    "Transcript",
    "Transition",
    "UnitLog",
    "__version__",
    "compare",
    "explorer",
    "get_task",
    "load_policy",
    "load_student",
    "random_teacher",
    "save_policy",
]


def __getattr__(name: str) -> Any:
    """`InducedCMDP` needs gymnasium and `Student` jax, so they are imported when they are first named."""
    if name == "InducedCMDP":
        from cisr.cmdp.wrapper import InducedCMDP

        return InducedCMDP
    if name == "Student":
        from cisr.students.student import Student

        return Student
    raise AttributeError(f"module 'cisr' has no attribute '{name}'")


if importlib.util.find_spec("gymnasium"):  # Gymnasium 1 has no plug-ins: importing cisr is what registers its tasks
    from cisr.tasks import registration  # noqa: F401
