"""The tasks that come with cisr, by name; one folder for each.

May import cmdp, students, core and system.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from cisr.core.checks import check_text
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.students.config import Population, explorer, students_of
from cisr.tasks.own import load_task

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

EXPLORER = "explorer"
"""Our own kind of students, which every task has; the usual kind of those that are built in."""

PAPERS_KINDS: dict[str, dict[Scale, str]] = {
    "frozen-lake": {"paper": "cnn", "quick": "mlp"},
    "lunar-lander": {"paper": "two-layer", "quick": "two-layer"},
}
"""The kinds that stand for the paper's students: published figures are about these."""


def student_kinds(name: str) -> tuple[str, ...]:
    """Kinds of students that a built-in task has."""
    return tuple(_load(STUDENTS[name]))


def usual_kind(name: str) -> str | None:
    """The kind that a task has unless told otherwise; a user's own has no name."""
    return EXPLORER if name in BUILT_IN else None


def papers_kind(name: str, scale: Scale) -> str | None:
    """The paper's kind of a built-in task; None for a task that is the user's own."""
    return PAPERS_KINDS[name][scale] if name in PAPERS_KINDS else None


def get_task(name: str, scale: Scale = "paper", student: str | None = None) -> Task:
    """A built-in task at a scale and for a kind of student, or the user's own (see `load_task`), with its own students
    or explorers of them."""
    check_text("The name of a task", name)
    if scale not in SCALES:
        raise ConfigError(f"The scale is '{scale}': give one of {', '.join(SCALES)}.")
    if name in BUILT_IN:
        make: Callable[[Scale, str | None], Task] = _load(BUILT_IN[name])
        return make(scale, student)
    if ":" not in name:
        raise ConfigError(
            f"There is no task '{name}': choose one of {', '.join(BUILT_IN)}, "
            f"or give your own as module:attribute or path/to/file.py:attribute."
        )
    if student not in (None, EXPLORER):
        raise ConfigError(
            f"'{name}' is your own task: set its student there, or choose {EXPLORER}; kinds such as '{student}' are "
            f"built in."
        )
    task = load_task(name)
    return task if student is None else _with_explorers(task)


def _with_explorers(task: Task) -> Task:
    """The task with explorers of its own students."""
    own = students_of(task)
    ours = replace(own, base=explorer(own.base)) if isinstance(own, Population) else explorer(own)
    return replace(task, student=ours, student_kind=EXPLORER)


def _load(path: str) -> Any:
    """What comes with cisr."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
