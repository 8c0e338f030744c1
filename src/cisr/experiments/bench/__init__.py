"""How fast students learn: cisr's backends and Stable-Baselines3 on the same work, in one run.

The work is a task's student (the same network, rollouts, minibatches and epochs) under one intervention. Steps per
second, summed over processes, count rollouts and updates; starting processes, compilation and warm-up are left out.
The sides take turns, because machines are noisy: ratios are taken within each turn.

- compiled: a classroom with one single-threaded worker process and one batch of students for each core; on an
  accelerator one large batch in this process.
- gymnasium: a classroom with one single-threaded worker process and one batch of students for each core.
- sb3: `PPO.learn` in one single-threaded process for each core, with one student each: it knows no batches of students.
- sb3-plain: the same without any intervention, on the task's own environment, which is less work.

Not equal, to Stable-Baselines3's advantage: cisr runs its whole classroom (Lagrangian reward, multipliers, new
environments each unit, checkpoints), the other side only `PPO.learn`. To the disadvantage of sb3: `InducedCMDP` judges
each environment on its own, where cisr judges those of many students together. That costs little on a lake and a lot
on a lander; sb3-plain is without it. To that of both: the value is evaluated once more where the time limit ends an
episode. Where a task has finitely many observations, the compiled backend runs the network once for each of them, not
for each sample (`cisr.students.observation_table`): the same updates with less arithmetic, which no task with other
observations gets.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from statistics import median
from typing import Any, Literal, NamedTuple

from cisr.core.callback import ProgressEvent
from cisr.core.checks import MOST_STUDENTS, check_kind, check_whole
from cisr.core.errors import CisrError, ConfigError
from cisr.core.seeding import check_seed, derive_seed
from cisr.core.task import Task
from cisr.curricula import Fixed
from cisr.store import Store
from cisr.students.config import StudentConfig, student_of
from cisr.system.compilation import accelerator_bytes
from cisr.training import Batching, BatchProgress, Checkpoint, Classroom, Progress, StudentSpec, TrainingSetup
from cisr.training.classroom import MOST_WORKERS
from cisr.training.process import start_process
from cisr.training.registrations import registrations
from cisr.training.worker import Broken, receive, send

OWN_BACKENDS = ("compiled", "gymnasium")
BASELINES = ("sb3", "sb3-plain")
BACKENDS = (*OWN_BACKENDS, *BASELINES)
STUDENTS_FOR_A_CORE, STUDENTS_FOR_AN_ACCELERATOR = 4, 256
MOST_REPETITIONS, LONGEST = 1_000, 86_400.0
ENDLESS = 1_000_000
"""Units of a student that is stopped by the clock."""


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """What a benchmark has measured."""

    task: str
    scale: str
    intervention: str
    cores: int
    device: str
    batches: Mapping[str, int]
    """Students that each process teaches at once, by backend."""
    rates: Mapping[str, tuple[float, ...]]
    """Steps per second in each turn, by backend."""
    tabulated: bool = False
    """Whether the compiled backend had the help of an observation table."""
    left_out: tuple[str, ...] = ()
    """Why backends were not measured, a line for each."""

    @property
    def ratios(self) -> dict[str, tuple[float, ...]]:
        """Each of cisr's backends against Stable-Baselines3, turn by turn, where both were measured."""
        return {
            f"{backend}/{baseline}": tuple(
                own / other for own, other in zip(self.rates[backend], self.rates[baseline], strict=True)
            )
            for backend in OWN_BACKENDS
            for baseline in BASELINES
            if backend in self.rates and baseline in self.rates
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "scale": self.scale,
            "machine": {"cores": self.cores, "device": self.device},
            "lanes": {backend: median(rates) for backend, rates in self.rates.items()},
            "ratios": {name: median(ratios) for name, ratios in self.ratios.items()},
        }


class Work(NamedTuple):
    """What one process of the Stable-Baselines3 side is sent; a second message starts its clock."""

    task: Task
    config: StudentConfig
    intervention: str
    seconds: float
    seed: int
    plain: bool = False
    """On the task's own environment, without the intervention."""


