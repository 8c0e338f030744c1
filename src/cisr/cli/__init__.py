"""The command line. Bad input gets one line and exit code 2, a run in which nobody finished exit code 1, an error that
nobody foresaw exit code 3; `--debug` shows the traceback instead.

Commands stand in modules of their own, which are imported when one of them is asked for: they need what `cisr --help`
does without.

May import everything.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from cisr.cli.commands import app
from cisr.cli.console import complain
from cisr.cli.streams import guarded_streams
from cisr.core.errors import CisrError, NobodyFinished, described, is_out_of_memory
from cisr.system.files import check_folder

__all__ = ["main"]

UsageError: Any = typer.BadParameter.__base__
"""What typer raises for words that it cannot make sense of."""


def main(arguments: Iterable[str] | None = None) -> None:
    """The console script `cisr`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with guarded_streams():
        raise SystemExit(_run([word for word in words if word != "--debug"], debug="--debug" in words))


def _run(words: list[str], debug: bool) -> int:
    """Returns the exit code."""
    try:
        check_folder()
        return app(words or ["--help"], standalone_mode=False) or 0
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # libraries have errors of their own beside Exception
        if debug:
            raise
        message, code = _answer(error, words)
        complain(message)
        return code


def _answer(error: BaseException, words: Sequence[str]) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, CisrError):
        return str(error), 1 if isinstance(error, NobodyFinished) else 2
    if isinstance(error, UsageError):
        return f"{error.format_message().rstrip('.')}, in: cisr {shlex.join(words)}. See {_help(error)}.", 2
    if is_out_of_memory(error):
        return f"Out of memory: {error}. Finished units are kept: free memory and run the same command again.", 2
    return f"Nobody foresaw this error: {described(error)}. Run the same with --debug to see where it comes from.", 3


def _help(error: Any) -> str:
    return f"{error.ctx.command_path if error.ctx else 'cisr'} --help"
