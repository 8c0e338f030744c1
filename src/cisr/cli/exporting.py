"""`cisr export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cisr import export as formats
from cisr.cli import options
from cisr.cli.console import out
from cisr.cli.reporting import StoreArgument
from cisr.core.errors import ConfigError
from cisr.export.places import file_part
from cisr.store.place import real_path
from cisr.training import STEP_TIMEOUT


class Format(StrEnum):
    csv = "csv"
    parquet = "parquet"
    optuna = "optuna"
    tensorboard = "tensorboard"
    numpy = "numpy"
    onnx = "onnx"


ENDINGS = {
    Format.csv: "-csv",
    Format.parquet: "-parquet",
    Format.optuna: "-optuna.db",
    Format.tensorboard: "-tensorboard",
    Format.numpy: ".npz",
    Format.onnx: ".onnx",
}
OF_A_STUDENT = (Format.numpy, Format.onnx)
FormatArgument = Annotated[
    Format,
    typer.Argument(
        metavar="FORMAT",
        help="csv or parquet: tables of units, students, trials and comparisons; optuna: its storage; tensorboard: its "
        "log; numpy or onnx: a student as a policy that needs no cisr.",
    ),
]
StudentArgument = Annotated[
    str | None,
    typer.Argument(metavar="STUDENT", help="The student to export, such as compare/SR1/000.", show_default=False),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="The file or folder to write. (default: beside the store)", show_default=False),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="Your own task, as module:attribute or path/to/file.py:attribute: what a student sees and does is asked "
        "of its environment. (default: the built-in task that the store names)",
        show_default=False,
    ),
]


def export(
    store: StoreArgument,
    to: FormatArgument,
    student: StudentArgument = None,
    target: OutOption = None,
    task_name: TaskOption = None,
    step_timeout: options.StepTimeoutOption = STEP_TIMEOUT,
) -> None:
    """Write what other programs read: tables, Optuna's storage, TensorBoard's log, or a student as a policy that needs
    no cisr. A study may still be running on the store."""
    real_path(store)  # complains about what can be no store
    if (student is None) == (to in OF_A_STUDENT):
        wanted = "give the student's name, such as compare/SR1/000" if student is None else "leave out the student"
        raise ConfigError(
            f"{to.value} is an export of {'a student' if student is None else 'a whole store'}: {wanted}."
        )
    whose = "" if student is None else "-" + "-".join(map(file_part, student.split("/")))
    path = target or store.with_name(store.stem + whose + ENDINGS[to])
    out.print(str(_exported(store, to, student, path, task_name, step_timeout)), soft_wrap=True, highlight=False)


def _exported(
    store: Path, to: Format, student: str | None, path: Path, task_name: str | None, step_timeout: float
) -> Path:
    """Where it was written; the libraries of one format are not needed by another."""
    if student is not None:
        if path.suffix.lower() != ENDINGS[to]:
            raise ConfigError(f"--out is {path}: give a name that ends in {ENDINGS[to]}.")
        return formats.export_stored_student(store, student, path, task_name, step_timeout)
    if to is Format.optuna:
        return formats.export_optuna(store, path)
    if to is Format.tensorboard:
        return formats.export_tensorboard(store, path)
    return formats.export_tables(store, path, "csv" if to is Format.csv else "parquet")
