"""Study: a teacher's training run (Algorithm 1 of the paper), durable and resumable.

Each round the teacher proposes a curriculum policy, a class of new students learns under it, and their scores are told
to the teacher. A policy whose students all failed is told as such, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cisr.core.checks import check_function, check_in_all, shown
from cisr.core.errors import ConfigError, NobodyFinished, StoreError
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task, check_task_given
from cisr.curricula import CurriculumPolicy, Observation, Parameters, Patient, SearchSpace, Switching
from cisr.experiments.statistics import standard_error
from cisr.store import Round, Store, opened
from cisr.store.fingerprint import fingerprint
from cisr.store.meaning import making_sense_of
from cisr.store.provenance import describe_teacher
from cisr.store.runs import begin, deployed, set_aside
from cisr.system.interrupts import interrupts_told_apart
from cisr.teachers import GPUCB, Belief, GammaPrior, Hyperpriors, RandomSearch, Teacher, TopTwo
from cisr.training import (
    STEP_TIMEOUT,
    Batch,
    Batching,
    Classroom,
    Event,
    StudentSpec,
    Transcript,
    UnitLog,
    charged_score,
    default_observe,
    default_score,
)
from cisr.training.finished import nobody_finished
from cisr.training.new_students import new_student
from cisr.training.setup import make_setup, rehearse_setup

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
    belief: Belief | None = None
    """What the teacher believes of the policy; None for a teacher that does not know how sure it is."""

    @property
    def training_failures(self) -> int:
        """Those that are known of; see `unknown_failures`."""
        return sum(transcript.training_failures or 0 for transcript in self.transcripts)

    @property
    def unknown_failures(self) -> int:
        """Students of whom nobody knows how often they failed: a process died while it trained them."""
        return sum(transcript.training_failures is None for transcript in self.transcripts)

    @property
    def unfinished(self) -> tuple[Transcript, ...]:
        """Students that an error ended; running the study again tries them again."""
        return tuple(transcript for transcript in self.transcripts if transcript.error is not None)


def default_teacher(task: Task) -> MakeTeacher:
    """Our own teacher, or the paper's, as the task has it."""
    teaching = task.training.teaching

    def make(space: SearchSpace, seed: int) -> Teacher:
        if teaching.teacher == "top-two":
            return TopTwo(space, seed=seed, n_initial=teaching.n_initial)
        priors = None
        if teaching.hyperpriors is not None:
            signal, *lengthscales, noise = (GammaPrior(mean, variance) for mean, variance in teaching.hyperpriors)
            names = [parameter.name for parameter in space.parameters]
            priors = Hyperpriors(signal=signal, lengthscales=dict(zip(names, lengthscales, strict=True)), noise=noise)
        return GPUCB(
            space,
            seed=seed,
            n_initial=teaching.n_initial,
            initial=[dict(point) for point in teaching.initial[: teaching.n_initial]],
            priors=priors,
        )

    return make


def usual_score(task: Task) -> Callable[[Transcript], float]:
    """What a teacher wants of a student: the paper's the return alone, ours also that it does not fail."""
    return default_score if task.training.teaching.teacher == "gp-ucb" else charged_score(task.max_reward)


def random_teacher(space: SearchSpace, seed: int) -> Teacher:
    """Random search: the plain baseline."""
    return RandomSearch(space, seed=seed)


def search_space(task: Task, observed: Sequence[Observation] = ()) -> SearchSpace:
    """Where teachers of a task search: the 3K + 1 parameters of switching curricula over its interventions.

    A range that the task does not give covers what was observed of the first students, unit by unit, and the
    observation (0, 0) that stands before the first unit.
    """
    if not task.interventions:
        raise ConfigError(f"Task '{task.name}' has no interventions to choose from: give it at least one.")
    teaching = task.training.teaching
    return Switching.space(
        task.choices,
        teaching.n_switches,
        teaching.return_range or _covering([seen.mean_return for seen in observed]),
        teaching.violation_range or _covering([seen.violation for seen in observed]),
    )


