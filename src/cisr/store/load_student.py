"""Students out of a store, ready to act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cisr import training
from cisr.core.checks import check_kind, check_text
from cisr.core.errors import StoreError
from cisr.core.task import Task, check_task_given
from cisr.store import Store
from cisr.students.config import StudentConfig
from cisr.students.elsewhere import Elsewhere
from cisr.students.sb3 import SB3Student

if TYPE_CHECKING:
    from cisr.students.student import Student
    from cisr.training.sb3 import SB3Actor


def load_student(store: Store, task: Task, name: str) -> Student | SB3Actor:
    """A student of a store, ready to act: `load_student(store, task, "compare/SR1/000")`."""
    check_kind("The store", store, Store, "a cisr.Store")
    check_task_given(task)
    return stored_student(store, check_text("The name of a student", name)).ready(task)


class StoredStudent(NamedTuple):
    """What a store has of a student, which can go to another process."""

    config: StudentConfig | SB3Student
    params: dict[str, Any]
    statistics: dict[str, Any]

    def ready(self, task: Task) -> Student | SB3Actor:
        """To act; what it sees and does is asked of the task's environment."""
        if isinstance(self.config, SB3Student):
            return training.actor_on(task, self.config, self.params)
        return training.student_on(task, self.config, self.params, self.statistics)


def stored_student(store: Store, name: str) -> StoredStudent:
    weights = store.weights(name)  # first: it complains about names that nobody has
    config = store.transcript(name).config
    if isinstance(config, Elsewhere):
        raise StoreError(f"Student '{name}' of {store} is elsewhere: nothing here knows what it would do.")
    if isinstance(config, SB3Student):
        return StoredStudent(config, weights, {})

    def part(prefix: str) -> dict[str, Any]:
        return {key.removeprefix(prefix): array for key, array in weights.items() if key.startswith(prefix)}

    return StoredStudent(config, part("params/"), part("statistics/"))
