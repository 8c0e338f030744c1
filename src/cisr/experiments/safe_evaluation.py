"""M_0, in which policies are tried out and scored without danger: only as safe as its intervention is. One that an
audit refutes is replaced by one that it does not refute, before the first student is trained."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cisr import auditing
from cisr.core.callback import Callback, ProgressEvent, ignore
from cisr.core.errors import CisrError, ConfigError
from cisr.core.intervention import NONE
from cisr.core.task import Task
from cisr.store import Store
from cisr.store.runs import may_hold
from cisr.students.config import Population, StudentConfig
from cisr.students.kinds import students_of
from cisr.training import Execution, TrainingSetup

log = logging.getLogger(__name__)

USABLE = ("certified", "not refuted")
"""Verdicts on what may stand in for an M_0 that is refuted, the better first."""


@dataclass(frozen=True)
class Audited(ProgressEvent):
    """What is known of the safety of a task's interventions, before the first student is trained."""

    found: Mapping[str, Any]
    """The quick audit as a store keeps it, and what students of the store have left of it."""


class Settled(NamedTuple):
    """Where policies are really evaluated, and why."""

    setup: TrainingSetup
    new_audit: Mapping[str, Any] | None = None
    """A quick audit that the store does not hold yet."""
    said: tuple[str, ...] = ()
    """What is to be said before training begins."""

    def keep_audit(self, store: Store) -> None:
        """Once it is known that the store is one of this task."""
        if self.new_audit is not None:
            store.keep_audit(self.new_audit)


def settle(
    setup: TrainingSetup, store: Store, execution: Execution, *, audited: bool = False, callback: Callback = ignore
) -> Settled:
    """The setup with an M_0 that no audit refutes.

    Where students need an M_0, it is looked up in what the store holds of the very same task, else in an exact audit of
    a finite one; with `audited` a quick audit is made of any task. Of others nothing is known: M_0 is what they say.
    """
    m0 = _needed(setup)
    if setup.backend == "elsewhere" or (m0 is None and not audited) or not may_hold(store, setup):
        return Settled(setup)
    try:
        known = auditing.quick_audit_for(setup.task, store, callback, attacks=audited, **execution.processes)
    except CisrError as error:  # its students will say so
        log.debug("The task could not be audited: %s", error)
        return Settled(setup)
    if known is None:
        return Settled(setup)
    setup, *said = _with_m0(setup, m0, {verdict["name"]: verdict for verdict in known.found["interventions"]})
    return Settled(setup, None if known.kept else known.found, tuple(said))


def _with_m0(setup: TrainingSetup, m0: str | None, verdicts: Mapping[str, Any]) -> tuple[Any, ...]:
    """The setup, and what is to be said of its M_0."""
    if m0 is None or m0 not in verdicts:
        return (setup,)
    if verdicts[m0]["status"] != "refuted":
        return (setup, *_hopeless(verdicts[m0]))
    refuted = f"Safe evaluation: the audit refutes {m0}, the M_0 of '{setup.task.name}': students can fail there"
    able = [n for status in USABLE for n, v in verdicts.items() if v["counts"] and v["status"] == status]
    if able:
        under = setup.evaluate_under if setup.evaluate_under == NONE.name else able[0]
        said = f"{refuted}; {able[0]} stands in for it, which is {verdicts[able[0]]['status']}."
        return (replace(setup, safe_evaluation=able[0], evaluate_under=under), said, *_hopeless(verdicts[able[0]]))
    if setup.evaluate_under == NONE.name:
        said = f"{refuted}, and under every other intervention; no policies are tried out, the last one is handed in."
        return (replace(setup, safe_evaluation=NONE.name), said)
    raise ConfigError(
        f"{refuted}, and under every other intervention: evaluate in the task itself, or give it an intervention that "
        f"keeps students safe."
    )


def _needed(setup: TrainingSetup) -> str | None:
    """The task's M_0, where its students are tried out or deployed there."""
    used = setup.evaluate_under != NONE.name or _have_candidates(setup.task)
    return setup.task.safe_evaluation if used else None


def _have_candidates(task: Task) -> bool:
    students = students_of(task)
    if isinstance(students, Population):
        return students.base.n_candidates > 1 or "n_candidates" in students.vary
    return isinstance(students, StudentConfig) and students.n_candidates > 1


def _hopeless(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    if verdict.get("reaches_goal") is not False:
        return ()
    return (
        f"Safe evaluation: no policy whatsoever succeeds under {verdict['name']}, M_0, not even one that ignores its "
        f"tolerances: it cannot choose among policies.",
    )
