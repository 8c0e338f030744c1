"""All functions of a task that a verdict rests on, with what each is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from cisr.core.intervention import Array, Drive, Intervention, Override, Place
from cisr.core.moves import Move, Transition, holds_standing, standing
from cisr.core.task import Task

Cases = tuple[Any, ...]
"""What a function is asked about, n times: arrays (n, ...) or a `Move` of them, those of states first."""


class Asked(NamedTuple):
    """A function of a task and the cases that it is asked about."""

    what: str
    fn: Callable[..., Array]
    cases: Cases
    answers: Literal["bool", "action", "number", "state"] = "bool"
    n_states: int = 1
    """How many parts of the cases are states."""
    any_shape: bool = False
    """Whether batches may have more than one axis, or none."""


def predicates(task: Task, states: np.ndarray, moves: Move) -> Iterator[Asked]:
    """Triggers of states, dangers, success."""
    for intervention in task.interventions:
        for name, trigger in ({} if intervention.judges_actions else intervention.triggers).items():
            yield Asked(f"trigger '{name}' of '{intervention.name}'", trigger, (states,), any_shape=True)
    for name, danger in task.dangers.items():
        yield Asked(f"danger '{name}'", danger, (moves,), any_shape=True)
    yield Asked("success", task.success, (moves,), any_shape=True)


def actors(task: Task, states: np.ndarray, deeds: Cases) -> Iterator[Asked]:
    """What acts in a student's place, and says when; `deeds` are states with the actions chosen there."""
    for intervention in task.interventions:
        whose = f"of '{intervention.name}'"
        if intervention.judges_actions:
            yield from (Asked(f"trigger '{name}' {whose}", f, deeds) for name, f in intervention.triggers.items())
        match intervention.reset:
            case Override(act):
                yield Asked(f"act {whose}", act, deeds, "action")
            case Drive(controller, until):
                yield Asked(f"controller {whose}", controller, (states,), "action")
                if until is not None:
                    yield Asked(f"until {whose}", until, (states,))


def others(task: Task, states: np.ndarray, moves: Move) -> Iterator[Asked]:
    """Dangers of whom nobody moved there, and what the task itself pays."""
    for name, danger in task.dangers.items():
        yield Asked(f"danger '{name}'", partial(holds_standing, danger), (standing(states),))
    if (reward := task.reward) is not None:
        yield Asked("reward", partial(_paid, reward), (moves,), "number")


def _paid(reward: Callable[[Transition], Array], move: Move) -> Array:
    no = np.zeros(np.shape(move.reward), bool)
    return reward(Transition(move, no, no, move.state, no))


def resets(
    interventions: Iterable[Intervention], cases: Callable[[Intervention, Place], Cases | None]
) -> Iterator[Asked]:
    """Functions of `Place`, each asked about one student at a time, as in play: state, history and u."""
    for intervention in interventions:
        reset = intervention.reset
        assert isinstance(reset, Place)
        if (about := cases(intervention, reset)) is not None:
            yield Asked(f"reset of '{intervention.name}'", partial(_each, reset.fn), about, "state", n_states=2)


def _each(fn: Callable[..., Array], *about: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(fn(*one)) for one in zip(*about, strict=True)])
