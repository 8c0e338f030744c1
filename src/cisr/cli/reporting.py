"""`cisr report` and `cisr check`: what can be said of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cisr.cli.console import out
from cisr.store import check as checking
from cisr.view.page import write_page

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file that train or compare has made.")]


def report(
    store: StoreArgument,
    target: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write the page. (default: beside the store)", show_default=False),
    ] = None,
) -> None:
    """Write the HTML report on a store: one page that needs no network. A study may still be running on the store."""
    out.print(str(write_page(store, target)), soft_wrap=True, highlight=False)


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
