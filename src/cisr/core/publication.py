"""What a paper published about a task, as plain numbers and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """Numbers of the paper as (mean, standard error)."""

    success: tuple[float, float]
    training_failures: tuple[float, float]
    mean_return: tuple[float, float]
    outcomes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Rates of other ways in which episodes of the deployment ended, by the task's names."""

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> PublishedRow:
        def numbers(of: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
            return {name: (mean, sem) for name, (mean, sem) in of.items()}

        plain = {name: given for name, given in record.items() if name != "outcomes"}
        return PublishedRow(**numbers(plain), outcomes=numbers(record.get("outcomes", {})))


@dataclass(frozen=True, kw_only=True)
class MainRow:
    """Numbers of a paper's main table, of one teacher and without standard errors."""

    mean_return: float
    success: float
    test_failures: float
    """Per episode, once deployed."""
    training_failures: float


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a paper says of a task, and what to set beside it."""

    title: str
    rows: Mapping[str, PublishedRow]
    teachers: Mapping[str, Mapping[str, Any]]
    """Curricula that the authors found, as JSON."""
    baselines: tuple[str, ...]
    """Later baselines by others."""
    students: tuple[str, ...] = ()
    """Kinds of students that the table is of; any, where it names none."""
    deploy_each_unit: bool = True
    """Whether students were deployed after each unit too."""
    main: Mapping[str, MainRow] = field(default_factory=dict)
    """The same curricula in the paper's main table, where that tells other numbers."""
    transfers: tuple[Published, ...] = ()
    """Tables of other kinds of students, who learn under what the teachers of the first kind found."""
