"""Tables as data: what stands in each cell, for the terminal, the page, LaTeX (booktabs) and CSV alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from cisr.core.publication import MainRow, PublishedRow
from cisr.experiments.comparison import LEARNED, MEASURES, Row
from cisr.experiments.differences import Difference
from cisr.experiments.reproduced import PAPERS_NUMBERS, ReproducedRow
from cisr.experiments.statistics import LEVEL, Estimate, Share
from cisr.view import words
from cisr.view.words import (
    counted,
    finished_in_words,
    fixed,
    interval,
    missing,
    p_value,
    students_in_words,
    told_apart_in_words,
)

if TYPE_CHECKING:
    from cisr.experiments.reproduce import Reproduction

T = TypeVar("T")
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
}
PARTS = ("mean", "sem", "low", "high", "median")


def latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def csv_line(values: Sequence[object]) -> str:
    """None, which is unknown, is left empty."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(no_formula(v) if isinstance(v, str) else v for v in values)
    return line.getvalue()


def no_formula(text: str) -> str:
    """Spreadsheets compute what begins so, and a name may come from anywhere: with a ' before it, it stays a text."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


@dataclass(frozen=True, kw_only=True)
class Cell:
    text: str
    value: float | str | None
    """What it is sorted by; None comes last."""
    csv: tuple[object, ...]
    below: str = ""
    """In small type, and not in LaTeX: an interval."""


@dataclass(frozen=True, kw_only=True)
class Column:
    head: str
    csv: tuple[str, ...]
    cells: tuple[Cell, ...]
    over: str = ""
    """A heading above those of several columns."""
    beneath: bool = False
    """Whether a terminal, which is narrow, shows it under the column before."""


@dataclass(frozen=True, kw_only=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    caption: str = ""

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def over(self) -> list[tuple[str, int]]:
        """The headings above, and over how many columns each stands; empty where there are none."""
        spans = [(over, len(list(columns))) for over, columns in groupby(column.over for column in self.columns)]
        return spans if len(spans) > 1 else []

    @property
    def csv_head(self) -> str:
        return csv_line([name for column in self.columns for name in column.csv])

    @property
    def latex_head(self) -> str:
        heads, over, rules, at = " & ".join(latex(column.head) for column in self.columns), [], "", 1
        for head, n in self.over:
            over.append(rf"\multicolumn{{{n}}}{{c}}{{{latex(head)}}}")
            rules += rf"\cmidrule(lr){{{at}-{at + n - 1}}}" if head else ""
            at += n
        if over:
            heads = f"{' & '.join(over)} \\\\\n{rules}\n{heads}"
        return f"\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}\n\\toprule\n{heads} \\\\\n\\midrule"


def latex_row(row: Sequence[Cell]) -> str:
    return " & ".join(latex(cell.text) for cell in row) + r" \\"


def csv_row(row: Sequence[Cell]) -> str:
    return csv_line([value for cell in row for value in cell.csv])


def word(text: str) -> Cell:
    return Cell(text=text, value=text, csv=(text,))


def number(value: float | None, digits: int, *, sign: str = "") -> Cell:
    return Cell(text=fixed(value, digits, sign=sign), value=value, csv=(value,))


def uncertain(mean: float | None, sem: float | None, digits: int) -> Cell:
    return Cell(text=words.uncertain(mean, sem, digits), value=mean, csv=(mean, sem))


def spread(e: Estimate, digits: int) -> Cell:
    return uncertain(e.mean, e.sem, digits)


def estimated(e: Estimate, digits: int) -> Cell:
    csv = (e.mean, e.sem, e.low, e.high, e.median)
    return replace(spread(e, digits), below=interval(e.low, e.high), csv=csv)


def share(s: Share | None) -> Cell:
    if s is None:
        return Cell(text=counted(s), value=None, csv=(None,) * 4)
    return Cell(text=counted(s), value=s.share, csv=(s.count, s.of, s.low, s.high), below=interval(s.low, s.high))


def with_unknown(cell: Cell, unknown: int) -> Cell:
    """Says of how many students a number is not known."""
    return replace(cell, text=missing(cell.text, unknown), csv=(*cell.csv, unknown))


def column(of: Sequence[T], head: str, cell: Callable[[T], Cell], *csv: str, **more: str | bool) -> Column:
    """A cell for each of some things; in CSV it goes by its heading, unless that is told."""
    return Column(head=head, csv=csv or (head,), cells=tuple(map(cell, of)), **more)  # type: ignore[arg-type]


def comparison_table(rows: Sequence[Row], name: str = "compare") -> Table:
    """How the students of each curriculum did, training and deployment apart."""
    training, deployed = "in training", "deployed"

    def estimates(head: str, what: str, digits: int, of: Callable[[Row], Estimate | None], over: str) -> Column:
        parts = (f"{what}_{part}" for part in PARTS)
        return column(rows, head, lambda row: estimated(of(row) or Estimate(), digits), *parts, over=over)

    def shares(head: str, what: str, of: Callable[[Row], Share | None], over: str, *, beneath: bool = False) -> Column:
        parts = (what, f"{what}_of", f"{what}_low", f"{what}_high")
        return column(rows, head, lambda row: share(of(row)), *parts, over=over, beneath=beneath)

    def failures(row: Row) -> Cell:
        return with_unknown(estimated(row.training_failures, 1), row.unknown_failures)

    driven = [estimates("driven steps", "driven", 0, lambda row: row.driven, training)]
    tried = "safe_evaluation_failures"
    in_m0 = [estimates("failures", tried, 1, lambda row: row.safe_evaluation_failures, "tried in M_0")]
    columns = (
        column(rows, "curriculum", lambda row: word(row.curriculum)),
        column(rows, "failures", failures, *(f"training_failures_{p}" for p in (*PARTS, "unknown")), over=training),
        shares("with any", "students_with_failures", lambda row: row.students_with_failures, training, beneath=True),
        estimates("rescues", "rescues", 0, lambda row: row.rescues, training),
        *(driven if any(row.driven.mean for row in rows) else []),
        *(in_m0 if any(row.safe_evaluation_failures.mean for row in rows) else []),
        estimates("success", "success", 3, lambda row: row.success, deployed),
        shares("failed to learn", "failed_to_learn", lambda row: row.failed_to_learn, deployed, beneath=True),
        estimates("the others", "learned", 3, lambda row: row.learned, deployed),
        estimates("return", "mean_return", 2, lambda row: row.mean_return, deployed),
        estimates("failures", "deployment_failures", 3, lambda row: row.deployment_failures, deployed),
        column(rows, "students", _students, "students", "finished", "policies"),
    )
    classes = " Where every teacher found a curriculum of its own, its class is one value of the means."
    caption = (
        "Mean ± standard error over students, and 95 % intervals that hold whatever the distribution: of means in "
        "[0, 1] by betting, of shares exactly (Clopper–Pearson). Returns and counts have no such interval. Failures "
        "are visits to danger: in training a count per student, finished or not, with how many students had any; "
        "deployed a rate per episode. All else: students that finished. Failed to learn: success below "
        f"{LEARNED}; the others' success beside it.{classes if any(row.policies > 1 for row in rows) else ''}"
    )
    return Table(name=name, columns=columns, caption=caption)


def _students(row: Row) -> Cell:
    return Cell(text=students_in_words(row), value=row.students, csv=(row.students, row.finished, row.policies))


UNFINISHED = (
    " Means are of students that finished. p, interval and answer hold whether the others would have been the worst or "
    "the best of all; unknown: the answer depends on that."
)


def differences_table(differences: Sequence[Difference], name: str = "differences") -> Table:
    """What chance alone may explain."""

    def sizes(d: Difference) -> Cell:
        return Cell(text=f"{d.sizes[0]}, {d.sizes[1]}", value=sum(d.sizes), csv=d.sizes)

    def gain(d: Difference) -> Cell:
        cell = number(d.gain, MEASURES[d.measure], sign="+")
        return replace(cell, below=interval(d.low, d.high, sign="+"), csv=(d.gain, d.low, d.high))

    def chance(p: float | None) -> Cell:
        return Cell(text=p_value(p), value=p, csv=(p,))

    def told_apart(d: Difference) -> Cell:
        return Cell(text=told_apart_in_words(d), value=d.told_apart, csv=(*d.unfinished, d.told_apart))

    columns = (
        column(differences, "measure", lambda d: word(d.measure.replace("_", " "))),
        column(differences, "curriculum", lambda d: word(d.group)),
        column(differences, "against", lambda d: word(d.others)),
        column(differences, "values", sizes, "values", "values_against"),
        column(differences, "mean", lambda d: number(d.means[0], MEASURES[d.measure])),
        column(
            differences, "other mean", lambda d: number(d.means[1], MEASURES[d.measure]), "other_mean", beneath=True
        ),
        column(differences, "difference", gain, "difference", "low", "high"),
        column(differences, "p (means)", lambda d: chance(d.p_mean), "p_mean"),
        column(differences, "p (ranks)", lambda d: chance(d.p_rank), "p_rank", beneath=True),
        column(differences, "told apart", told_apart, "unfinished", "unfinished_against", "told_apart"),
    )
    caption = (
        "Difference of the means, for success with its 95 % interval, not corrected. p: how often dealing the same "
        "values into two groups anew parts their means as far, or their ranks (Mann–Whitney), which a few students "
        "that learned nothing hardly move; with Holm's correction over all rows. Told apart: yes if both are below "
        f"{LEVEL}; by chance alone a table says yes anywhere in at most {LEVEL:.0%} of cases. Too few: no values could "
        f"have told groups of these sizes apart.{UNFINISHED if any(sum(d.unfinished) for d in differences) else ''}"
    )
    return Table(name=name, columns=columns, caption=caption)


def reproduction_table(
    rows: Sequence[ReproducedRow], pooled: Sequence[Row], *, repetitions: int, students: int, ours: bool
) -> Table:
    """Our numbers beside the paper's: what every paper has, and the outcomes that this one tells."""

    def beside(
        name: str,
        digits: int,
        here: Callable[[ReproducedRow], Estimate],
        there: Callable[[PublishedRow], tuple[float, float] | None],
    ) -> tuple[Column, Column]:
        counted = name == "training failures"
        csv, parts = name.replace(" ", "_"), ("mean", "sem", "unknown") if counted else ("mean", "sem")

        def own(row: ReproducedRow) -> Cell:
            cell = spread(here(row), digits)
            return with_unknown(cell, row.unknown_failures) if counted else cell

        def papers(row: ReproducedRow) -> Cell:
            mean, sem = (there(row.published) if row.published else None) or (None, None)
            return uncertain(mean, sem, digits)

        return (
            column(rows, "ours", own, *(f"{csv}_ours_{part}" for part in parts), over=name),
            column(rows, "paper", papers, f"{csv}_paper_mean", f"{csv}_paper_sem", over=name, beneath=True),
        )

    def outcome(name: str) -> tuple[Column, Column]:
        return beside(name, 3, lambda row: row.outcomes.get(name, Estimate()), lambda paper: paper.outcomes.get(name))

    told = dict.fromkeys(name for row in rows if row.published for name in row.published.outcomes)
    columns = (
        column(rows, "curriculum", _reproduced, "curriculum", "students", "finished"),
        *beside("success", 3, lambda row: row.success, lambda paper: paper.success),
        *(one for name in told for one in outcome(name)),
        *beside("training failures", 1, lambda row: row.training_failures, lambda paper: paper.training_failures),
        *beside("return", return_digits(rows), lambda row: row.mean_return, lambda paper: paper.mean_return),
    )
    finished, wanted = sum(row.finished for row in pooled), repetitions * students * len(rows)
    unfinished = "" if finished == wanted else f", of whom {finished} of {wanted} have finished"
    caption = (
        "Mean ± standard error; ours over repetitions, each with a teacher of its own and new students under every "
        f"curriculum: {repetitions} × {students} students in a row{unfinished}. Failures are visits to danger, per "
        f"student. A dash: there is no such number.{f' {PAPERS_NUMBERS}' if ours else ''}"
    )
    return Table(name="reproduction", columns=columns, caption=caption)


