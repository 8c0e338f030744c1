"""`cisr reproduce`: the paper's way, for each kind of its students, and ours beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cisr.cli import options
from cisr.cli.console import ago, default_store, err, interruptible, out, perhaps_watched, write_json
from cisr.cli.training import what_is_safe
from cisr.core.errors import ConfigError
from cisr.core.seeding import check_seed
from cisr.core.task import Task
from cisr.experiments import reproduce as reproduction
from cisr.experiments.compare import check_n_students
from cisr.experiments.publications import transfer_kinds
from cisr.experiments.reproduce import OPTIMIZED, Reproduction
from cisr.store import Store
from cisr.system.files import check_suffix, check_targets
from cisr.tasks import get_task, papers_kind
from cisr.tasks.entry import EXPLORER
from cisr.training import STEP_TIMEOUT
from cisr.view.audit import withdrawn_lines
from cisr.view.figures import learning_figure
from cisr.view.progress import Meter
from cisr.view.tables import differences_table, main_table, reproduction_table, ways_table
from cisr.view.terminal import on_terminal
from cisr.view.words import belief_in_words, in_words


class Way(StrEnum):
    paper = "paper"
    ours = "ours"
    both = "both"


class Part(NamedTuple):
    """One kind of students under teachers of their own or of others, and where its results go."""

    way: Way
    kind: str | None
    """To which the teachers' curricula are applied; None where students have teachers of their own."""
    task: Task
    store: Path
    figure: Path

    @property
    def name(self) -> str:
        """Ours and the paper's are known by the way."""
        return self.kind or self.way

    @property
    def in_words(self) -> str:
        if self.kind is not None:
            return f"the paper's way, {self.kind} students"
        return "our way" if self.way is Way.ours else "the paper's way"

    @property
    def targets(self) -> dict[str, Path]:
        return {
            "--store": self.store,
            "--figure": self.figure.with_suffix(".png"),
            "PDF": self.figure.with_suffix(".pdf"),
        }


TeachersOption = Annotated[int, typer.Option(help="Teachers trained independently.")]
StudentsOption = Annotated[int, typer.Option(help="New students for each teacher and each baseline.")]
WayOption = Annotated[
    Way | None,
    typer.Option(
        help="With the paper's students and teacher, with ours (explorers), or with both, one after the other. "
        "Ours has a store and a figure of its own, with -explorer in the name, and so has each other kind of students "
        "that the paper applies its teachers' curricula to. (default: both; not with --student)",
        show_default=False,
    ),
]
FigureOption = Annotated[
    Path | None,
    typer.Option(help="Learning curves, as PNG and PDF. (default: beside the store)", show_default=False),
]


def reproduce(
    task_name: options.TaskName,
    teachers: TeachersOption = 3,
    students: StudentsOption = 10,
    way: WayOption = None,
    scale: options.ScaleOption = options.Scale.paper,
    student: options.PapersStudentOption = None,
    backend: options.BackendOption = options.Backend.auto,
    store: options.StoreOption = None,
    figure: FigureOption = None,
    executor: options.ExecutorOption = options.Executor.processes,
    address: options.AddressOption = None,
    gpus: options.GpusOption = False,
    workers: options.WorkersOption = None,
    step_timeout: options.StepTimeoutOption = STEP_TIMEOUT,
    batch: options.BatchOption = None,
    fresh: options.FreshOption = False,
    watch: options.WatchOption = False,
    seed: options.SeedOption = 0,
    json_path: options.JsonOption = None,
) -> None:
    """Reproduce the paper's tables and figure, beside the paper's numbers, then the same with our students and teacher;
    goes on where it was stopped. Lunar Lander takes hours without a GPU: --way chooses one of the two."""
    parts = _parts(task_name, scale, student, way, store, figure, seed)
    targets = {f"{option} ({part.name})": path for part in parts for option, path in part.targets.items()}
    check_targets({**targets, "--json": json_path})
    execution = options.execution_of(backend, executor, address, gpus, workers, step_timeout, batch)
    check_seed(seed)
    reproduction.check_n_teachers(teachers)
    check_n_students(students, teachers)
    sizes = {
        part.name: (part.task.training.n_units, reproduction.n_students_in_all(part.task, teachers, students))
        for part in parts
    }
    meter = Meter(err, f"Reproducing {parts[0].task.name}", sizes)
    shared: dict[str, Any] = {"n_teachers": teachers, "seed": seed, "execution": execution}
    done: dict[str, Reproduction] = {}
    began = time.monotonic()
    with interruptible(), ExitStack() as stack:
        stores = [_prepare(part, stack, meter, fresh, shared) for part in parts]
        safe = (what_is_safe(part.task, opened, execution) for part, opened in zip(parts, stores, strict=True))
        for said in dict.fromkeys(safe):
            out.print(said, soft_wrap=True, highlight=False)
        stack.enter_context(
            perhaps_watched(watch, parts[0].store if len(parts) == 1 else parts[0].store.parent, task_name)
        )
        for part, opened in zip(parts, stores, strict=True):
            if len(parts) > 1:
                meter.note(part.in_words)
            with meter:
                how = {**shared, "n_students": students, "callback": partial(meter, part=part.name)}
                if part.kind is None:
                    found = reproduction.reproduce(part.task, opened, **how)
                else:
                    del how["n_teachers"]
                    found = reproduction.transferred(part.task, opened, done[Way.paper].policies[OPTIMIZED], **how)
            done[part.name] = found
            _show(found, part, ago(began))
            write_json(json_path, _as_json(done))
            began = time.monotonic()
    kinds = {str(part.task.training.student_kind): done[part.name] for part in parts if part.way is Way.paper}
    if len(kinds) > 1 and (table := main_table(kinds)) is not None:
        out.print(on_terminal(table, "The paper's main table"))
    if Way.paper in done and Way.ours in done:
        out.print(on_terminal(ways_table(done[Way.paper], done[Way.ours]), "The paper's way and ours"))


