"""Baselines that every task with a rewind has: `Back-x` rewinds x steps, `Incremental-x` x more with every unit.

A rewind needs a trigger and a tolerance; those of `Back-x` are the task's first rewind's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from cisr.core.intervention import Intervention, Rewind

_NAMES = re.compile(r"(Back|Incremental)-(\d{1,9})")


class RewindName(NamedTuple):
    """What the name of such a baseline says."""

    steps: int
    grows: bool
    """Whether every unit rewinds that much more."""

    def in_unit(self, unit: int) -> str:
        """The intervention of unit 1, 2, …"""
        return f"Back-{self.steps * unit if self.grows else self.steps}"


def read_rewind(name: str) -> RewindName | None:
    """None where the name is that of no such baseline."""
    found = _NAMES.fullmatch(name)
    return None if found is None else RewindName(steps=int(found[2]), grows=found[1] == "Incremental")


def first_rewind(interventions: Iterable[Intervention]) -> Intervention | None:
    """The intervention whose trigger and tolerances `Back-x` takes."""
    return next((i for i in interventions if isinstance(i.reset, Rewind)), None)


def back(name: str, interventions: Iterable[Intervention]) -> Intervention | None:
    """`Back-x` among these interventions; None where the name is another one or none of them rewinds."""
    read, like = read_rewind(name), first_rewind(interventions)
    if read is None or read.grows or like is None:
        return None
    return replace(like, name=name, reset=Rewind(read.steps))
