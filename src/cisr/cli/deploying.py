"""`cisr deploy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cisr.cli import options
from cisr.cli.console import err, interruptible, out, write_json
from cisr.cli.reporting import StoreArgument
from cisr.experiments.deploying import deploy as deploy_again
from cisr.experiments.deploying import finished
from cisr.store import Store
from cisr.store.meaning import making_sense_of
from cisr.store.place import real_path
from cisr.system.files import check_targets
from cisr.tasks import task_of
from cisr.training import STEP_TIMEOUT
from cisr.view.deployment_table import deployment_table
from cisr.view.progress import counting_students
from cisr.view.terminal import on_terminal
from cisr.view.words import deployed_in_words

StudentsArgument = Annotated[
    str,
    typer.Argument(
        metavar="[STUDENTS]",
        help="Only those whose names begin so, such as compare/LL-A. (default: all that have finished)",
        show_default=False,
    ),
]
WhereOption = Annotated[
    options.Backend, typer.Option(help="What they are deployed on; auto is what the task trains on.")
]
EpisodesOption = Annotated[
    int | None,
    typer.Option(
        help="Episodes of each student. (default: those that begin within the steps of the task's own deployment)",
        show_default=False,
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", help="Your own task of the store, as module:attribute or path/to/file.py:attribute."),
]


def deploy(
    store: StoreArgument,
    students: StudentsArgument = "",
    backend: WhereOption = options.Backend.gymnasium,
    episodes: EpisodesOption = None,
    task_name: TaskOption = None,
    workers: options.WorkersOption = None,
    step_timeout: options.StepTimeoutOption = STEP_TIMEOUT,
    seed: options.SeedOption = 0,
    json_path: options.JsonOption = None,
) -> None:
    """Deploy the finished students of a store once more, in new episodes and on the backend that is named, and set it
    beside how they did when their training ended. The store is only read."""
    real_path(store)  # complains about what can be no store
    check_targets({"--json": json_path}, [store])
    execution = options.execution_of(backend, options.Executor.processes, None, False, workers, step_timeout, None)
    with interruptible("Nothing was kept, and the store is as it was."), Store(store, read_only=True) as opened:
        with making_sense_of(opened):
            n = len(finished(opened, students))
            task = task_of(opened.settings(), task_name)
        with counting_students(err, f"Deploying students of {store}", n) as callback:
            found = deploy_again(
                opened,
                task,
                backend=backend.value,
                students=students,
                episodes=episodes,
                seed=seed,
                execution=execution,
                callback=callback,
            )
    unders = dict.fromkeys(row.under for row in found.rows)
    where = " ".join(f"Students are deployed {deployed_in_words(under)}." for under in unders)
    out.print(on_terminal(deployment_table(found), f"{task.name}: students of {Path(store).name}", where))
    write_json(json_path, found.to_json())
