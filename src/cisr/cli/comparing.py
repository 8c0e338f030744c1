"""`cisr compare`."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
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
    WorkersOption,
    ago,
    default_store,
    err,
    interruptible,
    out,
    write_json,
)
from cisr.core.errors import CisrError, ConfigError
from cisr.core.rewinds import read_rewind
from cisr.core.task import Task
from cisr.curricula import Bandit, CurriculumPolicy, load_policy, named_policy
from cisr.experiments.reproduce import published_teachers
from cisr.store import Store
from cisr.system.files import check_targets
from cisr.tasks import get_task, usual_kind
from cisr.training import STEP_TIMEOUT
from cisr.training.classroom import check_workers
from cisr.training.watch import check_step_timeout


def compare(
    task_name: TaskName,
    curricula: Annotated[
        list[str],
        typer.Argument(
            metavar="CURRICULUM...",
            help="A JSON file (of kind switching, patient, fixed, schedule, bandit or none), an intervention's name, a "
            "published teacher's (FL-A, LL-A), none, bandit, Back-x or Incremental-x.",
        ),
    ],
    students: Annotated[int, typer.Option(help="New students under each curriculum.")] = 10,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    backend: BackendOption = Backend.auto,
    store: StoreOption = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the learning curves into this PNG or PDF.")] = None,
    video: Annotated[
        Path | None,
        typer.Option(help="Film what the finished students do, into this GIF or (with ffmpeg) MP4."),
    ] = None,
    trajectories: Annotated[
        Path | None,
        typer.Option(help="Draw the first curriculum's median student under each intervention into this PNG or PDF."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Students elsewhere to test ours against, curriculum by curriculum: another store, or a CSV file with "
            "the column curriculum and any of success, return, training_failures."
        ),
    ] = None,
    deploy_each_unit: Annotated[
        bool, typer.Option(help="Also deploy after each unit, for analysis; unsafe on real systems.")
    ] = False,
    evaluate_safely: SafeEvaluationOption = False,
    workers: WorkersOption = None,
    step_timeout: StepTimeoutOption = STEP_TIMEOUT,
    batch: BatchOption = None,
    fresh: FreshOption = False,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Train fresh students under each curriculum and compare how they end up, with intervals."""
    from cisr.experiments import differences
    from cisr.experiments.compare import check_n_students
    from cisr.experiments.compare import compare as run_comparison
    from cisr.view.external_students import students_in
    from cisr.view.figures import check_picture, check_state_plot, learning_figure, students_rescues
    from cisr.view.film import check_film, film, median_student
    from cisr.view.progress import Meter
    from cisr.view.tables import comparison_table, differences_table
    from cisr.view.terminal import on_terminal
    from cisr.view.words import deployed_in_words

    task = get_task(task_name, scale.value, student)
    policies = parse_curricula(curricula, task)
    for policy in policies.values():
        for name in policy.interventions_used:
            task.intervention(name)
    under = str(task.safe_evaluation) if evaluate_safely else "none"
    elsewhere = students_in(against, task.name, list(policies), under) if against is not None else {}
    path = store or default_store(task, usual_kind(task_name), seed)
    for picture in (figure, trajectories):
        if picture is not None:
            check_picture(picture)
    if trajectories is not None:
        check_state_plot(task)
    targets = {"--store": path, "--figure": figure, "--video": video, "--trajectories": trajectories}
    read = [Path(text) for text in curricula if os.path.isfile(text)] + ([] if against is None else [against])
    check_targets({**targets, "--json": json_path}, read)
    check_n_students(students, len(policies))
    check_workers(workers)
    apart: dict[str, Any] = {"n_workers": workers, "step_timeout": check_step_timeout(step_timeout)}
    if video is not None:
        check_film(video, task, **apart)
    began = time.monotonic()
    with interruptible(), Store(path) as opened:
        meter = Meter(err, f"Comparing on {task.name}", task.training.n_units, students * len(policies))
        if not fresh:
            meter.already(t for label in policies for t in opened.transcripts(f"compare/{label}/")[:students])
        with meter:
            comparison = run_comparison(
                task,
                policies,
                n_students=students,
                store=opened,
                seed=seed,
                backend=backend.value,
                evaluate_safely=evaluate_safely,
                deploy_each_unit=deploy_each_unit,
                n_workers=workers,
                step_timeout=step_timeout,
                batch=batch,
                fresh=fresh,
                listener=meter,
            )
        shown = median_student(next(iter(comparison.transcripts.values())))
        not_shown: CisrError | None = None  # told after the results, which are there
        try:
            if video is not None:
                film(opened, task, comparison.transcripts, video, seed=seed, **apart)
            if trajectories is not None and shown is not None:
                students_rescues(opened, task, shown, trajectories, seed=seed, **apart)
        except CisrError as error:
            not_shown = error
    deployed = f"Final policies are deployed {deployed_in_words(comparison.deployed_under)}."
    out.print(on_terminal(comparison_table(comparison.rows), comparison.title, deployed))
    if len(policies) > 1:
        out.print(on_terminal(differences_table(comparison.differences), f"{next(iter(policies))} against the others"))
    matched = differences.against(comparison.measured, elsewhere)
    if against is not None:
        out.print(on_terminal(differences_table(matched), f"Ours against {against.name}"))
        there = next(iter(elsewhere.values()))
        if missing := ", ".join(label for label in policies if label not in there):
            out.print(f"No students in {against.name} under: {missing} (there: {', '.join(there)})", soft_wrap=True)
    out.print(
        f"{students * len(policies)} students; this run took {ago(began)}; kept in {path}, weights beside it",
        soft_wrap=True,
    )
    if figure is not None:
        learning_figure(comparison, figure)
        out.print(f"Learning curves: {figure}", soft_wrap=True)
    if video is not None and not_shown is None:
        out.print(f"Film: {video}", soft_wrap=True)
    if trajectories is not None and shown is not None and not_shown is None:
        out.print(f"Student {shown} under each intervention: {trajectories}", soft_wrap=True)
    record = comparison.to_json()
    if against is not None:
        record["against"] = [difference.to_json() for difference in matched]
    write_json(json_path, record)
    if not_shown is not None:
        raise not_shown


def parse_curricula(texts: Sequence[str], task: Task) -> dict[str, CurriculumPolicy]:
    """Policies by label, from what a user may name on the command line; two that differ never share a label.

    A file goes by its name without the ending, or by all that was given where another curriculum has that name too.
    """
    files = {text: Path(text) for text in texts if _named(text, task) is None}
    stems = Counter(path.stem for path in files.values())
    found: dict[str, CurriculumPolicy] = {}
    for text in dict.fromkeys(texts):
        policy = _named(text, task)
        label = text
        if policy is None:
            path = files[text]
            policy = _of_file(text, path, task)
            if stems[path.stem] == 1 and _named(path.stem, task) is None:
                label = path.stem
        found[label] = policy
    return found


def _of_file(text: str, path: Path, task: Task) -> CurriculumPolicy:
    if path.suffix != ".json" and not os.path.exists(path):
        known = ", ".join((*task.intervention_names, *published_teachers(task.name), "none", "bandit"))
        raise ConfigError(f"There is no curriculum '{text}': give a JSON file or one of {known}.")
    return load_policy(path)


def _named(text: str, task: Task) -> CurriculumPolicy | None:
    """The curriculum that goes by this name; None where there is none."""
    if text == "bandit":
        return Bandit(task.choices)
    if text in (*task.intervention_names, "none") or read_rewind(text):
        return named_policy(text, task.training.n_units)
    return published_teachers(task.name).get(text)
