"""The tasks that come with cisr, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

from cisr.errors import ConfigError
from cisr.task import Task

Scale = Literal["paper", "quick"]
SCALES: tuple[Scale, ...] = ("paper", "quick")

BUILT_IN = {
    "frozen-lake": "cisr.tasks.frozen_lake:frozen_lake",
    "lunar-lander": "cisr.tasks.lunar_lander:lunar_lander",
}

STUDENTS = {
    "frozen-lake": "cisr.tasks.frozen_lake:STUDENTS",
    "lunar-lander": "cisr.tasks.lunar_lander:STUDENTS",
}


def student_kinds(name: str) -> tuple[str, ...]:
    """Kinds of students that a built-in task has."""
    return tuple(_load(STUDENTS[name]))


def get_task(name: str, scale: Scale = "paper", student: str | None = None) -> Task:
    """A built-in task at a scale and for a kind of student, or the user's own as `package.module:attribute` (a Task or
    a function of none)."""
    if scale not in SCALES:
        raise ConfigError(f"The scale is '{scale}': give one of {', '.join(SCALES)}.")
    if name in BUILT_IN:
        make: Callable[[Scale, str | None], Task] = _load(BUILT_IN[name])
        return make(scale, student)
    if ":" not in name:
        raise ConfigError(
            f"There is no task '{name}': choose one of {', '.join(BUILT_IN)}, "
            f"or give your own as package.module:attribute."
        )
    if student is not None:
        raise ConfigError(f"'{name}' is your own task: set its student there; kinds such as '{student}' are built in.")
    found = _load(name)
    task = found() if callable(found) else found
    if not isinstance(task, Task):
        raise ConfigError(f"'{name}' is a {type(task).__name__}: name a cisr.Task, or a function that returns one.")
    return task


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ConfigError(f"Cannot import '{module}' for the task '{path}': {error}.") from error
    except AttributeError as error:
        raise ConfigError(f"Module '{module}' has no '{attribute}': check the name of your task.") from error