class Ready(NamedTuple):
    """A process has warmed up."""


def bench(
    task: Task,
    *,
    intervention: str | None = None,
    backends: Sequence[str] = BACKENDS,
    repetitions: int = 3,
    seconds: float = 20.0,
    students: int | None = None,
    cores: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> Throughput:
    """Measure each backend `repetitions` times, in turns, for at least `seconds` each.

    `intervention` is the task's first by default. `students` is the size of a batch on the compiled backend, and on the
    gymnasium backend unless the compiled one has an accelerator. `cores` is how many processes run side by side.
    `say` hears lines of progress.
    """
    for name in backends:
        if name not in BACKENDS:
            raise ConfigError(f"There is no backend '{name}' to measure: choose from {', '.join(BACKENDS)}.")
    for what, number, most in (
        ("repetitions", repetitions, MOST_REPETITIONS),
        ("students in a batch", students, MOST_STUDENTS),
        ("cores", cores, MOST_WORKERS),
    ):
        if number is not None:
            check_whole(f"The number of {what}", number, 1, most)
    check_kind("The time to measure", seconds, (int, float), "a number of seconds")
    if not 0 < seconds <= LONGEST:
        raise ConfigError(f"The time to measure is {seconds:g} seconds: give a number above 0, at most {LONGEST:g}.")
    check_seed(seed)
    if intervention is None:
        intervention = (*task.intervention_names, "none")[0]
    task.intervention(intervention)

    reasons = {backend: reason for backend in backends if (reason := _why_not(task, backend))}
    measured = [backend for backend in BACKENDS if backend in backends and backend not in reasons]
    if not measured:
        raise ConfigError(" ".join(reasons.values()) or "There is no backend to measure: name at least one.")
    if measured != ["compiled"]:
        from cisr.training.gymnasium import specs_of

        specs_of(task)  # what is wrong with its environment is said before anything is started
    for reason in reasons.values():
        say(reason)

    cores = cores or os.cpu_count() or 1
    accelerated = accelerator_bytes() is not None
    per_core = STUDENTS_FOR_A_CORE if students is None or accelerated else students
    batches = {"compiled": per_core, "gymnasium": per_core, **dict.fromkeys(BASELINES, 1)}
    if accelerated:
        batches["compiled"] = students or STUDENTS_FOR_AN_ACCELERATOR
    endless = replace(task, n_units=ENDLESS)  # one object for all turns: programs are compiled for a task object
    work = Work(endless, student_of(task), intervention, seconds, seed)
    rates: dict[str, list[float]] = {backend: [] for backend in measured}
    for turn in range(repetitions):
        for backend in measured:
            job = work._replace(seed=derive_seed(seed, turn))
            say(f"turn {turn + 1} of {repetitions}: {backend} …")
            if backend in BASELINES:
                rate = _sb3_rate(job._replace(plain=backend == "sb3-plain"), cores)
            elif backend == "compiled":
                rate = _classroom_rate(job, "compiled", 1 if accelerated else cores, batches[backend])
            else:
                rate = _classroom_rate(job, "gymnasium", cores, batches[backend])
            rates[backend].append(rate)
            say(f"turn {turn + 1} of {repetitions}: {backend} {rate:,.0f} steps/s")
    return Throughput(
        task=task.name,
        scale=task.scale,
        intervention=intervention,
        cores=cores,
        device=_device(),
        batches={backend: batches[backend] for backend in measured},
        rates={backend: tuple(found) for backend, found in rates.items()},
        tabulated="compiled" in measured and task.jax_env is not None and task.jax_env().table is not None,
        left_out=tuple(reasons.values()),
    )


def _why_not(task: Task, backend: str) -> str | None:
    """Why a backend cannot be measured here, as a line for the user."""
    if backend == "compiled":
        return f"compiled: left out, task '{task.name}' has no JAX environment." if task.jax_env is None else None
    if find_spec("gymnasium") is None:
        return f"{backend}: left out, gymnasium is not installed (pip install gymnasium)."
    if backend in BASELINES and find_spec("stable_baselines3") is None:
        return f"{backend}: left out with its ratios, Stable-Baselines3 is not installed: pip install 'cisr[sb3]'"
    return None


def _device() -> str:
    import jax

    return str(jax.devices()[0].device_kind)


def _classroom_rate(work: Work, backend: Literal["compiled", "gymnasium"], n_batches: int, size: int) -> float:
    """Steps per second of a classroom, after the first unit of each batch."""
    students = [
        StudentSpec(
            name=f"student {k}",
            policy=Fixed(work.intervention),
            config=work.config,
            seed=derive_seed(work.seed, k),
        )
        for k in range(n_batches * size)
    ]
    watch = _Stopwatch(n_batches, work.seconds)
    setup = TrainingSetup(task=work.task, backend=backend)
    with (
        Store(None) as store,
        _workers_on_cpu(),
        Classroom(setup, store, batching=Batching(n_batches, size), n_workers=n_batches, callback=watch) as classroom,
        contextlib.suppress(_TimeIsUp),
    ):
        for transcript in classroom.teach(students):
            raise CisrError(
                f"The {backend} backend cannot be measured: {transcript.error or 'a student ended too early.'}"
            )
    return watch.rate()


@contextlib.contextmanager
def _workers_on_cpu() -> Iterator[None]:
    """Worker processes that are started inside leave the accelerator alone. This one has chosen its device already."""
    before = os.environ.get("JAX_PLATFORMS")
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        del os.environ["JAX_PLATFORMS"]
        os.environ.update({} if before is None else {"JAX_PLATFORMS": before})


class _TimeIsUp(Exception):  # noqa: N818
    """How the stopwatch ends a classroom."""


class _Mark(NamedTuple):
    """A batch has reported progress."""

    time: float
    steps: int  # since the mark before


class _Stopwatch:
    """Listens to a classroom. Its time begins when every batch has finished a unit, so when all has been compiled.

    It ends when every batch has been watched for long enough, from one of its reports to another: on the compiled
    backend these come once a unit.
    """

    def __init__(self, n_batches: int, seconds: float) -> None:
        self._n_batches = n_batches
        self._seconds = seconds
        self._warm: set[str] = set()
        self._marks: dict[str, list[_Mark]] = {}

    def __call__(self, heard: ProgressEvent) -> None:
        if not isinstance(heard, BatchProgress):
            return
        batch, event = heard.batch, heard.event
        if isinstance(event, Checkpoint):
            self._warm.add(batch.name)
            for error in event.errors:
                if error is not None:
                    raise CisrError(f"A student failed while it was measured: {error}")
        elif isinstance(event, Progress) and len(self._warm) == self._n_batches:
            self._marks.setdefault(batch.name, []).append(_Mark(time.perf_counter(), event.steps))
            spans = [marks[-1].time - marks[0].time for marks in self._marks.values()]
            if len(spans) == self._n_batches and min(spans) >= self._seconds:
                raise _TimeIsUp

    def rate(self) -> float:
        """Sum over batches of the steps between their first and last mark, over the time between these."""
        return sum(
            sum(mark.steps for mark in marks[1:]) / (marks[-1].time - marks[0].time) for marks in self._marks.values()
        )


def _sb3_rate(work: Work, n_processes: int) -> float:
    """Steps per second of `PPO.learn` in all processes together, after a first update of each."""
    processes = [start_process("cisr.experiments.bench.sb3", JAX_PLATFORMS="cpu") for _ in range(n_processes)]
    try:
        for k, process in enumerate(processes):
            _tell(process, registrations())
            _tell(process, work._replace(seed=derive_seed(work.seed, k)))
        for process in processes:
            _hear(process)
        for process in processes:
            _tell(process, Ready())
        return float(sum(_hear(process) for process in processes))
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _tell(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has died: `_hear` says so
        send(process.stdin, message)


def _hear(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    message = next(receive(process.stdout), Broken("its process died", False, ""))
    if isinstance(message, Broken):
        raise CisrError(f"Stable-Baselines3 cannot be measured: {message.message}")
    return message
