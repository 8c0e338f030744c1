"""The command line. Bad input gets one line and exit code 2; `--debug` shows the traceback instead."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from cisr.curricula import Bandit, CurriculumPolicy, load_policy, named_policy, save_policy
from cisr.errors import CisrError, ConfigError
from cisr.lesson import load_student, student_config
from cisr.reproduce import published_teachers
from cisr.store import Round, Store
from cisr.study import MakeTeacher, Study, default_teacher, random_teacher
from cisr.task import Task
from cisr.tasks import BUILT_IN, SCALES, get_task, student_kinds

app = typer.Typer(
    help="Safe reinforcement learning by curriculum induction: students that stay safe while they learn.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(width=None if sys.stdout.isatty() else 130)
err = Console(stderr=True)


class Scale(StrEnum):
    paper = "paper"
    quick = "quick"


class Lane(StrEnum):
    auto = "auto"
    compiled = "compiled"
    gymnasium = "gymnasium"


class TeacherKind(StrEnum):
    paper = "paper"
    ours = "ours"
    random = "random"


class Evaluation(StrEnum):
    M = "M"
    M0 = "M0"


TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="A built-in task, or your own as package.module:attribute.")
]
ScaleOption = Annotated[Scale, typer.Option(help="The paper's full scale, or a quick one that takes minutes.")]
StudentOption = Annotated[
    str | None,
    typer.Option("--student", help="The kind of students, see `cisr tasks`. (default: the task's)", show_default=False),
]
LaneOption = Annotated[Lane, typer.Option(help="Where experience comes from; auto is compiled where the task can.")]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="SQLite file that keeps everything. (default: runs/TASK[-STUDENT]-SCALE-SEED.sqlite)",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option(help="Root of all randomness.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write machine-readable results here.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(help="Worker processes; results do not depend on it. (default: one per core)", show_default=False),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        help="Students trained together at most, for a new store; fewer need less memory. (default: what suits this "
        "machine)",
        show_default=False,
    ),
]
EvaluationOption = Annotated[
    Evaluation, typer.Option(help="Score final policies in the task itself (M) or under its safe evaluation (M0).")
]


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False) -> None:
    """Every command takes --help."""


@app.command()
def tasks(json_path: JsonOption = None) -> None:
    """List tasks, their interventions, their kinds of students and these students' defaults."""
    table = Table(title="Tasks", title_justify="left")
    for column in ("task", "scale", "interventions (τ)", "students", "what it is"):
        table.add_column(column)
    records = []
    for name in BUILT_IN:
        for scale in SCALES:
            task = get_task(name, scale)
            shown = ", ".join(f"{i.name} ({i.tau:g})" for i in task.interventions)
            student = student_config(task, 0, "example")
            others = [kind for kind in student_kinds(name) if kind != task.student_kind]
            kinds = f"{task.student_kind}, {task.n_units} units; or {', '.join(others)}"
            table.add_row(name, scale, shown, kinds, task.description)
            records.append(
                {
                    "task": name,
                    "scale": scale,
                    "interventions": [{"name": i.name, "tau": i.tau, "kappa": i.kappa} for i in task.interventions],
                    "student": student.to_json(),
                    "student_kind": task.student_kind,
                    "student_kinds": list(student_kinds(name)),
                    "n_units": task.n_units,
                }
            )
    out.print(table)
    _write_json(json_path, {"tasks": records})


