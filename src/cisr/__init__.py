"""cisr: safe reinforcement learning by curriculum induction."""

from cisr.system import first, interrupts  # noqa: F401 (a command can be stopped while the rest is imported)

# isort: split
from typing import TYPE_CHECKING

from cisr.core.appearance import Appearance
from cisr.core.callback import Callback
from cisr.core.errors import CisrError, ConfigError, NobodyFinished, StoreError, TaskError
from cisr.core.intervention import NONE, Drive, Intervention, Override, Place, Rewind, ToStart
from cisr.core.libraries import GYMNASIUM, late
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
from cisr.experiments.elsewhere import Trial
from cisr.experiments.search import random_teacher
from cisr.experiments.statistics import Estimate, Share
from cisr.experiments.study import Study, StudyResult
from cisr.store import Store
from cisr.students import CNN, MLP, Population, StudentConfig, explorer
from cisr.students.sb3 import SB3Student
from cisr.tasks import get_task
from cisr.tasks.elsewhere import task_elsewhere
from cisr.teachers import GPUCB, RandomSearch, Teacher, TopTwo
from cisr.training import Deployment, Execution, Ray, Transcript, UnitLog

if TYPE_CHECKING:
    from cisr.auditing.contracts import check_task
    from cisr.auditing.report import audit
    from cisr.cmdp.wrapper import InducedCMDP
    from cisr.experiments.compare import compare
    from cisr.experiments.compare_elsewhere import ComparisonElsewhere
    from cisr.export.students import export_student
    from cisr.export.tensorboard_log import TensorBoard
    from cisr.store.load_student import load_student
    from cisr.students.lagrangian import Lagrangian, Multipliers
    from cisr.students.student import Student
    from cisr.tasks.gymnax import GymnaxEnv

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
    "ComparisonElsewhere",
    "ConfigError",
    "CurriculumPolicy",
    "Deployment",
    "Drive",
    "Estimate",
    "Execution",
    "FiniteModel",
    "Fixed",
    "GymnaxEnv",
    "InducedCMDP",
    "Intervention",
    "Lagrangian",
    "Move",
    "Multipliers",
    "NobodyFinished",
    "Observation",
    "Override",
    "Patient",
    "Place",
    "Population",
    "RandomSearch",
    "Ray",
    "Rewind",
    "Row",
    "SB3Student",
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
    "TensorBoard",
    "Threshold",
    "ToStart",
    "TopTwo",
    "Training",
    "Transcript",
    "Transition",
    "Trial",
    "UnitLog",
    "__version__",
    "audit",
    "check_task",
    "compare",
    "explorer",
    "export_student",
    "get_task",
    "load_policy",
    "load_student",
    "random_teacher",
    "save_policy",
    "task_elsewhere",
]

_HEAVY = {
    "ComparisonElsewhere": "cisr.experiments.compare_elsewhere",
    "GymnaxEnv": "cisr.tasks.gymnax",
    "InducedCMDP": "cisr.cmdp.wrapper",
    "Lagrangian": "cisr.students.lagrangian",
    "Multipliers": "cisr.students.lagrangian",
    "Student": "cisr.students.student",
    "TensorBoard": "cisr.export.tensorboard_log",
    "audit": "cisr.auditing.report",
    "check_task": "cisr.auditing.contracts",
    "compare": "cisr.experiments.compare",
    "export_student": "cisr.export.students",
    "load_student": "cisr.store.load_student",
}
"""Names whose modules bring in gymnasium, jax or scipy: they are imported when one is first used."""

if not TYPE_CHECKING:  # which knows them, and no others
    __getattr__ = late(__name__, _HEAVY)

if GYMNASIUM:  # Gymnasium 1 has no plug-ins: importing cisr is what registers its tasks
    from cisr.tasks import registration  # noqa: F401
