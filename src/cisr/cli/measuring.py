"""`cisr bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from cisr.cli import options
from cisr.cli.console import err, out, write_json
from cisr.experiments.bench.measure import bench as measure
from cisr.system.files import check_targets
from cisr.tasks import get_task, papers_kind
from cisr.view.bench_table import throughput_table, what_is_compared


def bench(
    task_name: options.TaskName,
    scale: options.ScaleOption = options.Scale.paper,
    student: options.PapersStudentOption = None,
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
    seed: options.SeedOption = 0,
    json_path: options.JsonOption = None,
) -> None:
    """Measure how fast students learn on each backend and by Stable-Baselines3, on the same work."""
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
