"""Tables that can be sorted and copied as LaTeX (booktabs) or CSV.

Each row carries its own line of LaTeX and of CSV, so what is copied has the order that is shown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cisr.experiments.comparison import LEARNED, MEASURES, Row
from cisr.experiments.differences import Difference
from cisr.experiments.statistics import Estimate, Share, estimate
from cisr.view.svg import esc
from cisr.view.words import fixed, latex, missing

DENSE = 8
"""Columns beyond which a table is set in smaller type."""
PARTS = ("mean", "sem", "low", "high", "median")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is shown, what it is sorted by, and how it reads in LaTeX and in CSV."""

    html: str
    value: float | str
    latex: str
    csv: tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Column:
    head: str
    csv: tuple[str, ...]
    cells: tuple[Cell, ...]


def table(columns: Sequence[Column], *, over: Sequence[tuple[str, int]] = (), name: str, caption: str = "") -> str:
    """A table of columns; `over` names groups of columns as (name, how many)."""
    heads = " & ".join(latex(column.head) for column in columns)
    grouped, rules, at = "", "", 1
    for words, n in over:
        grouped += (" & " if at > 1 else "") + rf"\multicolumn{{{n}}}{{c}}{{{latex(words)}}}"
        rules += rf"\cmidrule(lr){{{at}-{at + n - 1}}}" if words else ""
        at += n
    if over:
        heads = f"{grouped} \\\\\n{rules}\n{heads}"
    before = f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}\n\\toprule\n{heads} \\\\\n\\midrule"
    after = "\\bottomrule\n\\end{tabular}"
    header = _csv([name for column in columns for name in column.csv])
    above = "".join(f'<th colspan="{n}" scope="colgroup">{esc(words)}</th>' for words, n in over)
    dense = " dense" if len(columns) > DENSE else ""
    lines = []
    for cells in zip(*(column.cells for column in columns), strict=True):
        line = " & ".join(cell.latex for cell in cells) + r" \\"
        values = _csv([value for cell in cells for value in cell.csv])
        shown = "".join(f'<td{_kind(cell)} data-value="{_sortable(cell.value)}">{cell.html}</td>' for cell in cells)
        lines.append(f'<tr data-latex="{esc(line)}" data-csv="{esc(values)}">{shown}</tr>')
    sort = "".join(
        f'<th{_kind(*c.cells[:1])} scope="col"><button type="button">{esc(c.head)}</button></th>' for c in columns
    )
    return (
        '<div class="table"><p class="tools"><button type="button" data-copy="latex">Copy as LaTeX</button> '
        '<button type="button" data-copy="csv">Copy as CSV</button> <span class="said" role="status"></span></p>'
        f'<table class="sortable{dense}" data-name="{esc(name)}" data-latex-before="{esc(before)}" '
        f'data-latex-after="{esc(after)}" data-csv-before="{esc(header)}">'
        f"{f'<caption>{esc(caption)}</caption>' if caption else ''}"
        f"<thead>{f'<tr>{above}</tr>' if over else ''}<tr class='sorters'>{sort}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def summary_table(rows: Sequence[Row], name: str) -> str:
    """How the students of each curriculum did, training and deployment apart."""

    def column(head: str, cell: Callable[[Row], Cell], *csv: str) -> Column:
        return Column(head=head, csv=csv, cells=tuple(cell(row) for row in rows))

    def estimated(head: str, what: str, digits: int, of: Callable[[Row], Estimate | None]) -> Column:
        parts = (f"{what}_{part}" for part in PARTS)
        return column(head, lambda row: _estimate(of(row) or estimate([]), digits), *parts)

    def shared(head: str, what: str, of: Callable[[Row], Share | None]) -> Column:
        return column(head, lambda row: _share(of(row)), what, f"{what}_of", f"{what}_low", f"{what}_high")

    def failures(row: Row) -> Cell:
        return with_unknown(_estimate(row.training_failures, 1), row.unknown_failures)

    columns = [
        column("curriculum", lambda row: word(row.curriculum), "curriculum"),
        column("failures", failures, *(f"training_failures_{part}" for part in (*PARTS, "unknown"))),
        shared("with any", "students_with_failures", lambda row: row.students_with_failures),
        estimated("rescues", "rescues", 0, lambda row: row.rescues),
        estimated("success", "success", 3, lambda row: row.success),
        shared("failed to learn", "failed_to_learn", lambda row: row.failed_to_learn),
        estimated("the others", "learned", 3, lambda row: row.learned),
        estimated("return", "mean_return", 2, lambda row: row.mean_return),
        estimated("failures", "deployment_failures", 3, lambda row: row.deployment_failures),
        column("students", _students, "students", "finished", "policies"),
    ]
    over = (("", 1), ("in training, per student", 3), ("deployed", 5), ("", 1))
    classes = " Where every teacher found a curriculum of its own, its class is one value of the means."
    caption = (
        "Mean ± standard error over students, and 95 % intervals that hold whatever the distribution: of means in "
        "[0, 1] by betting, of shares exactly (Clopper–Pearson). Returns and counts have no such interval. Failures "
        "are visits to danger: in training a count per student, finished or not; deployed a rate per episode. All "
        f"else: students that finished. Failed to learn: success below {LEARNED}."
        f"{classes if any(row.policies > 1 for row in rows) else ''}"
    )
    return table(columns, over=over, name=name, caption=caption)


def differences_table(differences: Sequence[Difference], name: str) -> str:
    """What chance alone may explain."""

    def column(head: str, cell: Callable[[Difference], Cell], *csv: str) -> Column:
        return Column(head=head, csv=csv or (head,), cells=tuple(cell(d) for d in differences))

    columns = [
        column("measure", lambda d: word(d.measure.replace("_", " "))),
        column("curriculum", lambda d: word(d.group)),
        column("against", lambda d: word(d.others)),
        column("values", _sizes, "values", "values_against"),
        column("difference", _gain, "difference", "low", "high"),
        column("p (means)", lambda d: _chance(d.p_mean), "p_mean"),
        column("p (ranks)", lambda d: _chance(d.p_rank), "p_rank"),
        column("told apart", lambda d: word(d.told_apart), "told_apart"),
    ]
    caption = (
        "Difference of the means, for success with its 95 % interval, not corrected. p: how often dealing the same "
        "values into two groups anew parts their means as far, or their ranks (Mann–Whitney), which a few students "
        "that learned nothing hardly move; with Holm's correction over the lines of a measure. Too few: no values "
        "could have told groups of these sizes apart."
    )
    return table(columns, name=name, caption=caption)


def _sizes(d: Difference) -> Cell:
    shown = f"{d.sizes[0]}, {d.sizes[1]}"
    return Cell(html=shown, value=sum(d.sizes), latex=shown, csv=d.sizes)


def _gain(d: Difference) -> Cell:
    digits = MEASURES[d.measure]
    return _with_interval(figure(d.gain, digits), d.low, d.high, digits)


def word(text: str) -> Cell:
    return Cell(html=esc(text), value=text, latex=latex(text), csv=(text,))


def figure(value: float, digits: int) -> Cell:
    shown = fixed(value, digits)
    return Cell(html=shown, value=value, latex=shown.replace("–", "--").replace("−", "$-$"), csv=(_number(value),))


def uncertain(mean: float, sem: float, digits: int) -> Cell:
    """A mean with its standard error; a dash where there is none."""
    numbers = (_number(mean), _number(sem))
    if math.isnan(mean):
        return Cell(html="–", value=math.nan, latex="--", csv=numbers)
    spread = "" if math.isnan(sem) else fixed(sem, digits)
    html = fixed(mean, digits) + (f" ± {spread}" if spread else "")
    maths = fixed(mean, digits) + (rf" \pm {spread}" if spread else "")
    return Cell(html=html, value=mean, latex=f"${maths.replace(',', '{,}').replace('−', '-')}$", csv=numbers)


def _estimate(e: Estimate, digits: int) -> Cell:
    cell = _with_interval(uncertain(e.mean, e.sem, digits), e.low, e.high, digits)
    return replace(cell, csv=(*cell.csv, _number(e.median)))


def with_unknown(cell: Cell, unknown: int) -> Cell:
    """Says of how many students a number is not known."""
    latex = missing(cell.latex.replace("--", "–"), unknown).replace("–", "--")
    return replace(cell, html=missing(cell.html, unknown), latex=latex, csv=(*cell.csv, unknown))


def _share(s: Share | None) -> Cell:
    if s is None:
        return Cell(html="–", value=math.nan, latex="--", csv=("", "", "", ""))
    shown = f"{s.count} of {s.of}"
    part = s.count / s.of if s.of else math.nan
    return _with_interval(Cell(html=shown, value=part, latex=shown, csv=(s.count, s.of)), s.low, s.high, 2)


def _with_interval(cell: Cell, low: float, high: float, digits: int) -> Cell:
    interval = "" if math.isnan(low) else f" <small>[{fixed(low, digits)}, {fixed(high, digits)}]</small>"
    return replace(cell, html=cell.html + interval, csv=(*cell.csv, _number(low), _number(high)))


def _chance(p: float) -> Cell:
    shown = "–" if math.isnan(p) else "< 0.001" if p < 0.001 else fixed(p, 3)
    return Cell(html=esc(shown), value=p, latex=shown.replace("–", "--").replace("<", "$<$"), csv=(_number(p),))


def _students(row: Row) -> Cell:
    shown = str(row.students) if row.finished == row.students else f"{row.finished} of {row.students} finished"
    shown += f", {row.policies} teachers" if row.policies > 1 else ""
    return Cell(html=shown, value=row.students, latex=shown, csv=(row.students, row.finished, row.policies))


def _kind(*cells: Cell) -> str:
    """Words are set to the left, numbers to the right."""
    return ' class="text"' if any(isinstance(cell.value, str) for cell in cells) else ""


def _number(value: float) -> object:
    return "" if math.isnan(value) else value


def _sortable(value: float | str) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else esc(value)


def _csv(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
