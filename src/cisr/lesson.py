"""What a study and a comparison set up alike: the lesson, and the settings that a store must agree with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cisr.checks import MOST_STUDENTS, check_kind, check_text, check_whole
from cisr.classroom import Batching, Enrolment, Lesson, Transcript, UnitLog, default_observe
from cisr.classroom.apart import rehearse
from cisr.classroom.classroom import check_workers
from cisr.classroom.watch import check_step_timeout
from cisr.curricula import CurriculumPolicy
from cisr.errors import ConfigError, NobodyFinished, StoreError
from cisr.identity import ENVIRONMENT, identity, versions
from cisr.seeding import derive_seed, generator
from cisr.store import Store
from cisr.students.config import Population, StudentConfig, students_of
from cisr.task import Task

if TYPE_CHECKING:
    from cisr.students.student import Student


log = logging.getLogger(__name__)


def check_task_given(task: Any) -> None:
    check_kind("The task", task, Task, 'a cisr.Task, such as get_task("frozen-lake")')


def make_lesson(
    task: Task,
    *,
    lane: str = "auto",
    evaluate_in: str = "M",
    deploy_each_unit: bool = False,
    observe: Callable[[UnitLog], Any] = default_observe,
) -> Lesson:
    """The lesson for a task; `evaluate_in` says where final policies are deployed."""
    if evaluate_in not in ("M", "M0"):
        raise ConfigError(
            f"Policies are to be evaluated in '{evaluate_in}': give M (the task) or M0 (safe evaluation)."
        )
    if evaluate_in == "M0" and task.safe_evaluation is None:
        raise ConfigError(f"Task '{task.name}' names no safe evaluation: set safe_evaluation, or evaluate in M.")
    under = task.safe_evaluation if evaluate_in == "M0" and task.safe_evaluation is not None else "none"
    return Lesson(
        task=task,
        lane=choose_lane(task, lane),
        evaluate_under=under,
        deploy_each_unit=deploy_each_unit,
        observe=observe,
    )


def rehearse_lesson(lesson: Lesson, n_workers: int | None, step_timeout: float) -> None:
    """Before a store asks who an environment is: to be made in vain must not end or block this process."""
    check_workers(n_workers)
    check_step_timeout(step_timeout)
    if lesson.lane == "gymnasium":
        rehearse(lesson.task, n_workers, step_timeout)


def choose_lane(task: Task, lane: str) -> Literal["gymnasium", "compiled"]:
    """`auto` is the compiled lane where the task has a compiled twin."""
    if lane not in ("auto", "gymnasium", "compiled"):
        raise ConfigError(f"The lane is '{lane}': give auto, gymnasium or compiled.")
    if lane == "compiled" and task.twin is None:
        raise ConfigError(f"Task '{task.name}' has no compiled twin: use the gymnasium lane.")
    return "gymnasium" if lane == "gymnasium" or task.twin is None else "compiled"


def settle(store: Store, name: str, lesson: Lesson, run: Mapping[str, Any], batch: int | None = None) -> Batching:
    """Make sure that the store is one of this lesson; returns how its students are cut into batches.

    `name` is that of the study or comparison, and `run` are its own settings, which must agree ever after too. `batch`
    says how many students a batch of a new store may have, if not as many as suit this machine.
    """
    if batch is not None:
        batch = check_whole("The largest batch of students", batch, 1, MOST_STUDENTS)
    if not check_text("The name of a study or comparison", name) or "/" in name:
        raise ConfigError(f"A study or comparison is named {name!r}: give it a name without a slash.")
    settings, unknown = identity(lesson)
    kept = store.settings()
    if store.has_results() and "code" not in kept:
        raise StoreError(
            f"{store} was made before stores knew the code of their task: its results can be read, but not added to; "
            f"give another store, or set its old results aside with --fresh."
        )
    if not store.agrees(settings := _with_environment(store, settings)):
        store.settle(settings)
        if "code" in kept:
            store.drop_audit()  # it was about another task
        if unknown and lesson.task.version is None:
            log.warning(
                "%s: changes cannot be told of %s: give the task a `version`, and another one when they change.",
                lesson.task.name,
                "; ".join(unknown),
            )
    store.settle_run(name, run)
    largest = kept.get("batching", {}).get("largest", batch)
    if batch not in (None, largest):
        raise StoreError(
            f"{store} was made with batches of at most {largest} students, this run has {batch}: "
            f"give another store, or the same batch."
        )
    if "batching" not in kept:
        usual = Batching.for_this_machine(lesson.lane)
        batching = usual if batch is None else usual._replace(largest=batch)
        store.record({"batching": batching._asdict(), "made with": versions()})
    pictures = {"floor plan": lesson.task.floor_plan, "scenery": lesson.task.scenery}
    store.record({what: drawn for what, drawn in pictures.items() if drawn is not None})
    return Batching(**store.settings()["batching"])


def _with_environment(store: Store, settings: dict[str, Any]) -> dict[str, Any]:
    """Where no environment could be made, now or when the store was, that is for its students to say: what is known of
    it at one time stands for both."""
    kept = store.settings()
    code, known = settings["code"], kept.get("code", {})
    if (ENVIRONMENT in code) == (ENVIRONMENT in known) or not known or settings["lane"] == "compiled":
        return settings
    if ENVIRONMENT in known:
        return {**settings, "packages": kept["packages"], "code": {**code, ENVIRONMENT: known[ENVIRONMENT]}}
    without = {**settings, "packages": kept["packages"], "code": {k: v for k, v in code.items() if k != ENVIRONMENT}}
    if store.agrees(without):
        store.record({"packages": settings["packages"], "code": code})
    return settings


def set_aside(store: Store, name: str, lesson: Lesson) -> None:
    """Begin a study or comparison afresh: what a store holds of it, or of another task, goes to a store of its own."""
    settings, _ = identity(lesson)
    announce_aside(store.set_aside(store.runs_beside(name) if store.agrees(settings) else store.runs()))


def announce_aside(aside: Path | None) -> None:
    if aside is not None:
        log.warning("The old results are set aside in %s.", aside)


def deployed(lesson: Lesson, seed: int) -> dict[str, Any]:
    """What defines any run: its seed, and where its students are deployed."""
    return {"seed": seed, "deployed under": lesson.evaluate_under, "deployed each unit": lesson.deploy_each_unit}


def nobody_finished(transcripts: Sequence[Transcript]) -> str:
    """Why there is no result, in the words of the first error."""
    first = next((t.error for t in transcripts if t.error is not None), "no student was trained")
    return (
        f"None of {len(transcripts)} students finished. The first error: {first.rstrip('.')}. Mend it and run the same "
        f"again: students that broke down are tried again."
    )


def check_finished(transcripts: Sequence[Transcript]) -> None:
    """Where nobody finished there is no result; where some did not, say how many and why."""
    if all(t.deployment is None for t in transcripts):
        raise NobodyFinished(nobody_finished(transcripts))
    errors = [t.error for t in transcripts if t.error is not None]
    if errors:
        log.warning(
            "%d of %d students did not finish, and are tried again when the same is run again. The first error: %s",
            len(errors),
            len(transcripts),
            errors[0],
        )


def student_config(task: Task, seed: int, name: str) -> StudentConfig:
    """The settings of one student: the task's, or drawn from its population."""
    students = students_of(task)
    return students.draw(generator(seed, name, "population")) if isinstance(students, Population) else students


def new_student(task: Task, policy: CurriculumPolicy, seed: int, name: str) -> Enrolment:
    """A student of a task; who it is follows from the root seed and its name."""
    return Enrolment(name=name, policy=policy, config=student_config(task, seed, name), seed=derive_seed(seed, name))


def load_student(store: Store, task: Task, name: str) -> Student:
    """A student of a store, ready to act: `load_student(store, task, "compare/SR1/000")`."""
    return stored_student(store, name).ready(task)


class StoredStudent(NamedTuple):
    """What a store has of a student, which can go to another process."""

    config: StudentConfig
    params: dict[str, Any]

    def ready(self, task: Task) -> Student:
        """To act; what it sees and does is asked of the task's environment."""
        from cisr.classroom.gymnasium import specs_of
        from cisr.students.student import Student

        observation, distribution = specs_of(task)
        return Student(self.config, observation, distribution.n_actions, self.params)


def stored_student(store: Store, name: str) -> StoredStudent:
    prefix = "params/"
    weights = store.weights(name)
    params = {key.removeprefix(prefix): array for key, array in weights.items() if key.startswith(prefix)}
    return StoredStudent(store.transcript(name).config, params)
