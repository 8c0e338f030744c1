"""Students out of a store, ready to act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cisr.core.checks import check_kind, check_text
from cisr.core.task import Task, check_task_given
from cisr.store import Store
from cisr.students.config import StudentConfig

if TYPE_CHECKING:
    from cisr.students.student import Student


def load_student(store: Store, task: Task, name: str) -> Student:
    """A student of a store, ready to act: `load_student(store, task, "compare/SR1/000")`."""
    check_kind("The store", store, Store, "a cisr.Store")
    check_task_given(task)
    return stored_student(store, check_text("The name of a student", name)).ready(task)


class StoredStudent(NamedTuple):
    """What a store has of a student, which can go to another process."""

    config: StudentConfig
    params: dict[str, Any]

    def ready(self, task: Task) -> Student:
        """To act; what it sees and does is asked of the task's environment."""
        from cisr.training.gymnasium import student_on  # brings in jax and gymnasium

        return student_on(task, self.config, self.params)


def stored_student(store: Store, name: str) -> StoredStudent:
    prefix = "params/"
    weights = store.weights(name)
    params = {key.removeprefix(prefix): array for key, array in weights.items() if key.startswith(prefix)}
    return StoredStudent(store.transcript(name).config, params)
