"""`cisr train`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cisr.cli.console import (
    Backend,
    BackendOption,
    BatchOption,
    FreshOption,
    JsonOption,
    SafeEvaluationOption,
    Scale,
    ScaleOption,
    SeedOption,
    StepTimeoutOption,
    StoreOption,
    StudentOption,
    TaskName,
    TeacherKind,
    WorkersOption,
    ago,
    default_store,
    err,
    interruptible,
    out,
    write_json,
)
from cisr.core.task import Task
from cisr.curricula import save_policy
from cisr.experiments.study import Study, random_teacher
from cisr.store import Round, Store
from cisr.system.files import check_targets
from cisr.tasks import get_task, usual_kind
from cisr.training import STEP_TIMEOUT
from cisr.training.classroom import check_workers
from cisr.training.finished import check_finished
from cisr.view.words import belief_in_words, in_words


def train(
    task_name: TaskName,
    rounds: Annotated[int | None, typer.Option(help="Policies that the teacher's model chooses.")] = None,
    initial: Annotated[int | None, typer.Option(help="Policies tried before the model takes over.")] = None,
    students: Annotated[int | None, typer.Option(help="Students that try each policy.")] = None,
    at_once: Annotated[int | None, typer.Option(help="Policies that the model chooses at once.")] = None,
    patience: Annotated[
        int | None,
        typer.Option(help="Search curricula in which a student starts anew after so many units in one stage."),
    ] = None,
    teacher: Annotated[
        TeacherKind | None,
        typer.Option(help="Ours (top-two), the paper's GP-UCB, or random search. (default: the task's)"),
    ] = None,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    backend: BackendOption = Backend.auto,
    store: StoreOption = None,
    curriculum: Annotated[
        Path | None, typer.Option(help="Where to write the best curriculum. (default: beside the store)")
    ] = None,
    evaluate_safely: SafeEvaluationOption = False,
    workers: WorkersOption = None,
    step_timeout: StepTimeoutOption = STEP_TIMEOUT,
    batch: BatchOption = None,
    fresh: FreshOption = False,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Train a teacher, or go on with a study that was stopped; writes the best curriculum as JSON."""
    from cisr.view.progress import Meter

    task = get_task(task_name, scale.value, student)
    changes: dict[str, Any] = {} if patience is None else {"patience": patience}
    if teacher in (TeacherKind.top_two, TeacherKind.gp_ucb):
        changes["teacher"] = teacher.value
    task = task.with_teaching(**changes)
    path = store or default_store(task, usual_kind(task_name), seed)
    target = curriculum or path.with_name(path.stem + "-curriculum.json")
    check_targets({"--store": path, "--curriculum": target, "--json": json_path})
    check_workers(workers)
    began = time.monotonic()
    with interruptible(), Store(path) as opened:
        study = Study(
            task,
            store=opened,
            seed=seed,
            n_initial=initial,
            n_rounds=rounds,
            class_size=students,
            at_once=at_once,
            teacher=random_teacher if teacher is TeacherKind.random else None,
            backend=backend.value,
            evaluate_safely=evaluate_safely,
            n_workers=workers,
            step_timeout=step_timeout,
            batch=batch,
            fresh=fresh,
        )
        best: list[float] = []

        def show_round(number: int, result: Round) -> None:
            best.extend([] if result.score is None else [result.score])
            meter.note(f"policy {number + 1} of {study.n_policies}" + (f", best score {max(best):.2f}" if best else ""))

        meter = Meter(err, f"Training a teacher on {task.name}", task.training.n_units, study.n_students)
        study.begin(opened)
        out.print(what_is_safe(task, opened, workers, step_timeout), soft_wrap=True, highlight=False)
        meter.already(opened.transcripts("study/"))
        with meter:
            result = study.run(meter, show_round)
    save_policy(result.policy, target)
    check_finished(result.transcripts)
    tried = f"Tried {len(result.rounds)} curriculum policies on {len(result.transcripts)} students"
    out.print(f"{tried}; this run took {ago(began)}.")
    unknown = f", and those of {result.unknown_failures} students that nobody knows" if result.unknown_failures else ""
    out.print(f"Failures in training, all students together: {result.training_failures:,}{unknown}")
    out.print(f"Best curriculum: {in_words(result.policy.to_json())}", soft_wrap=True)
    if result.belief is not None:
        out.print(belief_in_words(result.belief), soft_wrap=True)
    out.print(f"Written to {target}; results are kept in {path}, weights beside it", soft_wrap=True)
    write_json(
        json_path,
        {
            "task": task.name,
            "scale": task.training.scale,
            "policy": result.policy.to_json(),
            "belief": None if result.belief is None else dataclasses.asdict(result.belief),
            "rounds": [{"parameters": r.parameters, "score": r.score, "sem": r.sem} for r in result.rounds],
            "training_failures": result.training_failures,
            "unknown_failures": result.unknown_failures,
            "students": len(result.transcripts),
            "failed_students": len(result.unfinished),
        },
    )


def what_is_safe(task: Task, store: Store, workers: int | None, step_timeout: float) -> str:
    """The quick audit, before the first student is trained, in one line."""
    from cisr.audit.report import keep_quick_audit
    from cisr.view.audit import in_one_line
    from cisr.view.progress import counting

    with counting(err, f"Auditing {task.name}") as progress:
        return in_one_line(keep_quick_audit(task, store, progress, n_workers=workers, step_timeout=step_timeout))
