"""What papers have published of the built-in tasks."""

from __future__ import annotations

from collections.abc import Mapping

from cisr.core.errors import ConfigError
from cisr.core.publication import Published
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy, policy_from_json
from cisr.tasks import BUILT_IN, entry_of


def publication(task: Task) -> Published:
    """What the paper says of a task and its students, with teachers of their own or with those of another kind."""
    published, kind = _of_its_teachers(task), task.training.student_kind
    for table in (published, *published.transfers):
        if not table.students or kind in table.students:
            return table
    known = ", ".join(kind for table in (published, *published.transfers) for kind in table.students)
    raise ConfigError(f"The paper has no table for {kind} students of '{task.name}': choose one of {known}.")


def is_transfer(task: Task) -> bool:
    """Whether the paper's teachers were those of other students."""
    return publication(task) != _of_its_teachers(task)


def transfer_kinds(task: Task) -> tuple[str, ...]:
    """The kinds of students that the paper applies its teachers' curricula to."""
    return tuple(table.students[0] for table in _of_its_teachers(task).transfers)


def _of_its_teachers(task: Task) -> Published:
    published = _published(task.name)
    if published is None:
        known = ", ".join(filter(_published, BUILT_IN))
        raise ConfigError(f"The paper has no table for '{task.name}': choose one of {known}.")
    return published


def published_teachers(task: str) -> Mapping[str, CurriculumPolicy]:
    """Curricula that come with a built-in task, by name."""
    published = _published(task)
    return {} if published is None else {name: policy_from_json(found) for name, found in published.teachers.items()}


def _published(task: str) -> Published | None:
    return entry_of(task).published if task in BUILT_IN else None
