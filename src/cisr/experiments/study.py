"""Study: a teacher's training run (Algorithm 1 of the paper), durable and resumable.

In each trial the teacher proposes a curriculum policy, a class of new students learns under it, and their scores are
told to the teacher. A policy whose students all failed is told as such, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cisr.core.callback import Callback, ProgressEvent, check_callback, ignore
from cisr.core.checks import check_function, check_in_all, check_kind, check_text
from cisr.core.errors import CisrError, ConfigError, NobodyFinished, described
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task, check_task_given
from cisr.core.training import Teaching
from cisr.curricula import CurriculumPolicy, Parameters
from cisr.experiments import guidance
from cisr.experiments.handing_out import HandsOutTrials
from cisr.experiments.safe_evaluation import settle
from cisr.experiments.search import MakeTeacher, default_teacher, policy_at, search_space, usual_score
from cisr.experiments.trials import Score, Trials, scored
from cisr.experiments.withdrawal import Withdrawn, withdrawn
from cisr.store import Store, StoredTrial, opened
from cisr.store.fingerprint import fingerprint
from cisr.store.provenance import describe, describe_teacher
from cisr.store.runs import begin, deployed, plan_students
from cisr.students.config import Population
from cisr.students.kinds import AnyStudent, with_students
from cisr.system.interrupts import interrupts_told_apart, users_errors
from cisr.teachers import Belief, Teacher
from cisr.training import Batching, Classroom, Execution, StudentSpec, Transcript, UnitLog, default_observe
from cisr.training.finished import nobody_finished
from cisr.training.lessons import observed_by
from cisr.training.new_students import new_student
from cisr.training.setup import make_setup, rehearse_setup


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """What a finished study has found."""

    best_policy: CurriculumPolicy
    trials: tuple[StoredTrial, ...]
    """The curriculum policies that were tried, with their scores."""
    transcripts: tuple[Transcript, ...]
    belief: Belief | None = None
    """What the teacher believes of the best policy; None for a teacher that does not know how sure it is."""
    guidance: tuple[str, ...] = ()
    """What the task's author should know, see `cisr.experiments.guidance`."""
    withdrawn: tuple[Withdrawn, ...] = ()
    """Certificates of the store's audit that its students have contradicted."""

    @property
    def training_failures(self) -> int:
        """Those that are known of; see `unknown_failures`."""
        return sum(transcript.training_failures or 0 for transcript in self.transcripts)

    @property
    def unknown_failures(self) -> int:
        """Students of whom nobody knows how often they failed: a process died while it trained them."""
        return sum(transcript.training_failures is None for transcript in self.transcripts)

    @property
    def safe_evaluation_failures(self) -> int:
        """In M_0, where last policies were tried before one was handed in: none of them are in training."""
        return sum(transcript.safe_evaluation_failures or 0 for transcript in self.transcripts)

    @property
    def unfinished(self) -> tuple[Transcript, ...]:
        """Students that an error ended; running the study again tries them again."""
        return tuple(transcript for transcript in self.transcripts if transcript.error is not None)


@dataclass(frozen=True)
class TrialProgress(ProgressEvent):
    """The teacher has been told how a policy did, now or when the study was interrupted."""

    study: str
    number: int
    """0, 1, …"""
    trial: StoredTrial


