"""What students' records say about a task or a curriculum that its author should know: a sentence for each kind.

Each is about something that happened and that results alone do not show: students that still lean on rescues when they
are left alone, thresholds that no student reaches or that keep nobody, a success that nobody had. Pure functions of
transcripts and of a task's numbers (`cisr.store.provenance.describe`, which stores keep), so that Python, the terminal,
JSON and reports say the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from cisr.curricula import Observation, Patient, Switching
from cisr.curricula.files import policy_from_json
from cisr.training import Transcript, UnitLog, default_observe

log = logging.getLogger(__name__)

FAR_ABOVE = 2.0
"""Rescues are far above the tolerance when they are more than so many times it …"""
AT_LEAST = 0.5
"""… and so many more in an episode: of an intervention that ends episodes and tolerates none, every other one."""
SURVIVING = "success=lambda move: ~move.terminated"
"""How to write that getting to the horizon is a success."""

Definition = Mapping[str, Any]


def of_comparison(groups: Mapping[str, Sequence[Transcript]], definition: Definition) -> tuple[str, ...]:
    """What is to be said of the students of each curriculum."""
    students = [t for group in groups.values() for t in group]
    stages = [stage for label, group in groups.items() for stage in stages_of(f"'{label}'", group)]
    return _told(leaning(students, definition), undecided(stages), never_a_success(students))


def of_study(students: Sequence[Transcript], definition: Definition) -> tuple[str, ...]:
    """What is to be said of a teacher's students. Some of the policies that it tries have thresholds out of reach: that
    is what it finds out. It is worth a word where all of them do."""
    stages = [stage for stage in stages_of("The search", students) if stage.observed or stage.skipped]
    nothing_decided = all(stage.out_of_reach or stage.skipped for stage in stages)
    return _told(
        leaning(students, definition), undecided(stages) if nothing_decided else None, never_a_success(students)
    )


def warn(sentences: Sequence[str]) -> None:
    """Tell whoever has run it, from Python or on a terminal."""
    for sentence in sentences:
        log.warning("%s", sentence)


def _told(*sentences: str | None) -> tuple[str, ...]:
    return tuple(sentence for sentence in sentences if sentence is not None)


def leaning(students: Iterable[Transcript], definition: Definition) -> str | None:
    """Rescues that are far above the tolerance in the last unit, by its intervention: the median student's."""
    tolerated = {one["name"]: one["tau"] for one in definition.get("tolerances", ())}
    last: dict[str, list[UnitLog]] = {}
    for student in students:
        if student.deployment is not None and student.units and student.units[-1].intervention in tolerated:
            last.setdefault(student.units[-1].intervention, []).append(student.units[-1])
    said = []
    for name, units in last.items():
        used = [found for unit in units if (found := _rescues(unit, tolerated[name], definition)) is not None]
        if used and median(n > FAR_ABOVE * most + AT_LEAST for n, most in used) > 0.5:
            n, most = (median(column) for column in zip(*used, strict=True))
            said.append(f"under {name} {n:.1f} in an episode ({most:.2g} tolerated)")
    if not said:
        return None
    return (
        f"Rescues are still far above the tolerance when training ends: {', '.join(said)}. Such students lean on help "
        f"that they will not have: let rescues cost more (multiplier_bound), train for more units, or put another "
        f"intervention before it or after it."
    )


def _rescues(unit: UnitLog, tau: float, definition: Definition) -> tuple[float, float] | None:
    """Rescues in an episode, and how many are tolerated; None where that is not known."""
    if unit.rescues is None or unit.steps is None or not unit.episodes:
        return None
    length = unit.steps / unit.episodes if definition["constraint_form"] == "mean" else 1.0
    return unit.rescues / unit.episodes, tau * length * (len(definition["constraints"]) - 1)


