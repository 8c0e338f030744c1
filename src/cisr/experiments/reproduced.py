"""Rows of a reproduced table: our estimates beside the paper's, both over repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cisr.core.publication import PublishedRow
from cisr.experiments.comparison import summarise_group
from cisr.experiments.differences import Difference, against_the_others
from cisr.experiments.statistics import Estimate, estimate
from cisr.tasks import EXPLORER
from cisr.training import Transcript

PAPERS_NUMBERS = "The paper's numbers beside ours are of the paper's students and teachers, not of explorers."


@dataclass(frozen=True, kw_only=True)
class ReproducedRow:
    """One curriculum: estimates whose unit is the repetition, that is, a teacher with its class of students."""

    curriculum: str
    success: Estimate
    training_failures: Estimate
    mean_return: Estimate
    outcomes: Mapping[str, Estimate]
    """Rates of the ways in which episodes of the deployment ended."""
    classes: Mapping[str, tuple[float, ...]]
    """By measure, the mean of each repetition's class, which the estimates sum up."""
    unknown_failures: int
    """Students of whom nobody knows how often they failed in training."""
    published: PublishedRow | None

    def to_json(self) -> dict[str, Any]:
        ours = {
            "success": self.success.to_json(),
            "training_failures": self.training_failures.to_json(),
            "return": self.mean_return.to_json(),
            "outcomes": {name: rate.to_json() for name, rate in self.outcomes.items()},
            "unknown_failures": self.unknown_failures,
        }
        paper = self.published and {
            "success": self.published.success,
            "training_failures": self.published.training_failures,
            "return": self.published.mean_return,
            "outcomes": dict(self.published.outcomes),
        }
        classes = {measure: list(means) for measure, means in self.classes.items()}
        return {"curriculum": self.curriculum, "ours": ours, "classes": classes, "paper": paper}


def entitled(title: str, student: str | None) -> str:
    """What a table is called that stands beside a paper's, by the kind of its students."""
    return f"{title}, ours: our students and teacher" if student == EXPLORER else title


def told_apart(rows: Sequence[ReproducedRow]) -> tuple[Difference, ...]:
    """The first row against each other one: tests count teachers, not their students."""
    measured = rows[0].classes if rows else {}
    return against_the_others({m: {row.curriculum: row.classes[m] for row in rows} for m in measured})


class Measure(NamedTuple):
    """A column of the paper's table."""

    name: str
    digits: int
    cells: tuple[tuple[Estimate, tuple[float, float] | None], ...]
    """For each row our estimate and the paper's (mean, standard error)."""
    unknown: tuple[int, ...]
    """For each row how many students are missing in our estimate."""


def measures(rows: Sequence[ReproducedRow]) -> list[Measure]:
    """Ours beside the paper's: what every paper has, and the outcomes that this one tells."""
    told = list(dict.fromkeys(name for row in rows if row.published for name in row.published.outcomes))
    large = any(abs(row.published.mean_return[0]) >= 100 for row in rows if row.published)

    def column(
        name: str,
        digits: int,
        ours: Callable[[ReproducedRow], Estimate],
        theirs: Callable[[PublishedRow], tuple[float, float] | None],
        unknown: Callable[[ReproducedRow], int] = lambda row: 0,
    ) -> Measure:
        cells = tuple((ours(row), theirs(row.published) if row.published else None) for row in rows)
        return Measure(name, digits, cells, tuple(unknown(row) for row in rows))

    def outcome(name: str) -> Measure:
        return column(name, 3, lambda row: row.outcomes.get(name, estimate([])), lambda paper: paper.outcomes.get(name))

    return [
        column("success", 3, lambda row: row.success, lambda paper: paper.success),
        *(outcome(name) for name in told),
        column(
            "training failures",
            1,
            lambda row: row.training_failures,
            lambda paper: paper.training_failures,
            lambda row: row.unknown_failures,
        ),
        column("return", 1 if large else 3, lambda row: row.mean_return, lambda paper: paper.mean_return),
    ]


def reproduced_row(
    label: str, repetitions: Sequence[Sequence[Transcript]], published: PublishedRow | None
) -> ReproducedRow:
    """Sum up the classes of one curriculum, one for each repetition."""
    rows = [summarise_group(label, group) for group in repetitions]
    finished = [row for row in rows if row.finished]
    names = finished[0].outcomes if finished else {}
    classes = {
        "success": tuple(row.success.mean for row in finished),
        "return": tuple(row.mean_return.mean for row in finished),
        "training_failures": tuple(mean for row in rows if not math.isnan(mean := row.training_failures.mean)),
    }
    return ReproducedRow(
        curriculum=label,
        success=estimate(classes["success"], (0, 1)),
        training_failures=estimate(classes["training_failures"]),
        mean_return=estimate(classes["return"]),
        outcomes={name: estimate([row.outcomes[name] for row in finished], (0, 1)) for name in names},
        classes=classes,
        unknown_failures=sum(row.unknown_failures for row in rows),
        published=published,
    )
