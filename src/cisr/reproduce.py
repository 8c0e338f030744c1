"""Reproduction of a paper's table: independent teachers, then fresh students under what they found and the baselines.

As in the paper, each teacher's curriculum trains a class of new students, and so does every baseline, once for each
teacher; the standard errors are over these repetitions. Teachers by random search have the same budget of students.
Every number comes from transcripts in the store, named `evaluation-<repetition>/<curriculum>/<student>`; a finding in
the store says that it holds a reproduction, so that a report can set it beside the paper without knowing the task.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cisr.classroom import Classroom, Transcript
from cisr.compare import Comparison, Estimate, enrol, estimate, summarise_group
from cisr.curricula import Bandit, CurriculumPolicy, Fixed, named_policy
from cisr.errors import ConfigError
from cisr.lesson import make_lesson, settle
from cisr.store import Store
from cisr.study import Listener, Study, ignore, random_teacher, run_together
from cisr.task import Task

PUBLICATIONS = {"frozen-lake": "cisr.tasks.frozen_lake.publication:FROZEN_LAKE"}
OPTIMIZED, RANDOM_SEARCH = "Optimized", "Random search"
FINDING = "reproduction"
"""The name under which the store keeps what is reproduced; see `finding`."""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """Numbers of the paper as (mean, standard error)."""

    success: tuple[float, float]
    training_failures: tuple[float, float]
    mean_return: tuple[float, float]

    @staticmethod
    def from_json(record: Mapping[str, Sequence[float]]) -> PublishedRow:
        return PublishedRow(**{name: (mean, sem) for name, (mean, sem) in record.items()})


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a paper says of a task, and what to set beside it."""

    title: str
    rows: Mapping[str, PublishedRow]
    teachers: Mapping[str, CurriculumPolicy]
    """Curricula that the authors found."""
    baselines: tuple[str, ...]
    """Later baselines by others."""


@dataclass(frozen=True, kw_only=True)
class ReproducedRow:
    """One curriculum: estimates whose unit is the repetition, that is, a teacher with its class of students."""

    curriculum: str
    success: Estimate
    training_failures: Estimate
    mean_return: Estimate
    published: PublishedRow | None

    def to_json(self) -> dict[str, Any]:
        ours = {
            "success": self.success.to_json(),
            "training_failures": self.training_failures.to_json(),
            "return": self.mean_return.to_json(),
        }
        paper = self.published and {
            "success": self.published.success,
            "training_failures": self.published.training_failures,
            "return": self.published.mean_return,
        }
        return {"curriculum": self.curriculum, "ours": ours, "paper": paper}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    title: str
    repetitions: int
    students: int
    rows: tuple[ReproducedRow, ...]
    policies: Mapping[str, tuple[CurriculumPolicy, ...]]
    """What the teachers found, by kind of teacher."""
    comparison: Comparison
    """All students together, for figures."""

    def pictured(self) -> Comparison:
        """The curricula of the paper's own figure."""
        labels = [row.curriculum for row in self.rows if row.published is not None]
        return replace(self.comparison, transcripts={label: self.comparison.transcripts[label] for label in labels})

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.comparison.task,
            "scale": self.comparison.scale,
            "repetitions": self.repetitions,
            "students": self.students,
            "rows": [row.to_json() for row in self.rows],
            "policies": {kind: [p.to_json() for p in policies] for kind, policies in self.policies.items()},
            "pooled": self.comparison.to_json()["rows"],
        }


def publication(task: Task) -> Published:
    if task.name not in PUBLICATIONS:
        raise ConfigError(f"The paper has no table for '{task.name}': choose one of {', '.join(PUBLICATIONS)}.")
    module, _, name = PUBLICATIONS[task.name].partition(":")
    published: Published = getattr(importlib.import_module(module), name)
    return published


