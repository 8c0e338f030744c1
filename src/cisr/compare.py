"""Comparison: fresh students under given curricula, with honest intervals.

Failures in training and failures in deployment are two columns: the first must not happen under a certified
intervention, the second are what the student does once the teacher is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cisr.classroom import Batch, Classroom, Deployment, Enrolment, Event, Transcript
from cisr.curricula import CurriculumPolicy
from cisr.differences import Difference, against_the_others
from cisr.errors import ConfigError, NobodyFinished
from cisr.lesson import (
    deployed,
    make_lesson,
    new_student,
    nobody_finished,
    set_aside,
    settle,
    warn_of_unfinished,
)
from cisr.seeding import check_seed, derive_seed
from cisr.store import Store, opened
from cisr.task import Task
from cisr.trajectories import keep_trajectories

RESAMPLES = 10_000
MEASURES = {"success": 3, "return": 2, "training_failures": 1}
"""By which groups of students are told apart, and digits to show."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over students, its standard error, a 95 % bootstrap interval, and the median, which a few students that
    learned nothing do not move; NaN where there are too few students."""

    mean: float
    sem: float
    low: float
    high: float
    median: float

    def to_json(self) -> dict[str, float | None] | None:
        """JSON has no NaN: null stands for it."""
        if math.isnan(self.mean):
            return None
        return {
            "mean": self.mean,
            "sem": None if math.isnan(self.sem) else self.sem,
            "low": self.low,
            "high": self.high,
            "median": self.median,
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """How the students of one curriculum did."""

    curriculum: str
    students: int
    finished: int
    success: Estimate
    mean_return: Estimate
    training_failures: Estimate
    rescues: Estimate
    deployment_failures: Estimate
    outcomes: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "curriculum": self.curriculum,
            "students": self.students,
            "finished": self.finished,
            "success": self.success.to_json(),
            "return": self.mean_return.to_json(),
            "training_failures": self.training_failures.to_json(),
            "rescues": self.rescues.to_json(),
            "deployment_failures": self.deployment_failures.to_json(),
            "outcomes": dict(self.outcomes),
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    task: str
    scale: str
    student: str | None = None
    """What the task calls its students."""
    rows: tuple[Row, ...]
    transcripts: Mapping[str, tuple[Transcript, ...]]

    @property
    def title(self) -> str:
        return titled(self.task, self.scale, self.student)

    @property
    def measured(self) -> dict[str, dict[str, list[float]]]:
        return measure_groups(self.transcripts)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first curriculum against each other one."""
        return against_the_others(self.measured)

    def to_json(self) -> dict[str, Any]:
        rows = [row.to_json() for row in self.rows]
        differences = [difference.to_json() for difference in self.differences]
        return {
            "task": self.task,
            "scale": self.scale,
            "student": self.student,
            "rows": rows,
            "differences": differences,
        }


def titled(task: str, scale: str, student: str | None) -> str:
    """What students were trained on, in words."""
    return f"{task} ({scale} scale{f', {student} students' if student else ''})"


