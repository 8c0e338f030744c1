"""Students deployed once more, beside how they did when their training ended."""

from __future__ import annotations

from dataclasses import replace

from cisr.experiments.deploying import DeployedRow, Redeployment
from cisr.experiments.statistics import Estimate
from cisr.view.tables import Cell, Column, Table, column, estimated, number, word
from cisr.view.words import interval

DIGITS = {"success": 3, "return": 2, "failures": 3}


def deployment_table(found: Redeployment) -> Table:
    rows = found.rows

    def three(measure: str) -> tuple[Column, ...]:
        digits = DIGITS[measure]

        def of(what: str) -> tuple[str, ...]:
            return tuple(f"{measure}_{what}_{part}" for part in ("mean", "sem", "low", "high", "median"))

        def then(row: DeployedRow) -> Cell:
            return estimated(row.measures[measure].before, digits)

        return (
            column(rows, "now", lambda row: estimated(row.measures[measure].now, digits), *of("now"), over=measure),
            column(rows, "before", then, *of("before"), over=measure, beneath=True),
            column(
                rows, "change", lambda row: _change(row.measures[measure].change, digits), *of("change"), over=measure
            ),
        )

    def students(row: DeployedRow) -> Cell:
        said = str(row.deployed) if row.deployed == row.students else f"{row.deployed} of {row.students}"
        return Cell(text=said, value=row.deployed, csv=(row.deployed, row.students))

    return Table(
        name="deploy",
        columns=(
            column(rows, "run", lambda row: word(row.run)),
            column(rows, "curriculum", lambda row: word(row.curriculum or "all that it tried")),
            *(one for measure in DIGITS for one in three(measure)),
            column(rows, "students", students, "students", "finished"),
            column(rows, "episodes", lambda row: number(row.episodes, 0)),
        ),
        caption=(
            f"Now: on {found.backend}, in new episodes. Before: when training ended, on {found.trained_on}. Mean ± "
            "standard error over students, the change taken student by student, and 95 % intervals that hold whatever "
            "the distribution; returns have no such interval. Failures: visits to danger per episode. Where a run "
            "tried several curriculum policies, each of them is one value."
        ),
    )


def _change(e: Estimate, digits: int) -> Cell:
    signed = number(e.mean, digits, sign="+").text
    return replace(estimated(e, digits), text=signed, below=interval(e.low, e.high, sign="+"))
