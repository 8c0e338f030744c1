"""What a study and a comparison set up alike: the lesson, and the settings that a store must agree with."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from cisr.classroom import Batching, Enrolment, Lesson, UnitLog, default_observe
from cisr.curricula import CurriculumPolicy
from cisr.errors import ConfigError, StoreError
from cisr.seeding import derive_seed, generator
from cisr.store import Store
from cisr.students.config import Population, StudentConfig
from cisr.task import Task

if TYPE_CHECKING:
    from cisr.students.student import Student


RUN = "run "
"""Before the name of a study or comparison: the setting that holds its seed and how its students were deployed."""


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


def choose_lane(task: Task, lane: str) -> Literal["gymnasium", "compiled"]:
    """`auto` is the compiled lane where the task has a compiled twin."""
    if lane not in ("auto", "gymnasium", "compiled"):
        raise ConfigError(f"The lane is '{lane}': give auto, gymnasium or compiled.")
    if lane == "compiled" and task.twin is None:
        raise ConfigError(f"Task '{task.name}' has no compiled twin: use the gymnasium lane.")
    return "gymnasium" if lane == "gymnasium" or task.twin is None else "compiled"


def settle(store: Store, name: str, lesson: Lesson, seed: int, batch: int | None = None) -> Batching:
    """Make sure that the store is one of this lesson; returns how its students are cut into batches.

    `name` is that of the study or comparison, whose settings must agree ever after too. `batch` says how many students
    a batch of a new store may have, if not as many as suit this machine.
    """
    if batch is not None and batch < 1:
        raise ConfigError(f"The largest batch is {batch} students: give at least 1.")
    largest = store.settings().get("batching", {}).get("largest", batch)
    if batch not in (None, largest):
        raise StoreError(
            f"{store} was made with batches of at most {largest} students, this run has {batch}: "
            f"give another store, or the same batch."
        )
    task = lesson.task
    run = {"seed": seed, "deployed under": lesson.evaluate_under, "deployed each unit": lesson.deploy_each_unit}
    settings = {
        "task": task.name,
        "scale": task.scale,
        "student": task.student_kind,
        "lane": lesson.lane,
        "definition": describe(task),
        "student settings": describe_student(task),
        RUN + name: run,
    }
    store.settle(settings)
    if "batching" not in store.settings():
        usual = Batching.for_this_machine(lesson.lane)
        batching = usual if batch is None else usual._replace(largest=batch)
        store.settle({"batching": batching._asdict(), "made with": versions()})
        store.settle({} if task.floor_plan is None else {"floor plan": task.floor_plan})
        store.settle({} if task.scenery is None else {"scenery": task.scenery})
    return Batching(**store.settings()["batching"])


def versions() -> dict[str, str]:
    """What a store was made with: needed to make it again, not to go on with it."""
    found = {"python": platform.python_version()}
    for package in ("cisr", "jax", "numpy", "gymnasium", "scikit-learn"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def describe(task: Task) -> dict[str, Any]:
    """What can be compared of a task, as JSON: two tasks that differ here must not share a store."""
    return {
        "horizon": task.horizon,
        "n_units": task.n_units,
        "constraint_form": task.constraint_form,
        "kappa": task.kappa,
        "deployment_steps": task.deployment_steps,
        "deterministic_deployment": task.deterministic_deployment,
        "dangers": list(task.dangers),
        "constraints": list(task.constraints),
        "interventions": [
            [i.name, str(i.reset).partition(" at ")[0], i.tau, i.kappa, task.horizon_under(i)]
            for i in task.interventions
        ],
    }


def describe_student(task: Task) -> dict[str, Any]:
    """The settings of a task's students, as JSON."""
    if isinstance(task.student, Population):
        return {"base": task.student.base.to_json(), "vary": {k: list(v) for k, v in task.student.vary.items()}}
    return (task.student or StudentConfig()).to_json()


def student_config(task: Task, seed: int, name: str) -> StudentConfig:
    """The settings of one student: the task's, or drawn from its population."""
    if isinstance(task.student, Population):
        return task.student.draw(generator(seed, name, "population"))
    return task.student or StudentConfig()


def new_student(task: Task, policy: CurriculumPolicy, seed: int, name: str) -> Enrolment:
    """A student of a task; who it is follows from the root seed and its name."""
    return Enrolment(name=name, policy=policy, config=student_config(task, seed, name), seed=derive_seed(seed, name))


def load_student(store: Store, task: Task, name: str) -> Student:
    """A student of a store, ready to act: `load_student(store, task, "compare/SR1/000")`."""
    from cisr.classroom.gymnasium import specs_of
    from cisr.students.student import Student

    prefix = "params/"
    weights = store.weights(name)
    observation, distribution = specs_of(task)
    return Student(
        config=store.transcript(name).config,
        observation=observation,
        n_actions=distribution.n_actions,
        params={key.removeprefix(prefix): array for key, array in weights.items() if key.startswith(prefix)},
    )