def _prepare(part: Part, stack: ExitStack, meter: Meter, fresh: bool, shared: Mapping[str, Any]) -> Store:
    """What is wrong with a store is said before hours are spent on another."""
    store = stack.enter_context(Store(part.store))
    reproduction.plan(part.task, store, **shared, fresh=fresh)
    meter.already(store.transcripts(), part.name)
    return store


def _parts(
    task_name: str,
    scale: options.Scale,
    student: str | None,
    way: Way | None,
    store: Path | None,
    figure: Path | None,
    seed: int,
) -> list[Part]:
    """What is to be done. A kind of students that was named is the only one, as the paper's are."""
    if student is not None and way is not None:
        raise ConfigError(f"--student {student} and --way {way}: give one of them, each says whom to train.")
    papers = papers_kind(task_name, scale.value)
    task = get_task(task_name, scale.value, student or papers)
    path = store or default_store(task, papers, seed, "reproduce-")
    if figure is not None:
        check_suffix(figure, (".png", ".pdf"))
    drawn = figure or path.with_suffix(".png")

    def beside(way: Way, kind: str) -> Part:
        places = (p.with_name(f"{p.stem}-{kind}{p.suffix}") for p in (path, drawn))
        applied = None if way is Way.ours else kind
        return Part(way, applied, get_task(task_name, scale.value, kind), *places)

    first = Part(Way.paper, None, task, path, drawn)
    if student is not None:
        reproduction.check_own_teachers(task)
        return [first]
    papers_parts = [first, *(beside(Way.paper, kind) for kind in transfer_kinds(task))]
    return {
        Way.paper: papers_parts,
        Way.ours: [beside(Way.ours, EXPLORER)],
        Way.both: [*papers_parts, beside(Way.ours, EXPLORER)],
    }[way or Way.both]


def _show(result: Reproduction, part: Part, took: str) -> None:
    for line in withdrawn_lines(result.comparison.withdrawn):
        out.print(line, soft_wrap=True)
    size = {"repetitions": result.repetitions, "students": result.students}
    table = reproduction_table(result.rows, result.comparison.rows, **size, ours=result.ours)
    out.print(on_terminal(table, result.title))
    title = f"{result.rows[0].curriculum} against the others, one value for each repetition"
    out.print(on_terminal(differences_table(result.differences), title))
    for kind, policies in result.policies.items():
        for number, policy in enumerate(policies, 1):
            out.print(f"{kind} {number}: {in_words(policy.to_json())}", soft_wrap=True)
            belief = result.beliefs[number - 1] if kind == OPTIMIZED else None
            if belief is not None:
                out.print(f"  {belief_in_words(belief)}", soft_wrap=True)
    learning_figure(result.pictured(), part.figure.with_suffix(".png"), part.figure.with_suffix(".pdf"))
    out.print(
        f"This run took {took}; results are kept in {part.store}, weights beside it; the figure is {part.figure}",
        soft_wrap=True,
    )


def _as_json(done: Mapping[str, Reproduction]) -> dict[str, Any]:
    """The paper's way, or the kind of students that was named, at the top; all else under its name."""
    told = {name: made.to_json() for name, made in done.items()}
    top, ours = told.pop(Way.paper, {}), told.pop(Way.ours, None)
    return top | ({"transfers": told} if told else {}) | ({"ours": ours} if ours else {})
