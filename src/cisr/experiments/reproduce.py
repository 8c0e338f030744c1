"""Reproduction of a paper's table: independent teachers, then fresh students under what they found and the baselines.

As in the paper, each teacher's curriculum trains a class of new students, and so does every baseline, once for each
teacher; standard errors, intervals and tests are over these repetitions, because the students of one teacher share its
luck. Teachers by random search have the same budget of students. Where the paper applies what teachers found to other
kinds of students, so is it here, each on a store of its own (`transferred`).
Every number comes from transcripts in the store, named `evaluation-<repetition>/<curriculum>/<student>`; a finding in
the store says that it holds a reproduction, so that a report can set it beside the paper without knowing the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from cisr.core.callback import Callback, check_callback, ignore
from cisr.core.checks import MOST_STUDENTS, check_whole
from cisr.core.errors import ConfigError
from cisr.core.publication import Published
from cisr.core.seeding import check_seed
from cisr.core.task import Task
from cisr.curricula import Bandit, CurriculumPolicy, Fixed, named_policy
from cisr.experiments.compare import register
from cisr.experiments.comparison import Comparison, Kept, comparison_of
from cisr.experiments.differences import Difference
from cisr.experiments.playing import keep_trajectories
from cisr.experiments.publications import is_transfer, publication, published_teachers
from cisr.experiments.reproduced import ReproducedRow, entitled, reproduced_row, told_apart
from cisr.experiments.safe_evaluation import settle
from cisr.experiments.search import random_teacher
from cisr.experiments.study import Study, run_together
from cisr.experiments.withdrawal import withdrawn
from cisr.store import Store
from cisr.store.runs import announce_aside, begin, deployed, plan_students
from cisr.system.interrupts import interrupts_told_apart
from cisr.tasks.entry import EXPLORER
from cisr.teachers import Belief
from cisr.training import Batching, Classroom, Execution, TrainingSetup
from cisr.training.finished import check_finished
from cisr.training.setup import make_setup

OPTIMIZED, RANDOM_SEARCH = "Optimized", "Random search"
MOST_TEACHERS = 1_000


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    title: str
    repetitions: int
    students: int
    rows: tuple[ReproducedRow, ...]
    policies: Mapping[str, tuple[CurriculumPolicy, ...]]
    """What the teachers found, by kind of teacher."""
    beliefs: tuple[Belief | None, ...]
    """What each optimizing teacher believes of what it found; None of one that does not know how sure it is."""
    comparison: Comparison
    """All students together, for figures."""
    published: Published

    @property
    def ours(self) -> bool:
        """Whether it is of our students and teacher."""
        return self.comparison.student_kind == EXPLORER

    @property
    def differences(self) -> tuple[Difference, ...]:
        return told_apart(self.rows)

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
            "differences": [difference.to_json() for difference in self.differences],
            "policies": {kind: [p.to_json() for p in policies] for kind, policies in self.policies.items()},
            "beliefs": [belief and asdict(belief) for belief in self.beliefs],
            "pooled": self.comparison.to_json()["rows"],
            "withdrawn": [one.to_json() for one in self.comparison.withdrawn],
        }


class Plan(NamedTuple):
    """What a reproduction will do on its store."""

    setup: TrainingSetup
    batching: Batching
    repetitions: list[str]
    """Names of the comparisons."""
    studies: dict[str, list[Study]]
    """By kind of teacher; none where the curricula are those of other students' teachers."""


def plan(
    task: Task,
    store: Store,
    *,
    n_teachers: int,
    seed: int,
    execution: Execution,
    fresh: bool = False,
) -> Plan:
    """Make sure that the store is one of this reproduction; `fresh` sets what it holds aside first."""
    n_teachers, seed = check_n_teachers(n_teachers), check_seed(seed)
    if fresh:
        announce_aside(store.set_aside(store.runs()))
    studies = {
        kind: make(task, n_teachers, seed, execution)
        for kind, make in ((OPTIMIZED, teacher_studies), (RANDOM_SEARCH, random_studies))
        if not is_transfer(task)
    }
    repetitions = [f"evaluation-{k + 1}" for k in range(n_teachers)]
    asked = make_setup(task, backend=execution.backend, deploy_each_unit=publication(task).deploy_each_unit)
    setup = settle(asked, store, execution).setup
    for name in repetitions:
        batching = begin(store, name, setup, deployed(setup, seed), execution)
    return Plan(setup, batching, repetitions, studies)


@interrupts_told_apart()
def reproduce(
    task: Task,
    store: Store,
    *,
    n_teachers: int = 3,
    n_students: int = 10,
    seed: int = 0,
    execution: Execution = Execution(),
    callback: Callback = ignore,
) -> Reproduction:
    """Train the teachers, evaluate what they found beside the baselines, and sum up as the paper does."""
    check_callback(callback)
    n_students = check_whole("The number of students", n_students, 1, MOST_STUDENTS)
    n_teachers, seed = check_n_teachers(n_teachers), check_seed(seed)
    check_own_teachers(task)
    planned = plan(task, store, n_teachers=n_teachers, seed=seed, execution=execution)
    searching = [study for studies in planned.studies.values() for study in studies]
    _announce(task, store, planned, n_students)
    found = iter(run_together(searching, store, execution, callback))
    by_kind = {kind: [next(found) for _ in studies] for kind, studies in planned.studies.items()}
    policies = {kind: tuple(result.best_policy for result in each) for kind, each in by_kind.items()}
    beliefs = tuple(result.belief for result in by_kind[OPTIMIZED])
    return _evaluate(task, store, planned, policies, beliefs, n_students, seed, execution, callback)