def _reproduced(row: ReproducedRow) -> Cell:
    """A curriculum, and how many of its students have finished where some have not."""
    return Cell(
        text=row.curriculum + _unfinished(row), value=row.curriculum, csv=(row.curriculum, row.students, row.finished)
    )


def _unfinished(row: ReproducedRow) -> str:
    return "" if row.finished == row.students else f" ({finished_in_words(row)})"


def main_table(reproductions: Mapping[str, Reproduction]) -> Table | None:
    """Our numbers beside those of the paper's main table, for each kind of students; None where it has no others."""
    told = [
        (kind, row, made.published.main[row.curriculum])
        for kind, made in reproductions.items()
        for row in made.rows
        if row.curriculum in made.published.main
    ]
    measures: dict[str, tuple[int, Callable[[ReproducedRow], Estimate], Callable[[MainRow], float]]] = {
        "return": (1, lambda row: row.mean_return, lambda paper: paper.mean_return),
        "success": (3, lambda row: row.success, lambda paper: paper.success),
        "test failures": (3, lambda row: row.deployment_failures, lambda paper: paper.test_failures),
        "training failures": (1, lambda row: row.training_failures, lambda paper: paper.training_failures),
    }

    def both(name: str) -> tuple[Column, Column]:
        digits, ours, papers = measures[name]

        def own(one: tuple[str, ReproducedRow, MainRow]) -> Cell:
            cell = spread(ours(one[1]), digits)
            return with_unknown(cell, one[1].unknown_failures) if name == "training failures" else cell

        parts = ("mean", "sem", "unknown") if name == "training failures" else ("mean", "sem")
        csv = name.replace(" ", "_")
        return (
            column(told, "ours", own, *(f"{csv}_ours_{part}" for part in parts), over=name),
            column(told, "paper", lambda one: number(papers(one[2]), digits), f"{csv}_paper", over=name, beneath=True),
        )

    if not told:
        return None
    return Table(
        name="main",
        columns=(
            column(told, "students", lambda one: word(one[0])),
            column(told, "curriculum", lambda one: _reproduced(one[1]), "curriculum", "of_students", "finished"),
            *(one for name in measures for one in both(name)),
        ),
        caption=(
            "Ours: mean ± standard error over repetitions. The paper's are of one teacher and have none. "
            "Test failures: visits to danger per episode, once deployed."
        ),
    )