def reproduce(
    task: Task,
    store: Store,
    *,
    n_teachers: int = 3,
    n_students: int = 10,
    seed: int = 0,
    lane: str = "auto",
    n_workers: int | None = None,
    batch: int | None = None,
    listener: Listener = ignore,
) -> Reproduction:
    """Train the teachers, evaluate what they found beside the baselines, and sum up as the paper does."""
    if n_teachers < 1 or n_students < 1:
        raise ConfigError(f"{n_teachers} teachers, {n_students} students: give at least 1 of each.")
    paper = publication(task)
    kinds = {
        OPTIMIZED: teacher_studies(task, n_teachers, seed, lane),
        RANDOM_SEARCH: random_studies(task, n_teachers, seed, lane),
    }
    names = [f"evaluation-{k + 1}" for k in range(n_teachers)]
    lesson = make_lesson(task, lane=lane, deploy_each_unit=True)
    for name in names:
        batching = settle(store, name, lesson, seed, batch)
    searches = [study.name for studies in kinds.values() for study in studies]
    store.keep_findings(FINDING, finding(task, paper, names, searches, n_students))
    results = run_together([study for studies in kinds.values() for study in studies], store, n_workers, listener)
    found = iter(result.policy for result in results)
    policies = {kind: tuple(next(found) for _ in studies) for kind, studies in kinds.items()}

    repetitions = []
    for k, name in enumerate(names):
        curricula = {
            OPTIMIZED: policies[OPTIMIZED][k],
            **baselines(task, paper),
            RANDOM_SEARCH: policies[RANDOM_SEARCH][k],
        }
        repetitions.append(enrol(task, curricula, n_students, seed, name))
    with Classroom(lesson, store, batching=batching, n_workers=n_workers, listener=listener) as classroom:
        everyone = (student for groups in repetitions for group in groups.values() for student in group)
        taught = {transcript.name: transcript for transcript in classroom.teach(everyone)}
    groups = {label: [[taught[s.name] for s in r[label]] for r in repetitions] for label in repetitions[0]}
    pooled = {label: tuple(t for group in each for t in group) for label, each in groups.items()}
    return Reproduction(
        title=paper.title,
        repetitions=n_teachers,
        students=n_students,
        rows=tuple(reproduced_row(label, each, paper.rows.get(label)) for label, each in groups.items()),
        policies=policies,
        comparison=Comparison(
            task=task.name,
            scale=task.scale,
            rows=tuple(summarise_group(label, group, seed) for label, group in pooled.items()),
            transcripts=pooled,
        ),
    )


def finding(
    task: Task, paper: Published, repetitions: Sequence[str], searches: Sequence[str], n_students: int
) -> dict[str, Any]:
    """What a report must know of a reproduction, as JSON: what belongs to it, its rows in order, the numbers beside."""
    labels = (OPTIMIZED, *baselines(task, paper), RANDOM_SEARCH)
    return {
        "title": paper.title,
        "repetitions": list(repetitions),
        "searches": list(searches),
        "students": n_students,
        "rows": [[label, asdict(paper.rows[label]) if label in paper.rows else None] for label in labels],
    }


def teacher_studies(task: Task, n: int, seed: int, lane: str) -> list[Study]:
    return [Study(task, name=f"teacher-{k + 1}", seed=seed, lane=lane) for k in range(n)]


def random_studies(task: Task, n: int, seed: int, lane: str) -> list[Study]:
    """Random search with as many policies; they need not wait for each other."""
    n_policies = task.teaching.n_initial + task.teaching.n_rounds
    return [
        Study(
            task, name=f"random-{k + 1}", seed=seed, lane=lane, teacher=random_teacher, n_initial=n_policies, n_rounds=0
        )
        for k in range(n)
    ]


def baselines(task: Task, paper: Published) -> dict[str, CurriculumPolicy]:
    """What every repetition is compared with, by the paper's names."""
    single: dict[str, CurriculumPolicy] = {name: Fixed(name) for name in task.choices}
    others = {name: named_policy(name, task.n_units) for name in paper.baselines}
    return {
        **single,
        "Bandit": Bandit(task.choices),
        "No-interv.": Fixed("none"),
        **paper.teachers,
        **others,
    }


def n_students_in_all(task: Task, n_teachers: int, n_students: int) -> int:
    """Students that a reproduction trains."""
    searched = 2 * n_teachers * (task.teaching.n_initial + task.teaching.n_rounds) * task.teaching.class_size
    return searched + n_teachers * n_students * (len(baselines(task, publication(task))) + 2)


def reproduced_row(
    label: str, repetitions: Sequence[Sequence[Transcript]], published: PublishedRow | None
) -> ReproducedRow:
    """Sum up the classes of one curriculum, one for each repetition."""
    means = [summarise_group(label, group) for group in repetitions]
    return ReproducedRow(
        curriculum=label,
        success=estimate([row.success.mean for row in means if not np.isnan(row.success.mean)]),
        training_failures=estimate([row.training_failures.mean for row in means]),
        mean_return=estimate([row.mean_return.mean for row in means if not np.isnan(row.mean_return.mean)]),
        published=published,
    )
