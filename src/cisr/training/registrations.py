"""What a program has registered with Gymnasium, for its worker processes.

A task may make its environment by a name that only this program knows: registered in its main script, say, which
workers do not run, or in a module that nothing of the task refers to.
"""

from __future__ import annotations

import contextlib
import pickle
from typing import NamedTuple

import cloudpickle

from cisr.core.libraries import GYMNASIUM

if GYMNASIUM:
    import gymnasium

FOUND_ANYWHERE = ("gymnasium.", "cisr.")
"""Where the entry points lie that every process has registered."""


class Registrations(NamedTuple):
    """Environments as Gymnasium's specs, each pickled by itself: one that cannot be loaded is no other's concern."""

    specs: tuple[bytes, ...]

    def register(self) -> None:
        """Make them known here, where they are not yet."""
        for data in self.specs:
            with contextlib.suppress(Exception):  # if it is needed, Gymnasium says that it does not know it
                spec = pickle.loads(data)
                gymnasium.registry.setdefault(spec.id, spec)


def registrations() -> Registrations:
    """Those of this process that another one may lack."""
    specs = []
    for spec in gymnasium.registry.values() if GYMNASIUM else ():
        if not str(spec.entry_point).startswith(FOUND_ANYWHERE):
            with contextlib.suppress(Exception):
                specs.append(cloudpickle.dumps(spec))
    return Registrations(tuple(specs))