def _covering(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    return (low, high) if low < high else (0.0, 1.0)


def policy_at(task: Task, parameters: Parameters) -> CurriculumPolicy:
    """The curriculum policy at a point of a task's search space."""
    with making_sense_of(f"The study's point {shown(parameters)}"):  # a store may say anything
        switching = Switching.from_parameters(parameters)
    patience = task.training.teaching.patience
    if patience is None:
        return switching
    return Patient(interventions=switching.interventions, thresholds=switching.thresholds, patience=patience)


class Study:
    """Trains a teacher on a task.

    `observe` and `score` say what the teacher sees of a unit and what it wants of a student (see `usual_score`).
    Everything is kept in `store`; running a study again on the same store goes on where it stopped, and students that
    an error ended are tried again. `batch` bounds how many students are trained together, where memory is short; the
    store keeps it for good. `step_timeout` is how many seconds a step or reset of an environment may take before its
    student counts as broken. `fresh` sets what the store holds of this study aside first.
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
        at_once: int | None = None,
        teacher: MakeTeacher | None = None,
        observe: Callable[[UnitLog], Any] = default_observe,
        score: Callable[[Transcript], float] | None = None,
        backend: str = "auto",
        evaluate_safely: bool = False,
        n_workers: int | None = None,
        step_timeout: float = STEP_TIMEOUT,
        batch: int | None = None,
        fresh: bool = False,
    ) -> None:
        check_task_given(task)
        changes: dict[str, Any] = {
            "n_initial": n_initial,
            "n_rounds": n_rounds,
            "class_size": class_size,
            "at_once": at_once,
        }
        for what, function in (("teacher", teacher), ("observe", observe), ("score", score)):
            if function is not None:
                check_function(f"The {what} of a study", function, "or None")
        self.task = task.with_teaching(**{k: v for k, v in changes.items() if v is not None})
        self._teaching = self.task.training.teaching
        self.name = name
        self.seed = check_seed(seed)
        check_in_all(self._teaching.class_size, self.n_policies, "policies")
        self.score = score or usual_score(self.task)
        self._store = store
        self.setup = make_setup(self.task, backend=backend, evaluate_safely=evaluate_safely, observe=observe)
        self._make_teacher = teacher or default_teacher(self.task)
        self._n_workers = n_workers
        self._step_timeout = step_timeout
        self.batch = batch
        self._fresh = fresh

    def begin(self, store: Store) -> Batching:
        """Make sure that the store's results are of this very study; returns how its students are cut into batches."""
        rehearse_setup(self.setup, self._n_workers, self._step_timeout)
        if self._fresh:
            set_aside(store, self.name, self.setup)
            self._fresh = False
        tried = sum(past.told for past in store.rounds(self.name))
        if tried > self.n_policies:
            raise StoreError(
                f"{store} has tried {tried} policies in '{self.name}', this run has {self.n_policies}: give at least "
                f"{tried - self._teaching.n_initial} rounds, another store, or set the old results aside with "
                f"--fresh."
            )
        ranges = {"return": self._teaching.return_range, "violation": self._teaching.violation_range}
        found = [what for what, given in ranges.items() if given is None]
        run = {
            **deployed(self.setup, self.seed),
            "class size": self._teaching.class_size,
            "initial policies": self._teaching.n_initial,
            "teacher": describe_teacher(self._new_teacher()),
            **({"ranges found": found} if found else {}),
            **({} if self._teaching.at_once == 1 else {"policies at once": self._teaching.at_once}),
            **({} if self._teaching.patience is None else {"patience": self._teaching.patience}),
            "observe": fingerprint(self.setup.observe).content,
            "score": fingerprint(self.score).content,
        }
        return begin(store, self.name, self.setup, run, self.batch)

    def _new_teacher(self, first: Sequence[Transcript] = ()) -> Teacher:
        observed = [self.setup.observe(unit) for student in first for unit in student.units]
        return self._make_teacher(search_space(self.task, observed), derive_seed(self.seed, self.name))

    @property
    def _probes(self) -> list[Parameters]:
        """The first policies where the ranges of thresholds are to be found: each intervention alone."""
        if self._teaching.return_range and self._teaching.violation_range:
            return []
        blank = search_space(self.task)
        thresholds = {real.name: min(max(0.0, real.low), real.high) for real in blank.reals}
        return [{**thresholds, **dict.fromkeys([c.name for c in blank.choices], name)} for name in self.task.choices]

    @property
    def n_policies(self) -> int:
        return self._teaching.n_initial + self._teaching.n_rounds

    @property
    def n_students(self) -> int:
        return self.n_policies * self._teaching.class_size

    def run(self, listener: Listener = ignore, on_round: OnRound = lambda number, result: None) -> StudyResult:
        """Go on until all rounds are done. Listeners hear what happens in the classroom, and each round's result."""
        with opened(self._store) as store:
            (result,) = run_together([self], store, self._n_workers, self._step_timeout, listener, on_round)
        return result

    def setups(
        self, store: Store, on_round: OnRound
    ) -> Generator[list[StudentSpec], dict[str, Transcript], StudyResult]:
        """Algorithm 1 as a coroutine: yields the students of the next rounds, is sent their transcripts by name."""
        yield from self._try_again(store, sum(past.told for past in store.rounds(self.name)))
        probes = self._probes[: self.n_policies]
        yield from self._taught(store, self._untold(store, 0, self._recorded(store, 0, probes)))
        teacher = self._new_teacher(self._students(store, range(len(probes))))
        self._tell(teacher, store, range(len(probes)), on_round)
        while (told := len(teacher.trials)) < self.n_policies:
            proposed = self._propose(teacher, store, told)
            yield from self._taught(store, self._untold(store, told, proposed))
            self._tell(teacher, store, range(told, told + len(proposed)), on_round)
        best, belief = teacher.best(), teacher.belief()
        policy = policy_at(self.task, best)
        found = {"best": best, "model": teacher.describe(), "policy": policy.to_json()}
        store.keep_findings(self.name, found | ({} if belief is None else {"belief": asdict(belief)}))
        return StudyResult(
            policy=policy,
            rounds=tuple(store.rounds(self.name)),
            transcripts=tuple(store.transcripts(f"{self.name}/")),
            belief=belief,
        )

    def _taught(
        self, store: Store, policies: Mapping[int, Parameters]
    ) -> Generator[list[StudentSpec], dict[str, Transcript], None]:
        """Have classes of these policies taught and scored."""
        classes = {number: self._class(number, parameters) for number, parameters in policies.items()}
        if classes:
            taught = yield [student for students in classes.values() for student in students]
            self._score(store, classes, taught)

    def _untold(self, store: Store, first: int, policies: Sequence[Parameters]) -> dict[int, Parameters]:
        """Those of the policies from number `first` on that have no score yet."""
        past = store.rounds(self.name)
        return {number: point for number, point in enumerate(policies, first) if not past[number].told}

    def _tell(self, teacher: Teacher, store: Store, numbers: range, on_round: OnRound) -> None:
        rounds = store.rounds(self.name)
        for number in numbers:
            past = rounds[number]
            finished = [t for t in self._students(store, [number]) if t.deployment is not None]
            each = [self.score(t) for t in finished] if len(finished) == self._teaching.class_size else []
            teacher.tell(past.parameters, past.score, past.sem, each)
            on_round(number, past)
        self._check_progress(store, teacher)

    def _students(self, store: Store, numbers: Iterable[int]) -> list[Transcript]:
        """The transcripts of some classes."""
        return [t for number in numbers for t in store.transcripts(f"{self.name}/{number:03d}/")]

    def _try_again(self, store: Store, told: int) -> Generator[list[StudentSpec], dict[str, Transcript], None]:
        """Teach students of earlier rounds again that an error ended or whose weights were lost, and score their
        classes anew."""
        broken = {t.name.rpartition("/")[0] for t in store.transcripts(f"{self.name}/") if t.deployment is None}
        past = enumerate(store.rounds(self.name)[:told])
        yield from self._taught(store, {k: r.parameters for k, r in past if f"{self.name}/{k:03d}" in broken})

    def _score(self, store: Store, classes: Mapping[int, list[StudentSpec]], taught: Mapping[str, Transcript]) -> None:
        """Sum up classes and tell the store. An unfinished student counts as the worst finished one of the study."""
        finished = [t for t in store.transcripts(f"{self.name}/") if t.deployment is not None]
        worst = min((self.score(t) for t in finished), default=None)
        for number, students in classes.items():
            store.tell(self.name, number, *summarise([taught[s.name] for s in students], self.score, worst))

    def _check_progress(self, store: Store, teacher: Teacher) -> None:
        """There is nothing to learn from where not one student has finished."""
        if teacher.trials and all(trial.score is None for trial in teacher.trials):
            raise NobodyFinished(nobody_finished(store.transcripts(f"{self.name}/")))

    def _propose(self, teacher: Teacher, store: Store, first: int) -> list[Parameters]:
        """The policies that are tried together from number `first` on: those on record, or what is proposed now.

        What is proposed does not depend on how many rounds the study has: it may grow.
        """
        initial = self._teaching.n_initial - first
        n = initial if initial > 0 else self._teaching.at_once
        wanted = min(n, self.n_policies - first)
        on_record = store.rounds(self.name)[first : first + wanted]
        if len(on_record) == wanted:
            return [past.parameters for past in on_record]
        model = teacher.hyperparameters() if initial <= 0 else {}
        return self._recorded(store, first, teacher.ask(n)[:wanted], model)

    def _recorded(
        self, store: Store, first: int, policies: Sequence[Parameters], model: Mapping[str, Any] | None = None
    ) -> list[Parameters]:
        """These policies, now on record as proposed from number `first` on, where they were not before."""
        known = len(store.rounds(self.name))
        for number in range(max(first, known), first + len(policies)):
            store.propose(self.name, number, policies[number - first], dict(model or {}))
        return [past.parameters for past in store.rounds(self.name)[first : first + len(policies)]]

    def _class(self, number: int, parameters: Parameters) -> list[StudentSpec]:
        policy = policy_at(self.task, parameters)
        names = [f"{self.name}/{number:03d}/{k:02d}" for k in range(self._teaching.class_size)]
        return [new_student(self.task, policy, self.seed, name) for name in names]


@interrupts_told_apart()
def run_together(
    studies: Sequence[Study],
    store: Store,
    n_workers: int | None = None,
    step_timeout: float = STEP_TIMEOUT,
    listener: Listener = ignore,
    on_round: OnRound = lambda number, result: None,
) -> list[StudyResult]:
    """Run independent studies of one task side by side: the students of their rounds share a classroom."""
    setup = studies[0].setup
    for study in studies:
        batching = study.begin(store)
    results: dict[str, StudyResult] = {}
    running = {study.name: study.setups(store, on_round) for study in studies}
    with Classroom(
        setup, store, batching=batching, n_workers=n_workers, step_timeout=step_timeout, listener=listener
    ) as classroom:
        taught: dict[str, Transcript] | None = None
        while running:
            wanted: list[StudentSpec] = []
            for name, setups in list(running.items()):
                try:
                    wanted += next(setups) if taught is None else setups.send(taught)
                except StopIteration as end:
                    results[name] = end.value
                    del running[name]
            taught = {transcript.name: transcript for transcript in classroom.teach(wanted)}
    return [results[study.name] for study in studies]


def summarise(
    transcripts: Sequence[Transcript], score: Callable[[Transcript], float], worst: float | None = None
) -> tuple[float | None, float | None]:
    """Mean score of a class and its standard error; (None, None) if nobody finished, no error for a single student.

    Who did not finish counts as `worst`: a policy under which students break must not be judged by the survivors.
    """
    scores = [score(transcript) for transcript in transcripts if transcript.error is None]
    if not scores:
        return None, None
    scores += [min(scores) if worst is None else worst] * (len(transcripts) - len(scores))
    return float(np.mean(scores)), standard_error(scores)
