"""cisr: safe reinforcement learning by curriculum induction."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from cisr.system import interrupts  # noqa: F401 (first: a command can be stopped while the rest is imported)

# isort: split
from cisr.core.appearance import Appearance
from cisr.core.callback import Callback
from cisr.core.errors import CisrError, ConfigError, NobodyFinished, StoreError, TaskError
from cisr.core.intervention import NONE, Intervention, Place, Rewind, ToStart
from cisr.core.model import FiniteModel
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
from cisr.experiments.comparison import Comparison, Row
from cisr.experiments.search import random_teacher
from cisr.experiments.statistics import Estimate, Share
from cisr.experiments.study import Study, StudyResult
from cisr.store import Store
from cisr.students import CNN, MLP, Population, StudentConfig, explorer
from cisr.tasks import get_task
from cisr.teachers import GPUCB, RandomSearch, Teacher, TopTwo
from cisr.training import Deployment, Execution, Transcript, UnitLog

if TYPE_CHECKING:
    from cisr.auditing.contracts import check_task
    from cisr.auditing.report import audit
    from cisr.cmdp.wrapper import InducedCMDP
    from cisr.experiments.compare import compare
    from cisr.store.load_student import load_student
    from cisr.students.student import Student

__all__ = [
    "CNN",
    "GPUCB",
    "MLP",
    "NONE",
    "Appearance",
    "Bandit",
    "Callback",
    "CisrError",
    "Comparison",
    "ConfigError",
    "CurriculumPolicy",
    "Deployment",
    "Estimate",
    "Execution",
    "FiniteModel",
    "Fixed",
    "InducedCMDP",
    "Intervention",
    "Move",
    "NobodyFinished",
    "Observation",
    "Patient",
    "Place",
    "Population",
    "RandomSearch",
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
    "Teacher",
    "Teaching",
    "Threshold",
    "ToStart",
    "TopTwo",
    "Training",
    "Transcript",
    "Transition",
    "UnitLog",
    "__version__",
    "audit",
    "check_task",
    "compare",
    "explorer",
    "get_task",
    "load_policy",
    "load_student",
    "random_teacher",
    "save_policy",
]

_HEAVY = {
    "InducedCMDP": "cisr.cmdp.wrapper",
    "Student": "cisr.students.student",
    "audit": "cisr.auditing.report",
    "check_task": "cisr.auditing.contracts",
    "compare": "cisr.experiments.compare",
    "load_student": "cisr.store.load_student",
}
"""Names whose modules bring in gymnasium, jax or scipy: they are imported when one is first used."""


def __getattr__(name: str) -> Any:
    if name not in _HEAVY:
        raise AttributeError(f"module 'cisr' has no attribute '{name}'")
    return getattr(importlib.import_module(_HEAVY[name]), name)


if importlib.util.find_spec("gymnasium"):  # Gymnasium 1 has no plug-ins: importing cisr is what registers its tasks
    from cisr.tasks import registration  # noqa: F401
