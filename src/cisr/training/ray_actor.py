"""An actor on a Ray cluster: it has one worker process, and passes on what is said to it and by it.

Students are trained in the worker process and not in the actor. So a worker is the same everywhere, with its one
thread, its environments that may print, hang or crash, and its memory that can be given back; and an actor that is gone
means a machine that is gone, which is nobody's fault.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import sys
import threading
from collections.abc import Mapping
from importlib import metadata
from typing import NamedTuple

from cisr.core.errors import CisrError, described
from cisr.core.version import __version__
from cisr.training.process import LOOK_EVERY, Child


class Said(NamedTuple):
    """By the worker process: a pickle."""

    data: bytes


class Late(NamedTuple):
    """The user's code took too long, in the turn of this student; None: it concerns all of the batch."""

    student: int | None


class Died(NamedTuple):
    """The worker process did, on a machine that lives."""

    cause: str


class Refused(NamedTuple):
    """There can be no worker here."""

    message: str


Heard = Said | Late | Died | Refused


class Surroundings(NamedTuple):
    """What a worker must find as the main process has it."""

    packages: dict[str, str]
    search_path: tuple[str, ...]
    folder: str
    variables: dict[str, str]
    step_timeout: float

    @staticmethod
    def here(step_timeout: float, on_gpus: bool) -> Surroundings:
        """JAX's settings travel: numbers depend on them. A worker that was given no GPU keeps away from it."""
        variables = {name: value for name, value in os.environ.items() if name.startswith("JAX_")}
        variables.pop("JAX_PLATFORMS", None)
        if not on_gpus:
            variables["JAX_PLATFORMS"] = "cpu"
        path = tuple(path or os.getcwd() for path in sys.path)
        return Surroundings(_packages(), path, os.getcwd(), variables, step_timeout)


class Actor:
    """What Ray makes an actor of. One thread hears, one tells, one ends; the worker process is started by the main
    thread, because it ends with the thread that started it."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._limit = surroundings.step_timeout
        self._child: Child | None = None
        if refusal := _unlike(surroundings.packages):
            self._heard.put(Refused(refusal))
            return
        with contextlib.suppress(OSError):  # this machine has no such folder
            os.chdir(surroundings.folder)
        sys.path[:] = dict.fromkeys([*surroundings.search_path, *sys.path])
        try:
            self._child = Child("cisr.training.worker", **surroundings.variables)
            threading.Thread(target=self._listen, args=(self._child,), daemon=True).start()
        except (CisrError, RuntimeError) as error:
            self._heard.put(Refused(described(error)))

    def hear(self) -> Heard:
        """What comes next."""
        while True:
            try:
                return self._heard.get(timeout=LOOK_EVERY)
            except queue.Empty:
                if self._child and (found := self._child.watch.overdue(self._limit)):
                    self._child.kill()
                    return Late(found.student)

    def tell(self, data: bytes) -> None:
        if self._child:
            self._child.write(data)

    def end(self) -> None:
        """End the worker process with all that its environments have started."""
        if self._child:
            self._child.kill()

    def _listen(self, child: Child) -> None:
        for data in child.pickles():
            self._heard.put(Said(data))
        self._heard.put(Died(child.died_of()))


def _packages() -> dict[str, str]:
    """Those that numbers depend on, whatever the task."""
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "cisr": __version__}
    for package in ("jax", "jaxlib", "numpy", "gymnasium", "torch", "stable-baselines3"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _unlike(wanted: Mapping[str, str]) -> str:
    """What is wrong with this machine, if anything."""
    found = _packages()
    for package, version in wanted.items():
        if found.get(package) != version:
            return (
                f"Machine {platform.node()} of the Ray cluster has {package} {found.get(package, '(none)')}, the main "
                f"process has {version}: install the same packages on all of them."
            )
    return ""