def compare(
    task: Task,
    curricula: Mapping[str, CurriculumPolicy],
    *,
    n_students: int = 10,
    store: Store | Path | str | None = None,
    name: str = "compare",
    seed: int = 0,
    lane: str = "auto",
    evaluate_in: str = "M",
    deploy_each_unit: bool = False,
    n_workers: int | None = None,
    batch: int | None = None,
    fresh: bool = False,
    listener: Callable[[Batch, Event], None] = lambda batch, event: None,
) -> Comparison:
    """Train `n_students` new students under each curriculum and sum up how they did.

    Students that an error ended are tried again by the next call on the same store. `batch` bounds how many are trained
    together, where memory is short; the store keeps it for good. `fresh` sets what the store holds of this comparison
    aside first.
    """
    if n_students < 1:
        raise ConfigError(f"The number of students is {n_students}: give at least 1.")
    if not curricula:
        raise ConfigError("There is no curriculum to compare: name at least one.")
    check_seed(seed)
    lesson = make_lesson(task, lane=lane, evaluate_in=evaluate_in, deploy_each_unit=deploy_each_unit)
    enrolments = enrol(task, curricula, n_students, seed, name)
    with opened(store) as kept:
        if fresh:
            set_aside(kept, name, lesson)
        batching = settle(kept, name, lesson, deployed(lesson, seed), batch)
        kept.keep_findings(order_name(name), {"order": list(curricula)})
        with Classroom(lesson, kept, batching=batching, n_workers=n_workers, listener=listener) as classroom:
            taught = {t.name: t for t in classroom.teach(e for group in enrolments.values() for e in group)}
        groups = {label: tuple(taught[e.name] for e in group) for label, group in enrolments.items()}
        everyone = [transcript for group in groups.values() for transcript in group]
        if all(transcript.deployment is None for transcript in everyone):
            raise NobodyFinished(nobody_finished(everyone))
        warn_of_unfinished(everyone)
        keep_trajectories(kept, task, name, groups, seed, lesson.evaluate_under)
    rows = tuple(summarise_group(label, group, seed) for label, group in groups.items())
    return Comparison(task=task.name, scale=task.scale, student=task.student_kind, rows=rows, transcripts=groups)


def order_name(comparison: str) -> str:
    """Under which the store keeps in what order a comparison's curricula were last given."""
    return f"order {comparison}"


def summarise_group(label: str, transcripts: Sequence[Transcript], seed: int = 0) -> Row:
    """Sum up the students that finished; training failures count for all, finished or not."""
    finished = [(t, t.deployment) for t in transcripts if t.deployment is not None]

    def over_finished(of: Callable[[Transcript, Deployment], float]) -> Estimate:
        return estimate([of(t, d) for t, d in finished], seed)

    outcomes = finished[0][1].outcomes if finished else {}
    return Row(
        curriculum=label,
        students=len(transcripts),
        finished=len(finished),
        success=over_finished(lambda t, d: d.success),
        mean_return=over_finished(lambda t, d: d.mean_return),
        training_failures=estimate([f for t in transcripts if (f := t.training_failures) is not None], seed),
        rescues=over_finished(lambda t, d: t.rescues),
        deployment_failures=over_finished(lambda t, d: d.failures / d.episodes),
        outcomes={name: float(np.mean([d.outcomes[name] for _, d in finished])) for name in outcomes},
    )


def measure_groups(groups: Mapping[str, Sequence[Transcript]]) -> dict[str, dict[str, list[float]]]:
    """By measure, then by curriculum, a number for each student that finished; failures also for those that broke."""

    def of(value: Callable[[Deployment], float]) -> dict[str, list[float]]:
        return {label: [value(t.deployment) for t in students if t.deployment] for label, students in groups.items()}

    failures = {
        label: [float(f) for t in students if (t.deployment or t.error) and (f := t.training_failures) is not None]
        for label, students in groups.items()
    }
    numbers = (of(lambda d: d.success), of(lambda d: d.mean_return), failures)
    return dict(zip(MEASURES, numbers, strict=True))


def estimate(values: Sequence[float], seed: int = 0) -> Estimate:
    """Mean, standard error and the percentile bootstrap interval of the mean; students are the unit resampled."""
    data = np.asarray(values, float)
    if not len(data):
        return Estimate(mean=math.nan, sem=math.nan, low=math.nan, high=math.nan, median=math.nan)
    rng = np.random.default_rng(derive_seed(seed, "bootstrap"))
    means = data[rng.integers(len(data), size=(RESAMPLES, len(data)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    sem = float(data.std(ddof=1) / np.sqrt(len(data))) if len(data) > 1 else math.nan
    return Estimate(mean=float(data.mean()), sem=sem, low=float(low), high=float(high), median=float(np.median(data)))


def enrol(
    task: Task, curricula: Mapping[str, CurriculumPolicy], n_students: int, seed: int, name: str
) -> dict[str, list[Enrolment]]:
    """New students for each curriculum, named `<comparison>/<label>/<number>`."""

    return {
        label: [new_student(task, policy, seed, f"{name}/{label}/{k:03d}") for k in range(n_students)]
        for label, policy in curricula.items()
    }
