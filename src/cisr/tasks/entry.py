"""What is entered of a built-in task, as the `ENTRY` of its module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cisr.core.publication import Published
from cisr.core.task import Task

Scale = Literal["paper", "quick"]
SCALES: tuple[Scale, ...] = ("paper", "quick")

EXPLORER = "explorer"
"""Our own kind of students, which every task has; the usual kind of those that are built in."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """How a built-in task is made, at which scales and for which kinds of students."""

    make: Callable[[Scale, str], Task]
    """make(scale, kind of students) -> the task"""
    scales: Mapping[Scale, str]
    """Its scales, each with the kind that stands for the paper's students there: published figures are about these."""
    students: tuple[str, ...]
    """All kinds of students, `explorer` among them."""
    published: Published | None = None
    """What a paper says of it."""
