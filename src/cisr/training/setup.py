"""How students of a task are trained and evaluated, worked out from what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cisr.core.checks import check_kind
from cisr.core.errors import ConfigError
from cisr.core.libraries import needed
from cisr.core.task import Task
from cisr.students.elsewhere import Elsewhere
from cisr.students.kinds import students_of
from cisr.students.sb3 import SB3Student
from cisr.training.apart import rehearse
from cisr.training.execution import Execution, check_backend
from cisr.training.records import BackendName, TrainingSetup, UnitLog, default_observe


def make_setup(
    task: Task,
    *,
    backend: str = "auto",
    evaluate_safely: bool = False,
    deploy_each_unit: bool = False,
    observe: Callable[[UnitLog], Any] = default_observe,
) -> TrainingSetup:
    """The setup for a task; `evaluate_safely` deploys final policies in M_0 instead of the task itself."""
    check_kind("evaluate_safely", evaluate_safely, bool, "True or False")
    if evaluate_safely and task.safe_evaluation is None:
        raise ConfigError(f"Task '{task.name}' names no safe evaluation: set safe_evaluation, or evaluate in the task.")
    under = task.safe_evaluation if evaluate_safely and task.safe_evaluation is not None else "none"
    return TrainingSetup(
        task=task,
        backend=choose_backend(task, backend),
        evaluate_under=under,
        deploy_each_unit=deploy_each_unit,
        observe=observe,
    )


def rehearse_setup(setup: TrainingSetup, execution: Execution) -> None:
    """Before a store asks who an environment is: to be made in vain must not end or block this process."""
    if setup.backend in ("gymnasium", "sb3"):
        rehearse(setup.task, execution.n_workers, execution.step_timeout)


def choose_backend(task: Task, backend: str) -> BackendName:
    """`auto` is what the task says, else the compiled backend where it has a JAX environment and students of ours."""
    check_backend(backend)
    if backend == "auto":
        backend = task.training.backend
    students = students_of(task)
    if isinstance(students, Elsewhere):
        return "elsewhere"
    if isinstance(students, SB3Student):
        if backend == "compiled":
            raise ConfigError("Students of Stable-Baselines3 learn on Gymnasium's environments: use another backend.")
        needed("stable_baselines3", "Stable-Baselines3", "sb3")
        return "sb3"
    if backend == "compiled" and task.jax_env is None:
        raise ConfigError(f"Task '{task.name}' has no JAX environment: use the gymnasium backend.")
    return "gymnasium" if backend == "gymnasium" or task.jax_env is None else "compiled"
