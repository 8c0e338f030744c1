"""Study: a teacher's training run (Algorithm 1 of the paper), durable and resumable.

Each round the teacher proposes a curriculum policy, a class of new students learns under it, and their scores are told
to the teacher. A policy whose students all failed is told as such, never left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cisr.classroom import (
    Batch,
    Classroom,
    Enrolment,
    Event,
    Transcript,
    UnitLog,
    default_observe,
    default_score,
)
from cisr.curricula import CurriculumPolicy, Parameters, SearchSpace, Switching
from cisr.errors import ConfigError
from cisr.lesson import make_lesson, new_student, settle
from cisr.seeding import check_seed, derive_seed
from cisr.store import Round, Store, opened
from cisr.task import Task
from cisr.teachers import GPUCB, GammaPrior, Hyperpriors, RandomSearch, Teacher

MakeTeacher = Callable[[SearchSpace, int], Teacher]
Listener = Callable[[Batch, Event], None]
OnRound = Callable[[int, Round], None]


def ignore(batch: Batch, event: Event) -> None:
    """A listener that does not listen."""


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What a finished study has found."""

    policy: CurriculumPolicy
    rounds: tuple[Round, ...]
    transcripts: tuple[Transcript, ...]

    @property
    def training_failures(self) -> int:
        return sum(transcript.training_failures for transcript in self.transcripts)


def default_teacher(task: Task) -> MakeTeacher:
    """GP-UCB in the task's setting."""
    teaching = task.teaching

    def make(space: SearchSpace, seed: int) -> Teacher:
        priors = None
        if teaching.hyperpriors is not None:
            signal, *lengthscales, noise = (GammaPrior(mean, variance) for mean, variance in teaching.hyperpriors)
            names = [parameter.name for parameter in space.parameters]
            priors = Hyperpriors(signal=signal, lengthscales=dict(zip(names, lengthscales, strict=True)), noise=noise)
        return GPUCB(
            space,
            seed=seed,
            setting=teaching.setting,
            n_initial=teaching.n_initial,
            initial=[dict(point) for point in teaching.initial[: teaching.n_initial]],
            priors=priors,
        )

    return make


def random_teacher(space: SearchSpace, seed: int) -> Teacher:
    """Random search: the plain baseline."""
    return RandomSearch(space, seed=seed)


def search_space(task: Task) -> SearchSpace:
    """Where teachers of a task search: the 3K + 1 parameters of switching curricula over its interventions."""
    if not task.interventions:
        raise ConfigError(f"Task '{task.name}' has no interventions to choose from: give it at least one.")
    teaching = task.teaching
    return Switching.space(task.choices, teaching.n_switches, teaching.return_range, teaching.violation_range)


