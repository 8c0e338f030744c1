"""The kinds of students that there are: ours, Stable-Baselines3's, and those elsewhere; and which a task has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cisr.core.checks import check_kind
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.students.config import Population, StudentConfig, explorer
from cisr.students.elsewhere import Elsewhere
from cisr.students.sb3 import SB3Student

AnyStudent = StudentConfig | SB3Student | Elsewhere


class Actor(Protocol):
    """A trained student of any kind, ready to act."""

    def predict(self, observation: Any, deterministic: bool | None = None, seed: int = 0) -> Any: ...


def student_from_json(fields: Mapping[str, Any]) -> AnyStudent:
    """Ours have no kind: they were here first."""
    match fields.get("kind"):
        case None:
            return StudentConfig.from_json(fields)
        case "sb3":
            return SB3Student.from_json(fields)
        case "elsewhere":
            return Elsewhere.from_json(fields)
        case kind:
            raise ConfigError(f"There is no kind of student {kind!r}.")


def students_of(task: Task) -> AnyStudent | Population:
    """The settings of a task's students; where it gives none, they are explorers of the defaults."""
    given = task.training.student
    if given is None:
        return explorer(StudentConfig())
    whose = f"The student of task '{task.name}'"
    kinds = (StudentConfig, Population, SB3Student, Elsewhere)
    check_kind(whose, given, kinds, "a cisr.StudentConfig, a Population or an SB3Student")
    return given


def with_students(task: Task, students: AnyStudent | Population) -> Task:
    """The same task with other students."""
    kind = f"sb3:{students.algorithm}" if isinstance(students, SB3Student) else None
    return task.with_training(student=students, student_kind=kind)


def student_of(task: Task) -> StudentConfig:
    """The settings of one of our own students; of a population, those that its students vary. Where a task has none of
    ours, they are explorers of the defaults."""
    students = students_of(task)
    if isinstance(students, Population):
        return students.base
    return students if isinstance(students, StudentConfig) else explorer(StudentConfig())


def steps_per_unit(student: AnyStudent) -> int:
    """Of one that is trained here."""
    assert not isinstance(student, Elsewhere)
    return student.steps_per_unit
