"""Backends measured in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import jax

from cisr.core.checks import MOST_STUDENTS, check_kind, check_names, check_whole
from cisr.core.errors import ConfigError
from cisr.core.libraries import GYMNASIUM, installed
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task
from cisr.experiments.bench.classroom import classroom_rate
from cisr.experiments.bench.processes import sb3_rate
from cisr.experiments.bench.throughput import BACKENDS, BASELINES, Throughput
from cisr.experiments.bench.work import Work
from cisr.students.kinds import student_of
from cisr.system.compilation import accelerator_bytes
from cisr.training.classroom import MOST_WORKERS

if GYMNASIUM:
    from cisr.training.spaces import specs_of

STUDENTS_FOR_A_CORE, STUDENTS_FOR_AN_ACCELERATOR = 4, 256
MOST_REPETITIONS, LONGEST = 1_000, 86_400.0
ENDLESS = 1_000_000
"""Units of a student that is stopped by the clock."""


def bench(
    task: Task,
    *,
    intervention: str | None = None,
    backends: Sequence[str] = BACKENDS,
    repetitions: int = 3,
    seconds: float = 20.0,
    students: int | None = None,
    cores: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> Throughput:
    """Measure each backend `repetitions` times, in turns, for at least `seconds` each.

    `intervention` is the task's first by default. `students` is the size of a batch on the compiled backend, and on the
    gymnasium backend unless the compiled one has an accelerator. `cores` is how many processes run side by side.
    `say` hears lines of progress.
    """
    _check(backends, repetitions, seconds, students, cores)
    check_seed(seed)
    if intervention is None:
        intervention = (*task.intervention_names, "none")[0]
    task.intervention(intervention)
    reasons = {backend: reason for backend in backends if (reason := _why_not(task, backend))}
    measured = [backend for backend in BACKENDS if backend in backends and backend not in reasons]
    if not measured:
        raise ConfigError(" ".join(reasons.values()) or "There is no backend to measure: name at least one.")
    if measured != ["compiled"]:
        specs_of(task)  # what is wrong with its environment is said before anything is started
    for reason in reasons.values():
        say(reason)
    cores = cores or os.cpu_count() or 1
    batches = _batches(students)
    endless = task.with_training(n_units=ENDLESS)  # one object for all turns: programs are compiled for a task object
    work = Work(endless, student_of(task), intervention, seconds, seed)
    rates: dict[str, list[float]] = {backend: [] for backend in measured}
    for turn in range(repetitions):
        for backend in measured:
            say(f"turn {turn + 1} of {repetitions}: {backend} …")
            rate = _rate(work._replace(seed=derive_seed(seed, turn)), backend, cores, batches[backend])
            rates[backend].append(rate)
            say(f"turn {turn + 1} of {repetitions}: {backend} {rate:,.0f} steps/s")
    return Throughput(
        task=task.name,
        scale=task.training.scale,
        intervention=intervention,
        cores=cores,
        device=str(jax.devices()[0].device_kind),
        batches={backend: batches[backend] for backend in measured},
        rates={backend: tuple(found) for backend, found in rates.items()},
        tabulated="compiled" in measured and task.jax_env is not None and task.jax_env().table is not None,
        left_out=tuple(reasons.values()),
    )


def _check(backends: Sequence[str], repetitions: int, seconds: float, students: int | None, cores: int | None) -> None:
    check_names("The backends to measure", backends)
    for name in backends:
        if name not in BACKENDS:
            raise ConfigError(f"There is no backend '{name}' to measure: choose from {', '.join(BACKENDS)}.")
    for what, number, most in (
        ("repetitions", repetitions, MOST_REPETITIONS),
        ("students in a batch", students, MOST_STUDENTS),
        ("cores", cores, MOST_WORKERS),
    ):
        if number is not None:
            check_whole(f"The number of {what}", number, 1, most)
    check_kind("The time to measure", seconds, (int, float), "a number of seconds")
    if not 0 < seconds <= LONGEST:
        raise ConfigError(f"The time to measure is {seconds:g} seconds: give a number above 0, at most {LONGEST:g}.")


def _batches(students: int | None) -> dict[str, int]:
    """Students that each process teaches at once, by backend."""
    accelerated = accelerator_bytes() is not None
    per_core = STUDENTS_FOR_A_CORE if students is None or accelerated else students
    compiled = students or STUDENTS_FOR_AN_ACCELERATOR if accelerated else per_core
    return {"compiled": compiled, "gymnasium": per_core, **dict.fromkeys(BASELINES, 1)}


def _rate(work: Work, backend: str, cores: int, size: int) -> float:
    """Steps per second."""
    if backend in BASELINES:
        return sb3_rate(work._replace(plain=backend == "sb3-plain"), cores)
    if backend == "compiled":
        return classroom_rate(work, "compiled", 1 if accelerator_bytes() is not None else cores, size)
    return classroom_rate(work, "gymnasium", cores, size)


def _why_not(task: Task, backend: str) -> str | None:
    """Why a backend cannot be measured here, as a line for the user."""
    if backend == "compiled":
        return f"compiled: left out, task '{task.name}' has no JAX environment." if task.jax_env is None else None
    if not GYMNASIUM:
        return f"{backend}: left out, gymnasium is not installed (pip install gymnasium)."
    if backend in BASELINES and not installed("stable_baselines3"):
        return f"{backend}: left out with its ratios, Stable-Baselines3 is not installed: pip install 'cisr[sb3]'"
    return None
