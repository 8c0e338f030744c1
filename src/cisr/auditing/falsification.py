"""The records of a falsification: what attackers did under an intervention, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.stats import beta

from cisr.auditing.counterexample import Counterexample


def upper_bound(failures: int, episodes: int, confidence: float) -> float:
    """Clopper and Pearson's exact one-sided bound: the largest p with P(Bin(n, p) ≤ failures) ≥ 1 − confidence.

    It is the `confidence` quantile of Beta(failures + 1, n − failures): without a failure 1 − (1 − confidence)^(1/n).
    """
    return 1.0 if failures == episodes else float(beta.ppf(confidence, failures + 1, episodes - failures))


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What one frozen attacker did."""

    attacker: str
    episodes: int
    """Judged ones, fixed beforehand."""
    failures: int
    """Judged episodes that ended in danger."""
    upper_bound: float
    """Failures per episode are at most this many, at the confidence that all attackers share."""
    steps: int
    """Environment steps, rehearsals included."""
    rehearsals: int
    rehearsal_failures: int
    counterexamples: tuple[Counterexample, ...]

    @property
    def rate(self) -> float:
        return self.failures / self.episodes

    @property
    def failed(self) -> bool:
        return self.failures + self.rehearsal_failures > 0

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"rate": self.rate, "counterexamples": [str(one) for one in self.counterexamples]}


@dataclass(frozen=True, kw_only=True)
class Training:
    """What it took to train the attacker; failures seen here are in no bound."""

    students: int
    backend: str
    steps: int
    """Environment steps, scouting included."""
    failures: int
    """While students learned. On the compiled backend they are the JAX environment's, which refute nothing."""
    scouting_failures: int
    """Among the random episodes on Gymnasium that training began with."""
    counterexamples: tuple[Counterexample, ...]
    """From scouting."""

    @property
    def failed(self) -> bool:
        """Was there a failure on a real environment?"""
        return self.scouting_failures > 0 or (self.failures > 0 and self.backend == "gymnasium")

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"counterexamples": [str(one) for one in self.counterexamples]}


@dataclass(frozen=True, kw_only=True)
class Falsification:
    """How an intervention stood up to its attackers."""

    task: str
    scale: str
    intervention: str
    confidence: float
    budget: int
    """Environment steps that were allowed; those taken come near."""
    attacks: tuple[Attack, ...]
    training: Training | None
    notes: tuple[str, ...]
    """What could not be done, and why."""

    @property
    def training_failures(self) -> int:
        return self.training.failures + self.training.scouting_failures if self.training else 0

    @property
    def refuted(self) -> bool:
        """Was any failure seen on a real environment: in a judged episode, a rehearsal or in training?"""
        return any(part.failed for part in self._parts)

    @property
    def _parts(self) -> list[Attack | Training]:
        return [*self.attacks, *((self.training,) if self.training else ())]

    @property
    def upper_bound(self) -> float:
        """Failures per episode of any of the attackers, at the stated confidence."""
        return max(attack.upper_bound for attack in self.attacks)

    @property
    def steps(self) -> int:
        return sum(part.steps for part in self._parts)

    @property
    def verdict(self) -> str:
        names = ", ".join(attack.attacker for attack in self.attacks)
        if not self.refuted:
            return (
                f"not refuted: at most {self.upper_bound:.2g} failures per episode of these attackers ({names}), "
                f"with confidence {self.confidence:g}"
            )
        if not any(attack.failures for attack in self.attacks):
            return f"refuted: failures were seen in rehearsals or in training, none in judged episodes ({names})"
        worst = max(self.attacks, key=lambda attack: attack.rate)
        return f"refuted: {worst.attacker} play failed in {worst.failures:,} of {worst.episodes:,} episodes"

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        return tuple(example for part in self._parts for example in part.counterexamples)

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {
            "verdict": self.verdict,
            "refuted": self.refuted,
            "upper_bound": self.upper_bound,
            "steps": self.steps,
            "training": self.training.to_json() if self.training else None,
            "attacks": [attack.to_json() for attack in self.attacks],
            "notes": list(self.notes),
        }
