"""Students before their first unit: who they are follows from a root seed and their name."""

from __future__ import annotations

from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy
from cisr.students.config import Population
from cisr.students.kinds import AnyStudent, students_of
from cisr.training.records import StudentSpec


def student_config(task: Task, seed: int, name: str) -> AnyStudent:
    """The settings of one student: the task's, or drawn from its population."""
    students = students_of(task)
    return students.draw(generator(seed, name, "population")) if isinstance(students, Population) else students


def new_student(task: Task, policy: CurriculumPolicy, seed: int, name: str) -> StudentSpec:
    """A student of a task; who it is follows from the root seed and its name."""
    return StudentSpec(name=name, policy=policy, config=student_config(task, seed, name), seed=derive_seed(seed, name))
