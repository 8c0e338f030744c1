"""Are environments put back to where they were? By `place` from numbers, by `restore` from what `save` kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cisr.auditing.play import same
from cisr.auditing.trials import Situation, Trials, flat, short, similar
from cisr.cmdp.answers import copied
from cisr.cmdp.memory import way_back
from cisr.cmdp.saving import Saving
from cisr.core.intervention import Rewind
from cisr.core.moves import Move
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

log = logging.getLogger(__name__)


class Misled(NamedTuple):
    what: str
    message: str
    state: np.ndarray  # (d,) where the environment should have been


def placing(task: Task, trials: Trials, n: int) -> Iterator[Misled]:
    """Put a second environment, which went elsewhere, to where the first one is; then both must go on alike."""
    if task.place is None:
        return
    for situation in trials.situations(n):
        state = situation.state
        second = trials.wander(situation.point.seed)
        given = state.copy()
        seen = copied(task.place(second, given))
        if not same(given, state):
            message: str | None = "changed the state it was given"
        else:
            message = _elsewhere(task, trials, situation, second, seen, partial(task.place, second, state.copy()))
        if message is None and (parting := _parting(task, trials, situation, second)):
            message = f"forgets something: {parting} (a clock or another hidden variable belongs into the state)"
        if message is not None:
            yield Misled("place", message, state)


def _elsewhere(
    task: Task, trials: Trials, situation: Situation, env: Any, seen: Any, again: Callable[[], Any]
) -> str | None:
    """How an environment that was put into a situation differs from it; None where it does not. `again` puts it there
    once more."""
    now = np.array(task.read_state(env))
    if difference := trials.difference(Move(situation.state, 0.0, False), Move(now, 0.0, False)):
        return f"led elsewhere: {difference}"
    if not similar(flat(situation.observation), flat(seen), tolerance=trials.tolerance):
        second = again()
        if second is not None and not similar(flat(seen), flat(second), tolerance=trials.tolerance):
            return None  # what is seen of a state is drawn anew: there are noisy sensors
        return f"showed the observation {short(seen)}, but {short(situation.observation)} is seen there"
    return None


def _parting(task: Task, trials: Trials, situation: Situation, second: Any) -> str | None:
    """Where two environments part that should be in the same state; None where they do not."""
    place, actions = task.place, trials.some_actions(situation.point)
    assert place is not None
    parting = trials.parting(trials.follow(situation.env, actions), trials.follow(second, actions))
    if parting is None or trials.randomness_is_known(
        situation.point, actions, second, lambda env: place(env, situation.state.copy())
    ):
        return parting
    _warn(trials, "place")
    return None


def rewinding(task: Task, trials: Trials, n: int) -> Iterator[Misled]:
    """Save an environment, go on, and have it put back; then it must go on as it did, as often as it is put back."""
    if not any(isinstance(intervention.reset, Rewind) for intervention in task.interventions):
        return
    for situation in trials.situations(n):
        env = situation.env
        way = way_back(task, env)
        if way is None:
            return
        actions = trials.some_actions(situation.point)
        saved = way.save(env)
        courses = [trials.follow(env, actions)]
        for _ in range(2):
            seen = copied(way.restore(env, saved))
            if seen is None:
                seen = situation.observation
            if message := _elsewhere(task, trials, situation, env, seen, partial(way.restore, env, saved)):
                yield Misled("restore", message, situation.state)
                break
            courses.append(trials.follow(env, actions))
        else:
            first, second, third = courses
            parting = trials.parting(first, second)
            if parting is None:
                continue
            if trials.parting(second, third) and not _same_luck(trials, situation, actions, way, saved):
                _warn(trials, "restore")
            else:  # what it forgets may have changed once more, as a clock does
                yield Misled("restore", f"forgets something: {parting}", situation.state)


def _same_luck(trials: Trials, situation: Situation, actions: list[Any], way: Saving, saved: Any) -> bool:
    """Whether it is no chance that an environment goes on differently every time that it is put back."""
    try:
        return trials.randomness_is_known(situation.point, actions, situation.env, lambda env: way.restore(env, saved))
    except users_errors():  # in training nobody is put back into another episode than the one that was saved
        return False


def _warn(trials: Trials, what: str) -> None:
    if trials.warns_of_randomness():
        log.warning(
            "%s: random numbers cannot be made equal: what follows `%s` was not compared", trials.task.name, what
        )
