"""What a result belongs to: the task by content, its students, the teacher. A store refuses everything else."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

from cisr.core.errors import CisrError, NotInstalled
from cisr.core.libraries import GYMNASIUM
from cisr.core.rewinds import first_rewind
from cisr.core.task import Task
from cisr.core.version import __version__
from cisr.curricula.space import Real
from cisr.store.fingerprint import Fingerprint, fingerprint
from cisr.students.config import Population
from cisr.students.kinds import students_of
from cisr.system.interrupts import users_errors
from cisr.teachers.base import Teacher
from cisr.training import TrainingSetup

if GYMNASIUM:  # compiled students do without
    from cisr.store.fingerprint.environment import fingerprint_of_environment

ENVIRONMENT = "environment"


def identity(setup: TrainingSetup) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What two runs must have in common to share a store, as JSON; and what of it cannot be told by content."""
    task = setup.task
    code: dict[str, Any] = {}
    packages: dict[str, str] = {}
    unknown: list[str] = []
    for part, found in _parts(task, setup.backend):
        code[part] = found.content
        packages |= found.packages
        unknown += [f"{part}: {what}" for what in found.unknown]
    if setup.backend == "sb3":
        packages |= {package: metadata.version(package) for package in ("stable-baselines3", "torch")}
    settings = {
        "task": task.name,
        "scale": task.training.scale,
        "student": task.training.student_kind,
        "backend": setup.backend,
        "cisr": __version__,
        "definition": describe(task),
        "student settings": describe_student(task),
        "version": task.version,
        "code": code,
        "packages": packages,
    }
    return settings, tuple(unknown)


def _parts(task: Task, backend: str) -> Iterator[tuple[str, Fingerprint]]:
    """Everything that a user wrote and that students meet on a backend, by name; elsewhere they meet none of it."""
    if backend == "elsewhere":
        return
    for intervention in task.interventions:
        for name, trigger in intervention.triggers.items():
            yield f"trigger '{name}' of '{intervention.name}'", fingerprint(trigger)
        yield f"reset of '{intervention.name}'", fingerprint(intervention.reset)
    for name, danger in task.dangers.items():
        yield f"danger '{name}'", fingerprint(danger)
    yield "success", fingerprint(task.success)
    if task.reward is not None:
        yield "reward", fingerprint(task.reward)
    if backend == "compiled":
        yield "jax_env", fingerprint(task.jax_env)
        if task.training.xla_flags:  # roundings depend on them
            yield "xla_flags", fingerprint(task.training.xla_flags)
        return
    for what in ("make_env", "read_state", "place", "save", "restore"):
        if (function := getattr(task, what)) is not None:
            yield what, fingerprint(function)
    found = _environment(task.make_env)
    if found is not None:
        yield ENVIRONMENT, found


def _environment(make_env: Callable[[], Any]) -> Fingerprint | None:
    """None where none can be made: students will say why."""
    try:
        env = make_env()
    except CisrError:
        raise
    except users_errors():
        return None
    found = fingerprint_of_environment(env)
    with contextlib.suppress(*users_errors()):
        env.close()
    return found


def audited(task: Task) -> dict[str, Any]:
    """Everything that an audit's verdicts depend on, as JSON."""
    try:
        code = {part: found.content for part, found in _parts(task, "gymnasium")}
    except NotInstalled:
        if task.jax_env is None:
            raise
        code = {part: found.content for part, found in _parts(task, "compiled")}
    model, jax_env = fingerprint(task.model).content, fingerprint(task.jax_env).content
    return {"cisr": __version__, "definition": describe(task), "code": code, "model": model, "jax_env": jax_env}


def describe(task: Task) -> dict[str, Any]:
    """The numbers of a task, as JSON."""
    rewound = first_rewind(task.interventions)
    return {
        "horizon": task.horizon,
        "n_units": task.training.n_units,
        "constraint_form": task.constraint_form,
        "kappa": task.kappa,
        "deployment_steps": task.training.deployment_steps,
        "max_reward": task.max_reward,
        "safe_evaluation": task.safe_evaluation,
        "rewind_like": None if rewound is None else rewound.name,
        "dangers": list(task.dangers),
        "constraints": list(task.constraints),
        "interventions": list(task.intervention_names),
        "tolerances": [
            {"name": i.name, "tau": i.tau, "kappa": i.kappa, "horizon": task.horizon_under(i)}
            for i in task.interventions
        ],
    }


def describe_student(task: Task) -> dict[str, Any]:
    """The settings of a task's students, as JSON."""
    students = students_of(task)
    if isinstance(students, Population):
        return {"base": students.base.to_json(), "vary": {k: list(v) for k, v in students.vary.items()}}
    return students.to_json()


def describe_teacher(teacher: Teacher) -> dict[str, Any]:
    """A teacher that has not been told anything yet, as JSON: where it searches, its class, its settings."""
    settings = {
        name: fingerprint(value).content
        for name, value in vars(teacher).items()
        if not name.startswith("_") and name not in ("seed", "space")
    }
    space = {
        p.name: {"low": p.low, "high": p.high} if isinstance(p, Real) else {"options": list(p.options)}
        for p in teacher.space.parameters
    }
    kind = type(teacher).__name__
    return {"searches": space, "kind": kind, "code": fingerprint(type(teacher)).content, "settings": settings}


def versions() -> dict[str, str]:
    """What a store was made with: needed to make it again, not to go on with it."""
    found = {"python": platform.python_version(), "cisr": __version__}
    for package in ("jax", "numpy", "gymnasium", "scikit-learn"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
