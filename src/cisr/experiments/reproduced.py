"""Rows of a reproduced table: our estimates beside the paper's, both over repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cisr.core.publication import PublishedRow
from cisr.experiments.comparison import measure_units, summarise_group
from cisr.experiments.differences import Difference, Sample, against_the_others
from cisr.experiments.statistics import Estimate, estimate
from cisr.tasks.entry import EXPLORER
from cisr.training import Transcript

PAPERS_NUMBERS = "The paper's numbers beside ours are of the paper's students and teachers, not of explorers."


@dataclass(frozen=True, kw_only=True)
class ReproducedRow:
    """One curriculum: estimates whose unit is the repetition, that is, a teacher with its class of students."""

    curriculum: str
    success: Estimate
    training_failures: Estimate
    mean_return: Estimate
    deployment_failures: Estimate
    """Per episode."""
    outcomes: Mapping[str, Estimate]
    """Rates of the ways in which episodes of the deployment ended."""
    measured: Mapping[str, Sample]
    """Each repetition's class is one unit."""
    students: int
    finished: int
    unknown_failures: int
    """Students of whom nobody knows how often they failed in training."""
    published: PublishedRow | None

    @property
    def classes(self) -> dict[str, tuple[float, ...]]:
        """By measure, the mean of each repetition's class, which the estimates sum up."""
        return {measure: tuple(sample.values) for measure, sample in self.measured.items()}

    def to_json(self) -> dict[str, Any]:
        ours = {
            "success": self.success.to_json(),
            "training_failures": self.training_failures.to_json(),
            "return": self.mean_return.to_json(),
            "deployment_failures": self.deployment_failures.to_json(),
            "outcomes": {name: rate.to_json() for name, rate in self.outcomes.items()},
            "unknown_failures": self.unknown_failures,
        }
        paper = self.published and {
            "success": self.published.success,
            "training_failures": self.published.training_failures,
            "return": self.published.mean_return,
            "outcomes": dict(self.published.outcomes),
        }
        return {
            "curriculum": self.curriculum,
            "students": self.students,
            "finished": self.finished,
            "ours": ours,
            "classes": {measure: list(means) for measure, means in self.classes.items()},
            "paper": paper,
        }


def entitled(title: str, student: str | None) -> str:
    """What a table is called that stands beside a paper's, by the kind of its students."""
    return f"{title}, ours: our students and teacher" if student == EXPLORER else title


def told_apart(rows: Sequence[ReproducedRow]) -> tuple[Difference, ...]:
    """The first row against each other one: tests count teachers, not their students."""
    measured = rows[0].measured if rows else {}
    return against_the_others({m: {row.curriculum: row.measured[m] for row in rows} for m in measured})


def reproduced_row(
    label: str, repetitions: Sequence[Sequence[Transcript]], published: PublishedRow | None
) -> ReproducedRow:
    """Sum up the classes of one curriculum, one for each repetition."""
    rows = [summarise_group(label, group) for group in repetitions]
    finished = [row for row in rows if row.finished]
    names = finished[0].outcomes if finished else {}
    measured = measure_units(repetitions)
    return ReproducedRow(
        curriculum=label,
        success=estimate(measured["success"].values, (0, 1)),
        training_failures=estimate(measured["training_failures"].values),
        mean_return=estimate(measured["return"].values),
        deployment_failures=estimate(_known(row.deployment_failures for row in rows), (0, 1)),
        outcomes={name: estimate([row.outcomes[name] for row in finished], (0, 1)) for name in names},
        measured=measured,
        students=sum(row.students for row in rows),
        finished=sum(row.finished for row in rows),
        unknown_failures=sum(row.unknown_failures for row in rows),
        published=published,
    )


def _known(estimates: Iterable[Estimate]) -> tuple[float, ...]:
    return tuple(estimate.mean for estimate in estimates if estimate.mean is not None)
