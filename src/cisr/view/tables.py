"""Comparisons as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from cisr.experiments.comparison import LEARNED, MEASURES, Comparison, Row
from cisr.experiments.differences import Difference
from cisr.experiments.reproduce import Reproduction
from cisr.experiments.reproduced import PAPERS_NUMBERS, measures
from cisr.experiments.statistics import Estimate, Share
from cisr.view.words import missing, where_deployed


def comparison_table(comparison: Comparison) -> Table:
    table = _empty(
        f"{comparison.title}: mean ± standard error over students [95 % interval]",
        "Intervals hold whatever the distribution; means that have none, such as returns, are shown without.\n"
        f"failed to learn: success below {LEARNED} once deployed; the others' success beside it.\n"
        "failures: visits to danger, per student in training (and how many had any), per episode once deployed.\n"
        f"Deployed {where_deployed(comparison.deployed_under)}.",
    )
    table.add_column("curriculum", no_wrap=True)
    headings = (
        *("success", "failed\nto learn", "the others'\nsuccess", "return"),
        *("training\nfailures", "rescues", "deployed\nfailures", "students"),
    )
    for heading in headings:
        table.add_column(heading, justify="right")  # a narrow terminal wraps numbers: cut off they would be others
    for row in comparison.rows:
        failures = shown(row.training_failures, 1 if 0 < row.training_failures.mean < 100 else 0)
        failures = missing(failures, row.unknown_failures, before="\n")
        table.add_row(
            row.curriculum,
            shown(row.success, 3),
            "–" if row.failed_to_learn is None else counted(row.failed_to_learn),
            "–" if row.learned is None else shown(row.learned, 3),
            shown(row.mean_return, 1 if abs(row.mean_return.mean) >= 100 else 2),
            f"{failures}\nin {counted(row.students_with_failures)}",
            shown(row.rescues, 0),
            shown(row.deployment_failures, 3),
            _students(row),
        )
    return table


def reproduction_table(reproduction: Reproduction) -> Table:
    """Ours beside the paper's, mean ± standard error over repetitions."""
    finished, students = (
        sum(getattr(row, what) for row in reproduction.comparison.rows) for what in ("finished", "students")
    )
    table = _empty(
        f"{reproduction.title}: mean ± standard error over {reproduction.repetitions} teachers, "
        f"{reproduction.students} students each",
        "\n".join(
            [
                *([PAPERS_NUMBERS] if reproduction.ours else []),
                *(
                    []
                    if finished == students
                    else [f"{finished} of {students} students finished; the others are left out."]
                ),
            ]
        )
        or None,
    )
    table.add_column("curriculum", no_wrap=True)
    columns = measures(reproduction.rows)
    stacked = len(columns) > 3  # too many for a terminal's width
    for measure in columns:
        heading = measure.name.replace("training ", "training\n")
        for words in (f"{heading}\n(paper)",) if stacked else (heading, "paper"):
            table.add_column(words, justify="right", no_wrap=True)
    for k, row in enumerate(reproduction.rows):
        cells: list[str] = []
        for _, digits, both, unknown in columns:
            ours, theirs = both[k]
            here = missing(_spread(ours, digits), unknown[k])
            paper = f"{theirs[0]:,.{digits}f} ± {theirs[1]:,.{digits}f}" if theirs else ""
            cells += [f"{here}\n({paper})" if paper else here] if stacked else [here, paper]
        table.add_row(row.curriculum, *cells)
    return table


def ways_table(papers: Reproduction, ours: Reproduction) -> Table:
    """The paper's students and teachers beside ours, under the curricula that both have."""
    table = _empty(
        f"The paper's way and ours: mean ± standard error over {papers.repetitions} teachers",
        f"failed to learn: success below {LEARNED} once deployed, of all students.",
    )
    table.add_column("curriculum", no_wrap=True)
    for heading in ("success", "return", "failed to learn"):
        for way in ("the paper's way", "our way"):
            table.add_column(f"{heading},\n{way}", justify="right", no_wrap=True)
    digits = 1 if any(abs(row.mean_return.mean) >= 100 for row in papers.rows) else 3
    rows = [{row.curriculum: row for row in way.rows} for way in (papers, ours)]
    pooled = [{row.curriculum: row for row in way.comparison.rows} for way in (papers, ours)]
    for label in (label for label in rows[0] if label in rows[1]):
        table.add_row(
            label,
            *(_spread(way[label].success, 3) for way in rows),
            *(_spread(way[label].mean_return, digits) for way in rows),
            *(_out_of(way[label].failed_to_learn) for way in pooled),
        )
    return table


def differences_table(differences: Sequence[Difference], title: str) -> Table:
    """Which groups of students chance alone may explain."""
    table = _empty(
        f"{title}: difference of the means [95 % interval, not corrected]",
        "p: how often dealing the same values into two groups anew parts their means as far, or their ranks\n"
        "(Mann-Whitney); with Holm's correction over the lines of a measure. Only shares have an interval.",
    )
    for heading in ("curriculum", "against"):
        table.add_column(heading, no_wrap=True)
    for heading in ("mean", "other mean", "difference", "p (means)", "p (ranks)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("told apart", no_wrap=True)
    before = ""
    for d in differences:
        form = f",.{MEASURES[d.measure]}f"
        interval = "" if math.isnan(d.low) else f" [{d.low:+{form}}, {d.high:+{form}}]"
        if d.measure != before:
            table.add_row(f"{d.measure.replace('_', ' ')}:")
        table.add_row(
            f"  {d.group} ({d.sizes[0]})",
            f"{d.others} ({d.sizes[1]})",
            *(_number(mean, form) for mean in d.means),
            _number(d.gain, "+" + form) + interval,
            *(_number(p, ".2g") for p in (d.p_mean, d.p_rank)),
            d.told_apart,
        )
        before = d.measure
    return table


def shown(estimate: Estimate, digits: int) -> str:
    return _spread(estimate, digits) + _interval(estimate.low, estimate.high)


def counted(share: Share) -> str:
    return f"{share.count} of {share.of}{_interval(share.low, share.high)}"


def _out_of(share: Share | None) -> str:
    return "–" if share is None else f"{share.count} of {share.of}"


def _interval(low: float, high: float) -> str:
    """Two digits, rounded outwards: they are wide."""
    return "" if math.isnan(low) else f"\n[{math.floor(100 * low) / 100:.2f}, {math.ceil(100 * high) / 100:.2f}]"


def _spread(estimate: Estimate, digits: int) -> str:
    if math.isnan(estimate.mean):
        return "–"
    return f"{estimate.mean:,.{digits}f}" + ("" if math.isnan(estimate.sem) else f" ± {estimate.sem:,.{digits}f}")


def _students(row: Row) -> str:
    return str(row.students) if row.finished == row.students else f"{row.finished} of {row.students} finished"


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def _empty(title: str, caption: str | None = None) -> Table:
    return Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
