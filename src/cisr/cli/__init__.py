"""The command line. Bad input gets one line and exit code 2, a run in which nobody finished exit code 1; `--debug`
shows the traceback instead."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from cisr.cli.auditing import audit
from cisr.cli.comparing import compare
from cisr.cli.console import app, complain
from cisr.cli.listing import bench, check, report, tasks
from cisr.cli.reproducing import reproduce
from cisr.cli.training import train
from cisr.compilation import is_out_of_memory
from cisr.errors import CisrError, NobodyFinished

__all__ = ["main"]

for _command in (tasks, audit, train, compare, reproduce, report, check, bench):
    app.command()(_command)


def main(arguments: Iterable[str] | None = None) -> None:
    """The console script `cisr`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--debug" in words:
        app(words, standalone_mode=True)
        return
    try:
        app(words, standalone_mode=True)
    except NobodyFinished as error:
        complain(str(error))
        raise SystemExit(1) from None
    except CisrError as error:
        complain(str(error))
        raise SystemExit(2) from None
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        complain(f"Out of memory: {error}. Finished units are kept: free memory and run the same command again.")
        raise SystemExit(2) from None
