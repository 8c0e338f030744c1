"""M_i of a finite task where the rescue acts: a controller that drives, or a shield that acts in the student's place.

A drive is a walk through states of its own, one for each state of M and number of steps driven so far: one step of the
clock each, in which every action of the student's does the same. So whatever holds of processes of single steps
(searches, backward induction, linear programs) holds of drives. An override gives a state and action the moves of
another action.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cisr.cmdp.induced import NOWHERE, Induced, JudgedModel, bools, zones_of
from cisr.core.errors import TaskError
from cisr.core.intervention import Drive, Intervention, Override
from cisr.core.model import FiniteModel


def overriding(judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i under an `Override`: no state is in D_i, pairs of states and actions are."""
    assert isinstance(intervention.reset, Override)
    model = judged.model
    source, action = (pairs.ravel() for pairs in np.indices((model.n_states, model.n_actions)))  # (n * A,) each
    asked = (model.states[source], action)
    fired = np.stack(
        [
            bools(trigger(asked[0].copy(), action.copy()), len(action), f"trigger '{name}' of '{intervention.name}'")
            for name, trigger in intervention.triggers.items()
        ],
        axis=1,
    )  # (n * A, k)
    vetoed = np.asarray(fired.any(axis=1))
    instead = action.copy()
    if vetoed.any():
        given = intervention.reset.act(asked[0], action.copy())
        instead[vetoed] = _actions(given, model, f"act of '{intervention.name}'", len(action))[vetoed]
    pair, move = _moves_of(model, source * model.n_actions + instead)  # (m',) each
    overridden = replace(
        judged,
        model=replace(
            model,
            source=source[pair],
            action=action[pair],
            probability=model.probability[move],
            target=model.target[move],
            reward=model.reward[move],
            terminated=model.terminated[move],
        ),
        move=judged.move.at(move),
        failed=judged.failed[move],
        succeeded=judged.succeeded[move],
    )
    ended = overridden.over | (vetoed[pair] & intervention.ends_episodes)
    lands = np.where(ended, NOWHERE, overridden.model.target)
    explored = judged.starts
    while True:
        reached = explored.copy()
        reached[lands[(lands != NOWHERE) & explored[overridden.model.source]]] = True
        if (reached == explored).all():
            break
        explored = reached
    return Induced(
        judged=overridden,
        intervention=intervention,
        trigger=np.zeros(model.n_states, bool),
        fired=fired[pair],
        failed=overridden.failed.copy(),
        lands=lands,
        put=np.full(len(lands), NOWHERE),
        explored=explored,
        unmodelled=None,
        task=judged,
        base=np.arange(model.n_states),
    )


