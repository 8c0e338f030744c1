"""The search space of a teacher: named parameters, some real, some a choice.

A curriculum policy class says what its parameters are (`SearchSpace`); a teacher proposes values for them.
A proposal is a plain dictionary from names to values, so it can be stored as JSON as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cisr.core.checks import check_kind, check_names, is_number, is_one_of, shown
from cisr.core.errors import ConfigError

Parameters = dict[str, float | str]
"""One point of a search space: a float for each `Real`, one of the options for each `Choice`."""


@dataclass(frozen=True, kw_only=True)
class Real:
    """A number between two bounds, both included."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and self.low < self.high):
            ends = f"[{shown(self.low)}, {shown(self.high)}]"
            raise ConfigError(f"Parameter '{self.name}' ranges over {ends}: give finite low < high.")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several options without an order."""

    name: str
    options: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(f"The options of parameter '{self.name}'", self.options)
        if not self.options or len(set(self.options)) != len(self.options):
            raise ConfigError(f"Parameter '{self.name}' offers {self.options}: give at least one option, each once.")


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """Everything that a teacher may vary."""

    parameters: tuple[Real | Choice, ...]

    @property
    def reals(self) -> tuple[Real, ...]:
        return tuple(p for p in self.parameters if isinstance(p, Real))

    @property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(p for p in self.parameters if isinstance(p, Choice))

    def check(self, point: Mapping[str, float | str]) -> None:
        """Complain about a point that does not lie in this space."""
        check_kind("A point of a search space", point, Mapping, "a dictionary by name")
        names = [p.name for p in self.parameters]
        if set(point) != set(names):
            raise ConfigError(f"A point names {list(point)}, the search space {sorted(names)}: give just these.")
        for parameter in self.parameters:
            value = point[parameter.name]
            if isinstance(parameter, Choice):
                if not is_one_of(value, parameter.options):
                    raise ConfigError(f"'{parameter.name}' is {value!r}: give one of {', '.join(parameter.options)}.")
            elif not is_number(value) or not parameter.low <= value <= parameter.high:
                raise ConfigError(
                    f"'{parameter.name}' is {value!r}: give a number in [{parameter.low}, {parameter.high}]."
                )
