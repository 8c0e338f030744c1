"""Deploying the students of a store once more: on another backend, in new episodes, on another machine.

A student that has finished is a checkpoint after its last unit, and what follows such a checkpoint is its deployment.
So the classroom graduates it anew, and nothing here knows how students act. The store is read and never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cisr.core.callback import Callback, ignore
from cisr.core.checks import check_whole
from cisr.core.errors import StoreError
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task
from cisr.experiments.comparison import class_means
from cisr.experiments.statistics import Estimate, estimate
from cisr.store import Store, owner_of
from cisr.store.changes import differences
from cisr.store.provenance import identity
from cisr.store.runs import M0
from cisr.students.elsewhere import Elsewhere
from cisr.students.kinds import with_students
from cisr.training import (
    Abandonment,
    Batch,
    Breakdown,
    Checkpoint,
    Classroom,
    Deployment,
    Execution,
    Graduation,
    StudentSpec,
    TrainingSetup,
    Transcript,
)
from cisr.training.finished import check_finished
from cisr.training.setup import make_setup, rehearse_setup

MOST_EPISODES = 10_000
"""Of each student: all of them are played side by side."""
REPRODUCTION = "reproduction"
"""What the repetitions of one are called together."""
Value = Callable[[Deployment], float | None]
MEASURES: Mapping[str, tuple[Value, tuple[float, float] | None]] = {
    "success": (lambda deployment: deployment.success, (0.0, 1.0)),
    "return": (lambda deployment: deployment.score, None),
    "failures": (lambda deployment: deployment.failures_per_episode, (0.0, 1.0)),
}
"""What is compared of two deployments, and within which numbers it lies."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measure of the same students, deployed twice."""

    now: Estimate
    before: Estimate
    """When their training ended."""
    change: Estimate
    """Of each student, from then to now."""


@dataclass(frozen=True, kw_only=True)
class DeployedRow:
    """The students of one curriculum of a comparison, or of all that a study tried."""

    run: str
    curriculum: str | None
    """None for a study."""
    under: str
    """The intervention in force; `none` for the task itself."""
    students: int
    """That had finished; estimates are over those of them that were deployed again."""
    deployed: int
    episodes: int
    """Of all of them."""
    measures: Mapping[str, Measured]
    outcomes: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Redeployment:
    task: str
    backend: str
    trained_on: str
    seed: int
    rows: tuple[DeployedRow, ...]

    def to_json(self) -> dict[str, Any]:
        rows = []
        for row in self.rows:
            told = {name: getattr(row, name) for name in ("run", "curriculum", "under", "students", "deployed")}
            measures = {
                name: {what: getattr(measured, what).to_json() for what in ("now", "before", "change")}
                for name, measured in row.measures.items()
            }
            rows.append({**told, "episodes": row.episodes, **measures, "outcomes": dict(row.outcomes)})
        return {**asdict(replace(self, rows=())), "rows": rows}


def deploy(
    store: Store,
    task: Task,
    *,
    backend: str = "gymnasium",
    students: str = "",
    episodes: int | None = None,
    seed: int = 0,
    execution: Execution = Execution(),
    callback: Callback = ignore,
) -> Redeployment:
    """Deploy the finished students of a store again, in M or M_0 as their run did, in episodes that follow from `seed`.

    `students` is how their names begin, and `episodes` how many each plays: by default those that begin within the
    task's `deployment_steps`.
    """
    seed = check_seed(seed)
    if episodes is not None:
        episodes = check_whole("The number of episodes", episodes, 1, MOST_EPISODES)
    before = finished(store, students)
    setup = replace(
        make_setup(with_students(task, next(iter(before.values())).config), backend=backend), episodes=episodes
    )
    rehearse_setup(setup, execution)
    _check_task(store, setup)
    runs, again = store.runs(), dict[str, Transcript]()
    under = {name: str(runs[owner_of(name)].get("deployed under", "none")) for name in before}
    places = {name: (where, runs[owner_of(name)].get(M0)) for name, where in under.items()}
    for where, m0 in dict.fromkeys(places.values()):
        register = _Again(store, {name: t for name, t in before.items() if places[name] == (where, m0)}, task)
        there = replace(setup, evaluate_under=where, safe_evaluation=m0)
        how = {"batching": execution.batching(setup.backend), "callback": callback, **execution.classroom}
        with Classroom(there, register, **how) as classroom:
            again |= {t.name: t for t in classroom.teach(register.specs(seed))}
    check_finished(list(again.values()))
    return Redeployment(
        task=task.name,
        backend=setup.backend,
        trained_on=str(store.settings().get("backend", "unknown")),
        seed=seed,
        rows=tuple(
            _row(group, names, under[names[0]], before, again) for group, names in _groups(store, before).items()
        ),
    )


