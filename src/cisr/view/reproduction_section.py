"""A reproduction on the page: our numbers beside the paper's, then the students of all repetitions together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cisr.experiments.reproduced import PAPERS_NUMBERS, measures, told_apart
from cisr.view.comparison_section import deployed, student_figures
from cisr.view.contents import ReproductionRecord
from cisr.view.summary import Column, differences_table, summary_table, table, uncertain, with_unknown, word
from cisr.view.svg import esc


def reproduction_section(
    record: ReproductionRecord, colours: Mapping[str, str], n_units: int, constraints: Sequence[str]
) -> str:
    heading = f"<p><strong>{esc(record.title)}</strong>, reproduced.</p>"
    if not record.rows:
        return heading + '<p class="note">The teachers are searching; no student is evaluated yet.</p>'
    groups = record.pooled.groups
    return "".join(
        [
            heading,
            deployed(record.pooled),
            f'<div class="wide">{published_table(record)}</div>',
            "<h3>Can they be told apart?</h3><p>Each repetition is one value: the mean of its class. The students of "
            "one teacher share its curriculum policy, so they are no evidence of their own.</p>",
            f'<div class="wide">{differences_table(told_apart(record.rows), "reproduction-differences")}</div>',
            "<details><summary>More of our students, all repetitions together</summary>",
            f'<div class="wide">{summary_table([group.row for group in groups], "pooled")}</div></details>',
            student_figures(groups, colours, n_units, constraints),
        ]
    )


def published_table(record: ReproductionRecord) -> str:
    """Ours beside the paper's."""
    rows = record.rows
    columns = [Column(head="curriculum", csv=("curriculum",), cells=tuple(word(row.curriculum) for row in rows))]
    shown = measures(rows)
    for measure in shown:
        ours = [uncertain(estimate.mean, estimate.sem, measure.digits) for estimate, _ in measure.cells]
        counted = measure.name == "training failures"
        if counted:
            ours = [with_unknown(cell, n) for cell, n in zip(ours, measure.unknown, strict=True)]
        papers = [uncertain(*(paper or (math.nan, math.nan)), measure.digits) for _, paper in measure.cells]
        columns += [
            Column(
                head=whose,
                csv=tuple(f"{measure.name.replace(' ', '_')}_{whose}_{part}" for part in parts),
                cells=tuple(cells),
            )
            for whose, cells, parts in (
                ("ours", ours, ("mean", "sem", "unknown") if counted else ("mean", "sem")),
                ("paper", papers, ("mean", "sem")),
            )
        ]
    over = (("", 1), *((measure.name, 2) for measure in shown))
    caption = (
        "Mean ± standard error; ours over repetitions, each with a teacher of its own and new students under every "
        f"curriculum: {record.repetitions} × {record.students} students in a row{_unfinished(record)}. Failures are "
        f"visits to danger, per student. A dash: there is no such number.{f' {PAPERS_NUMBERS}' if record.ours else ''}"
    )
    return table(columns, over=over, name=record.pooled.name, caption=caption)


def _unfinished(record: ReproductionRecord) -> str:
    rows = [group.row for group in record.pooled.groups]
    finished, students = sum(row.finished for row in rows), record.repetitions * record.students * len(rows)
    return "" if finished == students else f", of whom {finished} of {students} have finished"