def driving(judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i under a `Drive`."""
    reset, model = intervention.reset, judged.model
    assert isinstance(reset, Drive)
    n, m = model.n_states, len(model.source)
    zones = zones_of(model, intervention)
    safe = bools(intervention.safe(model.states.copy()), n, f"until of '{intervention.name}'")
    steered = _actions(reset.controller(model.states.copy()), model, f"controller of '{intervention.name}'", n)
    fired = zones[model.target]
    enters = fired.any(axis=1) & ~judged.over  # (m,) after these moves the controller takes over
    road = _road(judged, steered, safe, np.unique(model.target[enters]), min(reset.max_steps, judged.horizon))

    pair, move = _moves_of(model, road.base * model.n_actions + steered[road.base])  # the controller's, (m',) each
    target, depth = model.target[move], road.depth[pair]
    over = judged.over[move]
    on = ~over & ~safe[target] & (depth + 1 < min(reset.max_steps, judged.horizon))
    beyond = np.where(on, road.number(target, depth + 1), target)

    def joined(own: np.ndarray, driven: np.ndarray) -> np.ndarray:
        return np.concatenate([own, np.tile(driven, model.n_actions)])

    base = np.concatenate([np.arange(n), road.base])
    source = joined(model.source, n + pair)
    target = joined(np.where(enters, road.number(model.target, np.zeros(m, int)), model.target), beyond)
    extended = replace(
        model,
        states=np.column_stack([model.states[base], np.concatenate([np.zeros(n, int), 1 + road.depth])]),
        source=source,
        action=np.concatenate([model.action, np.repeat(np.arange(model.n_actions), len(move))]),  # whatever it chose
        probability=joined(model.probability, model.probability[move]),
        target=target,
        reward=joined(model.reward, np.zeros(len(move))),
        terminated=joined(model.terminated, model.terminated[move]),
        start=np.concatenate([model.start, np.zeros(len(road.base))]),
    )
    failed = joined(judged.failed, judged.failed[move])
    whole = replace(
        judged,
        model=extended,
        move=judged.move.at(joined(np.arange(m), move)),
        failed=failed,
        succeeded=joined(judged.succeeded, np.zeros(len(move), bool)),
        perilous=np.concatenate([judged.perilous, np.zeros(len(road.base), bool)]),
    )
    lands = np.where(joined(judged.over, over), NOWHERE, target)
    arrives = joined(np.zeros(m, bool), ~over & ~on)
    trigger = np.concatenate([zones.any(axis=1), np.zeros(len(road.base), bool)])
    return Induced(
        judged=whole,
        intervention=intervention,
        trigger=trigger,
        fired=np.concatenate([fired, np.zeros((len(source) - m, fired.shape[1]), bool)]),
        failed=failed.copy(),
        lands=lands,
        put=np.where(arrives, target, NOWHERE),
        explored=_explored(whole, trigger, lands, base[target], arrives),
        unmodelled=None,
        task=judged,
        base=base,
    )


class _Road:
    """The states of drives: a state of M with the number of steps driven before it, numbered from n on."""

    def __init__(self, n: int, levels: list[np.ndarray]) -> None:
        self.base = np.concatenate([np.zeros(0, int), *levels])  # (r,)
        self.depth = np.repeat(np.arange(len(levels)), [len(level) for level in levels])  # (r,)
        self._numbers = np.full((max(len(levels), 1), n), NOWHERE)
        self._numbers[self.depth, self.base] = n + np.arange(len(self.base))

    def number(self, base: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """NOWHERE where no drive comes by."""
        return np.asarray(self._numbers[np.minimum(depth, len(self._numbers) - 1), base])


def _road(judged: JudgedModel, steered: np.ndarray, safe: np.ndarray, entered: np.ndarray, longest: int) -> _Road:
    model = judged.model
    levels = [entered]
    while len(levels) < longest and len(levels[-1]):
        _, move = _moves_of(model, levels[-1] * model.n_actions + steered[levels[-1]])
        levels.append(np.unique(model.target[move[~judged.over[move] & ~safe[model.target[move]]]]))
    return _Road(model.n_states, levels)


def _explored(
    whole: JudgedModel, trigger: np.ndarray, lands: np.ndarray, moved_to: np.ndarray, arrives: np.ndarray
) -> np.ndarray:
    """States that M can reach, or M_i by drives that set off where students can stand: outside D_i, at the start, or
    where a drive ended."""
    model = whole.model
    explored, stands = whole.starts, ~trigger | whole.starts
    while True:
        reached = explored.copy()
        reached[moved_to[~whole.over & explored[model.source]]] = True
        on = (lands != NOWHERE) & explored[model.source] & stands[model.source]
        reached[lands[on]] = True
        stands[lands[on & arrives]] = True
        if (reached == explored).all():
            return reached
        explored = reached


def _moves_of(model: FiniteModel, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All moves of (state, action) pairs (r,), as two arrays: which of the pairs, and which of the model's moves."""
    order = np.argsort(model.pair, kind="stable")
    first = np.searchsorted(model.pair[order], pairs)
    fan = np.searchsorted(model.pair[order], pairs, side="right") - first
    which = np.repeat(np.arange(len(pairs)), fan)
    within = np.arange(len(which)) - np.repeat(np.cumsum(fan) - fan, fan)
    return which, order[first[which] + within]


def _actions(given: Any, model: FiniteModel, what: str, n: int) -> np.ndarray:
    actions = np.asarray(given)
    wrong = actions.shape != (n,) or actions.dtype.kind not in "iu"
    if wrong or (actions < 0).any() or (actions >= model.n_actions).any():
        raise TaskError(
            f"The {what} answered {actions.dtype} of shape {actions.shape} for {n} states: answer one of the model's "
            f"{model.n_actions} actions for each."
        )
    return actions