class Study(HandsOutTrials):
    """Trains a teacher on a task: `run` with students that are trained here, `ask` and `tell` with students elsewhere.

    `student` and `teaching` stand in for the task's own. `observe` and `score` say what the teacher sees of a unit and
    what it wants of a student (see `usual_score`); `evaluate_safely` deploys final policies in M_0 instead of the task
    itself. Everything is kept in `store`; running a study again on the same store goes on where it stopped, and
    students that an error ended are tried again. `fresh` sets what the store holds of this study aside first.
    """

    def __init__(
        self,
        task: Task,
        *,
        student: AnyStudent | Population | None = None,
        teacher: MakeTeacher | None = None,
        teaching: Teaching | None = None,
        seed: int = 0,
        store: Store | Path | str | None = None,
        name: str = "study",
        fresh: bool = False,
        observe: Callable[[UnitLog], Any] = default_observe,
        score: Score | None = None,
        evaluate_safely: bool = False,
        execution: Execution = Execution(),
    ) -> None:
        check_task_given(task)
        if student is not None:
            task = with_students(task, student)
        if teaching is not None:
            check_kind("The teaching of a study", teaching, Teaching, "a cisr.Teaching, or None")
            task = task.with_training(teaching=teaching)
        for what, function in (("teacher", teacher), ("observe", observe), ("score", score)):
            if function is not None:
                check_function(f"The {what} of a study", function, "or None")
        check_kind("The execution", execution, Execution, "a cisr.Execution")
        self.task = task
        self._teaching = task.training.teaching
        self.name = check_text("The name of a study", name)
        self.seed = check_seed(seed)
        self.n_policies = self._teaching.n_initial + self._teaching.n_rounds
        check_in_all(self._teaching.class_size, self.n_policies, "policies")
        self.score = score or usual_score(task)
        self._asked_for = make_setup(task, backend=execution.backend, evaluate_safely=evaluate_safely, observe=observe)
        self.setup = self._asked_for
        self.said: tuple[str, ...] = ()
        self._make_teacher = teacher or default_teacher(task)
        self._store = store
        self._execution = execution
        self._fresh = fresh

    @property
    def _observe(self) -> Callable[[UnitLog], Any]:
        return self.setup.observe

    @property
    def n_students(self) -> int:
        return self.n_policies * self._teaching.class_size

    def run(self, callback: Callback = ignore) -> StudyResult:
        """Go on until all policies are tried. The callback hears what happens in the classroom, and of each trial."""
        check_callback(callback)
        with opened(self._store) as store:
            (result,) = run_together([self], store, self._execution, callback)
        guidance.warn((*result.guidance, *map(str, result.withdrawn)))
        return result

    def begin(self, store: Store, *, audited: bool = False, callback: Callback = ignore) -> Batching:
        """Make sure that the store's results are of this very study; returns how its students are cut into batches.

        `audited` makes a quick audit of the task where the store holds none; the callback hears of it.
        """
        rehearse_setup(self.setup, self._execution)
        self._set_aside(store, self._asked_for)
        settled = settle(self._asked_for, store, self._execution, audited=audited, callback=callback)
        self.setup, self.said = settled.setup, settled.said
        told = sum(trial.told for trial in store.trials(self.name))
        self._check_budget(store, told, "another store, or set the old results aside with --fresh")
        run = self._definition(deployed(self.setup, self.seed)) | {"score": fingerprint(self.score).content}
        batching = begin(store, self.name, self.setup, run, self._execution)
        settled.keep_audit(store)
        plan_students(store, self.name, self.n_students)
        return batching

    def _definition(self, seed_and_deployment: dict[str, Any]) -> dict[str, Any]:
        """What defines the search, wherever its students are."""
        teaching = self._teaching
        ranges = {"return": teaching.return_range, "violation": teaching.violation_range}
        found = [what for what, given in ranges.items() if given is None]
        return {
            **seed_and_deployment,
            "class size": teaching.class_size,
            "initial policies": teaching.n_initial,
            "teacher": describe_teacher(self._new_teacher()),
            **({"ranges found": found} if found else {}),
            **({} if teaching.at_once == 1 else {"policies at once": teaching.at_once}),
            **({} if teaching.patience is None else {"patience": teaching.patience}),
            "observe": fingerprint(self.setup.observe).content,
        }

    def algorithm_1(
        self, store: Store, callback: Callback
    ) -> Generator[list[StudentSpec], dict[str, Transcript], StudyResult]:
        """Algorithm 1 as a coroutine: yields the students of the next trials, is sent their transcripts by name."""
        trials = Trials(store, self.name, self.score)
        yield from self._taught(trials, trials.broken())
        probes = self._probes[: self.n_policies]
        yield from self._taught(trials, trials.untold(0, trials.recorded(0, probes)))
        teacher = self._new_teacher(trials.students(range(len(probes))))
        self._tell(teacher, trials, range(len(probes)), callback)
        while (told := len(teacher.trials)) < self.n_policies:
            proposed = self._propose(teacher, trials, told)
            yield from self._taught(trials, trials.untold(told, proposed))
            self._tell(teacher, trials, range(told, told + len(proposed)), callback)
        return self._conclude(store, trials, teacher)

    def _conclude(self, store: Store, trials: Trials, teacher: Teacher) -> StudyResult:
        """Keep what was found and say it."""
        best, belief = teacher.best(), teacher.belief()
        policy = policy_at(self.task, best)
        found = {"best": best, "model": teacher.describe(), "policy": policy.to_json()}
        store.keep_findings(self.name, found | ({} if belief is None else {"belief": asdict(belief)}))
        students = tuple(trials.transcripts())
        return StudyResult(
            best_policy=policy,
            trials=tuple(trials.all()),
            transcripts=students,
            belief=belief,
            guidance=guidance.of_study(students, describe(self.task)),
            withdrawn=withdrawn(store.audit(), store.transcripts()),
        )

    def _new_teacher(self, first: Sequence[Transcript] = ()) -> Teacher:
        observed = [observed_by(self.setup.observe, unit) for student in first for unit in student.units]
        space = search_space(self.task, observed)
        try:
            made = self._make_teacher(space, derive_seed(self.seed, self.name))
        except (CisrError, MemoryError):
            raise
        except users_errors() as error:
            raise ConfigError(f"The teacher of study '{self.name}' raised {described(error)}.") from error
        check_kind("What the teacher of a study makes", made, Teacher, "a cisr.Teacher")
        return made

    @property
    def _probes(self) -> list[Parameters]:
        """The first policies where the ranges of thresholds are to be found: each intervention alone."""
        if self._teaching.return_range and self._teaching.violation_range:
            return []
        blank = search_space(self.task)
        thresholds = {real.name: min(max(0.0, real.low), real.high) for real in blank.reals}
        return [{**thresholds, **dict.fromkeys([c.name for c in blank.choices], name)} for name in self.task.choices]

    def _propose(self, teacher: Teacher, trials: Trials, first: int) -> list[Parameters]:
        """The policies that are tried together from number `first` on: those on record, or what is proposed now.

        What is proposed does not depend on how many policies the study tries in all: it may grow.
        """
        initial = self._teaching.n_initial - first
        n = initial if initial > 0 else self._teaching.at_once
        wanted = min(n, self.n_policies - first)
        on_record = trials.all()[first : first + wanted]
        if len(on_record) == wanted:
            return [trial.parameters for trial in on_record]
        model = teacher.hyperparameters() if initial <= 0 else {}
        return trials.recorded(first, teacher.ask(n)[:wanted], model)

    def _taught(
        self, trials: Trials, policies: Mapping[int, Parameters]
    ) -> Generator[list[StudentSpec], dict[str, Transcript], None]:
        """Have classes of these policies taught and scored."""
        classes = {number: self._class(number, parameters) for number, parameters in policies.items()}
        if classes:
            taught = yield [student for students in classes.values() for student in students]
            trials.keep_scores(classes, taught)

    def _class(self, number: int, parameters: Parameters) -> list[StudentSpec]:
        policy = policy_at(self.task, parameters)
        names = [f"{self.name}/{number:03d}/{k:02d}" for k in range(self._teaching.class_size)]
        return [new_student(self.task, policy, self.seed, name) for name in names]

    def _tell(self, teacher: Teacher, trials: Trials, numbers: range, callback: Callback) -> None:
        known = trials.all()
        for number in numbers:
            trial = known[number]
            finished = [student for student in trials.students([number]) if student.deployment is not None]
            whole = len(finished) == self._teaching.class_size
            each = [scored(self.score, student) for student in finished] if whole else []
            teacher.tell(trial.parameters, trial.score, trial.sem, each)
            callback(TrialProgress(self.name, number, trial))
        if teacher.trials and all(trial.score is None for trial in teacher.trials):  # nothing to learn from
            raise NobodyFinished(nobody_finished(trials.transcripts()))


@interrupts_told_apart()
def run_together(
    studies: Sequence[Study],
    store: Store,
    execution: Execution = Execution(),
    callback: Callback = ignore,
) -> list[StudyResult]:
    """Run independent studies of one task side by side: the students of their trials share a classroom."""
    for study in studies:
        batching = study.begin(store)
    setup = studies[0].setup
    guidance.warn([*dict.fromkeys(said for study in studies for said in study.said)])
    results: dict[str, StudyResult] = {}
    running = {study.name: study.algorithm_1(store, callback) for study in studies}
    with Classroom(setup, store, batching=batching, callback=callback, **execution.classroom) as classroom:
        taught: dict[str, Transcript] | None = None
        while running:
            wanted: list[StudentSpec] = []
            for name, algorithm in list(running.items()):
                try:
                    wanted += next(algorithm) if taught is None else algorithm.send(taught)
                except StopIteration as end:
                    results[name] = end.value
                    del running[name]
            taught = {transcript.name: transcript for transcript in classroom.teach(wanted)}
    return [results[study.name] for study in studies]