class StageRecord(NamedTuple):
    """What students of one curriculum showed in one of its stages, and what they had to."""

    whose: str
    number: int
    """1 … K"""
    intervention: str
    min_return: float
    max_violation: float
    observed: tuple[Observation, ...]
    """Of the units in this stage that the threshold was applied to."""
    entered: int
    """Students that spent a unit there."""

    @property
    def skipped(self) -> bool:
        """Whether everybody went on before the first unit."""
        return self.number == 1 and self.entered == 0

    @property
    def out_of_reach(self) -> bool:
        """Whether no unit was good enough in one of the two."""
        return bool(self.observed) and (self._returns < self.min_return or self._violations > self.max_violation)

    @property
    def _returns(self) -> float:
        return max(seen.mean_return for seen in self.observed)

    @property
    def _violations(self) -> float:
        return min(seen.violation for seen in self.observed)

    def in_words(self) -> str:
        its = f"{self.whose}: threshold {self.number}"
        if self.skipped:
            return (
                f"{its} (return at least {self.min_return:.2f}, violation at most {self.max_violation:.3f}) is passed "
                f"before the first unit, where both count as 0, so {self.intervention} is never used"
            )
        if self._returns < self.min_return:
            return (
                f"{its} asks for a return of {self.min_return:.2f}, and students under {self.intervention} never "
                f"returned more than {self._returns:.2f}"
            )
        return (
            f"{its} allows a violation of {self.max_violation:.3f}, and students under {self.intervention} never had "
            f"less than {self._violations:.3f}"
        )


def stages_of(whose: str, students: Sequence[Transcript]) -> list[StageRecord]:
    """The stages of all switching curricula that students were under, where a threshold stands before another
    intervention."""
    classes: dict[str, list[Transcript]] = {}
    for student in students:
        if student.curriculum.get("kind") in ("switching", "patient") and student.units:
            classes.setdefault(json.dumps(student.curriculum, sort_keys=True), []).append(student)
    found = []
    for members in classes.values():
        policy = policy_from_json(members[0].curriculum)
        assert isinstance(policy, Switching | Patient)
        walks = [walk for t in members if (walk := _walked(policy, t)) is not None]
        for k, threshold in enumerate(policy.thresholds if walks else ()):
            if policy.interventions[k] == policy.interventions[k + 1]:
                continue
            judged = [default_observe(t.units[n]) for t, walk in walks for n in range(len(walk) - 1) if walk[n] == k]
            found.append(
                StageRecord(
                    whose=whose,
                    number=k + 1,
                    intervention=policy.interventions[k],
                    min_return=threshold.min_return,
                    max_violation=threshold.max_violation,
                    observed=tuple(judged),
                    entered=sum(k in walk for _, walk in walks),
                )
            )
    return found


def _walked(policy: Switching | Patient, student: Transcript) -> tuple[Transcript, list[int]] | None:
    """The stage of each unit; None where the teacher went by other observations than usual."""
    index: Callable[[Any], int] = (lambda stage: stage) if isinstance(policy, Switching) else lambda s: s["index"]
    stage: Any = policy.first_stage
    observed, rng, walk = Observation(), np.random.default_rng(0), []  # these policies draw nothing
    for unit in student.units:
        stage = policy.next_stage(stage, observed, rng)
        if policy.intervention(stage) != unit.intervention:
            return None
        walk.append(index(stage))
        observed = default_observe(unit)
    return student, walk


def undecided(stages: Sequence[StageRecord]) -> str | None:
    """Thresholds outside of what students return, or that keep nobody; of many the first two."""
    outside = [stage for stage in stages if stage.out_of_reach or stage.skipped]
    if not outside:
        return None
    more = f", and {len(outside) - 2} more like this" if len(outside) > 2 else ""
    return (
        f"Thresholds decide nothing. {'; '.join(stage.in_words() for stage in outside[:2])}{more}. Choose them within "
        f"what students show; a teacher finds that range itself where Teaching names no return_range and "
        f"violation_range."
    )


def never_a_success(students: Sequence[Transcript]) -> str | None:
    """Nobody ever succeeded, in training or deployed, as far as that is known."""
    deployments = [t.deployment for t in students if t.deployment is not None]
    rates = [deployment.success for deployment in deployments]
    rates += [unit.success for t in students for unit in t.units]
    if not deployments or any(rate is None or rate > 0 for rate in rates):
        return None
    ends = {name: float(np.mean([d.outcomes.get(name, 0.0) for d in deployments])) for name in deployments[0].outcomes}
    usual = max(ends, key=lambda name: ends[name])
    return (
        f"No episode ended in success, in training or deployed; {ends[usual]:.0%} of those deployed ended in {usual}. "
        f"A success is judged of the move that ends an episode. Where getting to the horizon is one, write {SURVIVING}."
    )
