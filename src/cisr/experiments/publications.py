"""What papers have published of the built-in tasks."""

from __future__ import annotations

from collections.abc import Mapping

from cisr.core.errors import ConfigError
from cisr.core.publication import Published
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy, policy_from_json
from cisr.tasks import BUILT_IN, entry_of


def publication(task: Task) -> Published:
    """What the paper says of a task and its students."""
    published = _published(task.name)
    if published is None:
        known = ", ".join(filter(_published, BUILT_IN))
        raise ConfigError(f"The paper has no table for '{task.name}': choose one of {known}.")
    kind = task.training.student_kind
    if published.students and kind not in published.students:
        raise ConfigError(
            f"The paper trains no teachers for {kind} students of '{task.name}', it transfers those for "
            f"{published.students[0]} ones: see `cisr compare {task.name} {' '.join(published.teachers)} "
            f"--student {kind}`."
        )
    return published


def published_teachers(task: str) -> Mapping[str, CurriculumPolicy]:
    """Curricula that come with a built-in task, by name."""
    published = _published(task)
    return {} if published is None else {name: policy_from_json(found) for name, found in published.teachers.items()}


def _published(task: str) -> Published | None:
    return entry_of(task).published if task in BUILT_IN else None
