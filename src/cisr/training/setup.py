"""How students of a task are trained and evaluated, worked out from what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.training.apart import rehearse
from cisr.training.classroom import check_workers
from cisr.training.records import Lesson, UnitLog, default_observe
from cisr.training.watch import check_step_timeout


def make_lesson(
    task: Task,
    *,
    lane: str = "auto",
    evaluate_in: str = "M",
    deploy_each_unit: bool = False,
    observe: Callable[[UnitLog], Any] = default_observe,
) -> Lesson:
    """The lesson for a task; `evaluate_in` says where final policies are deployed."""
    if evaluate_in not in ("M", "M0"):
        raise ConfigError(
            f"Policies are to be evaluated in '{evaluate_in}': give M (the task) or M0 (safe evaluation)."
        )
    if evaluate_in == "M0" and task.safe_evaluation is None:
        raise ConfigError(f"Task '{task.name}' names no safe evaluation: set safe_evaluation, or evaluate in M.")
    under = task.safe_evaluation if evaluate_in == "M0" and task.safe_evaluation is not None else "none"
    return Lesson(
        task=task,
        lane=choose_lane(task, lane),
        evaluate_under=under,
        deploy_each_unit=deploy_each_unit,
        observe=observe,
    )


def rehearse_lesson(lesson: Lesson, n_workers: int | None, step_timeout: float) -> None:
    """Before a store asks who an environment is: to be made in vain must not end or block this process."""
    check_workers(n_workers)
    check_step_timeout(step_timeout)
    if lesson.lane == "gymnasium":
        rehearse(lesson.task, n_workers, step_timeout)


def choose_lane(task: Task, lane: str) -> Literal["gymnasium", "compiled"]:
    """`auto` is the compiled lane where the task has a compiled twin."""
    if lane not in ("auto", "gymnasium", "compiled"):
        raise ConfigError(f"The lane is '{lane}': give auto, gymnasium or compiled.")
    if lane == "compiled" and task.twin is None:
        raise ConfigError(f"Task '{task.name}' has no compiled twin: use the gymnasium lane.")
    return "gymnasium" if lane == "gymnasium" or task.twin is None else "compiled"
