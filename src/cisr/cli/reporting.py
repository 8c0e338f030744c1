"""`cisr report` and `cisr check`: what can be said of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cisr.cli.console import out
from cisr.core.errors import ConfigError
from cisr.store import check as checking
from cisr.view.page import write_page

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file that train or compare has made.")]


def report(
    store: StoreArgument,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write the page. (default: beside the store)", show_default=False),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Play a student of each curriculum once more, to step through its episode."),
    ] = False,
    task: Annotated[
        str | None,
        typer.Option("--task", help="With --replay: your own task of the store, as module:attribute."),
    ] = None,
) -> None:
    """Write the HTML report on a store: one page that needs no network. A study may still be running on the store."""
    if task is not None and not replay:
        raise ConfigError(f"--task {task} is there to play students: give --replay with it.")
    out.print(str(write_page(store, target, replay=replay, task=task)), soft_wrap=True, highlight=False)


def check(
    store: StoreArgument,
    mend: Annotated[
        bool,
        typer.Option("--mend", help="Forget students whose weights are lost, so that the next run trains them again."),
    ] = False,
) -> None:
    """Say whether a store is whole: every row of it and every file of weights.

    Exit code 0 when it is, or has been mended, 1 when it is damaged, 2 for what is no store.
    """
    found = checking.mend(store) if mend else checking.check(store)
    lines = found.in_words()
    if mend and not found.whole:
        lines[-1] = f"Mended: the next run of the same commands trains {found.students} again, from the first unit."
    for line in lines:
        out.print(line, soft_wrap=True, highlight=False)
    if not found.whole and not mend:
        raise SystemExit(1)
