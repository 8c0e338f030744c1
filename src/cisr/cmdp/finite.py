"""The intervention-induced CMDP M_i of a finite task, move by move.

By the rules of `cisr.cmdp.rules`: moves and resets are enumerated here; drives and overrides in `cisr.cmdp.acting`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from operator import or_

import numpy as np

from cisr.cmdp import rules
from cisr.cmdp.acting import driving, overriding
from cisr.cmdp.induced import NOWHERE, Induced, JudgedModel, asked, bools, zones_of
from cisr.core.errors import TaskError
from cisr.core.intervention import Drive, Intervention, Override, Place, Rewind
from cisr.core.libraries import GYMNASIUM
from cisr.core.model import FiniteModel, said
from cisr.core.moves import Move, holds_standing, standing
from cisr.core.task import Task, read_tabular

if GYMNASIUM:
    from cisr.cmdp.toy_text import toy_text_model


def model_of(task: Task) -> FiniteModel | None:
    """The task's own model, else that of a toy-text environment; None where there is neither."""
    if task.model is not None:
        return task.model()
    if task.read_state is not read_tabular:
        return None
    env = task.make_env()
    try:
        return toy_text_model(env)
    finally:
        env.close()


def judge(task: Task, model: FiniteModel) -> JudgedModel:
    """M, with its own horizon. Functions are shown copies: what they change is theirs."""
    move = Move(model.states[model.target], model.reward, model.terminated, model.action)
    failed = reduce(or_, (asked(danger, move) for danger in task.dangers.values()))
    return JudgedModel(
        model=model,
        horizon=model.lasting(task.horizon),
        move=move,
        failed=bools(failed, len(model.target), f"danger of task '{task.name}'"),
        succeeded=bools(asked(task.success, move), len(model.target), f"success of task '{task.name}'"),
        perilous=bools(_perilous(task, model), model.n_states, f"danger of task '{task.name}'"),
    )


def _perilous(task: Task, model: FiniteModel) -> np.ndarray:
    """Where danger holds of students that are put there, (n,)."""
    put = standing(model.states)
    return np.asarray(np.any([asked(partial(holds_standing, danger), put) for danger in task.dangers.values()], axis=0))


def world_of(task: Task, judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i with its own horizon, which may be longer or shorter than M's."""
    return induce(replace(judged, horizon=judged.model.lasting(task.horizon_under(intervention))), intervention)


def induce(judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i of a task M."""
    match intervention.reset:
        case Drive():
            return driving(judged, intervention)
        case Override():
            return overriding(judged, intervention)
    return _putting(judged, intervention)


def _putting(judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i, with resets worked out for every rescue that can happen.

    `explored` is the smallest set that holds the start and is closed under moves of M (those that do not end the
    episode) and under resets. A reset is asked for where its student can stand: outside D_i, at the start, or where
    another reset put it.
    """
    model, reset, over = judged.model, intervention.reset, judged.over
    zones = zones_of(model, intervention)
    trigger = np.asarray(zones.any(axis=1))
    fired = zones[model.target]
    move = rules.judge(judged.move, judged.failed[:, None], judged.succeeded, fired)
    unmodelled = _beyond_a_graph(intervention)
    ends = intervention.ends_episodes or unmodelled is not None  # rescues, for all that the graph can tell
    lands = np.where(move.over | (move.rescued & ends), NOWHERE, model.target)
    places = rules.to_be_placed(move, not ends)  # moves after which somebody must be placed
    if isinstance(reset, Rewind):
        # One step back is where the student just was. Further back is a state that it visited before: the states that
        # can be reached, and after how many steps at the earliest, are the same as for one step.
        lands[places] = model.source[places]

    explored = judged.starts
    stands = ~trigger | explored  # where a student of M_i may stand
    put = np.full(len(places), NOWHERE)
    failed = judged.failed.copy()
    while True:
        fresh = np.flatnonzero(places & (put == NOWHERE) & explored[model.source] & stands[model.source])
        if isinstance(reset, Place):
            lands[fresh] = _placed(model, intervention, model.source[fresh], model.target[fresh])
            failed[fresh] = judged.perilous[lands[fresh]]
        put[fresh] = lands[fresh]
        lands[fresh[failed[fresh]]] = NOWHERE
        alive = put[fresh[~failed[fresh]]]
        reached = explored.copy()
        reached[model.target[~over & explored[model.source]]] = True
        reached[alive] = True
        stands[alive] = True
        if not len(fresh) and (reached == explored).all():
            break
        explored = reached
    alike = np.arange(model.n_states)
    return Induced(judged, intervention, trigger, fired, failed, lands, put, explored, unmodelled, judged, alike)


def _beyond_a_graph(intervention: Intervention) -> str | None:
    match intervention.reset:
        case Place(n_history=n) if n > 1:
            return f"its reset looks at the last {n} states"
        case Place(n_uniforms=n) if n > 0:
            return "its reset is random in a way that cannot be enumerated"
    return None


def _placed(model: FiniteModel, intervention: Intervention, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Numbers of the states that a `Place` answers for moves source → target, one call for each, as in training."""
    assert isinstance(intervention.reset, Place)
    answers: dict[tuple[int, int], int] = {}
    for s, s_next in zip(source.tolist(), target.tolist(), strict=True):
        if (s, s_next) not in answers:
            vector = np.asarray(asked(intervention.reset.fn, model.states[s_next], model.states[[s]], np.empty(0)))
            number = model.numbers.get(tuple(vector.tolist())) if vector.shape == model.states.shape[1:] else None
            if number is None:
                entered = f"{said(model.vector(s_next))} entered from {said(model.vector(s))}"
                raise TaskError(
                    f"The reset of '{intervention.name}' answered {vector.tolist()} for state {entered}: "
                    f"answer one of the model's {model.n_states} states."
                )
            answers[s, s_next] = number
    return np.array([answers[pair] for pair in zip(source.tolist(), target.tolist(), strict=True)], int)
