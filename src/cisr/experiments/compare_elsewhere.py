"""Curricula compared on students that are trained elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cisr.core.checks import check_kind, check_text
from cisr.core.errors import ConfigError, StoreError
from cisr.core.seeding import check_seed
from cisr.core.task import Task, check_task_given
from cisr.curricula import CurriculumPolicy
from cisr.curricula.base import check_policy
from cisr.experiments.compare import check_n_students, register
from cisr.experiments.comparison import Comparison, comparison_of
from cisr.experiments.elsewhere import is_over
from cisr.experiments.handing_out import KIND, HandsOut, begin_elsewhere, check_anybody_finished, setup_elsewhere
from cisr.store import Store
from cisr.store.runs import deployed
from cisr.training import StudentSpec, UnitLog, default_observe


class ComparisonElsewhere(HandsOut[Comparison]):
    """`compare` for students that rigs train: hands `n_students` out under each curriculum, in turn.

    Its `result` is the `Comparison`, once all of them are told. Rows show what was told: a `success` is a share of
    episodes, the score counts as the return.
    """

    def __init__(
        self,
        task: Task,
        curricula: Mapping[str, CurriculumPolicy],
        *,
        store: Store | Path | str,
        n_students: int = 10,
        name: str = "compare",
        seed: int = 0,
    ) -> None:
        check_task_given(task)
        check_kind("The curricula", curricula, Mapping, "a dictionary from labels to curriculum policies")
        if not curricula:
            raise ConfigError("There is no curriculum to compare: name at least one.")
        for label, policy in curricula.items():
            check_policy(check_text("The label of a curriculum", label), policy)
            for intervention in policy.interventions_used:
                task.intervention(intervention)
        self.name = name
        self._task = task.with_training(student_kind=KIND)
        self._curricula = dict(curricula)
        self._n_students = check_n_students(n_students, len(curricula))
        self._seed = check_seed(seed)
        self._store = store
        self._students = register(task, curricula, n_students, seed, name)

    @property
    def _observe(self) -> Callable[[UnitLog], Any]:
        return default_observe

    def _search(self) -> dict[str, Any]:
        return {"seed": self._seed}

    def _begin_elsewhere(self, store: Store) -> None:
        curricula = {label: policy.to_json() for label, policy in self._curricula.items()}
        kept = {"curricula": curricula, "students": self._n_students}
        if self.name in store.runs():
            self._check_grown(store, store.settings().get(KIND, {}).get(self.name, kept), curricula)
        setup = setup_elsewhere(self._task)
        begin_elsewhere(store, setup, self.name, deployed(setup, self._seed), kept)
        if store.curricula(self.name) != list(self._curricula):
            store.keep_curricula(self.name, list(self._curricula))

    def _check_grown(self, store: Store, before: Mapping[str, Any], curricula: Mapping[str, Any]) -> None:
        """Rigs share a comparison: it may grow, but nobody takes curricula or students from the others."""
        now = json.loads(json.dumps(curricula))
        if lost := [label for label, policy in before["curricula"].items() if now.get(label) != policy]:
            raise StoreError(
                f"{store} compares {', '.join(before['curricula'])} in '{self.name}', this run lacks {', '.join(lost)} "
                f"as they were: give all of them, and more if you like, or another store."
            )
        if self._n_students < before["students"]:
            raise StoreError(
                f"{store} has {before['students']} students for each curriculum in '{self.name}', this run has "
                f"{self._n_students}: give at least as many, or another store."
            )

    def _next_student(self, store: Store) -> StudentSpec | None:
        enrolled = {student.name for student in store.transcripts(f"{self.name}/")}
        in_turn = (student for row in zip(*self._students.values(), strict=True) for student in row)
        return next((student for student in in_turn if student.name not in enrolled), None)

    def _settle(self, store: Store) -> Comparison | None:
        known = {student.name: student for student in store.transcripts(f"{self.name}/")}
        wanted = [student.name for group in self._students.values() for student in group]
        if not all(name in known and is_over(known[name]) for name in wanted):
            return None
        check_anybody_finished([known[name] for name in wanted])
        groups = {label: tuple(known[s.name] for s in group) for label, group in self._students.items()}
        return comparison_of(self._task, groups)