class Study:
    """Trains a teacher on a task.

    `observe` and `score` say what the teacher sees of a unit and what it wants of a student. Everything is kept in
    `store`; running a study again on the same store goes on where it stopped. `batch` bounds how many students are
    trained together, where memory is short; the store keeps it for good.
    """

    def __init__(
        self,
        task: Task,
        *,
        store: Store | Path | str | None = None,
        name: str = "study",
        seed: int = 0,
        n_initial: int | None = None,
        n_rounds: int | None = None,
        class_size: int | None = None,
        teacher: MakeTeacher | None = None,
        observe: Callable[[UnitLog], Any] = default_observe,
        score: Callable[[Transcript], float] = default_score,
        lane: str = "auto",
        evaluate_in: str = "M",
        n_workers: int | None = None,
        batch: int | None = None,
    ) -> None:
        changes: dict[str, Any] = {"n_initial": n_initial, "n_rounds": n_rounds, "class_size": class_size}
        teaching = dataclasses.replace(task.teaching, **{k: v for k, v in changes.items() if v is not None})
        for what, least in (("n_initial", 1), ("n_rounds", 0), ("class_size", 1)):
            if getattr(teaching, what) < least:
                raise ConfigError(f"{what} is {getattr(teaching, what)}: give a whole number, at least {least}.")
        self.task = dataclasses.replace(task, teaching=teaching)
        self.name = name
        self.seed = check_seed(seed)
        self.score = score
        self._store = store
        self.lesson = make_lesson(self.task, lane=lane, evaluate_in=evaluate_in, observe=observe)
        self._make_teacher = teacher or default_teacher(self.task)
        self._n_workers = n_workers
        self.batch = batch

    @property
    def n_policies(self) -> int:
        return self.task.teaching.n_initial + self.task.teaching.n_rounds

    @property
    def n_students(self) -> int:
        return self.n_policies * self.task.teaching.class_size

    def run(self, listener: Listener = ignore, on_round: OnRound = lambda number, result: None) -> StudyResult:
        """Go on until all rounds are done. Listeners hear what happens in the classroom, and each round's result."""
        with opened(self._store) as store:
            (result,) = run_together([self], store, self._n_workers, listener, on_round)
        return result

    def lessons(
        self, store: Store, on_round: OnRound
    ) -> Generator[list[Enrolment], dict[str, Transcript], StudyResult]:
        """Algorithm 1 as a coroutine: yields the students of the next rounds, is sent their transcripts by name."""
        teacher = self._make_teacher(search_space(self.task), derive_seed(self.seed, self.name))
        told = 0
        for past in store.rounds(self.name)[: self.n_policies]:
            if past.told:
                teacher.tell(past.parameters, past.score, past.sem)
                on_round(told, past)
                told += 1
        while told < self.n_policies:
            together = max(self.task.teaching.n_initial - told, 1)
            proposed = self._propose(teacher, store, told, together)
            classes = [self._class(number, parameters) for number, parameters in enumerate(proposed, told)]
            taught = yield [student for students in classes for student in students]
            for number, (parameters, students) in enumerate(zip(proposed, classes, strict=True), told):
                score, sem = summarise([taught[student.name] for student in students], self.score)
                store.tell(self.name, number, score, sem)
                teacher.tell(parameters, score, sem)
                on_round(number, store.rounds(self.name)[number])
            told += together
        store.keep_findings(self.name, {"best": teacher.best(), "model": teacher.describe()})
        return StudyResult(
            policy=Switching.from_parameters(teacher.best()),
            rounds=tuple(store.rounds(self.name)[: self.n_policies]),
            transcripts=tuple(store.transcripts(f"{self.name}/")),
        )

    def _propose(self, teacher: Teacher, store: Store, first: int, n: int) -> list[Parameters]:
        """Policies number first … first + n − 1: those on record from before, or what the teacher proposes now."""
        proposed = [past.parameters for past in store.rounds(self.name)[first : first + n]]
        if len(proposed) < n:
            asked = teacher.ask(n)
            model = teacher.hyperparameters() if first >= self.task.teaching.n_initial else {}
            for number in range(first + len(proposed), first + n):
                store.propose(self.name, number, asked[number - first], model)
                proposed.append(asked[number - first])
        return proposed

    def _class(self, number: int, parameters: Parameters) -> list[Enrolment]:
        policy = Switching.from_parameters(parameters)
        names = [f"{self.name}/{number:03d}/{k:02d}" for k in range(self.task.teaching.class_size)]
        return [new_student(self.task, policy, self.seed, name) for name in names]


def run_together(
    studies: Sequence[Study],
    store: Store,
    n_workers: int | None = None,
    listener: Listener = ignore,
    on_round: OnRound = lambda number, result: None,
) -> list[StudyResult]:
    """Run independent studies of one task side by side: the students of their rounds share a classroom."""
    lesson = studies[0].lesson
    for study in studies:
        batching = settle(store, study.name, lesson, study.seed, study.batch)
    results: dict[str, StudyResult] = {}
    running = {study.name: study.lessons(store, on_round) for study in studies}
    with Classroom(lesson, store, batching=batching, n_workers=n_workers, listener=listener) as classroom:
        taught: dict[str, Transcript] | None = None
        while running:
            wanted: list[Enrolment] = []
            for name, lessons in list(running.items()):
                try:
                    wanted += next(lessons) if taught is None else lessons.send(taught)
                except StopIteration as end:
                    results[name] = end.value
                    del running[name]
            taught = {transcript.name: transcript for transcript in classroom.teach(wanted)}
    return [results[study.name] for study in studies]


def summarise(
    transcripts: Sequence[Transcript], score: Callable[[Transcript], float]
) -> tuple[float | None, float | None]:
    """Mean score of a class and its standard error; (None, None) if all have failed, no error for a single student."""
    scores = [score(transcript) for transcript in transcripts if transcript.error is None]
    if not scores:
        return None, None
    sem = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    return float(np.mean(scores)), sem
