"""Task: what the user brings. An environment, what is dangerous in it, and the interventions that protect from it.

All predicates are array code over a leading batch shape `(...)`: they index the last axis of a state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cisr.core.checks import (
    MOST_STUDENTS,
    check_function,
    check_kind,
    check_names,
    check_number,
    check_predicates,
    check_text,
    check_whole,
    keep,
    shown,
)
from cisr.core.constraints import Form
from cisr.core.errors import ConfigError
from cisr.core.intervention import NONE, Array, Intervention, Rewind
from cisr.core.shapes import Check, is_floor_plan, is_state_plot, written

if TYPE_CHECKING:
    import gymnasium

    from cisr.core.jax_env import JaxEnv
    from cisr.core.model import FiniteModel
    from cisr.students.config import Population, StudentConfig

RESERVED_NAMES = ("none", "bandit")
MOST_SWITCHES = 100
MOST_UNITS = 1_000_000


class Move(NamedTuple):
    """What one move of a student led to, before any rescue."""

    state: Array  # (..., d) the state moved to
    reward: Array  # (...) the environment's reward
    terminated: Array  # (...) whether the environment ended the episode


def standing(state: Array) -> Move:
    """States (..., d) that nobody moved to, starts and ends of rescues, as moves: that is how danger judges them."""
    xp, shape = state.__array_namespace__(), state.shape[:-1]
    return Move(state=state, reward=xp.zeros(shape), terminated=xp.zeros(shape, dtype=bool))


class Transition(NamedTuple):
    """A whole step: the student's move and the rescue that followed, if any."""

    move: Move
    failed: Array  # (...)
    rescued: Array  # (...)
    after: Array  # (..., d) where the rescue puts the student, or would, had the move not ended the episode
    timed_out: Array  # (...) the time limit ended the episode with this step


def read_tabular(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    """State vector [s] of Gymnasium's toy-text environments, which keep their state in `env.unwrapped.s`."""
    return np.array([env.unwrapped.s])  # type: ignore[attr-defined]


def place_tabular(env: gymnasium.Env[Any, Any], state: np.ndarray) -> Any:
    """Put a toy-text environment into a state; its observation is the state's number."""
    env.unwrapped.s = int(state[0])  # type: ignore[attr-defined]
    return env.unwrapped.s  # type: ignore[attr-defined]


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
    """The first of these, as points of the search space; the others are random."""
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
                keep(self, **{which: _checked_range(which, given)})
        if self.teacher not in ("top-two", "gp-ucb"):
            raise ConfigError(f"The teacher is {shown(self.teacher)}: give 'top-two' or 'gp-ucb'.")


def _checked_range(which: str, given: Any) -> tuple[float, float]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ConfigError(f"{which} is {shown(given)}: give (low, high), or None.")
    low, high = (check_number(f"An end of {which}", end) for end in given)
    if not low < high:
        raise ConfigError(f"{which} is {shown(given)}: give (low, high) with low < high.")
    return low, high


def _check_picture(what: str, given: Any, is_one: Check) -> None:
    try:
        if given is None or is_one(written(given)):
            return
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"{what} is {shown(given)}: give what cisr.Task says of it, as JSON, or None.")


