"""Workers on a Ray cluster: one long-lived actor for each core, or for each GPU, with a worker process each.

What a worker is, what it says and what becomes of a batch is the same as on this machine. Machines may vanish and join
at any time: a batch whose machine is gone goes to another, from its last checkpoint.
"""

from __future__ import annotations

import io
import itertools
import logging
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cisr.core.checks import check_kind, check_text
from cisr.core.errors import CisrError, ConfigError
from cisr.core.libraries import needed
from cisr.training.pool import ATTEMPTS, Arrival, Pool
from cisr.training.process import Child, cannot_start
from cisr.training.ray_actor import Died, Late, Refused, Said, Surroundings
from cisr.training.ray_messages import Capacity, Close, Connect, End, FromWorker, Gone, Start, Tell, Unconnected
from cisr.training.records import TrainingSetup
from cisr.training.watch import STEP_TIMEOUT, Overdue
from cisr.training.worker import Job, Kept, loaded, send

log = logging.getLogger(__name__)

SLOW_START = 60.0
"""Seconds without a single worker after which we say what we are waiting for."""
FAREWELL = 15.0
"""Seconds that the driver has to say goodbye to the cluster."""


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Students are trained on a Ray cluster."""

    address: str | None = None
    """As `ray.init` takes it: host:port, or `auto`. None: the cluster that RAY_ADDRESS names or that this machine
    belongs to; where there is none, one on this machine for as long as the run lasts."""
    gpus: bool = False
    """A worker for each GPU and not for each core; for tasks with a JAX environment."""

    def __post_init__(self) -> None:
        if self.address is not None:
            check_text("The address of a Ray cluster", self.address)
        check_kind("gpus", self.gpus, bool, "True or False")
        needed("ray", "Ray", "ray")

    def __str__(self) -> str:
        return "the Ray cluster" if self.address in (None, "auto") else f"the Ray cluster at {self.address}"


class _RayWorker:
    def __init__(self, number: int, driver: Child) -> None:
        self._number = number
        self._driver = driver
        self._setup: TrainingSetup | None = None
        self.ready = self.grown = False
        self.late: Overdue | None = None
        self.cause: str | None = None  # None: its machine is gone
        driver.send(Start(number))

    @property
    def lost(self) -> bool:
        return self.cause is None

    def teach(self, job: Job) -> None:
        messages: list[Any] = [job._replace(setup=None)]
        if job.setup is not self._setup:
            self._setup = job.setup
            messages.insert(0, job.setup)
        self._tell(*messages)

    def go_on(self) -> None:
        self._tell(Kept())

    def overdue(self, limit: float) -> Overdue | None:
        return self.late

    def died_of(self) -> str:
        return self.cause or "its machine is gone"

    def end(self) -> None:
        self._driver.send(End(self._number))

    def _tell(self, *messages: Any) -> None:
        pickled = io.BytesIO()
        for message in messages:
            send(pickled, message)
        self._driver.send(Tell(self._number, pickled.getvalue()))


class RayWorkers(Pool[_RayWorker]):
    """As many as there is work for and room on the cluster, or `n_workers`. A batch goes only to one that has begun: on
    a full cluster others may have to wait for ever, and a cluster that grows has more of them."""

    def __init__(self, cluster: Ray, n_workers: int | None, step_timeout: float = STEP_TIMEOUT) -> None:
        super().__init__(step_timeout)
        self._cluster = cluster
        self._n_workers = n_workers
        self._capacity = 0
        self._driver: Child | None = None
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._by_number: dict[int, _RayWorker] = {}
        self._numbers = itertools.count()
        self._failed_starts = 0
        self._worked = time.monotonic()

    def _free(self, busy: Mapping[_RayWorker, Any], n_jobs: int) -> _RayWorker | None:
        room = self._capacity if self._n_workers is None else self._n_workers
        while len(self._workers) < min(room, n_jobs):
            number = next(self._numbers)
            self._by_number[number] = worker = _RayWorker(number, self._connected())
            self._workers.append(worker)
        self._connected()
        return next((worker for worker in self._workers if worker.ready and worker not in busy), None)

    def _next(self, timeout: float) -> Arrival[_RayWorker]:
        """Words of the driver that concern no worker are heard here."""
        end = time.monotonic() + timeout
        while True:
            self._complain()
            message = self._said.get(timeout=max(end - time.monotonic(), 0.0))
            match message:
                case None:
                    raise CisrError(self._lost())
                case Unconnected(reason):
                    raise ConfigError(f"There is no connection to {self._cluster}: {reason}")
                case Capacity(workers):
                    self._capacity = workers
                    return self._heard_nothing()
                case FromWorker(number, Refused(refusal)):
                    raise ConfigError(refusal)
                case FromWorker(number, heard) if number in self._by_number:
                    worker = self._by_number[number]
                    if isinstance(heard, Said):
                        return Arrival(worker, loaded(heard.data))
                    if isinstance(heard, Late):
                        worker.late = Overdue(heard.student)
                        return self._heard_nothing()
                    assert isinstance(heard, Died)
                    worker.cause = heard.cause
                    del self._by_number[number]
                    return Arrival(worker, None)
                case Gone(number, reason) if number in self._by_number:
                    log.info("A worker on %s is gone: %s", self._cluster, reason)
                    return Arrival(self._by_number.pop(number), None)

    def _heard_nothing(self) -> Arrival[_RayWorker]:
        """Let the loop look at what has changed."""
        raise queue.Empty

    def _missing(self, worker: _RayWorker, cause: str) -> None:
        if worker.ready or worker.lost:
            return
        self._failed_starts += 1
        if self._failed_starts >= ATTEMPTS:
            raise CisrError(cannot_start(cause))

    def _complain(self) -> None:
        """Where there is nobody to work."""
        if any(worker.ready for worker in self._workers):
            self._worked, self._failed_starts = time.monotonic(), 0
        elif time.monotonic() - self._worked > SLOW_START:
            what = "GPUs" if self._cluster.gpus else "cores"
            log.warning(
                "No worker has begun on %s for %g s: it has %d %s, which others may have taken. Waiting for more.",
                self._cluster,
                SLOW_START,
                self._capacity,
                what,
            )
            self._worked = time.monotonic()

    def _lost(self) -> str:
        return (
            f"The connection to {self._cluster} is lost, most often because its head node is. Finished units are kept. "
            f"Start the cluster again and run the same command again."
        )

    def _connected(self) -> Child:
        if self._driver is None:
            self._driver = driver = Child("cisr.training.ray_driver", RAY_USAGE_STATS_ENABLED="0")
            self._listener = threading.Thread(target=driver.pass_on, args=(self._said,), daemon=True)
            self._listener.start()
            surroundings = Surroundings.here(self._step_timeout, self._cluster.gpus)
            driver.send(Connect(self._cluster.address, self._cluster.gpus, surroundings))
            self._worked = time.monotonic()
        return self._driver

    def close(self) -> None:
        self._workers = []
        self._by_number = {}
        if (driver := self._driver) is not None:
            driver.send(Close())
            end = time.monotonic() + FAREWELL
            while driver.alive and time.monotonic() < end:
                time.sleep(0.01)
            driver.kill()
            self._listener.join()
            driver.close()
        self._driver = None
        self._capacity = 0
        self._said = queue.SimpleQueue()
