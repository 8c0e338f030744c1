"""What all commands share: their options, and how they print, write and stop."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from cisr.core.task import Task
from cisr.system.files import plain, write_text
from cisr.system.interrupts import leaving


def _console(**settings: Any) -> Console:
    """Names, paths and errors are the user's: brackets and colons in them are no markup."""
    return Console(markup=False, emoji=False, **settings)


out = _console(width=None if sys.stdout is not None and sys.stdout.isatty() else 130)


err = _console(stderr=True)


class Scale(StrEnum):
    paper = "paper"
    quick = "quick"


class Backend(StrEnum):
    auto = "auto"
    compiled = "compiled"
    gymnasium = "gymnasium"


class TeacherKind(StrEnum):
    top_two = "top-two"
    gp_ucb = "gp-ucb"
    random = "random"


class Way(StrEnum):
    paper = "paper"
    ours = "ours"
    both = "both"


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
        help="The kind of students, see `cisr tasks`. (default: explorer on built-in tasks, its own on your own)",
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


def default_store(task: Task, usual: str | None, seed: int, prefix: str = "") -> Path:
    """A file for each task, scale, seed and kind of student; the usual kind goes without saying."""
    kind = [] if task.training.student_kind in (None, usual) else [str(task.training.student_kind)]
    name = "-".join([task.name, *kind, task.training.scale, str(seed)])
    return Path("runs") / f"{prefix}{plain(name)}.sqlite"


def ago(began: float) -> str:
    seconds = time.monotonic() - began
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} minutes"


def write_json(path: Path | None, record: dict[str, Any]) -> None:
    if path is not None:
        write_text(path, json.dumps(record, indent=2) + "\n")


@contextmanager
def interruptible(left: str = "Finished units are kept: run the same command again to go on.") -> Iterator[None]:
    """Ctrl-C and other signals end with one line, which says what is left."""
    with leaving(left):
        try:
            yield
        except KeyboardInterrupt:  # where the command is a function of another program
            complain(f"Stopped. {left}")
            raise SystemExit(130) from None


LONGEST_WORD = 300


def complain(message: str) -> None:
    """One line on standard error, whatever the message holds: endless words are cut, control characters are shown."""
    words = (word if len(word) <= LONGEST_WORD else f"{word[:40]}…{word[-20:]}" for word in message.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(words))
    print(f"cisr: {line}", file=sys.stderr)
