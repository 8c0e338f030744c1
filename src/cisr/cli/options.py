"""Options that several commands take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cisr.core.errors import ConfigError
from cisr.training import Execution, Ray


class Scale(StrEnum):
    paper = "paper"
    quick = "quick"


class Executor(StrEnum):
    serial = "serial"
    processes = "processes"
    ray = "ray"


class Backend(StrEnum):
    auto = "auto"
    compiled = "compiled"
    gymnasium = "gymnasium"


TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK", help="A built-in task, or your own as module:attribute or path/to/file.py:attribute."
    ),
]
ScaleOption = Annotated[Scale, typer.Option(help="The paper's full scale, or a quick one that takes minutes.")]
StudentOption = Annotated[
    str | None,
    typer.Option(
        "--student",
        help="The kind of students, see `cisr tasks`, or sb3:ALGORITHM for one of Stable-Baselines3's. (default: "
        "explorer on built-in tasks, its own on your own)",
        show_default=False,
    ),
]
PapersStudentOption = Annotated[
    str | None,
    typer.Option(
        "--student",
        help="The kind of students, see `cisr tasks`. (default: the paper's, its own on your own task)",
        show_default=False,
    ),
]
BackendOption = Annotated[
    Backend, typer.Option(help="Where experience comes from; auto is compiled where the task can.")
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="SQLite file that keeps results; weights go into a folder beside it. "
        "(default: runs/TASK[-STUDENT]-SCALE-SEED.sqlite)",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option(help="Root of all randomness.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write machine-readable results here.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(help="Worker processes; results do not depend on it. (default: one per core)", show_default=False),
]
ExecutorOption = Annotated[
    Executor,
    typer.Option(
        help="Who trains: worker processes of this machine or of a Ray cluster, or serial for this process alone. "
        "Results do not depend on it."
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        help="The Ray cluster, as host:port or auto. (default: RAY_ADDRESS, or the one of this machine, or a new one)",
        show_default=False,
    ),
]
GpusOption = Annotated[
    bool, typer.Option("--gpus", help="On a Ray cluster: a worker for each GPU and not for each core.")
]
StepTimeoutOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="How long a step or reset of an environment may take before its student counts as broken. With --workers "
        "0 only Python code can be interrupted, not a library that blocks.",
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        help="Students trained together at most, for a new store; fewer need less memory. (default: what suits this "
        "machine)",
        show_default=False,
    ),
]
TensorBoardOption = Annotated[
    Path | None,
    typer.Option(
        "--tensorboard",
        metavar="FOLDER",
        help="Show the run in TensorBoard while it goes on: its log is written into this folder, one for each store.",
        show_default=False,
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Begin anew: what the store holds under this name is set aside, in a store beside it."
    ),
]
SafeEvaluationOption = Annotated[
    bool,
    typer.Option(
        "--evaluate-safely", help="Score final policies under the task's safe evaluation M_0, not in the task itself."
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Show the run on a page while it goes on, see `cisr watch`; prints its address.")
]


def execution_of(
    backend: Backend,
    executor: Executor,
    address: str | None,
    gpus: bool,
    workers: int | None,
    step_timeout: float,
    batch: int | None,
) -> Execution:
    """What the options of a command that trains come to."""
    if executor is not Executor.ray and (address is not None or gpus):
        given = "--gpus" if address is None else "--address"
        raise ConfigError(f"{given} is about a Ray cluster and the executor is {executor.value}: give --executor ray.")
    where: str | Ray = Ray(address=address, gpus=gpus) if executor is Executor.ray else executor.value
    return Execution(backend=backend.value, executor=where, n_workers=workers, step_timeout=step_timeout, batch=batch)
