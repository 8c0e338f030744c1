"""Episodes as lines over a task's state plot. A store keeps a few of its finished students: see `playing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """An episode as lines over the state plot."""

    flights: tuple[tuple[Point, ...], ...]
    """A line for each stretch between rescues: a rescue leads from the end of one to the beginning of the next."""
    outcome: str
    failed: bool
    """Whether the outcome is one of the task's dangers."""
    total: float
    """Its return."""
    steps: int

    @property
    def rescues(self) -> list[tuple[Point, Point]]:
        """From where to where."""
        return [(before[-1], after[0]) for before, after in pairwise(self.flights)]

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Trajectory:
        flights = tuple(tuple((x, y) for x, y in flight) for flight in record["flights"])
        return Trajectory(**{**record, "flights": flights})
