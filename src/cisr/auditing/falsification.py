"""The records of a falsification: what attackers did under an intervention, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

from scipy.stats import beta

from cisr.auditing.counterexample import Candidate, Counterexample

if TYPE_CHECKING:
    from cisr.auditing.search import Search


def upper_bound(failures: int, episodes: int, confidence: float) -> float:
    """Clopper and Pearson's exact one-sided bound: the largest p with P(Bin(n, p) ≤ failures) ≥ 1 − confidence.

    It is the `confidence` quantile of Beta(failures + 1, n − failures): without a failure 1 − (1 − confidence)^(1/n).
    """
    return 1.0 if failures == episodes else float(beta.ppf(confidence, failures + 1, episodes - failures))


def no_lower(bound: float, digits: int) -> str:
    """With so many digits, rounded up: still a bound."""
    return f"{float(Decimal(bound).normalize(Context(prec=digits, rounding=ROUND_CEILING))):.{digits}g}"


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
    """Among the random episodes that training began with, in the same environments."""
    counterexamples: tuple[Counterexample, ...]
    """From scouting."""

    @property
    def failed(self) -> bool:
        """Was there a failure on a real environment?"""
        return self.backend == "gymnasium" and self.scouting_failures + self.failures > 0

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
    searches: tuple[Search, ...] = ()
    """What was found in the JAX environment."""
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
    def _parts(self) -> list[Attack | Search | Training]:
        return [*self.attacks, *self.searches, *((self.training,) if self.training else ())]

    @property
    def upper_bound(self) -> float | None:
        """Failures per episode of any of the attackers, at the stated confidence; None where none was judged."""
        return max((attack.upper_bound for attack in self.attacks), default=None)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Failures in the JAX environment that are still to be played on Gymnasium's."""
        return tuple(candidate for search in self.searches for candidate in search.candidates)

    @property
    def steps(self) -> int:
        return sum(part.steps for part in self._parts)

    @property
    def verdict(self) -> str:
        names = ", ".join(attack.attacker for attack in self.attacks)
        if not self.refuted:
            known = "not refuted" if self.attacks else "not attacked on Gymnasium's environment"
            return f"{known}{self._judged}{self._searched}"
        if not any(attack.failures for attack in self.attacks):
            seen = "rehearsals or in training"
            if confirmed := sum(search.confirmed for search in self.searches):
                seen = f"{confirmed:,} replays of what had failed in the JAX environment"
            return f"refuted: failures were seen in {seen}, none in judged episodes ({names})"
        worst = max(self.attacks, key=lambda attack: attack.rate)
        return f"refuted: {worst.attacker} play failed in {worst.failures:,} of {worst.episodes:,} episodes"

    @property
    def _judged(self) -> str:
        """What judged episodes say, where there were any."""
        if self.upper_bound is None:
            return ""
        names = ", ".join(attack.attacker for attack in self.attacks)
        of = f"failures per episode of these attackers ({names}), with confidence {self.confidence:g}"
        return f": at most {no_lower(self.upper_bound, 2)} {of}"

    @property
    def _searched(self) -> str:
        """What the JAX environment adds to a verdict."""
        if not self.searches:
            return ""
        failures, episodes = (sum(getattr(s, what) for s in self.searches) for what in ("failures", "episodes"))
        bound = max(search.upper_bound for search in self.searches)
        found = f"{failures:,} failure{'s' * (failures > 1)}" if failures else "no failure"
        replayed = sum(search.replayed for search in self.searches)
        again = f", of which {replayed:,} were played on Gymnasium's and did not fail there" if replayed else ""
        left = f", {len(self.candidates):,} of which are kept to be played on Gymnasium's" if self.candidates else ""
        if failures and not replayed and not left:
            left = ", which are claims about that environment alone"
        bounded = f"at most {no_lower(bound, 2)} per episode of each attacker"
        return f"; {found} in {episodes:,} episodes of the JAX environment ({bounded}){again}{left}"

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
            "searches": [search.to_json() for search in self.searches],
            "notes": list(self.notes),
        }
