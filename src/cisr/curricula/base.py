"""What a curriculum policy is: the rule that picks the next intervention from what the teacher observed.

Policies are frozen values. All that a policy remembers of one student is its *stage*, which goes in and comes out, so
a thousand students can share a policy and any dependence on history is possible.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cisr.core.checks import check_names, shown
from cisr.core.errors import ConfigError, described
from cisr.system.interrupts import users_errors

Stage = Any
"""What a policy remembers of one student: any JSON value (None, numbers, strings, lists, dictionaries).

A dictionary may count `fresh_starts`: where the count grows, the student starts over with new weights.
"""


class Observation(NamedTuple):
    """o^T: what the teacher saw of a student in its last unit. Before the first unit, zeros."""

    mean_return: float = 0.0
    violation: float = 0.0
    """Mean value of the rescue constraint: rescues beyond the tolerance."""


@runtime_checkable
class CurriculumPolicy(Protocol):
    """A policy's stage moves on *before* each unit, the first included; the stage then says what to use."""

    @property
    def first_stage(self) -> Stage: ...
    @property
    def interventions_used(self) -> tuple[str, ...]:
        """Every intervention that this policy may choose."""

    def next_stage(self, stage: Stage, observed: Any, rng: np.random.Generator) -> Stage: ...
    def intervention(self, stage: Stage) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


def check_policy(label: str, policy: Any) -> None:
    if isinstance(policy, type) or not isinstance(policy, CurriculumPolicy):
        raise ConfigError(
            f"The curriculum '{label}' is {shown(policy)}: give a curriculum policy, such as Fixed('none'), "
            f"Switching(…) or load_policy(path)."
        )
    try:
        used, written = policy.interventions_used, json.dumps(policy.to_json())
    except users_errors() as error:
        raise ConfigError(f"The curriculum '{label}' cannot say what it is: {described(error)}.") from error
    check_names(f"The interventions_used of curriculum '{label}'", used)
    if not written.startswith("{"):
        raise ConfigError(f"The to_json of curriculum '{label}' gave {shown(written)}: give a dictionary by name.")


def fresh_starts(stage: Stage) -> int:
    """How often a student has started over when it is in this stage."""
    return int(stage.get("fresh_starts", 0)) if isinstance(stage, dict) else 0
