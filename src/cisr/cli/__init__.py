"""The command line. Bad input gets one line and exit code 2; `--debug` shows the traceback instead."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from cisr.cli.auditing import audit
from cisr.cli.comparing import compare, parse_curriculum
from cisr.cli.console import app, complain
from cisr.cli.listing import bench, report, tasks
from cisr.cli.training import reproduce, train
from cisr.errors import CisrError

__all__ = ["main", "parse_curriculum"]

for _command in (tasks, audit, train, compare, reproduce, report, bench):
    app.command()(_command)


def main(arguments: Iterable[str] | None = None) -> None:
    """The console script `cisr`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--debug" in words:
        app(words, standalone_mode=True)
        return
    try:
        app(words, standalone_mode=True)
    except CisrError as error:
        complain(str(error))
        raise SystemExit(2) from None
