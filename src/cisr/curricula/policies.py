"""Curriculum policies: `Switching` (the paper's), `Fixed`, `Schedule` and the sampling `Bandit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cisr.core.checks import check_kind, check_names, check_number, check_text, check_whole, keep, shown
from cisr.core.errors import ConfigError
from cisr.core.rewinds import read_rewind
from cisr.core.training import MOST_SWITCHES, checked_range
from cisr.curricula.base import CurriculumPolicy, Observation, Stage
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """When a student has outgrown an intervention."""

    min_return: float
    """Mean return it must have reached in the last unit."""
    max_violation: float
    """Violation it may still show: rescues beyond the tolerance."""

    def __post_init__(self) -> None:
        keep(
            self,
            min_return=check_number("A threshold's min_return", self.min_return),
            max_violation=check_number("A threshold's max_violation", self.max_violation),
        )

    def passed(self, observed: Observation) -> bool:
        return observed.mean_return >= self.min_return and observed.violation <= self.max_violation


@dataclass(frozen=True, kw_only=True)
class Switching:
    """Keep an intervention until the student is ready, then move on; at most one switch before each unit.

    K switches use K + 1 interventions. The rule is applied before the first unit too, to the observation (0, 0): a
    curriculum can skip its first intervention.
    """

    interventions: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    first_stage: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_names("A curriculum's interventions", self.interventions)
        if not isinstance(self.thresholds, tuple | list):
            raise ConfigError(f"A curriculum's thresholds are {shown(self.thresholds)}: give a tuple of Thresholds.")
        for threshold in self.thresholds:
            check_kind("A curriculum's threshold", threshold, Threshold, "a cisr.Threshold")
        if len(self.interventions) != len(self.thresholds) + 1:
            raise ConfigError(
                f"{len(self.interventions)} interventions with {len(self.thresholds)} thresholds: "
                f"give one threshold for each switch, so {max(len(self.interventions) - 1, 0)}."
            )

    @property
    def interventions_used(self) -> tuple[str, ...]:
        return self.interventions

    def next_stage(self, stage: Stage, observed: Observation, rng: np.random.Generator) -> int:
        last = stage == len(self.thresholds)
        return int(stage if last else stage + self.thresholds[stage].passed(observed))

    def intervention(self, stage: Stage) -> str:
        return self.interventions[stage]

    def to_json(self) -> dict[str, Any]:
        thresholds = [{"min_return": t.min_return, "max_violation": t.max_violation} for t in self.thresholds]
        return {"kind": "switching", "interventions": list(self.interventions), "thresholds": thresholds}

    @staticmethod
    def space(
        interventions: tuple[str, ...],
        n_switches: int,
        return_range: tuple[float, float],
        violation_range: tuple[float, float],
    ) -> SearchSpace:
        """The 3K + 1 parameters of this class: K pairs of thresholds, K + 1 interventions."""
        check_names("The interventions of a search space", interventions)
        n_switches = check_whole("n_switches", n_switches, 0, MOST_SWITCHES)
        return_range = checked_range("return_range", return_range)
        violation_range = checked_range("violation_range", violation_range)
        thresholds = [
            Real(name=f"{what}_{k}", low=low, high=high)
            for k in range(1, n_switches + 1)
            for what, (low, high) in (("return", return_range), ("violation", violation_range))
        ]
        choices = [Choice(name=f"intervention_{k}", options=tuple(interventions)) for k in range(1, n_switches + 2)]
        return SearchSpace(parameters=(*thresholds, *choices))

    @staticmethod
    def from_parameters(parameters: Parameters) -> Switching:
        """The policy at a point of `space`."""
        try:
            n_switches = sum(name.startswith("return_") for name in parameters)
            interventions = tuple(str(parameters[f"intervention_{k}"]) for k in range(1, n_switches + 2))
            numbers = [
                (float(parameters[f"return_{k}"]), float(parameters[f"violation_{k}"]))
                for k in range(1, n_switches + 1)
            ]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(f"No point of Switching.space(…) is {shown(parameters)}: give one by name.") from error
        thresholds = tuple(Threshold(min_return=least, max_violation=most) for least, most in numbers)
        return Switching(interventions=interventions, thresholds=thresholds)


@dataclass(frozen=True)
class Fixed:
    """One intervention for the whole training; `Fixed("none")` is training without a teacher."""

    name: str
    first_stage: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_text("The intervention of a fixed curriculum", self.name)

    @property
    def interventions_used(self) -> tuple[str, ...]:
        return (self.name,)

    def next_stage(self, stage: Stage, observed: Any, rng: np.random.Generator) -> int:
        return 0

    def intervention(self, stage: Stage) -> str:
        return self.name

    def to_json(self) -> dict[str, Any]:
        return {"kind": "none"} if self.name == "none" else {"kind": "fixed", "intervention": self.name}


@dataclass(frozen=True)
class Schedule:
    """Open loop: one intervention for each unit, the last for all that follow."""

    interventions: tuple[str, ...]
    first_stage: ClassVar[int] = -1

    def __post_init__(self) -> None:
        check_names("A schedule's interventions", self.interventions)
        if not self.interventions:
            raise ConfigError("A schedule names no interventions: give one for each unit, at least one.")

    @property
    def interventions_used(self) -> tuple[str, ...]:
        return self.interventions

    def next_stage(self, stage: Stage, observed: Any, rng: np.random.Generator) -> int:
        return int(stage) + 1

    def intervention(self, stage: Stage) -> str:
        return self.interventions[min(int(stage), len(self.interventions) - 1)]

    def to_json(self) -> dict[str, Any]:
        return {"kind": "schedule", "interventions": list(self.interventions)}


@dataclass(frozen=True)
class Bandit:
    """Teacher–student sampling (Matiisen et al. 2017): use the intervention under which the return changes fastest.

    For each intervention it keeps the last 10 changes of the mean return between one use and the next. It picks at
    random among interventions without such a value; otherwise it draws one value of each and takes the one of largest
    magnitude. It learns from one student alone.
    """

    interventions: tuple[str, ...]
    memory: ClassVar[int] = 10
    first_stage: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_names("A bandit's interventions", self.interventions)
        if not self.interventions:
            raise ConfigError("A bandit names no interventions: give at least one.")

    @property
    def interventions_used(self) -> tuple[str, ...]:
        return self.interventions

    def next_stage(self, stage: Stage, observed: Observation, rng: np.random.Generator) -> dict[str, Any]:
        returns: Mapping[str, float] = stage["returns"] if stage else {}
        progress: Mapping[str, list[float]] = stage["progress"] if stage else {n: [] for n in self.interventions}
        if stage:
            used = stage["chosen"]
            if used in returns:
                change = observed.mean_return - returns[used]
                progress = {**progress, used: [*progress[used], change][-self.memory :]}
            returns = {**returns, used: observed.mean_return}
        untried = [name for name in self.interventions if not progress[name]]
        if untried:
            chosen = untried[rng.integers(len(untried))]
        else:
            drawn = {name: abs(progress[name][rng.integers(len(progress[name]))]) for name in self.interventions}
            chosen = max(self.interventions, key=drawn.__getitem__)
        return {"chosen": chosen, "returns": dict(returns), "progress": dict(progress)}

    def intervention(self, stage: Stage) -> str:
        return str(stage["chosen"])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bandit", "interventions": list(self.interventions)}


def named_policy(name: str, n_units: int) -> CurriculumPolicy:
    """`none`, Back-x (a fixed rewind of x steps), Incremental-x (it grows by x with every unit), or an intervention."""
    rewind = read_rewind(name)
    if rewind is not None and rewind.grows:
        return Schedule(tuple(rewind.in_unit(unit) for unit in range(1, n_units + 1)))
    return Fixed(name)
