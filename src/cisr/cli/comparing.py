"""`cisr compare`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cisr.cli import options
from cisr.cli.console import ago, default_store, err, interruptible, out, perhaps_watched, showing, write_json
from cisr.cli.naming import parse_curricula
from cisr.core.callback import ProgressEvent, told_to
from cisr.core.errors import CisrError
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy
from cisr.experiments import differences
from cisr.experiments.compare import check_n_students
from cisr.experiments.compare import compare as run_comparison
from cisr.experiments.comparison import Comparison, median_student
from cisr.experiments.differences import Difference, Measured
from cisr.experiments.safe_evaluation import Audited
from cisr.store import Store
from cisr.system.files import check_targets
from cisr.tasks import get_task, usual_kind
from cisr.training import STEP_TIMEOUT, Execution
from cisr.training.apart import rehearse
from cisr.view.audit import in_one_line, withdrawn_lines
from cisr.view.external_students import students_in
from cisr.view.figures import check_picture, check_state_plot, learning_figure, students_rescues
from cisr.view.film import check_film, film
from cisr.view.progress import Meter
from cisr.view.tables import comparison_table, differences_table
from cisr.view.terminal import on_terminal
from cisr.view.words import deployed_in_words

CurriculaArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="CURRICULUM...",
        help="A JSON file (of kind switching, patient, fixed, schedule, bandit or none), an intervention's name, a "
        "published teacher's (FL-A, LL-A), none, bandit, Back-x or Incremental-x.",
    ),
]
StudentsOption = Annotated[int, typer.Option(help="New students under each curriculum.")]
FigureOption = Annotated[Path | None, typer.Option(help="Draw the learning curves into this PNG or PDF.")]
VideoOption = Annotated[
    Path | None, typer.Option(help="Film what the finished students do, into this GIF or (with ffmpeg) MP4.")
]
TrajectoriesOption = Annotated[
    Path | None,
    typer.Option(help="Draw the first curriculum's median student under each intervention into this PNG or PDF."),
]
AgainstOption = Annotated[
    Path | None,
    typer.Option(
        help="Students elsewhere to test ours against, curriculum by curriculum: another store, or a CSV file with "
        "the column curriculum and any of success, return, training_failures."
    ),
]
DeployOption = Annotated[bool, typer.Option(help="Also deploy after each unit, for analysis; unsafe on real systems.")]


class Pictures(NamedTuple):
    """What is to be drawn of a comparison, where it was asked for."""

    figure: Path | None
    video: Path | None
    trajectories: Path | None

    @property
    def targets(self) -> dict[str, Path | None]:
        return {"--figure": self.figure, "--video": self.video, "--trajectories": self.trajectories}

    def check(self, task: Task, execution: Execution) -> None:
        """Before hours are spent on students."""
        for picture in (self.figure, self.trajectories):
            if picture is not None:
                check_picture(picture)
        if self.trajectories is not None:
            check_state_plot(task)
            rehearse(task, execution.n_workers, execution.step_timeout)  # students trained elsewhere act in it
        if self.video is not None:
            check_film(self.video, task, **execution.processes)


class Played(NamedTuple):
    """What became of the pictures in which students of the store act."""

    student: str | None
    """The one whose trajectories were drawn."""
    error: CisrError | None
    """Told after the results, which are there."""


def compare(
    task_name: options.TaskName,
    curricula: CurriculaArgument,
    students: StudentsOption = 10,
    scale: options.ScaleOption = options.Scale.paper,
    student: options.StudentOption = None,
    backend: options.BackendOption = options.Backend.auto,
    store: options.StoreOption = None,
    figure: FigureOption = None,
    video: VideoOption = None,
    trajectories: TrajectoriesOption = None,
    against: AgainstOption = None,
    deploy_each_unit: DeployOption = False,
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
    """Train fresh students under each curriculum and compare how they end up, with intervals."""
    task = get_task(task_name, scale.value, student)
    policies = _policies(curricula, task)
    elsewhere = _elsewhere(against, task, list(policies), evaluate_safely)
    path = store or default_store(task, usual_kind(task_name), seed)
    pictures = Pictures(figure, video, trajectories)
    check_targets({"--store": path, **pictures.targets, "--json": json_path}, _files_read(curricula, against))
    check_n_students(students, len(policies))
    execution = options.execution_of(backend, executor, address, gpus, workers, step_timeout, batch)
    pictures.check(task, execution)
    began = time.monotonic()
    with interruptible(), Store(path) as opened, perhaps_watched(watch, path, task_name):
        meter = Meter(err, f"Comparing on {task.name}", {"": (task.training.n_units, students * len(policies))})
        if not fresh:
            meter.already(t for label in policies for t in opened.transcripts(f"compare/{label}/")[:students])
        with meter, showing(tensorboard, opened) as board:
            comparison = run_comparison(
                task,
                policies,
                n_students=students,
                store=opened,
                seed=seed,
                fresh=fresh,
                evaluate_safely=evaluate_safely,
                deploy_each_unit=deploy_each_unit,
                audited=True,
                execution=execution,
                callback=told_to(_say_what_is_safe, meter, board),
            )
        played = _play(pictures, comparison, task, opened, seed, execution)
    told = _told(comparison, elsewhere, against)
    taught = f"{students * len(policies)} students; this run took {ago(began)}"
    out.print(f"{taught}; kept in {path}, weights beside it", soft_wrap=True)
    _draw(pictures, comparison, played)
    write_json(json_path, told)
    if played.error is not None:
        raise played.error


def _say_what_is_safe(event: ProgressEvent) -> None:
    if isinstance(event, Audited):
        out.print(in_one_line(event.found), soft_wrap=True, highlight=False)


def _told(comparison: Comparison, elsewhere: Measured, against: Path | None) -> dict[str, Any]:
    """Show a comparison, with students elsewhere where there are some; returns it as JSON."""
    matched = differences.against(comparison.measured, elsewhere)
    _show(comparison, matched, elsewhere, against)
    tests = {} if against is None else {"against": [difference.to_json() for difference in matched]}
    return comparison.to_json() | tests


def _policies(curricula: Sequence[str], task: Task) -> dict[str, CurriculumPolicy]:
    """By label; all that they use must be the task's."""
    policies = parse_curricula(curricula, task)
    for policy in policies.values():
        for name in policy.interventions_used:
            task.intervention(name)
    return policies


