"""How students and teachers are trained on a task unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from cisr.core.checks import (
    MOST_STUDENTS,
    check_kind,
    check_names,
    check_number,
    check_text,
    check_whole,
    is_one_of,
    keep,
    shown,
)
from cisr.core.errors import ConfigError

if TYPE_CHECKING:
    from cisr.students.config import Population
    from cisr.students.kinds import AnyStudent

MOST_SWITCHES = 100
MOST_UNITS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Teaching:
    """How a teacher is trained on a task unless told otherwise."""

    interventions: tuple[str, ...] = ()
    """What curricula choose from; empty for all of the task's."""
    n_switches: int = 2
    """K: how often a curriculum may change its intervention."""
    return_range: tuple[float, float] | None = None
    """Where thresholds on the mean return are searched; None: where the first students' returns were."""
    violation_range: tuple[float, float] | None = None
    """Where thresholds on the violation are searched; None: where the first students' violations were."""
    patience: int | None = None
    """Units after which a student that has not passed its threshold starts anew; None: teachers wait for ever."""
    n_initial: int = 5
    """Curriculum policies tried before the teacher's model takes over."""
    initial: tuple[Mapping[str, float | str], ...] = ()
    """The first policies of the paper's teacher, as points of the search space; the others are random. Ours begins with
    the interventions in turn, or with the best of them alone followed by each other one."""
    n_rounds: int = 25
    """Curriculum policies that the model chooses."""
    at_once: int = 1
    """Policies that the model chooses at once: more keep more processors busy, fewer learn more from each other."""
    class_size: int = 1
    """Students that try each curriculum policy."""
    teacher: Literal["top-two", "gp-ucb"] = "top-two"
    """Ours, top-two Thompson sampling over a model of students, or the paper's GP-UCB."""
    hyperpriors: tuple[tuple[float, float], ...] | None = None
    """The paper's Gamma priors as (mean, variance): signal, a length-scale for each parameter, noise."""

    def __post_init__(self) -> None:
        check_names("The interventions to teach with", self.interventions)
        keep(self, n_switches=check_whole("n_switches", self.n_switches, 0, MOST_SWITCHES))
        keep(self, n_rounds=check_whole("n_rounds", self.n_rounds, 0, MOST_STUDENTS))
        for count in ("n_initial", "at_once", "class_size"):
            keep(self, **{count: check_whole(count, getattr(self, count), 1, MOST_STUDENTS)})
        if self.patience is not None:
            keep(self, patience=check_whole("patience", self.patience))
        for which in ("return_range", "violation_range"):
            if (given := getattr(self, which)) is not None:
                keep(self, **{which: checked_range(which, given)})
        if not is_one_of(self.teacher, ("top-two", "gp-ucb")):
            raise ConfigError(f"The teacher is {shown(self.teacher)}: give 'top-two' or 'gp-ucb'.")
        if not _all(self.initial, lambda point: isinstance(point, Mapping)):
            raise ConfigError(f"initial is {shown(self.initial)}: give a tuple of points, each a dictionary by name.")
        if self.hyperpriors is not None and not _all(self.hyperpriors, _is_prior):
            raise ConfigError(f"hyperpriors is {shown(self.hyperpriors)}: give a tuple of (mean, variance), or None.")


def _all(given: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(given, tuple | list) and all(map(fits, given))


def _is_prior(given: Any) -> bool:
    return _all(given, lambda number: isinstance(number, int | float) and number > 0) and len(given) == 2


def checked_range(which: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ConfigError(f"{which} is {shown(given)}: give (low, high), or None.")
    low, high = (check_number(f"An end of {which}", end) for end in given)
    if not low < high:
        raise ConfigError(f"{which} is {shown(given)}: give (low, high) with low < high.")
    return low, high


@dataclass(frozen=True, kw_only=True)
class Training:
    """How students are trained and deployed on a task, and how its teachers are, unless told otherwise."""

    n_units: int = 10
    """N_s: interaction units that one student learns for."""
    deployment_steps: int = 10_000
    """Environment steps for which a student is deployed when it has learned, at least."""
    student: AnyStudent | Population | None = None
    """Settings of the students to be taught, or a population that they are drawn from. None: explorers of the
    defaults, see `cisr.explorer`."""
    teaching: Teaching = field(default_factory=Teaching)
    student_kind: str | None = None
    """What a built-in task calls these students."""
    scale: str = "own"
    """What a built-in task calls all of this: `paper` or `quick`."""
    backend: Literal["auto", "gymnasium", "compiled"] = "auto"
    """Where experience comes from; `auto`: compiled where the task has a `jax_env`. A task whose `jax_env` only
    resembles its environment says `gymnasium` wherever that can be made."""
    xla_flags: tuple[str, ...] = ()
    """What XLA is told before it compiles the `jax_env` on a CPU, such as "--xla_cpu_max_isa=AVX"."""

    def __post_init__(self) -> None:
        keep(
            self,
            n_units=check_whole("n_units", self.n_units, 1, MOST_UNITS),
            deployment_steps=check_whole("deployment_steps", self.deployment_steps),
        )
        if self.student is not None and not is_dataclass(self.student):
            raise ConfigError(
                f"The student is {shown(self.student)}: give a cisr.StudentConfig, a Population or an SB3Student."
            )
        check_kind("The teaching", self.teaching, Teaching, "a cisr.Teaching")
        check_kind("The student_kind", self.student_kind, (str, type(None)), "a text or None")
        check_text("The scale", self.scale)
        if not is_one_of(self.backend, ("auto", "gymnasium", "compiled")):
            raise ConfigError(f"The backend is {shown(self.backend)}: give auto, gymnasium or compiled.")
        check_names("The xla_flags", self.xla_flags)
