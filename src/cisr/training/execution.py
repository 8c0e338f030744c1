"""How students are trained on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cisr.core.checks import MOST_STUDENTS, check_whole, keep, shown
from cisr.core.errors import ConfigError
from cisr.training.classroom import check_workers
from cisr.training.watch import STEP_TIMEOUT, check_step_timeout


def check_backend(backend: Any) -> None:
    if backend not in ("auto", "gymnasium", "compiled"):
        raise ConfigError(f"The backend is {shown(backend)}: give auto, gymnasium or compiled.")


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a study, comparison or reproduction runs. Workers and time limits do not change what comes out; the backend
    and the batch do, as another seed would."""

    backend: str = "auto"
    """Where experience comes from: `gymnasium`, `compiled`, or `auto`, compiled where the task has a `jax_env`."""
    n_workers: int | None = None
    """Worker processes; None for one on each core, 0 for none but this process."""
    step_timeout: float = STEP_TIMEOUT
    """Seconds that a step or reset of an environment may take before its student counts as broken."""
    batch: int | None = None
    """Students trained together at most, where memory is short; the store keeps it for good. None: as many as suit
    this machine."""

    def __post_init__(self) -> None:
        check_backend(self.backend)
        check_workers(self.n_workers)
        keep(self, step_timeout=check_step_timeout(self.step_timeout))
        if self.batch is not None:
            keep(self, batch=check_whole("The largest batch of students", self.batch, 1, MOST_STUDENTS))

    @property
    def processes(self) -> dict[str, Any]:
        """What a classroom, and what is played apart, must know of it: keyword arguments."""
        return {"n_workers": self.n_workers, "step_timeout": self.step_timeout}