def _elsewhere(against: Path | None, task: Task, labels: Sequence[str], evaluate_safely: bool) -> Measured:
    """Students to test ours against, deployed where ours are."""
    under = str(task.safe_evaluation) if evaluate_safely else "none"
    return {} if against is None else students_in(against, task.name, labels, under)


def _files_read(curricula: Sequence[str], against: Path | None) -> list[Path]:
    return [Path(text) for text in curricula if os.path.isfile(text)] + ([] if against is None else [against])


def _play(
    pictures: Pictures, comparison: Comparison, task: Task, store: Store, seed: int, execution: Execution
) -> Played:
    shown = median_student(next(iter(comparison.transcripts.values())))
    try:
        if pictures.video is not None:
            film(store, task, comparison.transcripts, pictures.video, seed=seed, **execution.processes)
        if pictures.trajectories is not None and shown is not None:
            students_rescues(store, task, shown, pictures.trajectories, seed=seed, **execution.processes)
    except CisrError as error:
        return Played(shown, error)
    return Played(shown, None)


def _show(
    comparison: Comparison,
    matched: Sequence[Difference],
    elsewhere: Measured,
    against: Path | None,
) -> None:
    labels = list(comparison.transcripts)
    deployed = f"Final policies are deployed {deployed_in_words(comparison.deployed_under)}."
    out.print(on_terminal(comparison_table(comparison.rows), comparison.title, deployed))
    for line in withdrawn_lines(comparison.withdrawn):
        out.print(line, soft_wrap=True)
    if len(labels) > 1:
        out.print(on_terminal(differences_table(comparison.differences), f"{labels[0]} against the others"))
    if against is not None:
        out.print(on_terminal(differences_table(matched), f"Ours against {against.name}"))
        there = next(iter(elsewhere.values()))
        if missing := ", ".join(label for label in labels if label not in there):
            out.print(f"No students in {against.name} under: {missing} (there: {', '.join(there)})", soft_wrap=True)


def _draw(pictures: Pictures, comparison: Comparison, played: Played) -> None:
    if pictures.figure is not None:
        learning_figure(comparison, pictures.figure)
        out.print(f"Learning curves: {pictures.figure}", soft_wrap=True)
    if pictures.video is not None and played.error is None:
        out.print(f"Film: {pictures.video}", soft_wrap=True)
    if pictures.trajectories is not None and played.student is not None and played.error is None:
        out.print(f"Student {played.student} under each intervention: {pictures.trajectories}", soft_wrap=True)
