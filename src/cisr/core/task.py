"""Task: what the user brings. An environment, what is dangerous in it, and the interventions that protect from it.

All predicates are array code over a leading batch shape `(...)`: they index the last axis of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.core.appearance import Appearance
from cisr.core.checks import (
    check_function,
    check_kind,
    check_number,
    check_predicates,
    check_text,
    check_whole,
    is_one_of,
    keep,
    shown,
)
from cisr.core.constraints import Form
from cisr.core.errors import ConfigError
from cisr.core.intervention import NONE, Array, Intervention, Place
from cisr.core.moves import Move as Move
from cisr.core.moves import Transition as Transition
from cisr.core.moves import standing as standing
from cisr.core.rewinds import back
from cisr.core.training import Training

if TYPE_CHECKING:
    import gymnasium

    from cisr.core.jax_env import JaxEnv
    from cisr.core.model import FiniteModel

RESERVED_NAMES = ("none", "bandit")


def read_tabular(env: gymnasium.Env[Any, Any]) -> np.ndarray:
    """State vector [s] of Gymnasium's toy-text environments, which keep their state in `env.unwrapped.s`."""
    return np.array([env.unwrapped.s])  # type: ignore[attr-defined]


def place_tabular(env: gymnasium.Env[Any, Any], state: np.ndarray) -> Any:
    """Put a toy-text environment into a state; its observation is the state's number."""
    env.unwrapped.s = int(state[0])  # type: ignore[attr-defined]
    return env.unwrapped.s  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Task:
    """The CMDP M = ⟨S, A, P, r, D⟩ with its tolerance κ and horizon T, and the interventions on offer."""

    name: str
    make_env: Callable[..., gymnasium.Env[Any, Any]]
    """Makes a fresh environment; keyword arguments such as `render_mode` are passed on."""
    danger: Callable[[Move], Array] | Mapping[str, Callable[[Move], Array]]
    """danger(move) -> bool (...): is this a visit to D, a failure? Several by name are told apart in results."""
    success: Callable[[Move], Array]
    """success(move) -> bool (...): if the episode ends with this move, is that a success? Where getting to the horizon
    is one: `lambda move: ~move.terminated`. An end that a rescue makes, or drives to, is none."""
    interventions: tuple[Intervention, ...]
    horizon: int
    """T: an episode is cut off after this many steps, rescues included; an intervention may have a limit of its own."""
    reward: Callable[[Transition], Array] | None = None
    """reward(transition) -> (...): what the student is paid, where that is not the environment's reward."""
    read_state: Callable[[gymnasium.Env[Any, Any]], np.ndarray] = read_tabular
    """The environment's state as a vector (d,): what triggers, resets, danger and success see of it."""
    place: Callable[[gymnasium.Env[Any, Any], np.ndarray], Any] | None = None
    """Put the environment into a state (d,) and return the observation there. Only `Place` needs it; without `save`
    rewinds use it, too. Toy-text environments with the default `read_state` have one."""
    save: Callable[[gymnasium.Env[Any, Any]], Any] | None = None
    """save(env) -> anything from which `restore` can put the environment back. None, without a `place`: the best that
    `cisr.saving` knows for the environment, else a copy of it with its wrappers."""
    restore: Callable[[gymnasium.Env[Any, Any], Any], Any] | None = None
    """Put the environment back to where `save` saw it, as often as asked, and return the observation there; None stands
    for the observation that was seen then. Random generators and clocks should go on."""
    kappa: float = 0.0
    """Tolerance κ of the task itself for failures."""
    constraint_form: Form = "mean"
    safe_evaluation: str | None = None
    """Name of the intervention that induces M_0, where policies can be evaluated without danger."""
    max_reward: float = 1.0
    """R_max: an episode of M_0 with a rescue or a failure scores −2·T_0·R_max."""
    jax_env: Callable[[], JaxEnv] | None = None
    """Makes the JAX environment of the environment, where the task has one."""
    jax_draws: Callable[[int, int], tuple[np.ndarray, np.ndarray]] | None = None
    """draws(seed, n_steps) -> uniforms (n_reset_uniforms,) and (n_steps, n_step_uniforms): those by which the JAX
    environment plays the episode that the environment plays from this seed. With it, failures that are found in the one
    can be played in the other."""
    model: Callable[[], FiniteModel] | None = None
    """Makes the transition model of a finite task, where it has one that the environment does not show itself."""
    version: str | int | None = None
    """Stands for what a store cannot see of a task: files that it reads, objects that cannot be looked into. Change it
    whenever they change."""
    training: Training = field(default_factory=Training)
    """How students and teachers are trained on it unless told otherwise."""
    appearance: Appearance = field(default_factory=Appearance)
    """What tables and pictures show of it."""

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
        if not is_one_of(self.constraint_form, ("mean", "sum")):
            raise ConfigError(f"Task '{self.name}' has constraint_form={self.constraint_form!r}: give 'mean' or 'sum'.")
        if len({tuple(i.triggers) for i in self.interventions}) > 1:
            raise ConfigError(
                f"Task '{self.name}' has interventions with triggers {[list(i.triggers) for i in self.interventions]}: "
                f"give all of them the same names; multipliers carry over from one to the next."
            )
        self._check_ways_back()
        for reference in (self.safe_evaluation, *self.training.teaching.interventions):
            if reference is not None:
                self.intervention(reference)

    def _check_ways_back(self) -> None:
        if self.place is None and self.read_state is read_tabular:
            keep(self, place=place_tabular)
        if (self.save is None) != (self.restore is None):
            given, missing = ("save", "restore") if self.restore is None else ("restore", "save")
            raise ConfigError(f"Task '{self.name}' has a {given} and no {missing}: give both, or neither.")
        for intervention in self.interventions:
            if isinstance(intervention.reset, Place) and self.place is None:
                raise ConfigError(
                    f"Intervention '{intervention.name}' of task '{self.name}' is a Place, and the task has no way "
                    f"from numbers to a state: give it place(env, state), or use Rewind, ToStart, Drive or Override."
                )

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
            kappa=check_number(f"The kappa {its}", self.kappa, 0),
            max_reward=check_number(f"The max_reward {its}", self.max_reward, 0),
        )
        for hook in ("reward", "jax_env", "jax_draws", "model", "place", "save", "restore"):
            if getattr(self, hook) is not None:
                check_function(f"The {hook} {its}", getattr(self, hook), "or None")
        check_function(f"The read_state {its}", self.read_state, "of an environment that returns its state (d,)")
        check_kind(f"The safe_evaluation {its}", self.safe_evaluation, (str, type(None)), "a text or None")
        check_kind(f"The version {its}", self.version, (str, int, type(None)), "a text, a whole number or None")
        check_kind(f"The training {its}", self.training, Training, "a cisr.Training")
        check_kind(f"The appearance {its}", self.appearance, Appearance, "a cisr.Appearance")

    def with_training(self, **changes: Any) -> Task:
        """The same CMDP with other fields of its `Training`."""
        return replace(self, training=replace(self.training, **changes))

    def with_teaching(self, **changes: Any) -> Task:
        """The same CMDP with other fields of its `Teaching`."""
        return self.with_training(teaching=replace(self.training.teaching, **changes))

    def intervention(self, name: str) -> Intervention:
        """The intervention of that name; `none` is always there, and `Back-x` where the task has a rewind."""
        check_text("The name of an intervention", name)
        for intervention in (*self.interventions, self._nothing()):
            if intervention.name == name:
                return intervention
        if (rewind := back(name, self.interventions)) is not None:
            return rewind
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
        """Ways in which an episode can end, the first that holds: `rescue` is the end that a ToStart makes or a Drive
        comes to, `other` the environment's own."""
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
        return self.training.teaching.interventions or self.intervention_names

    @property
    def intervention_names(self) -> tuple[str, ...]:
        return tuple(intervention.name for intervention in self.interventions)


def check_task_given(task: Any) -> None:
    check_kind("The task", task, Task, 'a cisr.Task, such as get_task("frozen-lake")')
