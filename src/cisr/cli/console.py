"""How all commands print, write and stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from cisr import export
from cisr.core.callback import Callback, ignore
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.store import Store
from cisr.system.files import plain, write_text
from cisr.system.interrupts import leaving


def _console(**settings: Any) -> Console:
    """Names, paths and errors are the user's: brackets and colons in them are no markup."""
    return Console(markup=False, emoji=False, **settings)


out = _console(width=None if sys.stdout is not None and sys.stdout.isatty() else 130)
err = _console(stderr=True)


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


def showing(folder: Path | None, store: Store) -> AbstractContextManager[Callback]:
    """What has a run shown in TensorBoard while it goes on, if that was asked for."""
    return nullcontext(ignore) if folder is None else export.TensorBoard(folder, store)


@contextmanager
def perhaps_watched(watch: bool, path: Path, task_name: str) -> Iterator[None]:
    """With a page on the store of a run, where one is wanted, in a process of its own, which ends with the run."""
    if not watch:
        yield
        return
    words = [sys.executable, "-m", "cisr", "watch", str(path), "--beside-a-run"]
    words += ["--task", task_name] if ":" in task_name else []
    search_path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    page = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": search_path},
        start_new_session=True,  # Ctrl-C is for the run
    )
    assert page.stdin is not None and page.stdout is not None
    address = page.stdout.readline().decode(errors="replace").strip()
    if not address:
        raise ConfigError("The page could not be started, see above: run without --watch, or use `cisr watch`.")
    err.print(f"Watch this run at {address}", soft_wrap=True, highlight=False)
    try:
        yield
    finally:
        with suppress(OSError):
            page.stdin.close()
        page.stdout.close()
        page.wait()


LONGEST_WORD = 300


def complain(message: str) -> None:
    """One line on standard error, whatever the message holds: endless words are cut, control characters are shown."""
    words = (word if len(word) <= LONGEST_WORD else f"{word[:40]}…{word[-20:]}" for word in message.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(words))
    print(f"cisr: {line}", file=sys.stderr)