def return_digits(rows: Sequence[ReproducedRow]) -> int:
    """As many as the paper needs."""
    return 1 if any(abs(row.published.mean_return[0]) >= 100 for row in rows if row.published) else 3


def ways_table(papers: Reproduction, ours: Reproduction) -> Table:
    """The paper's students and teachers beside ours, under the curricula that both have."""
    ways = {"the paper's way": papers, "our way": ours}
    rows = {way: {row.curriculum: row for row in made.rows} for way, made in ways.items()}
    pooled = {way: {row.curriculum: row for row in made.comparison.rows} for way, made in ways.items()}
    both = [row.curriculum for row in papers.rows if row.curriculum in rows["our way"]]
    digits = return_digits(papers.rows)

    def success(way: str, label: str) -> Cell:
        row = rows[way][label]
        cell = spread(row.success, 3)
        return replace(cell, text=cell.text + _unfinished(row))

    cells: dict[str, Callable[[str, str], Cell]] = {
        "success": success,
        "return": lambda way, label: spread(rows[way][label].mean_return, digits),
        "failed to learn": lambda way, label: replace(share(pooled[way][label].failed_to_learn), below=""),
    }
    columns = [
        column(both, way, partial(cell, way), f"{what} {way}", over=what)
        for what, cell in cells.items()
        for way in ways
    ]
    caption = f"Of students that finished. Failed to learn: success below {LEARNED} once deployed."
    return Table(name="ways", columns=(column(both, "curriculum", word), *columns), caption=caption)
