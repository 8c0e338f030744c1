"""Comparing: fresh students under given curricula."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cisr.core.callback import Callback, check_callback, ignore
from cisr.core.checks import MOST_STUDENTS, check_in_all, check_kind, check_text, check_whole
from cisr.core.errors import ConfigError
from cisr.core.seeding import check_seed
from cisr.core.task import Task, check_task_given
from cisr.curricula import CurriculumPolicy
from cisr.curricula.base import check_policy
from cisr.experiments.comparison import Comparison, Kept, comparison_of
from cisr.experiments.guidance import warn
from cisr.experiments.playing import keep_trajectories
from cisr.experiments.safe_evaluation import Audited, settle
from cisr.experiments.withdrawal import held_against, withdrawn
from cisr.store import Store, opened
from cisr.store.runs import begin, deployed, plan_students, set_aside
from cisr.students.config import Population
from cisr.students.kinds import AnyStudent, with_students
from cisr.system.interrupts import interrupts_told_apart
from cisr.training import Classroom, Execution, StudentSpec
from cisr.training.finished import check_finished
from cisr.training.new_students import new_student
from cisr.training.setup import make_setup, rehearse_setup


@interrupts_told_apart()
def compare(
    task: Task,
    curricula: Mapping[str, CurriculumPolicy],
    *,
    student: AnyStudent | Population | None = None,
    n_students: int = 10,
    store: Store | Path | str | None = None,
    name: str = "compare",
    seed: int = 0,
    fresh: bool = False,
    evaluate_safely: bool = False,
    deploy_each_unit: bool = False,
    audited: bool = False,
    execution: Execution = Execution(),
    callback: Callback = ignore,
) -> Comparison:
    """Train `n_students` new students under each curriculum and sum up how they did.

    `student` stands in for the task's own. Students that an error ended are tried again by the next call on the same
    store. `fresh` sets what the store holds of this comparison aside first. `evaluate_safely` deploys final policies in
    M_0 instead of the task itself; `deploy_each_unit` also deploys in the task after each unit, for analysis, which is
    not safe. `audited` makes a quick audit of the task first, as the command does, and keeps it in the store.
    """
    check_task_given(task)
    if student is not None:
        task = with_students(task, student)
    check_kind("The curricula", curricula, Mapping, "a dictionary from labels to curriculum policies")
    if not curricula:
        raise ConfigError("There is no curriculum to compare: name at least one.")
    for label, policy in curricula.items():
        check_policy(check_text("The label of a curriculum", label), policy)
    n_students, seed = check_n_students(n_students, len(curricula)), check_seed(seed)
    check_kind("The execution", execution, Execution, "a cisr.Execution")
    check_callback(callback)
    setup = make_setup(
        task, backend=execution.backend, evaluate_safely=evaluate_safely, deploy_each_unit=deploy_each_unit
    )
    students = register(task, curricula, n_students, seed, name)
    rehearse_setup(setup, execution)
    with opened(store) as kept:
        if fresh:
            set_aside(kept, name, setup)
        settled = settle(setup, kept, execution, audited=audited, callback=callback)
        setup = settled.setup
        batching = begin(kept, name, setup, deployed(setup, seed), execution)
        settled.keep_audit(kept)
        if known := held_against(kept.audit(), kept.transcripts()):
            callback(Audited(known))
        warn(settled.said)
        kept.keep_curricula(name, list(curricula))
        plan_students(kept, name, n_students * len(curricula))
        with Classroom(setup, kept, batching=batching, callback=callback, **execution.classroom) as classroom:
            taught = {t.name: t for t in classroom.teach(e for group in students.values() for e in group)}
        groups = {label: tuple(taught[e.name] for e in group) for label, group in students.items()}
        check_finished([transcript for group in groups.values() for transcript in group])
        keep_trajectories(kept, task, groups, seed, setup.evaluate_under, **execution.processes)
        found_in = None if kept.path is None else Kept(kept.path, task)
        lost = withdrawn(kept.audit(), kept.transcripts())
    comparison = comparison_of(task, groups, found_in, lost)
    warn((*comparison.guidance, *map(str, lost)))
    return comparison


def check_n_students(n_students: int, n_curricula: int) -> int:
    """A slip of the keyboard is told before anybody is enrolled."""
    given = check_whole("The number of students", n_students, 1, MOST_STUDENTS)
    check_in_all(given, n_curricula, "curricula")
    return given


def register(
    task: Task, curricula: Mapping[str, CurriculumPolicy], n_students: int, seed: int, name: str
) -> dict[str, list[StudentSpec]]:
    """New students for each curriculum, named `<comparison>/<label>/<number>`."""

    return {
        label: [new_student(task, policy, seed, f"{name}/{label}/{k:03d}") for k in range(n_students)]
        for label, policy in curricula.items()
    }
