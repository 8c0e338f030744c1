"""How students are trained, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cisr.core.checks import MOST_STUDENTS, check_whole, is_one_of, keep, shown
from cisr.core.errors import ConfigError
from cisr.training.classroom import Batching, check_workers
from cisr.training.ray_cluster import Ray
from cisr.training.watch import STEP_TIMEOUT, check_step_timeout

EXECUTORS = ("serial", "processes", "ray")


def check_backend(backend: Any) -> None:
    if not is_one_of(backend, ("auto", "gymnasium", "compiled")):
        raise ConfigError(f"The backend is {shown(backend)}: give auto, gymnasium or compiled.")


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a study, comparison or reproduction runs. Workers and time limits do not change what comes out; the backend
    and the batch do, as another seed would."""

    backend: str = "auto"
    """Where experience comes from: `gymnasium`, `compiled`, or `auto`, compiled where the task has a `jax_env`."""
    executor: str | Ray = "processes"
    """Who trains: worker `processes` of this machine, `ray` (or a `Ray` that says more) for those of a cluster, or
    `serial` for none but this process, which is the same as no workers."""
    n_workers: int | None = None
    """Worker processes; None for one on each core, of this machine or of the cluster."""
    step_timeout: float = STEP_TIMEOUT
    """Seconds that a step or reset of an environment may take before its student counts as broken."""
    batch: int | None = None
    """Students trained together at most, where memory is short; the store keeps it for good. None: as many as suit
    this machine."""

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_workers(self.n_workers)
        self._check_executor()
        keep(self, step_timeout=check_step_timeout(self.step_timeout))
        if self.batch is not None:
            keep(self, batch=check_whole("The largest batch of students", self.batch, 1, MOST_STUDENTS))

    def _check_executor(self) -> None:
        if is_one_of(self.executor, ("ray",)):
            keep(self, executor=Ray())
        if not isinstance(self.executor, Ray) and not is_one_of(self.executor, EXECUTORS):
            raise ConfigError(f"The executor is {shown(self.executor)}: give serial, processes, ray or a cisr.Ray.")
        if isinstance(self.executor, Ray):
            if self.n_workers == 0:
                raise ConfigError("A Ray cluster is to train with 0 workers: give 1 or more, or the executor serial.")
            if self.executor.gpus and self.backend == "gymnasium":
                raise ConfigError("GPUs train on the compiled backend, not on gymnasium: give another, or no gpus.")
        elif self.executor == "serial":
            if self.n_workers:
                raise ConfigError(f"The executor serial has no workers, not {self.n_workers}: give processes or none.")
            keep(self, n_workers=0)

    @property
    def ray(self) -> Ray | None:
        return self.executor if isinstance(self.executor, Ray) else None

    @property
    def processes(self) -> dict[str, Any]:
        """What is played apart must know this, which is always on this machine: keyword arguments."""
        return {"n_workers": self.n_workers, "step_timeout": self.step_timeout}

    @property
    def classroom(self) -> dict[str, Any]:
        """What a classroom must know: keyword arguments."""
        return {**self.processes, "ray": self.ray}

    def batching(self, backend: str) -> Batching:
        """How a new store cuts students into batches."""
        usual = Batching.usual(backend, self.ray)
        return usual if self.batch is None else usual._replace(largest=self.batch)
