"""`cisr train`."""

from __future__ import annotations

import dataclasses
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cisr.auditing.report import keep_quick_audit
from cisr.cli import options
from cisr.cli.console import ago, default_store, err, interruptible, out, perhaps_watched, showing, write_json
from cisr.core.callback import Callback, ProgressEvent
from cisr.core.task import Task
from cisr.curricula import save_policy
from cisr.experiments.search import random_teacher
from cisr.experiments.study import Study, StudyResult, TrialProgress
from cisr.experiments.withdrawal import held_against
from cisr.store import Store
from cisr.system.files import check_targets
from cisr.tasks import get_task, usual_kind
from cisr.training import STEP_TIMEOUT, Execution
from cisr.training.finished import check_finished
from cisr.view.audit import in_one_line, withdrawn_lines
from cisr.view.progress import Meter, counting
from cisr.view.words import belief_in_words, in_words


class TeacherKind(StrEnum):
    top_two = "top-two"
    gp_ucb = "gp-ucb"
    random = "random"


RoundsOption = Annotated[int | None, typer.Option(help="Policies that the teacher's model chooses.")]
InitialOption = Annotated[int | None, typer.Option(help="Policies tried before the model takes over.")]
StudentsOption = Annotated[int | None, typer.Option(help="Students that try each policy.")]
AtOnceOption = Annotated[int | None, typer.Option(help="Policies that the model chooses at once.")]
PatienceOption = Annotated[
    int | None, typer.Option(help="Search curricula in which a student starts anew after so many units in one stage.")
]
TeacherOption = Annotated[
    TeacherKind | None,
    typer.Option(help="Ours (top-two), the paper's GP-UCB, or random search. (default: the task's)"),
]
CurriculumOption = Annotated[
    Path | None, typer.Option(help="Where to write the best curriculum. (default: beside the store)")
]


def train(
    task_name: options.TaskName,
    rounds: RoundsOption = None,
    initial: InitialOption = None,
    students: StudentsOption = None,
    at_once: AtOnceOption = None,
    patience: PatienceOption = None,
    teacher: TeacherOption = None,
    scale: options.ScaleOption = options.Scale.paper,
    student: options.StudentOption = None,
    backend: options.BackendOption = options.Backend.auto,
    store: options.StoreOption = None,
    curriculum: CurriculumOption = None,
    evaluate_safely: options.SafeEvaluationOption = False,
    executor: options.ExecutorOption = options.Executor.processes,
    address: options.AddressOption = None,
    gpus: options.GpusOption = False,
    workers: options.WorkersOption = None,
    step_timeout: options.StepTimeoutOption = STEP_TIMEOUT,
    batch: options.BatchOption = None,
    fresh: options.FreshOption = False,
    tensorboard: options.TensorBoardOption = None,
    watch: options.WatchOption = False,
    seed: options.SeedOption = 0,
    json_path: options.JsonOption = None,
) -> None:
    """Train a teacher, or go on with a study that was stopped; writes the best curriculum as JSON."""
    task = get_task(task_name, scale.value, student)
    path = store or default_store(task, usual_kind(task_name), seed)
    target = curriculum or path.with_name(path.stem + "-curriculum.json")
    check_targets({"--store": path, "--curriculum": target, "--json": json_path})
    execution = options.execution_of(backend, executor, address, gpus, workers, step_timeout, batch)
    changes: dict[str, Any] = {
        "n_initial": initial,
        "n_rounds": rounds,
        "class_size": students,
        "at_once": at_once,
        "patience": patience,
        "teacher": teacher.value if teacher in (TeacherKind.top_two, TeacherKind.gp_ucb) else None,
    }
    teaching = dataclasses.replace(task.training.teaching, **{k: v for k, v in changes.items() if v is not None})
    began = time.monotonic()
    with interruptible(), Store(path) as opened, perhaps_watched(watch, path, task_name):
        study = Study(
            task,
            teacher=random_teacher if teacher is TeacherKind.random else None,
            teaching=teaching,
            seed=seed,
            store=opened,
            fresh=fresh,
            evaluate_safely=evaluate_safely,
            execution=execution,
        )
        with showing(tensorboard, opened) as board:
            result = _run(study, opened, execution, board)
    save_policy(result.best_policy, target)
    _show(result, ago(began))
    out.print(f"Written to {target}; results are kept in {path}, weights beside it", soft_wrap=True)
    write_json(json_path, {"task": task.name, "scale": task.training.scale, **_as_json(result)})


def _run(study: Study, store: Store, execution: Execution, board: Callback) -> StudyResult:
    """With an eye on its progress: units of students, and the best score so far."""
    meter = Meter(
        err, f"Training a teacher on {study.task.name}", {"": (study.task.training.n_units, study.n_students)}
    )
    best: list[float] = []

    def show(event: ProgressEvent) -> None:
        if isinstance(event, TrialProgress):
            best.extend([] if event.trial.score is None else [event.trial.score])
            scored = f", best score {max(best):.2f}" if best else ""
            meter.note(f"policy {event.number + 1} of {study.n_policies}{scored}")
        meter(event)
        board(event)

    with counting(err, f"Auditing {study.task.name}") as callback:
        study.begin(store, audited=True, callback=callback)
    out.print(what_is_safe(study.task, store, execution), soft_wrap=True, highlight=False)
    meter.already(store.transcripts("study/"))
    with meter:
        return study.run(show)


def _show(result: StudyResult, took: str) -> None:
    check_finished(result.transcripts)
    tried = f"Tried {len(result.trials)} curriculum policies on {len(result.transcripts)} students"
    out.print(f"{tried}; this run took {took}.")
    unknown = f", and those of {result.unknown_failures} students that nobody knows" if result.unknown_failures else ""
    out.print(f"Failures in training, all students together: {result.training_failures:,}{unknown}")
    if result.safe_evaluation_failures:
        out.print(f"Failures in M_0, where last policies are tried: {result.safe_evaluation_failures:,}")
    out.print(f"Best curriculum: {in_words(result.best_policy.to_json())}", soft_wrap=True)
    if result.belief is not None:
        out.print(belief_in_words(result.belief), soft_wrap=True)
    for line in withdrawn_lines(result.withdrawn):
        out.print(line, soft_wrap=True)


def _as_json(result: StudyResult) -> dict[str, Any]:
    return {
        "policy": result.best_policy.to_json(),
        "belief": None if result.belief is None else dataclasses.asdict(result.belief),
        "rounds": [{"parameters": t.parameters, "score": t.score, "sem": t.sem} for t in result.trials],
        "training_failures": result.training_failures,
        "unknown_failures": result.unknown_failures,
        "safe_evaluation_failures": result.safe_evaluation_failures,
        "students": len(result.transcripts),
        "failed_students": len(result.unfinished),
        "guidance": list(result.guidance),
        "withdrawn": [one.to_json() for one in result.withdrawn],
    }


def what_is_safe(task: Task, store: Store, execution: Execution) -> str:
    """The quick audit, before the first student is trained, in one line; of certificates that students of the store
    have contradicted it says so."""
    with counting(err, f"Auditing {task.name}") as callback:
        kept = keep_quick_audit(task, store, callback, **execution.processes)
    return in_one_line(held_against(kept, store.transcripts()))
