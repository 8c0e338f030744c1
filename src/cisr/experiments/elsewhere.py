"""Students elsewhere: a study hands them out (`ask`), says what they meet next, and is told how they did (`tell`).

Whoever trains them is called a rig: a robot, a test bench, a program in another language. All that happens is in the
store before a call returns, so rigs may be stopped at any moment: a trial that was handed out stays its rig's, a unit
is entered once, and what was asked before is asked again. Several rigs share a store by turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cisr.core.checks import LARGEST, check_number, check_text, check_whole, shown
from cisr.core.errors import ConfigError
from cisr.curricula import Observation
from cisr.store import Store, opened, owner_of
from cisr.store.changes import differences
from cisr.store.fingerprint import fingerprint
from cisr.students.elsewhere import Elsewhere
from cisr.training import (
    Batch,
    Breakdown,
    Checkpoint,
    Deployment,
    Graduation,
    StudentSpec,
    Transcript,
    UnitLog,
    UnitRecord,
    default_observe,
)
from cisr.training.lessons import Lesson, next_lesson

PATIENCE = 60.0
"""Seconds that a rig waits for its turn at the store."""
COUNTS = ("episodes", "steps", "rescues", "failures")
NEEDED = ("mean_return", "violation")


class Trial:
    """One student that a rig trains: `next_intervention` until there is none any more.

    `unit` (1 … `n_units`) is the one in progress and `intervention` what it is trained under, both None when all are
    done. `anew` says that the student is to start over in this unit, with a policy that knows nothing.
    """

    def __init__(
        self, store: Store | Path | str, name: str, observe: Callable[[UnitLog], Any] = default_observe
    ) -> None:
        self.name = check_text("The name of a trial", name)
        self._store = store
        self._observe = observe
        with in_turn(store) as kept:
            check_begun_with(kept, owner_of(name), {"observe": fingerprint(observe).content})
            self._look(kept)

    def next_intervention(self, observed: Observation | Mapping[str, Any] | None = None) -> str | None:
        """What the student is trained under next; None when it is done.

        `observed` says how the unit in progress went: its `mean_return` and its `violation` (rescues beyond the
        tolerance, mean over episodes), and in a dictionary what else is known: `success` (share of episodes),
        `episodes`, `steps`, `rescues`, `failures`. None asks what the unit in progress is trained under.
        """
        if observed is not None:
            if self.unit is None:
                raise ConfigError(f"Trial '{self.name}' has done its {self.n_units} units: tell its score.")
            self.enter(self.unit, observed)
        return self.intervention

    def enter(self, unit: int, observed: Observation | Mapping[str, Any]) -> None:
        """How a unit went. Entering the last one again with the same numbers changes nothing: the answer was lost."""
        unit = check_whole(f"The unit of trial '{self.name}'", unit, 1, self.n_units)
        with in_turn(self._store) as store:
            self._look(store)
            done = store.transcript(self.name).units
            if unit <= len(done):
                told = observed_unit(unit, done[unit - 1].intervention, observed)
                if unit < len(done) or replace(done[-1], seconds=0.0) != told:
                    raise ConfigError(f"Unit {unit} of trial '{self.name}' has been observed already{self.stands()}.")
                return
            if unit != self.unit:
                raise ConfigError(f"Unit {unit} of trial '{self.name}' cannot be observed yet{self.stands()}.")
            assert self._lesson is not None
            log = observed_unit(unit, self._lesson.intervention, observed)
            record = UnitRecord(log, self._lesson.stage)
            store.keep_checkpoint(self.batch, Checkpoint(unit, {}, (record,), (None,)))
            self._look(store)

    def to_json(self) -> dict[str, Any]:
        return {
            "trial": self.name,
            "unit": self.unit,
            "units": self.n_units,
            "intervention": self.intervention,
            "anew": self.anew,
        }

    def stands(self) -> str:
        """What is to be done next, as the end of a message."""
        return ": tell its score" if self.unit is None else f": unit {self.unit}, under {self.intervention}, is next"

    def _look(self, store: Store) -> None:
        """Where the student stands."""
        spec = store.spec(self.name)
        if spec is None or not isinstance(spec.config, Elsewhere):
            raise ConfigError(f"{store} has no trial {shown(self.name)}: `ask` gives trials.")
        if store.transcript(self.name).error is not None:
            raise ConfigError(f"Trial '{self.name}' was given up: `ask` gives another.")
        self.n_units = int(store.settings()["definition"]["n_units"])
        self.batch = Batch(name=self.name, students=(spec,))
        before = store.checkpoint(self.batch)
        unit = 1 + (before.unit if before else 0)
        self._lesson: Lesson | None = None
        if unit <= self.n_units:
            self._lesson = next_lesson(spec, unit, before.records[0] if before else None, self._observe)
        self.unit = None if self._lesson is None else unit
        self.intervention = self._lesson and self._lesson.intervention
        self.anew = self._lesson is not None and self._lesson.anew


@contextmanager
def in_turn(store: Store | Path | str | None) -> Iterator[Store]:
    """The store for a moment, when no other rig has it."""
    if store is None:
        raise ConfigError("Students elsewhere need a store that is kept: give the path of a file.")
    with opened(store, patience=PATIENCE) as kept:
        yield kept


def check_begun_with(store: Store, run: str, settings: Mapping[str, Any]) -> None:
    """What goes on with a study must see, search and score as what began it."""
    kept = store.runs().get(run, {})
    if other := [name for name, value in settings.items() if name in kept and differences(kept[name], value)]:
        raise ConfigError(
            f"{store} has '{run}' with another {', '.join(other)} than is used here: go on with the program that began "
            f"it."
        )


def observed_unit(unit: int, intervention: str, observed: Observation | Mapping[str, Any]) -> UnitLog:
    """What a rig says of a unit, as a record."""
    given = observed._asdict() if isinstance(observed, Observation) else observed
    known = {*NEEDED, *COUNTS, "success", "intervention"}
    if not isinstance(given, Mapping) or not set(NEEDED) <= set(given) <= known:
        raise ConfigError(
            f"Observed was {shown(given)}: give mean_return and violation, and of success, episodes, steps, rescues, "
            f"failures what is known."
        )
    if given.get("intervention", intervention) != intervention:
        said = shown(given["intervention"])
        raise ConfigError(f"Unit {unit} was observed under {said}: it is to be trained under '{intervention}'.")
    mean_return, violation = (_told(f"The {name} of unit {unit}", given[name]) for name in NEEDED)
    episodes, steps, rescues, failures = (_count(f"The {name} of unit {unit}", given.get(name)) for name in COUNTS)
    return UnitLog(
        unit=unit,
        intervention=intervention,
        steps=steps,
        episodes=episodes,
        success=_share(f"The success of unit {unit}", given.get("success")),
        rescues=rescues,
        failures=failures,
        multipliers=(),
        mean_return=mean_return,
        violation=violation,
    )


def told_deployment(score: float, told: Mapping[str, Any]) -> Deployment:
    """What a rig says of a student that is done, as a record."""
    success = _share("The success of a student", told.get("success"))
    if unknown := sorted(set(told) - {*COUNTS, "success"}):
        raise ConfigError(f"A student was told of with {', '.join(unknown)}: give of success, {', '.join(COUNTS)}.")
    episodes, steps, rescues, failures = (_count(f"The {name} of a student", told.get(name)) for name in COUNTS)
    return Deployment(
        under="none",
        steps=steps,
        episodes=episodes,
        mean_return=score,
        score=score,
        failures=failures,
        rescues=rescues,
        outcomes={} if success is None else {"success": success},
    )


def _told(what: str, number: Any) -> float:
    given = check_number(what, number)
    if abs(given) > LARGEST:
        raise ConfigError(f"{what} is {shown(number)}: give a number from {-LARGEST:g} to {LARGEST:g}.")
    return float(given)


def _count(what: str, number: Any) -> int | None:
    return None if number is None else check_whole(what, number, 1 if "episodes" in what or "steps" in what else 0)


def _share(what: str, number: Any) -> float | None:
    if number is None:
        return None
    share = check_number(what, number, 0)
    if share > 1:
        raise ConfigError(f"{what} is {share}: give a share of episodes, from 0 to 1.")
    return share


def hand_out(store: Store, spec: StudentSpec, rig: str | None) -> None:
    """Enrol a student that a rig is to train."""
    student = replace(spec, config=Elsewhere(rig=rig))
    store.register([student], lambda new: [Batch(name=one.name, students=(one,)) for one in new])


def open_trial_of(store: Store, study: str, rig: str | None) -> str | None:
    """What a rig was given and has not told; None where nothing is left, or nobody knows whose it is."""
    for student in store.transcripts(f"{study}/"):
        if rig is not None and student.config == Elsewhere(rig=rig) and not is_over(student):
            return student.name
    return None


def close(
    store: Store, trial: str, score: float | None, told: Mapping[str, Any], observe: Callable[[UnitLog], Any]
) -> None:
    """Enter how the student of a trial did; None: it could not be trained to its end."""
    known = store.transcript(trial)
    if is_over(known):
        what = f"its score is {known.deployment.score:g}" if known.deployment else "it was given up"
        raise ConfigError(f"Trial '{trial}' has been told already: {what}.")
    student = Trial(store, trial, observe)
    if score is None:
        graduation = Graduation((None,), (Breakdown(f"Student '{trial}': given up by its rig", None),))
    else:
        if student.unit is not None:
            raise ConfigError(f"Trial '{trial}' has {student.n_units} units{student.stands()}; its score comes last.")
        score = _told(f"The score of trial '{trial}'", score)
        graduation = Graduation((told_deployment(score, told),), (None,))
    store.keep_graduation(student.batch, graduation)


def is_over(student: Transcript) -> bool:
    return student.deployment is not None or student.error is not None
