"""Studies and comparisons that hand their students out, see `cisr.experiments.elsewhere`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cisr.core.checks import check_text
from cisr.core.errors import ConfigError, NobodyFinished, StoreError
from cisr.core.task import Task
from cisr.core.training import Teaching
from cisr.curricula import Parameters
from cisr.experiments.elsewhere import Trial, check_begun_with, close, hand_out, in_turn, open_trial_of
from cisr.experiments.trials import Trials
from cisr.store import Store, StoredTrial, owner_of
from cisr.store.runs import begin, deployed, set_aside
from cisr.students.elsewhere import Elsewhere
from cisr.teachers import Teacher
from cisr.training import StudentSpec, TrainingSetup, Transcript, UnitLog, default_score
from cisr.training.finished import nobody_finished
from cisr.training.setup import make_setup

if TYPE_CHECKING:
    from cisr.experiments.study import StudyResult

Result = TypeVar("Result")
KIND = "elsewhere"
"""What such students are called."""


class HandsOut(ABC, Generic[Result]):
    """Something with students elsewhere, as rigs see it: `ask`, `tell`, `result`."""

    name: str
    _store: Store | Path | str | None

    @property
    @abstractmethod
    def _observe(self) -> Callable[[UnitLog], Any]: ...
    @abstractmethod
    def _search(self) -> dict[str, Any]:
        """What defines the search for the next student, beside the task."""

    @abstractmethod
    def _begin_elsewhere(self, store: Store) -> None:
        """Make sure that the store is one of this very thing, with students elsewhere."""

    @abstractmethod
    def _next_student(self, store: Store) -> StudentSpec | None:
        """The next one to be handed out; None: there is nothing to do now."""

    @abstractmethod
    def _settle(self, store: Store) -> Result | None:
        """Enter what follows from what was told; returns what came out, None before all of it is known. Complains
        where all is told and nobody finished."""

    def ask(self, rig: str | None = None) -> Trial | None:
        """A student to train elsewhere: the one that this rig has not told yet, or a new one.

        Without a rig's name it is always a new one; to go on with it, remember its `name` (`trial`). None: there is
        nothing to do now, because all is over (`result`) or the teacher waits to be told.
        """
        Elsewhere(rig=rig)  # complains about names that are none
        with in_turn(self._store) as store:
            self._begin_elsewhere(store)
            name = open_trial_of(store, self.name, rig)
            if name is None:
                self._settle(store)
                if (student := self._next_student(store)) is None:
                    return None
                hand_out(store, student, rig)
                name = student.name
        return self.trial(name)

    def trial(self, name: str) -> Trial:
        """A trial that was handed out, by its name."""
        with in_turn(self._store) as store:
            self._check_ours(store, name)
        assert self._store is not None
        return Trial(self._store, name, self._observe)

    def tell(self, trial: Trial | str, score: float | None, **known: Any) -> None:
        """How the student of a trial did once it was done: its score, higher is better; None: it could not be trained
        to its end. What else is known of it: `success`, `episodes`, `steps`, `rescues`, `failures`."""
        name = trial.name if isinstance(trial, Trial) else trial
        with in_turn(self._store) as store:
            self._check_ours(store, name)
            close(store, name, score, known, self._observe)
            with suppress(NobodyFinished):  # whoever asks next, or wants the result, hears of it
                self._settle(store)

    def result(self) -> Result | None:
        """What came out; None before all trials are told."""
        with in_turn(self._store) as store:
            check_begun_with(store, self.name, self._search())
            return self._settle(store)

    def _check_ours(self, store: Store, name: Any) -> None:
        check_text("The name of a trial", name)
        known = store.spec(name)
        if owner_of(name) != self.name or known is None or not isinstance(known.config, Elsewhere):
            raise ConfigError(f"{store} has no trial '{name}' of '{self.name}': `ask` gives trials.")
        check_begun_with(store, self.name, self._search())


def check_anybody_finished(students: Sequence[Transcript]) -> None:
    if all(student.deployment is None for student in students):
        mend = "Mend it and begin with another store: students that were given up are not handed out again."
        raise NobodyFinished(nobody_finished(students, mend))


def setup_elsewhere(task: Task) -> TrainingSetup:
    return make_setup(task.with_training(student=Elsewhere(), student_kind=KIND))


def begin_elsewhere(store: Store, setup: TrainingSetup, name: str, run: Mapping[str, Any], kept: Any) -> None:
    """Bind a store to a run with students elsewhere; `kept` is what a rig needs beside it that knows only the store."""
    begin(store, name, setup, run)
    before = store.settings().get(KIND, {})
    now = json.loads(json.dumps({**before, name: kept}))
    if now != before:
        store.record({KIND: now})


class HandsOutTrials(HandsOut["StudyResult"]):
    """A study as rigs see it."""

    task: Task
    seed: int
    _teaching: Teaching
    n_policies: int
    _fresh: bool

    @property
    @abstractmethod
    def _probes(self) -> list[Parameters]: ...
    @abstractmethod
    def _definition(self, seed_and_deployment: dict[str, Any]) -> dict[str, Any]: ...
    @abstractmethod
    def _new_teacher(self, first: Sequence[Transcript] = ()) -> Teacher: ...
    @abstractmethod
    def _class(self, number: int, parameters: Parameters) -> list[StudentSpec]: ...
    @abstractmethod
    def _conclude(self, store: Store, trials: Trials, teacher: Teacher) -> StudyResult: ...

    def _search(self) -> dict[str, Any]:
        return self._definition({"seed": self.seed})

    def _begin_elsewhere(self, store: Store) -> None:
        setup = setup_elsewhere(self.task)
        self._set_aside(store, setup)
        self._check_budget(store, len(store.trials(self.name)), "or another store")
        definition = self._definition(deployed(setup, self.seed))
        begin_elsewhere(store, setup, self.name, definition, {"teaching": asdict(self._teaching)})

    def _set_aside(self, store: Store, setup: TrainingSetup) -> None:
        """What an earlier study left, where this one is to begin anew; once."""
        if self._fresh:
            set_aside(store, self.name, setup)
            self._fresh = False

    def _check_budget(self, store: Store, tried: int, otherwise: str) -> None:
        """A study may grow, but not forget policies that were tried."""
        if tried > self.n_policies:
            raise StoreError(
                f"{store} has tried {tried} policies in '{self.name}', this run has {self.n_policies}: give at least "
                f"{tried - self._teaching.n_initial} rounds, {otherwise}."
            )

    def _next_student(self, store: Store) -> StudentSpec | None:
        """Of the first class that is not complete, or of the next policy that the teacher proposes."""
        trials = Trials(store, self.name, default_score)
        enrolled = {student.name for student in trials.transcripts()}
        for number, tried in enumerate([*trials.all(), None]):
            parameters = tried.parameters if tried else self._proposed(trials, number)
            for student in [] if parameters is None else self._class(number, parameters):
                if student.name not in enrolled:
                    return student
        return None

    def _proposed(self, trials: Trials, number: int) -> Parameters | None:
        """The next policy, now on record; None where all are, or the ranges of thresholds are not known yet."""
        if number >= self.n_policies:
            return None
        probes, known = self._probes, trials.all()
        if number < len(probes):
            return trials.recorded(number, [probes[number]])[0]
        if not all(tried.told for tried in known[: len(probes)]):
            return None
        teacher = self._told_teacher(trials)
        model = teacher.hyperparameters() if number >= self._teaching.n_initial else {}
        waiting = sum(not tried.told for tried in known)
        return trials.recorded(number, teacher.ask(waiting + 1)[-1:], model)[0]

    def _told_teacher(self, trials: Trials) -> Teacher:
        """The teacher that knows what has been told, in the order of the policies."""
        teacher = self._new_teacher(trials.students(range(len(self._probes))))
        for number, tried in enumerate(trials.all()):
            if tried.told:
                each = [s.deployment.score for s in trials.students([number]) if s.deployment is not None]
                whole = len(each) == self._teaching.class_size
                teacher.tell(tried.parameters, tried.score, tried.sem, each if whole else [])
        return teacher

    def _settle(self, store: Store) -> StudyResult | None:
        """Score the classes that are complete; after the last one, say what was found."""
        trials = Trials(store, self.name, default_score)
        for number, tried in enumerate(trials.all()):
            students = {student.name: student for student in trials.students([number])}
            over = [s for s in students.values() if s.deployment is not None or s.error is not None]
            if not tried.told and len(over) == self._teaching.class_size:
                trials.keep_scores({number: self._class(number, tried.parameters)}, students)
        known: list[StoredTrial] = trials.all()
        if len(known) < self.n_policies or not all(tried.told for tried in known):
            return None
        check_anybody_finished(trials.transcripts())
        return self._conclude(store, trials, self._told_teacher(trials))
