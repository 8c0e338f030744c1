"""The tasks that come with cisr, by name; one folder for each.

May import cmdp, students and core.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cisr.core.checks import check_text, is_one_of, shown
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.students.config import Population, explorer
from cisr.students.kinds import student_of, students_of, with_students
from cisr.students.sb3 import SB3Student
from cisr.tasks.entry import EXPLORER, SCALES, Entry, Scale
from cisr.tasks.own import load_task

BUILT_IN = {
    "frozen-lake": "cisr.tasks.frozen_lake",
    "lunar-lander": "cisr.tasks.lunar_lander",
    "highway": "cisr.tasks.highway",
    "cheetah": "cisr.tasks.cheetah",
}
"""The module of each, whose `ENTRY` says the rest; imported when it is asked for."""
SB3 = "sb3:"
"""How kinds of students begin that are Stable-Baselines3's: sb3:PPO, sb3:SAC, …"""


def entry_of(name: str) -> Entry:
    """What is entered of a built-in task."""
    entry: Entry = importlib.import_module(BUILT_IN[name]).ENTRY
    return entry


def usual_kind(name: str) -> str | None:
    """The kind of students that a task has unless told otherwise; a user's own has no name."""
    return EXPLORER if name in BUILT_IN else None


def papers_kind(name: str, scale: Scale) -> str | None:
    """The kind that stands for the paper's students of a built-in task; None of a user's own."""
    return entry_of(name).scales.get(scale) if name in BUILT_IN else None


def get_task(name: str, scale: Scale = "paper", student: str | None = None) -> Task:
    """A built-in task at a scale and for a kind of student, or the user's own (see `load_task`), with its own students
    or explorers of them."""
    check_text("The name of a task", name)
    if student is not None:
        check_text("The kind of students", student)
    scales = tuple(entry_of(name).scales) if name in BUILT_IN else SCALES
    if not is_one_of(scale, scales):
        raise ConfigError(f"The scale is {shown(scale)}: give one of {', '.join(scales)}.")
    return _built_in(name, scale, student) if name in BUILT_IN else _own(name, student)


def task_of(settings: Mapping[str, Any], given: str | None) -> Task:
    """The task of a store, from its settings. A store may come from anywhere and never names code to import: a task of
    the user's own must be given."""
    name = settings.get("task")
    if given is not None:
        task = get_task(given)
        if task.name != name:
            raise ConfigError(
                f"The store is one of task '{name}', --task {given} is '{task.name}': give that of the store."
            )
        return task
    if name not in BUILT_IN or settings.get("scale") == "own":
        raise ConfigError(
            f"The store is one of task '{name}', which is not built in: give it as --task module:attribute."
        )
    return get_task(name, settings["scale"], settings.get("student"))


def _built_in(name: str, scale: Scale, student: str | None) -> Task:
    entry, kind = entry_of(name), student or EXPLORER
    if kind.startswith(SB3):
        return _with_sb3(entry.make(scale, EXPLORER), kind)
    if kind not in entry.students:
        known = ", ".join((*entry.students, f"{SB3}ALGORITHM"))
        raise ConfigError(f"Task '{name}' has no student '{kind}': choose one of {known}.")
    return entry.make(scale, kind)


def _own(name: str, student: str | None) -> Task:
    if ":" not in name:
        raise ConfigError(
            f"There is no task '{name}': choose one of {', '.join(BUILT_IN)}, "
            f"or give your own as module:attribute or path/to/file.py:attribute."
        )
    if student is not None and student.startswith(SB3):
        return _with_sb3(load_task(name), student)
    if student not in (None, EXPLORER):
        raise ConfigError(
            f"'{name}' is your own task: set its student there, or choose {EXPLORER} or {SB3}ALGORITHM; kinds such as "
            f"'{student}' are built in."
        )
    task = load_task(name)
    return task if student is None else _with_explorers(task)


def _with_sb3(task: Task, kind: str) -> Task:
    """The task with students of an algorithm of Stable-Baselines3, as much like its own as can be."""
    return with_students(task, SB3Student.like(student_of(task), kind.removeprefix(SB3)))


def _with_explorers(task: Task) -> Task:
    """The task with explorers of its own students."""
    own = students_of(task)
    ours = replace(own, base=explorer(own.base)) if isinstance(own, Population) else explorer(student_of(task))
    return task.with_training(student=ours, student_kind=EXPLORER)