@app.command()
def audit(
    task_name: TaskName,
    intervention: Annotated[
        list[str] | None, typer.Option(help="Audit this one; may be given again. (default: all)", show_default=False)
    ] = None,
    budget: Annotated[
        int, typer.Option(help="Environment steps of attacks on each intervention that no proof covers.")
    ] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of the upper bounds on failures per episode.")] = 0.95,
    replay: Annotated[
        Path | None, typer.Option(help="Play this counterexample again instead.", show_default=False)
    ] = None,
    student: StudentOption = None,
    scale: ScaleOption = Scale.paper,
    lane: LaneOption = Lane.auto,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for pictures and counterexamples. (default: runs/audit-TASK)", show_default=False
        ),
    ] = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Say what safety each intervention really gives: proofs for finite tasks, attacks on all others.

    Exit code 0 when no intervention was refuted, 1 when one was or the task's code breaks a promise, 2 for bad input.
    """
    from cisr.audit import audit as run_audit
    from cisr.audit import show
    from cisr.progress import counting

    task = get_task(task_name, scale.value, student)
    folder = target or Path("runs") / f"audit-{_plain(task.name)}"
    if replay is not None:
        _replay(task, replay, folder)
        return
    with counting(err, f"Auditing {task.name}") as progress, _interruptible():
        found = run_audit(
            task,
            intervention,
            budget=budget,
            confidence=confidence,
            seed=seed,
            lane=lane.value,
            n_workers=workers,
            progress=progress,
        )
    out.print(show.verdict_table(found))
    if found.exact is not None:
        if found.exact.numbers is not None:
            out.print(show.numbers_table(found.exact))
        out.print(show.task_line(found.exact), soft_wrap=True)
    if (attacks := show.attack_table(found)) is not None:
        out.print(attacks)
    for line in (*(f"Broken promise: {promise}" for promise in found.broken), *found.notes):
        out.print(line, soft_wrap=True, markup=False)
    if found.exact is not None and task.floor_plan is not None:
        from cisr.audit.picture import audit_map

        picture = folder / "map.png"
        with _writing(picture):
            audit_map(task, found.exact, picture)
        out.print(f"Map: {picture}", soft_wrap=True)
    with _writing(folder / "counterexamples"):
        kept = show.keep_counterexamples(task, found, folder)
    for path in kept:
        out.print(f"Counterexample: cisr audit {task_name} --replay {path}", soft_wrap=True, markup=False)
    _write_json(json_path, found.to_json())
    if found.refuted:
        raise SystemExit(1)


@app.command()
def train(
    task_name: TaskName,
    rounds: Annotated[int | None, typer.Option(help="Policies that the teacher's model chooses.")] = None,
    initial: Annotated[int | None, typer.Option(help="Policies tried before the model takes over.")] = None,
    students: Annotated[int | None, typer.Option(help="Students that try each policy.")] = None,
    teacher: Annotated[
        TeacherKind | None, typer.Option(help="GP-UCB as in the paper, ours, or random search. (default: the task's)")
    ] = None,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    lane: LaneOption = Lane.auto,
    store: StoreOption = None,
    curriculum: Annotated[
        Path | None, typer.Option(help="Where to write the best curriculum. (default: beside the store)")
    ] = None,
    evaluate_in: EvaluationOption = Evaluation.M,
    workers: WorkersOption = None,
    batch: BatchOption = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Train a teacher, or go on with a study that was stopped; writes the best curriculum as JSON."""
    from cisr.progress import Meter

    task = get_task(task_name, scale.value, student)
    path = store or _default_store(task, student, seed)
    target = curriculum or path.with_name(path.stem + "-curriculum.json")
    began = time.monotonic()
    with Store(path) as opened:
        study = Study(
            task,
            store=opened,
            seed=seed,
            n_initial=initial,
            n_rounds=rounds,
            class_size=students,
            teacher=_teacher(task, teacher),
            lane=lane.value,
            evaluate_in=evaluate_in.value,
            n_workers=workers,
            batch=batch,
        )
        best: list[float] = []

        def show_round(number: int, result: Round) -> None:
            best.extend([] if result.score is None else [result.score])
            meter.note(f"policy {number + 1} of {study.n_policies}" + (f", best score {max(best):.2f}" if best else ""))

        meter = Meter(err, f"Training a teacher on {task.name}", task.n_units, study.n_students)
        meter.already([t.name for t in opened.transcripts("study/") if t.deployment or t.error])
        with _interruptible():
            _say_what_is_safe(task, opened)
        with meter, _interruptible():
            result = study.run(meter, show_round)
    with _writing(target):
        save_policy(result.policy, target)
    failed = sum(t.error is not None for t in result.transcripts)
    out.print(f"Tried {len(result.rounds)} curriculum policies on {len(result.transcripts)} students in {_ago(began)}.")
    if failed:
        out.print(f"{failed} students failed; their errors are in the store.")
    out.print(f"Failures in training, all students together: {result.training_failures:,}")
    out.print(f"Best curriculum: {_describe(result.policy.to_json())}")
    out.print(f"Written to {target}; everything is kept in {path}", soft_wrap=True)
    _write_json(
        json_path,
        {
            "task": task.name,
            "scale": task.scale,
            "policy": result.policy.to_json(),
            "rounds": [{"parameters": r.parameters, "score": r.score, "sem": r.sem} for r in result.rounds],
            "training_failures": result.training_failures,
            "students": len(result.transcripts),
            "failed_students": failed,
        },
    )


