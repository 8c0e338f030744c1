"""What a benchmark says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

OWN_BACKENDS = ("compiled", "gymnasium")
BASELINES = ("sb3", "sb3-plain")
BACKENDS = (*OWN_BACKENDS, *BASELINES)


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """What a benchmark has measured."""

    task: str
    scale: str
    intervention: str
    cores: int
    device: str
    batches: Mapping[str, int]
    """Students that each process teaches at once, by backend."""
    rates: Mapping[str, tuple[float, ...]]
    """Steps per second in each turn, by backend."""
    tabulated: bool = False
    """Whether the compiled backend had the help of an observation table."""
    left_out: tuple[str, ...] = ()
    """Why backends were not measured, a line for each."""

    @property
    def ratios(self) -> dict[str, tuple[float, ...]]:
        """Each of cisr's backends against Stable-Baselines3, turn by turn, where both were measured."""
        return {
            f"{backend}/{baseline}": tuple(
                own / other for own, other in zip(self.rates[backend], self.rates[baseline], strict=True)
            )
            for backend in OWN_BACKENDS
            for baseline in BASELINES
            if backend in self.rates and baseline in self.rates
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "scale": self.scale,
            "machine": {"cores": self.cores, "device": self.device},
            "lanes": {backend: median(rates) for backend, rates in self.rates.items()},
            "ratios": {name: median(ratios) for name, ratios in self.ratios.items()},
        }
