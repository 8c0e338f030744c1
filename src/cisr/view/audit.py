"""An audit for people: tables and lines on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from cisr.auditing.counterexample import Candidate, Counterexample
from cisr.auditing.exact import ExactAudit
from cisr.auditing.falsification import no_lower
from cisr.auditing.report import AuditReport
from cisr.experiments.guidance import SURVIVING
from cisr.experiments.withdrawal import Withdrawn
from cisr.view.terminal import plain_table
from cisr.view.words import VERDICT, fixed, promises, verdict_in_words

COLOURS = {"certified": "green", "refuted": "red", "not refuted": "yellow", "not audited": "yellow"}


def verdict_table(report: AuditReport) -> Table:
    table = plain_table(f"What the interventions of {report.task} guarantee", VERDICT)
    for verdict in report.verdicts:
        name, status, *reasons = verdict_in_words(verdict.to_json())
        table.add_row(name, Text(status, COLOURS[verdict.status]), *reasons)
    return table


def numbers_table(exact: ExactAudit) -> Table:
    title = f"Exact numbers: {exact.n_states:,} states, {exact.n_actions} actions, {exact.horizon} steps"
    numbers = ("highest P(failure)", "best return ≤", "price ≥", "P(failure) once alone ≤", "by Prop. 1 ≤")
    table = plain_table(title, ["intervention"], numbers)
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
    hopeless = f" No policy can succeed: where getting to the horizon is a success, write {SURVIVING}."
    return (
        f"In the task itself, over {exact.horizon} steps: best return of any policy {n.best_return:.3f}, "
        f"of policies that never fail {never}; best success {n.best_success:.3f}.{hopeless * (n.best_success == 0)}"
    )


def attack_table(report: AuditReport) -> Table | None:
    """What each attacker did; None where nothing was attacked."""
    attacked = [(v.name, v.falsification) for v in report.verdicts if v.falsification is not None]
    if not attacked:
        return None
    confidence = attacked[0][1].confidence
    numbers = ("episodes", "failures", f"failures per episode ≤ ({confidence:.0%})")
    table = plain_table("Attacks by frozen attackers", ["intervention", "attacker"], numbers)
    for name, falsification in attacked:
        for attack in falsification.attacks:
            figures = (f"{attack.episodes:,}", f"{attack.failures:,}", no_lower(attack.upper_bound, 3))
            table.add_row(name, attack.attacker, *figures)
    return table if table.row_count else None


def search_table(report: AuditReport) -> Table | None:
    """What was found in the JAX environment; None where nothing was searched."""
    searched = [(v.name, v.falsification) for v in report.verdicts if v.falsification and v.falsification.searches]
    if not searched:
        return None
    numbers = ("steps", "episodes", "failures", "per episode ≤", "played on Gymnasium's", "failed there")
    table = plain_table("Attacks in the JAX environment", ["intervention", "attacker"], numbers)
    for name, falsification in searched:
        for search in falsification.searches:
            counts = (search.steps, search.episodes, search.failures)
            figures = (*(f"{n:,}" for n in counts), no_lower(search.upper_bound, 3))
            table.add_row(name, search.attacker, *figures, f"{search.replayed:,}", f"{search.confirmed:,}")
    return table


def withdrawn_lines(lost: Sequence[Withdrawn]) -> list[Text]:
    """A headline for each certificate that students have contradicted."""
    return [Text(str(one), "bold red") for one in lost]


def candidates_table(candidates: Sequence[Candidate], played: Sequence[Counterexample | None]) -> Table:
    """How many failures of a JAX environment are failures on Gymnasium's."""
    numbers = ("candidates", "failed on Gymnasium's")
    table = plain_table("Candidates from a JAX environment", ["intervention", "attacker"], numbers)
    of = [(candidate.intervention, candidate.attacker) for candidate in candidates]
    for each in dict.fromkeys(of):
        mine = [example for whose, example in zip(of, played, strict=True) if whose == each]
        table.add_row(*each, f"{len(mine):,}", f"{sum(example is not None for example in mine):,}")
    return table


def in_one_line(kept: Mapping[str, Any]) -> str:
    """A quick audit, as a store keeps it and students have left of it, for the start of a training."""
    interventions = kept["interventions"]
    words = {
        "certified": "certified, no policy can fail",
        "withdrawn": "WITHDRAWN, students failed though certified",
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
