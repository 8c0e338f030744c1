"""The environments of a batch of students: E for each, under that student's intervention.

Students under the same intervention are grouped, so that judging and accounting are array operations over all of them.
A student whose environment raises, or answers what its spaces do not allow, breaks down and is left out from then on;
the others go on. A broken contract (`TaskError`) concerns everyone and stops the batch, and so does a lack of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from cisr.cmdp.answers import concerns_all
from cisr.cmdp.gymnasium import Env, InducedCMDPs
from cisr.cmdp.rules import Step
from cisr.core.errors import described
from cisr.core.intervention import Intervention
from cisr.core.seeding import derive_seed
from cisr.core.task import Task
from cisr.students.networks import ObservationSpec
from cisr.system.interrupts import users_errors
from cisr.training.records import Breakdown, StudentSpec
from cisr.training.watch import Watch


class Group(NamedTuple):
    """Students under one intervention: environment j is number j % E of student members[j // E]."""

    members: list[int]
    cmdp: InducedCMDPs


class EnvGroups:
    """Opened when made; `errors` (one for each student, None while all is well) is shared with the backend.

    `watch` is told whose environment is called.
    """

    def __init__(
        self,
        task: Task,
        students: Sequence[StudentSpec],
        interventions: Sequence[Intervention],
        n_envs: int,
        observation: ObservationSpec,
        errors: list[Breakdown | None],
        watch: Watch,
    ) -> None:
        self._task = task
        self._students = students
        self._interventions = interventions
        self._errors = errors
        self._watch = watch
        self._n_envs = n_envs
        self._observation = observation
        self.reached: np.ndarray
        """What students saw after the last step, before restarts, (S, E, ...); zeros for those who have failed."""
        self._groups: list[Group] = []
        self._envs: dict[int, list[Env]] = {}
        for k, error in enumerate(errors):
            if error is None:
                with self._blaming(k, "while its environments were made"):
                    self._envs[k] = [self._made(k) for _ in range(self._n_envs)]

    def _made(self, k: int) -> Env:
        self._watch.over(k)
        return self._task.make_env()

    def start(self, name: str) -> np.ndarray:
        """Restart all environments from seeds of their own, derived from `name`; observations (S, E, ...)."""
        shape = (len(self._students), self._n_envs, *self._observation.shape)
        observations = np.zeros(shape, self._observation.dtype)
        self._groups = self._group()
        for group in self._groups:
            for j in range(len(group.cmdp.envs)):
                k, e = group.members[j // self._n_envs], j % self._n_envs
                with self._blaming(k, "at a reset"):
                    observations[k, e] = group.cmdp.restart(j, derive_seed(self._students[k].seed, name, "env", e))[0]
        failed = any(self._errors[k] for group in self._groups for k in group.members)
        return self.start(name) if failed else observations

    def step(self, actions: np.ndarray, observations: np.ndarray) -> Step:
        """One step of every student, (S, E, ...) in every field; zeros for those who have failed.

        `observations` becomes what they see next, after restarts of ended episodes.
        """
        n, m = len(self._students), len(self._task.constraints)
        shape = (n, self._n_envs)
        whole = Step(
            reward=np.zeros(shape),
            costs=np.zeros((*shape, m)),
            constraint_values=np.zeros((*shape, m)),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            rescued=np.zeros(shape, bool),
            failed=np.zeros(shape, bool),
            driven=np.zeros(shape),
            outcomes=np.zeros((*shape, len(self._task.outcomes) - 1), bool),
        )
        self.reached = np.zeros_like(observations)
        for members, cmdp in self._groups:
            step = cmdp.step(actions[members].reshape(-1, *actions.shape[2:]))
            self._watch.rest()
            for field, part in zip(whole, step, strict=True):
                field[members] = part.reshape(len(members), self._n_envs, *part.shape[1:])
            self.reached[members] = cmdp.observations.reshape(len(members), self._n_envs, *observations.shape[2:])
            observations[members] = self.reached[members]
            for j in np.flatnonzero(step.terminated | step.truncated).tolist():
                k, e = members[j // self._n_envs], j % self._n_envs
                if self._errors[k] is None:
                    with self._blaming(k, "at a reset"):
                        observations[k, e] = cmdp.restart(j)[0]
        return whole

    def close(self) -> None:
        for k, envs in self._envs.items():
            with self._blaming(k, "while its environments were closed"):
                for env in envs:
                    self._watch.over(k)
                    env.close()

    def _group(self) -> list[Group]:
        """Those who have not failed, by intervention."""
        groups: dict[str, list[int]] = {}
        for k in self._envs:
            if self._errors[k] is None:
                groups.setdefault(self._interventions[k].name, []).append(k)
        return [self._of(members) for members in groups.values()]

    def _of(self, members: list[int]) -> Group:
        def leave_out(j: int, error: BaseException, judged: bool) -> None:
            k = members[j // self._n_envs]
            self._blame(k, "at a step", error, 0 if judged else None)

        def ask(j: int | None) -> None:
            self._watch.over(None if j is None else members[j // self._n_envs])

        envs = [env for k in members for env in self._envs[k]]
        return Group(members, InducedCMDPs(self._task, self._interventions[members[0]], envs, leave_out, ask))

    @contextmanager
    def _blaming(self, k: int, when: str) -> Iterator[None]:
        self._watch.over(k)
        try:
            yield
        except users_errors() as error:
            if concerns_all(error):
                raise
            self._blame(k, when, error)
        finally:
            self._watch.rest()

    def _blame(self, k: int, when: str, error: BaseException, failures: int | None = 0) -> None:
        """The student has failed: none of its environments is touched again. `failures` are None where it broke in a
        step that nobody could judge."""
        if self._errors[k] is None:
            self._errors[k] = Breakdown(f"Student '{self._students[k].name}': {when}: {described(error)}", failures)
        for members, cmdp in self._groups:
            if k in members:
                first = members.index(k) * self._n_envs
                for j in range(first, first + self._n_envs):
                    cmdp.leave_out(j)
