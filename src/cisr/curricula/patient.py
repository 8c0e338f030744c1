"""Patient curricula: switching curricula whose teacher does not wait for ever for a student to be ready.

Some students never pass a threshold. The teacher sees that in their returns under an intervention that keeps them safe,
and can do something about it at the next unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from cisr.curricula.base import Observation, Stage, fresh_starts
from cisr.curricula.policies import Switching, Threshold
from cisr.curricula.space import Choice, Parameters, SearchSpace
from cisr.errors import ConfigError

Then = Literal["forward", "back", "anew"]
"""Where a student goes that has worn out its teacher's patience."""


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A switching curriculum; what has lasted `patience` units and is not over by its threshold ends all the same.

    - `forward`: the next intervention follows, as if the threshold had been passed; the last one stays.
    - `back`: the one before follows, also from the last one, which has no threshold to pass; the first one stays.
    - `anew`: the student starts over as a new one, with the units that are left: weights, optimiser and multipliers are
      new, and the rule is applied to the observation (0, 0). The last intervention stays.
    """

    interventions: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    patience: int
    """Units that a student may spend in one stage."""
    then: Then

    def __post_init__(self) -> None:
        if isinstance(self.patience, bool) or not isinstance(self.patience, int) or self.patience < 1:
            raise ConfigError(f"'patience' is {self.patience!r}: give a whole number of units, at least 1.")
        if self.then not in get_args(Then):
            raise ConfigError(f"'then' is {self.then!r}: give one of {', '.join(get_args(Then))}.")
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
        before, last = stage["index"], len(self.thresholds)
        index = self.switching.next_stage(before, observed, rng)
        if index == before and stage["units"] >= self.patience:
            if self.then == "forward":
                index = min(before + 1, last)
            if self.then == "back":
                index = max(before - 1, 0)
            if self.then == "anew" and before < last:
                new = self.next_stage(self.first_stage, Observation(), rng)
                return {**new, "fresh_starts": fresh_starts(stage) + 1}
        return {**stage, "index": index, "units": stage["units"] + 1 if index == before else 1}

    def intervention(self, stage: Stage) -> str:
        return self.switching.intervention(stage["index"])

    def to_json(self) -> dict[str, Any]:
        return {**self.switching.to_json(), "kind": "patient", "patience": self.patience, "then": self.then}

    @staticmethod
    def space(
        interventions: tuple[str, ...],
        n_switches: int,
        return_range: tuple[float, float],
        violation_range: tuple[float, float],
        patience: tuple[int, ...] = (2, 3, 4, 6),
    ) -> SearchSpace:
        """The parameters of `Switching` and one more, the patience."""
        switching = Switching.space(interventions, n_switches, return_range, violation_range)
        return SearchSpace(
            parameters=(*switching.parameters, Choice(name="patience", options=tuple(map(str, patience))))
        )

    @staticmethod
    def from_parameters(parameters: Parameters, then: Then) -> Patient:
        """The policy at a point of `space`."""
        switching = Switching.from_parameters(parameters)
        return Patient(
            interventions=switching.interventions,
            thresholds=switching.thresholds,
            patience=int(parameters["patience"]),
            then=then,
        )
