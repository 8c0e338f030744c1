"""The exact audit of a finite task: verdicts by graph search, numbers by dynamic and linear programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cisr.auditing.numbers import (
    InterventionNumbers,
    TaskNumbers,
    intervention_numbers,
    not_markov,
    task_numbers,
    too_large,
)
from cisr.auditing.reachability import succeeds
from cisr.auditing.verdict import EventualSafety, LearningSafety, eventual_safety, learning_safety
from cisr.cmdp.finite import judge, model_of, world_of
from cisr.cmdp.induced import JudgedModel
from cisr.core.checks import check_names
from cisr.core.errors import ConfigError
from cisr.core.intervention import NONE
from cisr.core.model import FiniteModel
from cisr.core.task import Task


@dataclass(frozen=True, kw_only=True)
class InterventionAudit:
    """What one intervention guarantees."""

    name: str
    counts: bool
    """Whether a refutation is the task's fault: `none` is shown for information."""
    learning: LearningSafety
    eventual: EventualSafety
    numbers: InterventionNumbers | None
    numbers_note: str
    """Why there are no numbers, where there are none."""
    reaches_goal: bool | None
    """Whether any policy succeeds in M_i, its tolerances ignored. None: rescues are beyond a finite graph."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ExactAudit:
    """What is proven about a finite task and its interventions."""

    task: str
    n_states: int
    n_actions: int
    horizon: int
    numbers: TaskNumbers | None
    numbers_note: str
    """Why there are no numbers, where there are none."""
    interventions: tuple[InterventionAudit, ...]
    """As asked for, and `none` last."""

    def __getitem__(self, name: str) -> InterventionAudit:
        return {one.name: one for one in self.interventions}[name]

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "states": self.n_states,
            "actions": self.n_actions,
            "horizon": self.horizon,
            "numbers": None if self.numbers is None else asdict(self.numbers),
            "numbers_note": self.numbers_note,
            "interventions": [one.to_json() for one in self.interventions],
        }


def exact_audit(
    task: Task, interventions: Sequence[str] | None = None, *, model: FiniteModel | None = None
) -> ExactAudit:
    """Audit the named interventions (None: all of the task's), and `none` for information.

    What is proven is proven of the model; `cisr.audit` also holds the model against the environment.
    `model` spares asking the task for its model a second time.
    """
    if interventions is not None:
        check_names("The interventions to audit", interventions)
    names = task.intervention_names if interventions is None else tuple(interventions)
    chosen = [task.intervention(name) for name in dict.fromkeys((*(n for n in names if n != NONE.name), NONE.name))]
    model = model or model_of(task)
    if model is None:
        raise ConfigError(
            f"Task '{task.name}' has no transition model to audit exactly: give it one as `model`, "
            "or use an environment that shows its table as `env.unwrapped.P` behind wrappers that leave it as it is."
        )
    judged = judge(task, model)
    skipped = too_large(judged) or _no_numbers(task, judged)
    numbers = task_numbers(judged) if skipped is None else None
    audits = []
    for intervention in chosen:
        induced = world_of(task, judged, intervention)
        horizon = induced.judged.horizon
        note = skipped or not_markov(induced) or too_large(induced.judged) or _own_time_limit(horizon, judged) or ""
        eventual = eventual_safety(intervention, task.constraint_form, task.kappa, horizon, judged.horizon)
        own = None
        if numbers is not None and not note:
            own = intervention_numbers(induced, task.constraint_form, numbers, eventual.failure_bound)
        audits.append(
            InterventionAudit(
                name=intervention.name,
                counts=intervention.name != NONE.name,
                learning=learning_safety(induced),
                eventual=eventual,
                numbers=own,
                numbers_note=note,
                reaches_goal=None if induced.unmodelled else succeeds(induced),
            )
        )
    return ExactAudit(
        task=task.name,
        n_states=model.n_states,
        n_actions=model.n_actions,
        horizon=judged.horizon,
        numbers=numbers,
        numbers_note=skipped or "",
        interventions=tuple(audits),
    )


def _no_numbers(task: Task, judged: JudgedModel) -> str | None:
    """Why a task of any size has none."""
    if task.reward is not None:
        return "No exact numbers: the task pays rewards of its own, which no model shows."
    return "No exact numbers: episodes can start in danger." if judged.doomed.any() else None


def _own_time_limit(horizon: int, judged: JudgedModel) -> str | None:
    if horizon == judged.horizon:
        return None
    return f"No exact numbers: episodes last {horizon} steps here and {judged.horizon} in the task."