def finished(store: Store, students: str = "") -> dict[str, Transcript]:
    """Those with weights to be deployed, by name."""
    found = store.transcripts(students)
    done = [t for t in found if t.deployment is not None]
    here = {t.name: t for t in done if not isinstance(t.config, Elsewhere)}
    if here:
        return here
    which = f" whose name begins with '{students}'" if students else ""
    if done:
        raise StoreError(f"{store} has no weights that could be deployed: all of its students{which} are elsewhere.")
    known = "" if found or not students else f": they are named like {_example(store)}"
    raise StoreError(f"{store} has nobody to deploy: no student{which} has finished{known}.")


def _example(store: Store) -> str:
    return next((f"'{t.name}'" for t in store.transcripts()), "none, it is empty")


def _check_task(store: Store, setup: TrainingSetup) -> None:
    """Students are judged in the task that they were trained for. On another backend their environment is another one,
    and what the two have in common is looked at."""
    kept, (now, _) = store.settings(), identity(setup)
    code = {part: now["code"][part] for part in now["code"] if part in kept.get("code", {})}
    before = {"definition": kept.get("definition"), "code": {part: kept["code"][part] for part in code}}
    if differing := differences(before, {"definition": now["definition"], "code": code}):
        raise StoreError(f"{store} {differing}: deploy its students with the task that they were trained for.")


class _Again:
    """Students of a store as a classroom's register has them: all of their units are done. What comes of it is kept
    here, and not in the store."""

    def __init__(self, store: Store, students: Mapping[str, Transcript], task: Task) -> None:
        self._store = store
        self._known = dict(students)
        self._n_units = task.training.n_units

    def specs(self, seed: int) -> list[StudentSpec]:
        """With seeds for new episodes."""
        kept = [spec for name in self._known if (spec := self._store.spec(name)) is not None]
        return [replace(spec, seed=derive_seed(seed, "deploy", spec.name)) for spec in kept]

    def register(
        self, students: Sequence[StudentSpec], group: Callable[[list[StudentSpec]], list[Batch]]
    ) -> list[Batch]:
        return group(list(students))

    def checkpoint(self, batch: Batch) -> Checkpoint:
        each = [self._store.weights(student.name) for student in batch.students]
        weights = {name: np.stack([arrays[name] for arrays in each]) for name in each[0]}
        return Checkpoint.before_the_first(len(each))._replace(unit=self._n_units, weights=weights)

    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None:
        raise AssertionError("no unit is left to be trained")

    def keep_graduation(self, batch: Batch, graduation: Graduation) -> None:
        for student, deployment, error in zip(batch.students, *graduation, strict=True):
            self._keep(student, deployment, error)

    def keep_abandonment(self, batch: Batch, abandonment: Abandonment) -> None:
        for student in batch.students:
            self._keep(student, None, Breakdown(f"Student '{student.name}': {abandonment.message}"))

    def _keep(self, student: StudentSpec, deployment: Deployment | None, error: Breakdown | None) -> None:
        said = None if error is None else error.message
        self._known[student.name] = replace(self._known[student.name], deployment=deployment, error=said)

    def transcript(self, name: str) -> Transcript:
        return self._known[name]


def _groups(store: Store, students: Mapping[str, Transcript]) -> dict[tuple[str, str | None], list[str]]:
    """Names of the students of each run and curriculum. All of a study are together, whatever it tried, and so are
    those of all repetitions of a reproduction."""
    repetitions = (store.reproduction() or {}).get("repetitions", ())
    studies = {run for run in store.runs() if store.trials(run)}
    groups: dict[tuple[str, str | None], list[str]] = {}
    for name in students:
        run = owner_of(name)
        curriculum = None if run in studies else name.removeprefix(run + "/").rpartition("/")[0]
        groups.setdefault((REPRODUCTION if run in repetitions else run, curriculum), []).append(name)
    return groups


def _row(
    group: tuple[str, str | None],
    names: Sequence[str],
    under: str,
    before: Mapping[str, Transcript],
    again: Mapping[str, Transcript],
) -> DeployedRow:
    pairs = {name: (b, a) for name in names if (b := before[name].deployment) and (a := again[name].deployment)}
    students = [again[name] for name in pairs]

    def over(value: Callable[[str], float | None], within: tuple[float, float] | None) -> Estimate:
        return estimate(class_means(students, lambda t: value(t.name)), within)

    def measured(of: Value, within: tuple[float, float] | None) -> Measured:
        def change(name: str) -> float | None:
            then, now = map(of, pairs[name])
            return None if then is None or now is None else now - then

        width = None if within is None else (within[0] - within[1], within[1] - within[0])
        return Measured(
            now=over(lambda name: of(pairs[name][1]), within),
            before=over(lambda name: of(pairs[name][0]), within),
            change=over(change, width),
        )

    now = [after for _, after in pairs.values()]
    return DeployedRow(
        run=group[0],
        curriculum=group[1],
        under=under,
        students=len(names),
        deployed=len(pairs),
        episodes=sum(deployment.episodes or 0 for deployment in now),
        measures={name: measured(*how) for name, how in MEASURES.items()},
        outcomes={name: float(np.mean([d.outcomes[name] for d in now])) for name in (now[0].outcomes if now else {})},
    )
