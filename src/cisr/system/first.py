"""The first thing that is imported, so that a command that is stopped during all other imports ends with one line, too.

Nothing is imported here that Python has not made when it starts: `signal` alone would bring in several modules. What
happens before, while Python itself starts, is Python's.
"""

import _signal  # type: ignore[import-not-found]
import os
import sys


def is_command() -> bool:
    """Whether cisr is imported in order to be run: `python -m cisr`, or the console script."""
    called = sys.argv[0] if sys.argv else ""
    return called == "-m" or os.path.splitext(os.path.basename(called))[0] == "cisr"


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"cisr: Stopped.\n")
    finally:
        os._exit(128 + number)


if is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)
