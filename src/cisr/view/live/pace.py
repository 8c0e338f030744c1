"""How a run goes, as far as one can tell who looks at its store now and then: its rate, and what has just happened.

Stores keep no times of day: what was there before the first look has no time.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from cisr.training import Transcript, UnitLog
from cisr.view.words import fixed, several

WINDOW = 600.0
"""Seconds over which a rate is taken."""
MOST_NEWS = 15


class Done(NamedTuple):
    at: float
    units: int
    steps: int


class News(NamedTuple):
    """Something that has just happened to a student."""

    time: str
    student: str
    what: str
    told: str
    bad: bool
    """Whether it failed, in either sense."""


class Pace:
    """Is told what the students have done at each look."""

    def __init__(self) -> None:
        self._before: Mapping[str, Transcript] | None = None
        self._done: deque[Done] = deque()
        self.news: deque[News] = deque(maxlen=MOST_NEWS)

    def look(self, students: Mapping[str, Transcript], running: bool) -> None:
        now = time.monotonic()
        if not running:
            self._done.clear()
        units = [unit for t in students.values() for unit in t.units]
        done = Done(now, len(units), sum(unit.steps or 0 for unit in units))
        if self._done and done.units < self._done[-1].units:  # students were set aside, or start over
            self._done.clear()
        if not self._done or done.units > self._done[-1].units:
            self._done.append(done)
        while len(self._done) > 2 and now - self._done[0].at > WINDOW:
            self._done.popleft()
        if self._before is not None:
            clock = time.strftime("%H:%M:%S")
            for name, student in students.items():
                if (before := self._before.get(name)) is not student:
                    self.news.extendleft(_news(clock, before, student))
        self._before = students

    @property
    def rate(self) -> Done | None:
        """Units and steps in one second; None before there were any to see."""
        if len(self._done) < 2:
            return None
        first, last = self._done[0], self._done[-1]
        seconds = max(last.at - first.at, 1e-9)
        return Done(seconds, last.units - first.units, last.steps - first.steps)


def _news(clock: str, before: Transcript | None, now: Transcript) -> list[News]:
    n = len(before.units) if before is not None and len(before.units) <= len(now.units) else 0
    found = [
        News(clock, now.name, f"unit {unit.unit}", _told(unit), bool(unit.failures or _in_m0(unit)))
        for unit in now.units[n:]
    ]
    if now.deployment is not None and (before is None or before.deployment is None):
        success, failures = now.deployment.success, now.deployment.failures
        told = f"deployed: return {fixed(now.deployment.mean_return, 2)}"
        told += "" if success is None else f", success {100 * success:.0f} %"
        told += "" if failures is None else f", {several(failures, 'failure')}"
        found.append(News(clock, now.name, "finished", told, False))
    if now.error is not None and (before is None or before.error is None):
        found.append(News(clock, now.name, "error", now.error, True))
    return found


def _told(unit: UnitLog) -> str:
    said = f"{unit.intervention}: return {fixed(unit.mean_return, 2)}"
    said += "" if unit.total_rescues is None else f", {several(unit.total_rescues, 'rescue')}"
    said += "" if unit.failures is None else f", {several(unit.failures, 'failure')}"
    return said + (f", {several(_in_m0(unit), 'failure')} in M_0" if _in_m0(unit) else "")


def _in_m0(unit: UnitLog) -> int:
    return (unit.evaluation.failures or 0) if unit.evaluation else 0