@dataclass(frozen=True, kw_only=True)
class Task:
    """The CMDP M = ⟨S, A, P, r, D⟩ with its tolerance κ and horizon T, and the interventions on offer."""

    name: str
    make_env: Callable[..., gymnasium.Env[Any, Any]]
    """Makes a fresh environment; keyword arguments such as `render_mode` are passed on."""
    danger: Callable[[Move], Array] | Mapping[str, Callable[[Move], Array]]
    """danger(move) -> bool (...): is this a visit to D, a failure? Several by name are told apart in results."""
    success: Callable[[Move], Array]
    """success(move) -> bool (...): did this move end the episode well?"""
    interventions: tuple[Intervention, ...]
    horizon: int
    """T: an episode is cut off after this many steps, rescues included; an intervention may have a limit of its own."""
    reward: Callable[[Transition], Array] | None = None
    """reward(transition) -> (...): what the student is paid, where that is not the environment's reward."""
    jax_env: Callable[[], JaxEnv] | None = None
    """Makes the JAX environment of the environment, where the task has one."""
    model: Callable[[], FiniteModel] | None = None
    """Makes the transition model of a finite task, where it has one that the environment does not show itself."""
    read_state: Callable[[gymnasium.Env[Any, Any]], np.ndarray] = read_tabular
    """The environment's state as a vector (d,): what triggers and resets see, and enough to be put back there."""
    place: Callable[[gymnasium.Env[Any, Any], np.ndarray], Any] = place_tabular
    """Put the environment into a state (d,) and return the observation there."""
    constraint_form: Form = "mean"
    kappa: float = 0.0
    """Tolerance κ of the task itself for failures."""
    safe_evaluation: str | None = None
    """Name of the intervention that induces M_0, where policies can be evaluated without danger."""
    rewind_like: str | None = None
    """Name of the intervention whose trigger and tolerances the baselines `Back-x` take; they rewind x steps."""
    max_reward: float = 1.0
    """R_max: an episode of M_0 with a rescue or a failure scores −2·T_0·R_max."""
    n_units: int = 10
    """N_s: interaction units that one student learns for."""
    deployment_steps: int = 10_000
    student: StudentConfig | Population | None = None
    """Settings of the students to be taught, or a population that they are drawn from. None: explorers of the
    defaults, see `cisr.explorer`."""
    student_kind: str | None = None
    """What a built-in task calls these students."""
    teaching: Teaching = field(default_factory=Teaching)
    version: str | int | None = None
    """Stands for what a store cannot see of a task: files that it reads, objects that cannot be looked into. Change it
    whenever they change."""
    scale: str = "own"
    """Which scale of a built-in task this is: `paper` or `quick`."""
    description: str = ""
    floor_plan: Mapping[str, Any] | None = None
    """For reports on grid worlds, as JSON: `rows` of letters and `zones`, the trigger tiles of each intervention."""
    state_plot: Mapping[str, Any] | None = None
    """For pictures of where students went, as JSON: `axes` names the first two numbers of a state and `limits` are what
    to show of them; `lines` (by name, each some lists of points) lie behind, `interventions` has such for each."""

    def __post_init__(self) -> None:
        self._check_types()
        names = [intervention.name for intervention in self.interventions]
        if len(set(names)) != len(names):
            raise ConfigError(f"Task '{self.name}' has interventions named {names}: give each a name of its own.")
        for name in names:
            if name in RESERVED_NAMES:
                raise ConfigError(
                    f"Task '{self.name}' calls an intervention '{name}': that name is taken; choose another."
                )
        if self.constraint_form not in ("mean", "sum"):
            raise ConfigError(f"Task '{self.name}' has constraint_form={self.constraint_form!r}: give 'mean' or 'sum'.")
        if len({tuple(i.triggers) for i in self.interventions}) > 1:
            raise ConfigError(
                f"Task '{self.name}' has interventions with triggers {[list(i.triggers) for i in self.interventions]}: "
                f"give all of them the same names; multipliers carry over from one to the next."
            )
        for reference in (self.safe_evaluation, self.rewind_like, *self.teaching.interventions):
            if reference is not None:
                self.intervention(reference)

    def _check_types(self) -> None:
        """A wrong argument is told at once, not by the first student."""
        check_text("The name of a task", self.name)
        its = f"of task '{self.name}'"
        check_function(f"The make_env {its}", self.make_env, "that makes an environment")
        check_predicates(f"The danger {its}", self.danger, "of a cisr.Move")
        check_function(f"The success {its}", self.success, "of a cisr.Move")
        if not isinstance(self.interventions, tuple | list):
            raise ConfigError(
                f"The interventions {its} are {shown(self.interventions)}: give a tuple of Interventions."
            )
        for intervention in self.interventions:
            check_kind(f"An intervention {its}", intervention, Intervention, "a cisr.Intervention")
        keep(
            self,
            horizon=check_whole(f"Task '{self.name}' has horizon=", self.horizon),
            n_units=check_whole(f"Task '{self.name}' has n_units=", self.n_units, 1, MOST_UNITS),
            deployment_steps=check_whole(f"Task '{self.name}' has deployment_steps=", self.deployment_steps),
            kappa=check_number(f"The kappa {its}", self.kappa, 0),
            max_reward=check_number(f"The max_reward {its}", self.max_reward, 0),
        )
        for hook in ("reward", "jax_env", "model"):
            if getattr(self, hook) is not None:
                check_function(f"The {hook} {its}", getattr(self, hook), "or None")
        check_function(f"The read_state {its}", self.read_state, "of an environment that returns its state (d,)")
        check_function(f"The place {its}", self.place, "of an environment and a state (d,)")
        if self.student is not None and not is_dataclass(self.student):
            raise ConfigError(f"The student {its} is {shown(self.student)}: give a cisr.StudentConfig or Population.")
        check_kind(f"The teaching {its}", self.teaching, Teaching, "a cisr.Teaching")
        for name in (self.safe_evaluation, self.rewind_like, self.student_kind):
            check_kind(f"A name {its}", name, (str, type(None)), "a text or None")
        check_kind(f"The version {its}", self.version, (str, int, type(None)), "a text, a whole number or None")
        check_text(f"The scale {its}", self.scale)
        check_text(f"The description {its}", self.description)
        for what, is_one in (("floor_plan", is_floor_plan), ("state_plot", is_state_plot)):
            _check_picture(f"The {what} {its}", getattr(self, what), is_one)

    def intervention(self, name: str) -> Intervention:
        """The intervention of that name; `none` is always there, and `Back-x` where the task has `rewind_like`."""
        for intervention in (*self.interventions, self._nothing()):
            if intervention.name == name:
                return intervention
        back = re.fullmatch(r"Back-(\d{1,9})", name)
        if back and self.rewind_like in self.intervention_names:
            return replace(self.intervention(str(self.rewind_like)), name=name, reset=Rewind(int(back[1])))
        known = ", ".join(i.name for i in (*self.interventions, NONE))
        raise ConfigError(f"Task '{self.name}' has no intervention '{name}': choose one of {known}.")

    def _nothing(self) -> Intervention:
        """M itself as one more M_i, with as many constraints as the others."""
        trigger = dict.fromkeys(self.constraints[1:], NONE.triggers["rescues"])
        return replace(NONE, kappa=self.kappa, trigger=trigger)

    @property
    def constraints(self) -> tuple[str, ...]:
        """What the m constraints count, in the order of every cost vector."""
        return ("failures", *(self.interventions or (NONE,))[0].triggers)

    @property
    def dangers(self) -> dict[str, Callable[[Move], Array]]:
        """The dangers by name."""
        return {"failure": self.danger} if callable(self.danger) else dict(self.danger)

    def failed(self, move: Move) -> Array:
        """Is this a visit to D, (...)?"""
        return reduce(or_, (danger(move) for danger in self.dangers.values()))

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Ways in which an episode can end, the first that holds: `rescue` is the end that a ToStart makes, `other`
        the environment's own."""
        return (*self.dangers, "success", "rescue", "timeout", "other")

    def horizon_under(self, intervention: Intervention) -> int:
        return intervention.horizon or self.horizon

    def violation_score(self, under: str) -> float | None:
        """What replaces the return of an episode with a rescue or a failure, where `under` induces M_0."""
        if under != self.safe_evaluation:
            return None
        return -2 * self.horizon_under(self.intervention(under)) * self.max_reward

    @property
    def choices(self) -> tuple[str, ...]:
        """The interventions that teachers choose from."""
        return self.teaching.interventions or self.intervention_names

    @property
    def intervention_names(self) -> tuple[str, ...]:
        return tuple(intervention.name for intervention in self.interventions)


def check_task_given(task: Any) -> None:
    check_kind("The task", task, Task, 'a cisr.Task, such as get_task("frozen-lake")')
