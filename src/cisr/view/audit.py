"""An audit for people: tables and lines on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from cisr.auditing.exact import ExactAudit
from cisr.auditing.report import AuditReport
from cisr.view.words import VERDICT, fixed, promises, verdict_in_words

COLOURS = {"certified": "green", "refuted": "red", "not refuted": "yellow", "not audited": "yellow"}


def verdict_table(report: AuditReport) -> Table:
    table = Table(title=f"What the interventions of {report.task} guarantee", title_justify="left")
    for column in VERDICT:
        table.add_column(column, overflow="fold")
    for verdict in report.verdicts:
        name, status, *reasons = verdict_in_words(verdict.to_json())
        table.add_row(name, Text(status, COLOURS[verdict.status]), *reasons)
    return table


def numbers_table(exact: ExactAudit) -> Table:
    table = Table(
        title=f"Exact numbers: {exact.n_states:,} states, {exact.n_actions} actions, {exact.horizon} steps",
        title_justify="left",
    )
    columns = (
        "intervention", "highest P(failure)", "best return ≤", "price ≥", "P(failure) once alone ≤", "by Prop. 1 ≤",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for one in exact.interventions:
        n = one.numbers
        if n is None:
            table.add_row(one.name, one.numbers_note)
            continue
        figures = (n.best_return, n.price, n.first_trigger_bound, n.proposition_1_bound)
        table.add_row(one.name, f"{n.highest_failure_probability:.4g}", *(fixed(figure, 3) for figure in figures))
    return table


def task_line(exact: ExactAudit) -> str:
    n = exact.numbers
    if n is None:
        return exact.numbers_note
    never = "every policy may fail" if n.best_return_never_failing is None else f"{n.best_return_never_failing:.3f}"
    return (
        f"In the task itself, over {exact.horizon} steps: best return of any policy {n.best_return:.3f}, "
        f"of policies that never fail {never}; best success {n.best_success:.3f}."
    )


def attack_table(report: AuditReport) -> Table | None:
    """What each attacker did; None where nothing was attacked."""
    attacked = [(v.name, v.falsification) for v in report.verdicts if v.falsification is not None]
    if not attacked:
        return None
    confidence = attacked[0][1].confidence
    table = Table(title="Attacks by frozen attackers", title_justify="left")
    for column in ("intervention", "attacker", "episodes", "failures", f"failures per episode ≤ ({confidence:.0%})"):
        table.add_column(column, justify="left" if column in ("intervention", "attacker") else "right")
    for name, falsification in attacked:
        for attack in falsification.attacks:
            table.add_row(
                name,
                attack.attacker,
                f"{attack.episodes:,}",
                f"{attack.failures:,}",
                f"{attack.upper_bound:.3g}",
            )
    return table


def in_one_line(kept: Mapping[str, Any]) -> str:
    """A quick audit, as a store keeps it, for the start of a training."""
    interventions = kept["interventions"]
    words = {
        "certified": "certified, no policy can fail",
        "refuted": "refuted, students can fail",
        "not refuted": "not certified, no failure seen in a little random play",
        "not audited": "not audited",
    }
    told = [
        f"{', '.join(v['name'] for v in interventions if v['counts'] and v['status'] == status)} {said}"
        for status, said in words.items()
        if any(v["counts"] and v["status"] == status for v in interventions)
    ]
    return f"Learning safety: {'; '.join(told)}.{promises(kept)}"
