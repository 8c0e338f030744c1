"""The intervention-induced CMDP M_i of a finite task, move by move.

By the rules of `cisr.cmdp.rules`: moves and resets are enumerated here. D is a set of *moves*: some
environments show danger only in the reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cisr.cmdp import rules
from cisr.core.errors import TaskError
from cisr.core.intervention import Intervention, Place, Rewind, ToStart
from cisr.core.model import FiniteModel, said
from cisr.core.task import Move, Task, read_tabular, standing

NOWHERE = -1
"""Where a student stands when its episode has ended."""


def model_of(task: Task) -> FiniteModel | None:
    """The task's own model, else that of a toy-text environment; None where there is neither."""
    if task.model is not None:
        return task.model()
    if task.read_state is not read_tabular:
        return None
    from cisr.cmdp.toy_text import toy_text_model  # brings in gymnasium

    env = task.make_env()
    try:
        return toy_text_model(env)
    finally:
        env.close()


@dataclass(frozen=True, eq=False)
class JudgedModel:
    """M: a model's moves with what the task makes of them."""

    model: FiniteModel
    horizon: int
    """T: steps of an episode, the task's or an intervention's, or fewer where the environment itself cuts it off."""
    move: Move
    failed: np.ndarray  # (m,) bool: the move is a visit to D
    succeeded: np.ndarray  # (m,) bool
    perilous: np.ndarray  # (n,) bool: whoever is put there, by a start or by a rescue, stands in D

    @property
    def doomed(self) -> np.ndarray:
        """Starts inside D, (n,) bool; the first step of their episodes is a failure, whatever it does."""
        return np.asarray((self.model.start > 0) & self.perilous)

    @property
    def starts(self) -> np.ndarray:
        """Where students can begin to act, (n,) bool."""
        return np.asarray((self.model.start > 0) & ~self.doomed)

    @property
    def over(self) -> np.ndarray:
        """Which moves end the episode in M, (m,) bool."""
        return np.asarray(self.failed | self.model.terminated)

    @property
    def dangerous(self) -> np.ndarray:
        """The states in D, (n,) bool: moves lead there, and every one of them is a failure.

        Where danger is a property of states this is that property; a state that CliffWalking carries the fallen to,
        and that can be entered by an ordinary step as well, is not dangerous.
        """
        n = self.model.n_states
        entered, entered_well = np.zeros(n, bool), np.zeros(n, bool)
        entered[self.model.target] = True
        entered_well[self.model.target[~self.failed]] = True
        return entered & ~entered_well


@dataclass(frozen=True, eq=False)
class Induced:
    """M_i: where each move of M leaves the student under an intervention."""

    judged: JudgedModel
    intervention: Intervention
    trigger: np.ndarray  # (n,) bool: D_i
    fired: np.ndarray  # (m, k) bool: by which of the k triggers a move is counted as a rescue, even where the episode
    # has ended and nobody is left to place
    failed: np.ndarray  # (m,) bool: the move is a visit to D, or the rescue after it leads there
    lands: np.ndarray  # (m,) state in which the student stands after the step; NOWHERE: the episode has ended
    put: np.ndarray  # (m,) state that a reset put the student into, where this can happen; NOWHERE elsewhere
    explored: np.ndarray  # (n,) bool: states that M can reach, or M_i after a reset
    unmodelled: str | None
    """Why rescues are beyond a finite graph, where they are; `lands` then treats them as the episode's end."""

    @property
    def model(self) -> FiniteModel:
        return self.judged.model

    @property
    def rescued(self) -> np.ndarray:
        """Which moves are counted as a rescue, (m,) bool."""
        return np.asarray(self.fired.any(axis=1))


def judge(task: Task, model: FiniteModel) -> JudgedModel:
    """M, with its own horizon."""
    move = Move(state=model.states[model.target], reward=model.reward, terminated=model.terminated)
    return JudgedModel(
        model=model,
        horizon=model.lasting(task.horizon),
        move=move,
        failed=_bools(task.failed(move), len(model.target), f"danger of task '{task.name}'"),
        succeeded=_bools(task.success(move), len(model.target), f"success of task '{task.name}'"),
        perilous=_bools(task.failed(standing(model.states)), model.n_states, f"danger of task '{task.name}'"),
    )


def induce(judged: JudgedModel, intervention: Intervention) -> Induced:
    """M_i, with resets worked out for every rescue that can happen.

    `explored` is the smallest set that holds the start and is closed under moves of M (those that do not end the
    episode) and under resets. A reset is asked for where its student can stand: outside D_i, at the start, or where
    another reset put it.
    """
    model, reset, over = judged.model, intervention.reset, judged.over
    zones = [
        _bools(trigger(model.states), model.n_states, f"trigger '{name}' of '{intervention.name}'")
        for name, trigger in intervention.triggers.items()
    ]
    trigger = np.any(zones, axis=0)
    fired = np.stack(zones, axis=1)[model.target]
    move = rules.judge(judged.move, judged.failed[:, None], judged.succeeded, fired)
    unmodelled = _beyond_a_graph(intervention)
    ends = isinstance(reset, ToStart) or unmodelled is not None  # rescues, for all that the graph can tell
    lands = np.where(move.over | (move.rescued & ends), NOWHERE, model.target)
    places = rules.to_be_placed(move, ends)  # moves after which somebody must be placed
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
    return Induced(judged, intervention, trigger, fired, failed, lands, put, explored, unmodelled)


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
            vector = np.asarray(intervention.reset.fn(model.states[s_next], model.states[[s]], np.empty(0)))
            number = model.numbers.get(tuple(vector.tolist())) if vector.shape == model.states.shape[1:] else None
            if number is None:
                entered = f"{said(model.vector(s_next))} entered from {said(model.vector(s))}"
                raise TaskError(
                    f"The reset of '{intervention.name}' answered {vector.tolist()} for state {entered}: "
                    f"answer one of the model's {model.n_states} states."
                )
            answers[s, s_next] = number
    return np.array([answers[pair] for pair in zip(source.tolist(), target.tolist(), strict=True)], int)


def _bools(answer: Any, n: int, what: str) -> np.ndarray:
    verdict = np.asarray(answer)
    if verdict.shape != (n,) or verdict.dtype != bool:
        raise TaskError(
            f"The {what} answered {verdict.dtype} of shape {verdict.shape} for {n} states: "
            "answer one bool for each; index the last axis of the state (state[..., 0])."
        )
    return verdict
