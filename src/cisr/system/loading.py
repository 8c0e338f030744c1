"""While a process that was started to work imports the user's modules, none of them may start such processes itself.

A module that trains or audits when it is imported would have a worker start, which imports the module, which has a
worker start, and so on without an end. Python's own multiprocessing refuses that, and so do we.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cisr.core.errors import ConfigError

_here = threading.local()


@contextmanager
def loading() -> Iterator[None]:
    """What was sent to this process is loaded, and modules are imported with it."""
    before = getattr(_here, "loading", False)
    _here.loading = True
    try:
        yield
    finally:
        _here.loading = before


def check_not_loading() -> None:
    """To be asked before students are trained, an audit begins, a process starts or a store is written."""
    if getattr(_here, "loading", False) or getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigError(
            f"{_importing()} trains or audits when it is imported, and a worker process imports it: put that under "
            f'`if __name__ == "__main__":`.'
        )


def _importing() -> str:
    """The module whose import has led here: the nearest one that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == "<module>" and name.partition(".")[0] != "cisr":
            return f"Module '{name}' ({frame.f_code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back
    return "A module"
