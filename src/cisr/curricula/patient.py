"""Patient curricula: switching curricula whose teacher does not wait for ever for a student to be ready.

Some students never pass a threshold. The teacher sees that in their returns under an intervention that keeps them safe,
and can do something about it at the next unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cisr.core.checks import check_whole, keep
from cisr.curricula.base import Observation, Stage, fresh_starts
from cisr.curricula.policies import Switching, Threshold


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A switching curriculum in which a student that has not passed its threshold after `patience` units starts anew.

    It starts over as a new student with the units that are left: weights, optimiser and multipliers are new, and the
    rule is applied to the observation (0, 0). Whoever has come to the last intervention stays: a threshold between two
    stages of it keeps nobody from anything.
    """

    interventions: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    patience: int
    """Units that a student may spend in one stage."""

    def __post_init__(self) -> None:
        keep(self, patience=check_whole("'patience'", self.patience))
        _ = self.switching  # complains about a wrong number of thresholds

    @property
    def switching(self) -> Switching:
        """The same curriculum with endless patience."""
        return Switching(interventions=self.interventions, thresholds=self.thresholds)

    @property
    def first_stage(self) -> dict[str, int]:
        return {"index": 0, "units": 0}

    @property
    def interventions_used(self) -> tuple[str, ...]:
        return self.interventions

    def next_stage(self, stage: Stage, observed: Observation, rng: np.random.Generator) -> dict[str, int]:
        """The stage's `units` are those spent under its intervention, the one to come included."""
        before = stage["index"]
        on_the_way = any(name != self.interventions[before] for name in self.interventions[before:])
        index = self.switching.next_stage(before, observed, rng)
        if index == before and on_the_way and stage["units"] >= self.patience:
            new = self.next_stage(self.first_stage, Observation(), rng)
            return {**new, "fresh_starts": fresh_starts(stage) + 1}
        return {**stage, "index": index, "units": stage["units"] + 1 if index == before else 1}

    def intervention(self, stage: Stage) -> str:
        return self.switching.intervention(stage["index"])

    def to_json(self) -> dict[str, Any]:
        return {**self.switching.to_json(), "kind": "patient", "patience": self.patience}
