"""`cisr tasks`, `cisr bench`, `cisr report` and `cisr check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cisr.cli.console import (
    JsonOption,
    PapersStudentOption,
    Scale,
    ScaleOption,
    SeedOption,
    TaskName,
    err,
    out,
    write_json,
)
from cisr.system.files import check_targets
from cisr.tasks import BUILT_IN, entry_of, get_task, papers_kind
from cisr.training.new_students import student_config


def tasks(json_path: JsonOption = None) -> None:
    """List tasks, their interventions, their kinds of students and these students' defaults."""
    check_targets({"--json": json_path})
    table = Table(title="Tasks", title_justify="left")
    for column in ("task", "scale", "interventions (τ)", "students", "what it is"):
        table.add_column(column)
    records = []
    for name in BUILT_IN:
        entry = entry_of(name)
        for scale in entry.scales:
            task = get_task(name, scale)
            shown = ", ".join(f"{i.name} ({i.tau:g})" for i in task.interventions)
            student = student_config(task, 0, "example")
            usual, n_units = task.training.student_kind, task.training.n_units
            others = [kind for kind in entry.students if kind != usual]
            kinds = f"{usual} (default), {n_units} units; or {', '.join(others)}"
            table.add_row(name, scale, shown, kinds, task.appearance.description)
            records.append(
                {
                    "task": name,
                    "scale": scale,
                    "interventions": [{"name": i.name, "tau": i.tau, "kappa": i.kappa} for i in task.interventions],
                    "student": student.to_json(),
                    "student_kind": usual,
                    "student_kinds": list(entry.students),
                    "n_units": n_units,
                }
            )
    out.print(table)
    write_json(json_path, {"tasks": records})


def bench(
    task_name: TaskName,
    scale: ScaleOption = Scale.paper,
    student: PapersStudentOption = None,
    intervention: Annotated[
        str | None, typer.Option(help="What students are under. (default: the task's first)", show_default=False)
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Turns that each backend gets.")] = 3,
    seconds: Annotated[float, typer.Option(help="Time measured in each turn, at least.")] = 20.0,
    students: Annotated[
        int | None,
        typer.Option(help="Students in a batch. (default: 4 on each core, 256 on an accelerator)", show_default=False),
    ] = None,
    backends: Annotated[
        str, typer.Option(help="What to measure, with commas between.")
    ] = "compiled,gymnasium,sb3,sb3-plain",
    seed: SeedOption = 0,
    json_path: JsonOption = None,
) -> None:
    """Measure how fast students learn on each backend and by Stable-Baselines3, on the same work."""
    from cisr.experiments.bench import bench as measure
    from cisr.view.bench_table import throughput_table, what_is_compared

    check_targets({"--json": json_path})
    found = measure(
        get_task(task_name, scale.value, student or papers_kind(task_name, scale.value)),
        intervention=intervention,
        backends=[backend.strip() for backend in backends.split(",")],
        repetitions=repetitions,
        seconds=seconds,
        students=students,
        seed=seed,
        say=lambda line: err.print(line, soft_wrap=True, highlight=False),
    )
    out.print(throughput_table(found))
    out.print(what_is_compared(found), soft_wrap=True)
    for line in found.left_out:
        out.print(line, soft_wrap=True)
    write_json(json_path, found.to_json())


def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file that train or compare has made.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write the page. (default: beside the store)", show_default=False),
    ] = None,
) -> None:
    """Write the HTML report on a store: one page that needs no network. A study may still be running on the store."""
    from cisr.view.page import write_page

    out.print(str(write_page(store, target)), soft_wrap=True, highlight=False)


def check(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file that train or compare has made.")],
    mend: Annotated[
        bool,
        typer.Option("--mend", help="Forget students whose weights are lost, so that the next run trains them again."),
    ] = False,
) -> None:
    """Say whether a store is whole: every row of it and every file of weights.

    Exit code 0 when it is, or has been mended, 1 when it is damaged, 2 for what is no store.
    """
    from cisr.store import check as checking

    found = checking.mend(store) if mend else checking.check(store)
    lines = found.in_words()
    if mend and not found.whole:
        lines[-1] = f"Mended: the next run of the same commands trains {found.students} again, from the first unit."
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)
    if not found.whole and not mend:
        raise SystemExit(1)
