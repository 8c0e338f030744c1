"""A reproduction on the page: our numbers beside the paper's, then the students of all repetitions together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cisr.report.comparison_section import deployed, student_figures
from cisr.report.contents import ReproductionRecord
from cisr.report.summary import Column, summary_table, table, uncertain, word
from cisr.report.svg import esc
from cisr.reproduce import ReproducedRow

SHOWN = {"success": ("success", 3), "failures in training": ("training_failures", 1), "return": ("mean_return", 3)}
"""Columns of the paper's table: what they are in our rows, and their digits."""


def reproduction_section(record: ReproductionRecord, colours: Mapping[str, str], n_units: int) -> str:
    heading = f"<p><strong>{esc(record.title)}</strong>, reproduced.</p>"
    if not record.rows:
        return heading + '<p class="note">The teachers are searching; no student is evaluated yet.</p>'
    groups = record.pooled.groups
    return "".join(
        [
            heading,
            deployed(record.pooled),
            f'<div class="wide">{published_table(record)}</div>',
            "<details><summary>More of our students, all repetitions together</summary>",
            f'<div class="wide">{summary_table([group.row for group in groups], "pooled")}</div></details>',
            student_figures(groups, colours, n_units),
        ]
    )


def published_table(record: ReproductionRecord) -> str:
    """Ours beside the paper's."""
    rows = record.rows
    columns = [Column(head="curriculum", csv=("curriculum",), cells=tuple(word(row.curriculum) for row in rows))]
    for what, digits in SHOWN.values():
        columns += [
            Column(
                head=whose,
                csv=(f"{what}_{whose}_mean", f"{what}_{whose}_sem"),
                cells=tuple(uncertain(mean, sem, digits) for mean, sem in numbers),
            )
            for whose, numbers in (("ours", _ours(rows, what)), ("paper", _papers(rows, what)))
        ]
    over = (("", 1), *((words, 2) for words in SHOWN))
    caption = (
        "Mean ± standard error; ours over repetitions, each with a teacher of its own and new students under every "
        f"curriculum: {record.repetitions} × {record.students} students in a row. Failures are visits to danger, per "
        "student. A dash: the paper has no such row."
    )
    return table(columns, over=over, name=record.pooled.name, caption=caption)


def _ours(rows: Sequence[ReproducedRow], what: str) -> list[tuple[float, float]]:
    return [(estimate.mean, estimate.sem) for row in rows for estimate in [getattr(row, what)]]


def _papers(rows: Sequence[ReproducedRow], what: str) -> list[tuple[float, float]]:
    return [getattr(row.published, what) if row.published else (math.nan, math.nan) for row in rows]
