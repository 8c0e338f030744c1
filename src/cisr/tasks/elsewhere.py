"""Tasks whose environment is elsewhere: at a rig, or in a program that is not Python. Their interventions are names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cisr.core.checks import check_names
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array, Intervention, Rewind, ToStart
from cisr.core.task import Move, Task
from cisr.core.training import Teaching, Training


def task_elsewhere(name: str, interventions: Sequence[str], *, n_units: int = 10, **teaching: Any) -> Task:
    """A task for `Study.ask` and `Study.tell` alone: what its interventions do is known where students are trained.

    >>> task_elsewhere("arm", ["held", "slow", "alone"], n_units=6, n_rounds=12).choices
    ('held', 'slow', 'alone')
    """
    check_names("The interventions of a task", interventions)
    return Task(
        name=name,
        make_env=_nowhere,
        danger=_never,
        success=_never,
        interventions=tuple(Intervention(name=one, trigger=_untold, reset=ToStart(), tau=0.0) for one in interventions),
        horizon=1,
        training=Training(n_units=n_units, teaching=Teaching(**teaching)),
    )


def task_of_store(settings: Mapping[str, Any], teaching: Mapping[str, Any]) -> Task:
    """The task of a store with students elsewhere, as far as handing them out needs it."""
    definition = settings["definition"]
    triggers = dict.fromkeys(definition["constraints"][1:], _untold)
    rewind = definition["rewind_like"]
    return Task(
        name=settings["task"],
        make_env=_nowhere,
        danger=dict.fromkeys(definition["dangers"], _never),
        success=_never,
        interventions=tuple(
            Intervention(
                name=one["name"],
                trigger=triggers,
                reset=Rewind() if one["name"] == rewind else ToStart(),
                tau=one["tau"],
                kappa=one["kappa"],
                horizon=one["horizon"],
            )
            for one in definition["tolerances"]
        ),
        **{what: definition[what] for what in ("horizon", "kappa", "constraint_form", "safe_evaluation", "max_reward")},
        version=settings["version"],
        training=Training(
            n_units=definition["n_units"],
            deployment_steps=definition["deployment_steps"],
            teaching=Teaching(**{**teaching, "interventions": tuple(teaching["interventions"])}),
            scale=settings["scale"],
        ),
    )


def _nowhere(**options: Any) -> Any:
    raise ConfigError("The environment of this task is elsewhere: its students are handed out by `ask`.")


def _never(move: Move) -> Array:
    return np.zeros(np.shape(move.reward), bool)


def _untold(state: Array) -> Array:
    return np.zeros(np.shape(state)[:-1], bool)
