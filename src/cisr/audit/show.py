"""An audit for people: tables on the terminal, pictures and counterexample files."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from cisr.audit.exact import ExactAudit
from cisr.audit.report import AuditReport, Verdict
from cisr.intervention import NONE
from cisr.task import Task

COLOURS = {"certified": "green", "refuted": "red", "not refuted": "yellow", "not audited": "yellow"}


def verdict_table(report: AuditReport) -> Table:
    table = Table(title=f"What the interventions of {report.task} guarantee", title_justify="left")
    for column in ("intervention", "safe while learning", "because", "eventual safety"):
        table.add_column(column, overflow="fold")
    for verdict in report.verdicts:
        status = f"[{COLOURS[verdict.status]}]{verdict.status}[/]" + ("" if verdict.counts else " (for information)")
        table.add_row(verdict.name, status, verdict.reason, _eventual(verdict))
    return table


def numbers_table(exact: ExactAudit) -> Table:
    table = Table(
        title=f"Exact numbers: {exact.n_states:,} states, {exact.n_actions} actions, {exact.horizon} steps",
        title_justify="left",
    )
    columns = ("intervention", "highest P(failure)", "best return", "price", "P(failure) once alone ≤", "by Prop. 1 ≤")
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for one in exact.interventions:
        n = one.numbers
        if n is None:
            table.add_row(one.name, one.numbers_note)
            continue
        figures = (n.best_return, n.price, n.first_trigger_bound, n.proposition_1_bound)
        shown = ("–" if x is None else f"{x:.3f}" for x in figures)
        table.add_row(one.name, f"{n.highest_failure_probability:.4g}", *shown)
    return table


def task_line(exact: ExactAudit) -> str:
    n = exact.numbers
    if n is None:
        return exact.numbers_note
    never = "every policy may fail" if n.best_return_never_failing is None else f"{n.best_return_never_failing:.3f}"
    return (
        f"In the task itself, over {exact.horizon} steps: best return of any policy {n.best_return:.3f}, of policies that "
        f"never fail {never}; best success {n.best_success:.3f}."
    )


def attack_table(report: AuditReport) -> Table | None:
    """What each attacker did; None where nothing was attacked."""
    attacked = [v for v in report.verdicts if v.falsification is not None]
    if not attacked:
        return None
    confidence = attacked[0].falsification.confidence if attacked[0].falsification else 0.0
    table = Table(title="Attacks by frozen attackers", title_justify="left")
    for column in ("intervention", "attacker", "episodes", "failures", f"failures per episode ≤ ({confidence:.0%})"):
        table.add_column(column, justify="left" if column in ("intervention", "attacker") else "right")
    for verdict in attacked:
        assert verdict.falsification is not None
        for attack in verdict.falsification.attacks:
            table.add_row(
                verdict.name,
                attack.attacker,
                f"{attack.episodes:,}",
                f"{attack.failures:,}",
                f"{attack.upper_bound:.3g}",
            )
    return table


def keep_counterexamples(task: Task, report: AuditReport, folder: Path) -> list[Path]:
    """Each counterexample as a file that can be replayed, with a picture beside it; those of `none` are no news."""
    from cisr.audit.episode_picture import draw

    kept = []
    for verdict in report.verdicts:
        examples = () if verdict.falsification is None or not verdict.counts else verdict.falsification.counterexamples
        for number, example in enumerate(examples, 1):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{verdict.name}-{example.attacker}-{number}.json"
            example.save(path)
            draw(task, example, path.with_suffix(".png"))
            kept.append(path)
    return kept


def in_one_line(report: AuditReport) -> str:
    """For the start of a training."""
    by_status: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.name != NONE.name:
            by_status.setdefault(verdict.status, []).append(verdict.name)
    words = {
        "certified": "certified: no policy can fail under them",
        "refuted": "refuted: students can fail under them",
        "not refuted": "not certified: no failure in a few episodes of random play",
        "not audited": "not audited here",
    }
    told = [f"{', '.join(names)} {words[status]}" for status, names in by_status.items()]
    return f"Learning safety: {'; '.join(told)}." + ("" if report.exact else f" More: cisr audit {report.task}")


def _eventual(verdict: Verdict) -> str:
    return ("given" if verdict.eventual.given else "not given") + f": {verdict.eventual.reason}"
