"""The classroom: trains students under their curriculum policies, many at once, and keeps records as it goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol

from cisr.core.callback import Callback, ignore
from cisr.core.checks import check_whole
from cisr.students.config import StudentConfig
from cisr.system.loading import check_not_loading
from cisr.training.executors import Executor, InThisProcess, Processes
from cisr.training.ray_cluster import Ray, RayWorkers
from cisr.training.records import (
    Abandonment,
    Batch,
    BatchProgress,
    Checkpoint,
    Graduation,
    StudentSpec,
    TrainingSetup,
    Transcript,
)
from cisr.training.watch import STEP_TIMEOUT, check_step_timeout
from cisr.training.worker import Job

BYTES_PER_STUDENT = 2**26
"""What a student may take of an accelerator's memory: several times what the paper's largest network needs."""
UNSEEN_ACCELERATOR = 2**34
"""Bytes that one is taken to have where it is on another machine."""

MOST_WORKERS = 1_000


def check_workers(n_workers: int | None) -> None:
    """None stands for one on each core, 0 for none but this process."""
    if n_workers is not None:
        check_whole("The number of workers", n_workers, 0, MOST_WORKERS)


class Batching(NamedTuple):
    """How students are cut into batches. Fixed by the store when it is made: rounding depends on it."""

    side_by_side: int
    """Batches that run at the same time."""
    largest: int
    """Students in one batch at most."""

    @staticmethod
    def usual(backend: str, ray: Ray | None = None) -> Batching:
        """One batch for each core of this machine; on an accelerator one batch, as large as its memory allows."""
        memory = _accelerator_bytes(backend) if ray is None else None
        if ray is not None and ray.gpus:
            memory = UNSEEN_ACCELERATOR
        if memory is None:
            return Batching(side_by_side=os.cpu_count() or 1, largest=16)
        return Batching(side_by_side=1, largest=min(max(memory // BYTES_PER_STUDENT, 1), 512))


def _accelerator_bytes(backend: str) -> int | None:
    """Memory of the accelerator that students have on a backend; None where they have none."""
    if backend != "compiled":
        return None
    from cisr.system.compilation import accelerator_bytes  # brings in jax

    return accelerator_bytes()


class Register(Protocol):
    """Where a classroom keeps its records. What `keep_…` was given is durable when it returns."""

    def register(
        self, students: Sequence[StudentSpec], group: Callable[[list[StudentSpec]], list[Batch]]
    ) -> list[Batch]:
        """Note new students, grouped into batches; returns the batches among `students` that are not done.

        Students that broke down before are taught again from their first unit, in a later batch of their own.
        """

    def checkpoint(self, batch: Batch) -> Checkpoint | None: ...
    def keep_checkpoint(self, batch: Batch, checkpoint: Checkpoint) -> None: ...
    def keep_graduation(self, batch: Batch, graduation: Graduation) -> None: ...
    def keep_abandonment(self, batch: Batch, abandonment: Abandonment) -> None: ...
    def transcript(self, name: str) -> Transcript: ...


def _executor(setup: TrainingSetup, n_workers: int | None, ray: Ray | None, step_timeout: float) -> Executor:
    if ray is not None:
        return RayWorkers(ray, n_workers, step_timeout)
    workers = os.cpu_count() or 1 if n_workers is None else n_workers
    if _accelerator_bytes(setup.backend) is not None:
        workers = 0
    elif setup.backend == "compiled" and setup.task.training.xla_flags:
        workers = max(workers, 1)  # this process has heard of none of them, and may not hear any more
    return Processes(workers, step_timeout) if workers else InThisProcess(step_timeout)


class Classroom:
    """Teaches batches of students, spread over worker processes here or on a Ray cluster, or in this process on an
    accelerator.

    How students are grouped depends on `batching` alone, which a store records: the numbers are the same with any
    number of workers. `n_workers=0` teaches in this process. `step_timeout` is how many seconds a step or reset of an
    environment may take before its student counts as broken; in this process only Python code can be interrupted.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        register: Register,
        *,
        batching: Batching,
        n_workers: int | None = None,
        ray: Ray | None = None,
        step_timeout: float = STEP_TIMEOUT,
        callback: Callback = ignore,
    ) -> None:
        check_not_loading()
        check_workers(n_workers)
        step_timeout = check_step_timeout(step_timeout)
        self.setup = setup
        self.register = register
        self.batching = batching
        self.callback = callback
        self._executor = _executor(setup, n_workers, ray, step_timeout)

    def __enter__(self) -> Classroom:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.close()

    def teach(self, students: Iterable[StudentSpec]) -> Iterator[Transcript]:
        """Transcripts as students finish; those who have finished before come first."""
        students = list(students)
        for spec in students:
            for name in spec.policy.interventions_used:
                self.setup.task.intervention(name)
        batches = self.register.register(students, self._group)
        unfinished = {student.name: batch.name for batch in batches for student in batch.students}
        for spec in students:
            if spec.name not in unfinished:
                yield self.register.transcript(spec.name)
        jobs = [Job(self.setup, batch, self.register.checkpoint(batch)) for batch in batches]
        for batch, event in self._executor.run(jobs):
            if isinstance(event, Checkpoint):
                self.register.keep_checkpoint(batch, event)
            elif isinstance(event, Graduation):
                self.register.keep_graduation(batch, event)
            elif isinstance(event, Abandonment):
                self.register.keep_abandonment(batch, event)
            self.callback(BatchProgress(batch, event))
            if isinstance(event, Graduation | Abandonment):
                for student in batch.students:
                    if unfinished[student.name] == batch.name:  # not taught again in a later batch
                        yield self.register.transcript(student.name)

    def _group(self, students: list[StudentSpec]) -> list[Batch]:
        """Students of equal shape together, in batches of equal size that keep every core busy; those of other
        libraries one by one."""
        side_by_side, largest = self.batching
        turns = max(-(-len(students) // (side_by_side * largest)), 1)
        size = max(-(-len(students) // (side_by_side * turns)), 1)
        shapes: dict[object, list[StudentSpec]] = {}
        for spec in students:
            shape = spec.config.shape if isinstance(spec.config, StudentConfig) else spec.name
            shapes.setdefault(shape, []).append(spec)
        return [
            Batch(name=alike[first].name, students=tuple(alike[first : first + size]))
            for alike in shapes.values()
            for first in range(0, len(alike), size)
        ]