@app.command()
def compare(
    task_name: TaskName,
    curricula: Annotated[
        list[str],
        typer.Argument(
            metavar="CURRICULUM...",
            help="A JSON file, an intervention's name, a published teacher's (FL-A, LL-A), none, bandit, Back-x or "
            "Incremental-x.",
        ),
    ],
    students: Annotated[int, typer.Option(help="New students under each curriculum.")] = 10,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    lane: LaneOption = Lane.auto,
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
    deploy_each_unit: Annotated[
        bool, typer.Option(help="Also deploy after each unit, for analysis; unsafe on real systems.")
    ] = False,
    evaluate_in: EvaluationOption = Evaluation.M,
    workers: WorkersOption = None,
    batch: BatchOption = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Train fresh students under each curriculum and compare how they end up, with intervals."""
    from cisr.compare import compare as run_comparison
    from cisr.progress import Meter
    from cisr.report.figures import check_scenery, rescues_figure
    from cisr.report.film import check_film, film, median_student
    from cisr.report.tables import comparison_table
    from cisr.trajectories import by_student

    task = get_task(task_name, scale.value, student)
    policies = dict(parse_curriculum(text, task) for text in curricula)
    for policy in policies.values():
        for name in policy.interventions_used:
            task.intervention(name)
    if video is not None:
        check_film(video, task)
    if trajectories is not None:
        check_scenery(task)
    path = store or _default_store(task, student, seed)
    began = time.monotonic()
    with Store(path) as opened:
        meter = Meter(err, f"Comparing on {task.name}", task.n_units, students * len(policies))
        meter.already(
            [
                t.name
                for label in policies
                for t in opened.transcripts(f"compare/{label}/")[:students]
                if t.deployment or t.error
            ]
        )
        with meter, _interruptible():
            comparison = run_comparison(
                task,
                policies,
                n_students=students,
                store=opened,
                seed=seed,
                lane=lane.value,
                evaluate_in=evaluate_in.value,
                deploy_each_unit=deploy_each_unit,
                n_workers=workers,
                batch=batch,
                listener=meter,
            )
        if video is not None:
            with _writing(video):
                film(opened, task, comparison.transcripts, video, seed=seed)
        shown = median_student(next(iter(comparison.transcripts.values())))
        if trajectories is not None and shown is not None:
            with _writing(trajectories):
                rescues_figure(task, trajectories, act=by_student(task, load_student(opened, task, shown)), seed=seed)
    out.print(comparison_table(comparison))
    for transcripts in comparison.transcripts.values():
        for transcript in transcripts:
            if transcript.error:
                out.print(f"Failed: {transcript.error}", soft_wrap=True)
    out.print(f"{students * len(policies)} students in {_ago(began)}; everything is kept in {path}", soft_wrap=True)
    if figure is not None:
        from cisr.report.figures import learning_curves

        with _writing(figure):
            learning_curves(comparison, figure)
        out.print(f"Learning curves: {figure}", soft_wrap=True)
    if video is not None:
        out.print(f"Film: {video}", soft_wrap=True)
    if trajectories is not None and shown is not None:
        out.print(f"Student {shown} under each intervention: {trajectories}", soft_wrap=True)
    _write_json(json_path, comparison.to_json())


@app.command()
def reproduce(
    task_name: TaskName,
    teachers: Annotated[int, typer.Option(help="Teachers trained independently.")] = 3,
    students: Annotated[int, typer.Option(help="New students for each teacher and each baseline.")] = 10,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    lane: LaneOption = Lane.auto,
    store: StoreOption = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Learning curves, as PNG and PDF. (default: beside the store)", show_default=False),
    ] = None,
    workers: WorkersOption = None,
    batch: BatchOption = None,
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Reproduce the paper's table and figure, beside the paper's numbers; goes on where it was stopped."""
    from cisr import reproduce as reproduction
    from cisr.progress import Meter
    from cisr.report.figures import learning_curves
    from cisr.report.tables import reproduction_table

    task = get_task(task_name, scale.value, student)
    path = store or _default_store(task, student, seed, "reproduce-")
    began = time.monotonic()
    with Store(path) as opened:
        meter = Meter(
            err,
            f"Reproducing {task.name}",
            task.n_units,
            reproduction.n_students_in_all(task, teachers, students),
        )
        meter.already([t.name for t in opened.transcripts() if t.deployment or t.error])
        with _interruptible():
            _say_what_is_safe(task, opened)
        with meter, _interruptible():
            result = reproduction.reproduce(
                task,
                opened,
                n_teachers=teachers,
                n_students=students,
                seed=seed,
                lane=lane.value,
                n_workers=workers,
                batch=batch,
                listener=meter,
            )
    out.print(reproduction_table(result))
    for kind, policies in result.policies.items():
        for number, policy in enumerate(policies, 1):
            out.print(f"{kind} {number}: {_describe(policy.to_json())}", soft_wrap=True)
    target = figure or path.with_suffix(".png")
    with _writing(target):
        learning_curves(result.pictured(), target.with_suffix(".png"), target.with_suffix(".pdf"))
    out.print(f"In {_ago(began)}; everything is kept in {path}, the figure is {target}", soft_wrap=True)
    _write_json(json_path, result.to_json())


@app.command()
def bench(
    task_name: TaskName,
    scale: ScaleOption = Scale.paper,
    student: StudentOption = None,
    intervention: Annotated[
        str | None, typer.Option(help="What students are under. (default: the task's first)", show_default=False)
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Turns that each lane gets.")] = 3,
    seconds: Annotated[float, typer.Option(help="Time measured in each turn, at least.")] = 20.0,
    students: Annotated[
        int | None,
        typer.Option(help="Students in a batch. (default: 4 on each core, 256 on an accelerator)", show_default=False),
    ] = None,
    lanes: Annotated[str, typer.Option(help="What to measure, with commas between.")] = "compiled,gymnasium,sb3",
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Measure how fast students learn on each lane and by Stable-Baselines3, on the same work."""
    from cisr.bench import bench as measure
    from cisr.bench.table import throughput_table, what_is_compared

    found = measure(
        get_task(task_name, scale.value, student),
        intervention=intervention,
        lanes=[lane.strip() for lane in lanes.split(",")],
        repetitions=repetitions,
        seconds=seconds,
        students=students,
        seed=seed,
        say=lambda line: err.print(line, soft_wrap=True, markup=False, highlight=False),
    )
    out.print(throughput_table(found))
    out.print(what_is_compared(found), soft_wrap=True)
    for line in found.left_out:
        out.print(line, soft_wrap=True, markup=False)
    _write_json(json_path, found.to_json())


@app.command()
def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file that train or compare has made.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write the page. (default: beside the store)", show_default=False),
    ] = None,
) -> None:
    """Write the HTML report on a store: one page that needs no network. A study may still be running on the store."""
    from cisr.report.page import write_page

    out.print(str(write_page(store, target)), soft_wrap=True, markup=False, highlight=False)


def _say_what_is_safe(task: Task, store: Store) -> None:
    """The quick audit, before the first student is trained."""
    from cisr.audit.report import keep_quick_audit
    from cisr.audit.show import in_one_line
    from cisr.progress import counting

    with counting(err, f"Auditing {task.name}") as progress:
        kept = keep_quick_audit(task, store, progress)
    err.print(in_one_line(kept["interventions"]), soft_wrap=True, markup=False, highlight=False)


def _replay(task: Task, path: Path, folder: Path) -> None:
    """Play a counterexample again, say whether the same came out, and draw it."""
    from cisr.audit.counterexample import Counterexample
    from cisr.audit.counterexample import replay as play_again
    from cisr.audit.episode_picture import draw

    example = Counterexample.load(path)
    again = play_again(task, example)
    out.print(str(example) + ".", soft_wrap=True, markup=False)
    if not again:
        out.print(f"The replay differs: {again.difference}", soft_wrap=True, markup=False)
        raise SystemExit(1)
    picture = folder / f"{path.stem}-replay.png"
    with _writing(picture):
        draw(task, example, picture)
    out.print(f"The replay is the same, step by step. Picture: {picture}", soft_wrap=True)


def parse_curriculum(text: str, task: Task) -> tuple[str, CurriculumPolicy]:
    """A label and a policy from what a user may name on the command line."""
    if text == "bandit":
        return "bandit", Bandit(task.choices)
    if text in (*task.intervention_names, "none") or re.fullmatch(r"(Back|Incremental)-\d+", text):
        return text, named_policy(text, task.n_units)
    published = published_teachers(task.name)
    if text in published:
        return text, published[text]
    path = Path(text)
    if path.suffix == ".json" or path.exists():
        return path.stem, load_policy(path)
    known = ", ".join((*task.intervention_names, *published, "none", "bandit"))
    raise ConfigError(f"There is no curriculum '{text}': give a JSON file or one of {known}.")


def main(arguments: Iterable[str] | None = None) -> None:
    """The console script `cisr`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--debug" in words:
        app(words, standalone_mode=True)
        return
    try:
        app(words, standalone_mode=True)
    except CisrError as error:
        _complain(str(error))
        raise SystemExit(2) from None


def _complain(message: str) -> None:
    print(f"cisr: {' '.join(message.split())}", file=sys.stderr)


def _teacher(task: Task, kind: TeacherKind | None) -> MakeTeacher:
    if kind is None:
        return default_teacher(task)
    if kind is TeacherKind.random:
        return random_teacher
    setting: Literal["paper", "ours"] = "paper" if kind is TeacherKind.paper else "ours"
    return default_teacher(dataclasses.replace(task, teaching=dataclasses.replace(task.teaching, setting=setting)))


def _describe(policy: dict[str, Any]) -> str:
    steps = [policy["interventions"][0]]
    for name, threshold in zip(policy["interventions"][1:], policy["thresholds"], strict=True):
        steps.append(
            f"→ {name} at return ≥ {threshold['min_return']:.2f} and violation ≤ {threshold['max_violation']:.3f}"
        )
    return " ".join(steps)


def _default_store(task: Task, student: str | None, seed: int, prefix: str = "") -> Path:
    """A file for each task, scale, seed and kind of student; the task's usual kind goes without saying."""
    usual = student is None or student == get_task(task.name, Scale(task.scale).value).student_kind
    name = "-".join([task.name, *([] if usual else [str(student)]), task.scale, str(seed)])
    return Path("runs") / f"{prefix}{_plain(name)}.sqlite"


def _plain(name: str) -> str:
    """A name that can be part of a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _ago(began: float) -> str:
    seconds = time.monotonic() - began
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


def _write_json(path: Path | None, record: dict[str, Any]) -> None:
    if path is not None:
        with _writing(path):
            path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _complain("Stopped. Finished units are kept: run the same command again to go on.")
        raise SystemExit(130) from None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn a file that cannot be written into one line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot write {path}: {error}.") from error
