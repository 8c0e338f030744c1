"""The environments of a batch of students: E for each, under that student's intervention.

A student whose environment raises is marked as failed and left out from then on; the others go on. A broken contract
(`TaskError`) concerns everyone and stops the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from cisr.classroom.records import Enrolment
from cisr.cmdp import InducedCMDPs, Step
from cisr.errors import TaskError
from cisr.intervention import Intervention
from cisr.seeding import derive_seed
from cisr.students.networks import ObservationSpec
from cisr.task import Task


class Rows:
    """Opened when made; `errors` (one for each student, None while all is well) is shared with the lane."""

    def __init__(
        self,
        task: Task,
        students: Sequence[Enrolment],
        interventions: Sequence[Intervention],
        observation: ObservationSpec,
        errors: list[str | None],
    ) -> None:
        self._students = students
        self._errors = errors
        self._n_envs = students[0].config.n_envs
        self._observation = observation
        self._rows: dict[int, InducedCMDPs] = {}
        for k, intervention in enumerate(interventions):
            if errors[k] is not None:
                continue
            with self._blaming(k, "while its environments were made"):
                envs = [task.make_env() for _ in range(self._n_envs)]
                self._rows[k] = InducedCMDPs(task, intervention, envs)

    def start(self, name: str) -> np.ndarray:
        """Restart all environments from seeds of their own, derived from `name`; observations (S, E, ...)."""
        shape = (len(self._students), self._n_envs, *self._observation.shape)
        observations = np.zeros(shape, self._observation.dtype)
        for k, row in self._attending():
            seeds = [derive_seed(self._students[k].seed, name, "env", e) for e in range(self._n_envs)]
            with self._blaming(k, "at a reset"):
                observations[k] = row.seed(seeds)
        return observations

    def step(self, actions: np.ndarray, observations: np.ndarray, hear: Callable[[int, Step], None]) -> None:
        """One step of every student; `observations` becomes what they see next, after restarts of ended episodes."""
        for k, row in self._attending():
            with self._blaming(k, "at a step"):
                step = row.step(actions[k])
                hear(k, step)
                observations[k] = step.observations
                for ended in np.flatnonzero(step.terminated | step.truncated):
                    observations[k, ended] = row.restart(int(ended))[0]

    def close(self) -> None:
        for k, row in self._rows.items():
            with self._blaming(k, "while its environments were closed"):
                row.close()

    def _attending(self) -> list[tuple[int, InducedCMDPs]]:
        return [(k, row) for k, row in self._rows.items() if self._errors[k] is None]

    @contextmanager
    def _blaming(self, k: int, when: str) -> Iterator[None]:
        try:
            yield
        except TaskError:
            raise
        except Exception as error:
            if self._errors[k] is None:
                self._errors[k] = f"Student '{self._students[k].name}': {type(error).__name__} {when}: {error}"
