"""Tables that can be sorted and copied as LaTeX (booktabs) or CSV.

Each row carries its own line of LaTeX and of CSV, so what is copied has the order that is shown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cisr.compare import MEASURES, Estimate, Row
from cisr.differences import Difference
from cisr.report.svg import esc
from cisr.report.words import fixed, latex

ESTIMATES = ("training_failures", "rescues", "success", "mean_return", "deployment_failures")
DENSE = 8
"""Columns beyond which a table is set in smaller type."""
DIGITS = {"training_failures": 1, "rescues": 0, "success": 3, "mean_return": 2, "deployment_failures": 3}


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
    columns = [
        Column(head="curriculum", csv=("curriculum",), cells=tuple(word(row.curriculum) for row in rows)),
        *(
            Column(
                head={"mean_return": "return"}.get(what, what.rpartition("_")[2]),
                csv=tuple(f"{what}_{part}" for part in ("mean", "sem", "low", "high", "median")),
                cells=tuple(_estimate(getattr(row, what), DIGITS[what]) for row in rows),
            )
            for what in ESTIMATES
        ),
        Column(head="students", csv=("students", "finished"), cells=tuple(_students(row) for row in rows)),
    ]
    over = (("", 1), ("in training, per student", 2), ("deployed", 3), ("", 1))
    caption = (
        "Mean ± standard error over students, and a 95 % bootstrap interval. Failures are visits to danger: in "
        "training a count per student, finished or not; deployed a rate per episode. All else: students that finished."
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
        column("difference", _gain, "difference", "low", "high"),
        column("p (means)", lambda d: _chance(d.p_mean), "p_mean"),
        column("p (ranks)", lambda d: _chance(d.p_rank), "p_rank"),
        column("told apart", lambda d: word(d.told_apart), "told_apart"),
    ]
    caption = (
        "Difference of the means with its 95 % interval, not corrected. p: Welch's t-test of the means, and the rank "
        "test (Mann–Whitney), which a few students that learned nothing hardly move; with Holm's correction over the "
        "lines of a measure."
    )
    return table(columns, name=name, caption=caption)


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


def _with_interval(cell: Cell, low: float, high: float, digits: int) -> Cell:
    interval = "" if math.isnan(low) else f" <small>[{fixed(low, digits)}, {fixed(high, digits)}]</small>"
    return replace(cell, html=cell.html + interval, csv=(*cell.csv, _number(low), _number(high)))


def _chance(p: float) -> Cell:
    shown = "–" if math.isnan(p) else "< 0.001" if p < 0.001 else fixed(p, 3)
    return Cell(html=esc(shown), value=p, latex=shown.replace("–", "--").replace("<", "$<$"), csv=(_number(p),))


def _students(row: Row) -> Cell:
    shown = str(row.students) if row.finished == row.students else f"{row.finished} of {row.students} finished"
    return Cell(html=shown, value=row.students, latex=shown, csv=(row.students, row.finished))


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