@interrupts_told_apart()
def transferred(
    task: Task,
    store: Store,
    policies: Sequence[CurriculumPolicy],
    *,
    n_students: int = 10,
    seed: int = 0,
    execution: Execution = Execution(),
    callback: Callback = ignore,
) -> Reproduction:
    """What each teacher of other students found, evaluated on the task's own beside the baselines."""
    planned = plan(task, store, n_teachers=len(policies), seed=seed, execution=execution)
    _announce(task, store, planned, n_students)
    found = {OPTIMIZED: tuple(policies)}
    return _evaluate(task, store, planned, found, (None,) * len(policies), n_students, seed, execution, callback)


def _announce(task: Task, store: Store, planned: Plan, n_students: int) -> None:
    """Have the store say what it will hold."""
    paper = publication(task)
    searches = [study.name for studies in planned.studies.values() for study in studies]
    store.keep_reproduction(finding(task, paper, planned.repetitions, searches, n_students))
    for name in planned.repetitions:
        plan_students(store, name, n_students * len(_labels(task, paper)))


def _evaluate(
    task: Task,
    store: Store,
    planned: Plan,
    policies: Mapping[str, tuple[CurriculumPolicy, ...]],
    beliefs: tuple[Belief | None, ...],
    n_students: int,
    seed: int,
    execution: Execution,
    callback: Callback,
) -> Reproduction:
    """Fresh students under what each teacher found and under the baselines."""
    setup, batching, names, _ = planned
    paper = publication(task)
    repetitions = []
    for k, name in enumerate(names):
        curricula = baselines(task, paper) | {kind: each[k] for kind, each in policies.items()}
        ordered = {label: curricula[label] for label in _labels(task, paper)}
        repetitions.append(register(task, ordered, n_students, seed, name))
    with Classroom(setup, store, batching=batching, callback=callback, **execution.classroom) as classroom:
        everyone = (student for groups in repetitions for group in groups.values() for student in group)
        taught = {transcript.name: transcript for transcript in classroom.teach(everyone)}
    check_finished(list(taught.values()))
    groups = {label: [[taught[s.name] for s in r[label]] for r in repetitions] for label in repetitions[0]}
    pooled = {label: tuple(t for group in each for t in group) for label, each in groups.items()}
    keep_trajectories(store, task, pooled, seed, **execution.processes)
    return Reproduction(
        title=entitled(paper.title, task.training.student_kind),
        repetitions=len(names),
        students=n_students,
        rows=tuple(reproduced_row(label, each, paper.rows.get(label)) for label, each in groups.items()),
        policies=policies,
        beliefs=beliefs,
        comparison=comparison_of(
            task,
            pooled,
            None if store.path is None else Kept(store.path, task),
            withdrawn(store.audit(), store.transcripts()),
        ),
        published=paper,
    )


def finding(
    task: Task, paper: Published, repetitions: Sequence[str], searches: Sequence[str], n_students: int
) -> dict[str, Any]:
    """What a report must know of a reproduction, as JSON: what belongs to it, its rows in order, the numbers beside."""
    labels = _labels(task, paper)
    return {
        "title": paper.title,
        "repetitions": list(repetitions),
        "searches": list(searches),
        "students": n_students,
        "rows": [[label, asdict(paper.rows[label]) if label in paper.rows else None] for label in labels],
    }


def _labels(task: Task, paper: Published) -> tuple[str, ...]:
    """The rows, in order."""
    return (OPTIMIZED, *baselines(task, paper), *(() if is_transfer(task) else (RANDOM_SEARCH,)))


def teacher_studies(task: Task, n: int, seed: int, execution: Execution = Execution()) -> list[Study]:
    return [Study(task, name=f"teacher-{k + 1}", seed=seed, execution=execution) for k in range(n)]


def random_studies(task: Task, n: int, seed: int, execution: Execution = Execution()) -> list[Study]:
    """Random search with as many policies; they need not wait for each other.

    Where a study finds its ranges with its first policies, each intervention alone, so do these, within the number.
    """
    usual = task.training.teaching
    teaching = replace(usual, n_initial=usual.n_initial + usual.n_rounds, n_rounds=0)
    names = [f"random-{k + 1}" for k in range(n)]
    return [
        Study(task, teacher=random_teacher, teaching=teaching, seed=seed, name=name, execution=execution)
        for name in names
    ]


def baselines(task: Task, paper: Published) -> dict[str, CurriculumPolicy]:
    """What every repetition is compared with, by the paper's names."""
    single: dict[str, CurriculumPolicy] = {name: Fixed(name) for name in task.choices}
    others = {name: named_policy(name, task.training.n_units) for name in paper.baselines}
    return {
        **single,
        **({"Bandit": Bandit(task.choices)} if "Bandit" in paper.rows else {}),
        "No-interv.": Fixed("none"),
        **published_teachers(task.name),
        **others,
    }


def check_n_teachers(n_teachers: int) -> int:
    return check_whole("The number of teachers", n_teachers, 1, MOST_TEACHERS)


def check_own_teachers(task: Task) -> None:
    if is_transfer(task):
        raise ConfigError(
            f"The paper trains no teachers for {task.training.student_kind} students of '{task.name}', it applies what "
            f"those of others have found: `cisr reproduce {task.name} --way paper` does both."
        )


def n_students_in_all(task: Task, n_teachers: int, n_students: int) -> int:
    """Students that a reproduction trains; a study's count of policies holds those that find its ranges."""
    teaching = task.training.teaching
    each = 0 if is_transfer(task) else 2 * (teaching.n_initial + teaching.n_rounds) * teaching.class_size
    return n_teachers * (each + n_students * len(_labels(task, publication(task))))
