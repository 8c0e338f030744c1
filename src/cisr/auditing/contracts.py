"""Checks of what a user brings.

Every broken promise is named, with the state that shows it. What is not named is not proved: the states tried are those
that random play meets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cisr.auditing.agreement import disagreement, predicates
from cisr.auditing.excursions import jax_excursions
from cisr.auditing.trials import Situation, Trials, far_apart, flat, same, similar
from cisr.cmdp.finite import model_of
from cisr.core.checks import check_whole
from cisr.core.errors import words_of
from cisr.core.intervention import Array, Intervention, Place
from cisr.core.seeding import check_seed, derive_seed, generator
from cisr.core.task import Move, Task, check_task_given, standing
from cisr.system.interrupts import interrupts_told_apart, users_errors

log = logging.getLogger(__name__)

N_ALONE = 50
"""States that triggers are asked about one by one."""
N_SITUATIONS = 12
"""States from which `place` is tried."""


@dataclass(frozen=True, kw_only=True)
class ContractViolation:
    """Something that cisr relies on and that does not hold."""

    what: str
    """Who broke it: `trigger 'rescues' of 'SR1'`, `place`, `the environment`, …"""
    message: str
    state: tuple[float, ...] | None = None
    """A state vector that shows it, where there is one."""

    def __str__(self) -> str:
        shown = "" if self.state is None else f", in state {_short(self.state)}"
        return f"{self.what}: {self.message}{shown}"

    __repr__ = __str__  # what `assert not check_task(task)` shows


@interrupts_told_apart()
def check_task(
    task: Task, *, seed: int = 0, n_steps: int = 300, tolerance: float = 1e-4
) -> tuple[ContractViolation, ...]:
    """The promises that a task breaks; empty when all is well.

    States are collected in about `n_steps` of random play without an intervention, and starts and moves as training
    meets them (`cisr.auditing.excursions`), more where the task has a model. Then:
    - triggers, danger and success are pure: they give the same answers to the same questions, one by one, in batches of
      any shape and in any order, and leave what they are shown as it was;
    - the model, where there is one, has all starts and moves that were met, about as often as they were met;
    - episodes start outside danger and outside the trigger sets;
    - resets are functions of their arguments and land outside the trigger set;
    - `place` leads to the state that was read, shows what was seen there, and what follows is what would have followed
      up to a relative `tolerance`, because simulators keep single precision (and with equal random numbers: where they
      cannot be made equal, a line in the log says that this was left out);
    - nothing else moves the environment: neither reading its state nor another environment's steps.
    """
    check_task_given(task)
    seed, n_steps = check_seed(seed), check_whole("The number of steps", n_steps)
    found: dict[str, ContractViolation] = {}
    try:
        modelled = model_of(task) is not None
        with Trials(task, derive_seed(seed, "check task"), n_steps, tolerance, modelled=modelled) as trials:
            for checks in ((_reading, _predicates), (_resets, _restoring, _solitude), (_starts, _model)):
                for promise in (promise for check in checks for promise in check(task, trials)):
                    found.setdefault(promise.what, promise)
                if found:  # the checks that follow rely on these
                    break
    except users_errors() as error:
        found["the environment"] = ContractViolation(what="the environment", message=_raised(error))
    return tuple(found.values())


def _reading(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    for _, env, first, _ in trials.situations(N_SITUATIONS):
        if first.ndim != 1:
            yield ContractViolation(what="read_state", message=f"gives shape {first.shape}: give a vector (d,)")
            return
        if not same(first, task.read_state(env)):
            yield ContractViolation(
                what="read_state", message="gives another state when asked again", state=_shown(first)
            )


def _predicates(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    for what, judge in predicates(task):
        yield from _purity(what, judge, trials.moves)


def _purity(what: str, fn: Callable[[Move], Array], moves: Move) -> Iterator[ContractViolation]:
    """Ask about the same moves in several ways; the first answer that differs is reported."""
    n = len(moves.state)
    numbers = np.arange(n)
    orders = {
        "in one batch": numbers,
        "in the same batch again": numbers,
        "in reverse order": numbers[::-1],
        "in a batch of shape (n, 1)": numbers[:, None],
        "in a batch of shape (2, n)": np.stack([numbers, numbers]),
    }
    some = range(0, n, max(n // N_ALONE, 1))
    questions = [*orders.items(), *(("alone", np.array(i)) for i in some)]
    first: np.ndarray | None = None
    for way, chosen in questions:
        shown = Move(*(np.array(part[chosen]) for part in moves))
        asked = Move(*(part.copy() for part in shown))
        try:
            answer = np.asarray(fn(asked))
        except users_errors() as error:
            yield ContractViolation(what=what, message=f"{_raised(error)}, when asked {way}")
            return
        if answer.shape != chosen.shape or answer.dtype != bool:
            yield ContractViolation(
                what=what,
                message=f"answered {answer.dtype} of shape {answer.shape} when asked {way}, for states of shape "
                f"{chosen.shape} × (d,): answer one bool for each; index the last axis of the state (state[..., 0])",
            )
            return
        for mine, theirs in zip(shown, asked, strict=True):
            if not same(mine, theirs):
                where = far_apart(mine, theirs, chosen.shape)
                yield ContractViolation(
                    what=what, message="changed what it was shown", state=_shown(shown.state[where])
                )
                return
        first = answer if first is None else first
        if not np.array_equal(answer, first[chosen]):
            where = far_apart(answer, first[chosen], chosen.shape)
            yield ContractViolation(
                what=what,
                message=f"answered {answer[where]} when asked {way} and {first[chosen][where]} in one batch: the "
                f"answer must follow from the state alone",
                state=_shown(shown.state[where]),
            )
            return


def _model(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Random play in the environment is what the model says, and so is that of the JAX environment."""
    model = model_of(task)
    if model is None:
        return
    if found := disagreement(task, model, trials.seen.episodes, trials.seen.starts):
        yield ContractViolation(what="the model", message=found.message, state=_shown(found.state))
    if task.jax_env is not None and not found:
        compiled = jax_excursions(task, trials.seed)
        if found := disagreement(task, model, compiled.episodes):
            yield ContractViolation(what="the JAX environment", message=found.message, state=_shown(found.state))


def _starts(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """A rescue answers a move: whoever starts inside a trigger set, or in danger, is not rescued from there."""
    for name, danger in task.dangers.items():
        for start in trials.starts[np.asarray(danger(standing(trials.starts)))]:
            yield ContractViolation(
                what=f"danger '{name}'", message="holds where an episode starts", state=_shown(start)
            )
    for intervention in task.interventions:
        for name, trigger in intervention.triggers.items():
            for start in trials.starts[np.asarray(trigger(trials.starts))]:
                what, message = f"trigger '{name}' of '{intervention.name}'", "holds where an episode starts"
                yield ContractViolation(what=what, message=message, state=_shown(start))


def _resets(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    for intervention in task.interventions:
        if isinstance(intervention.reset, Place):
            yield from _placing(f"reset of '{intervention.name}'", intervention, intervention.reset, trials)


def _placing(what: str, intervention: Intervention, reset: Place, trials: Trials) -> Iterator[ContractViolation]:
    rng = generator(trials.seed, what)
    for state, history in trials.triggered(intervention, reset.n_history):
        u = rng.random(reset.n_uniforms)
        given = (state.copy(), history.copy(), u.copy())
        try:
            put, again = np.asarray(reset.fn(*given)), reset.fn(state.copy(), history.copy(), u.copy())
        except users_errors() as error:
            yield ContractViolation(what=what, message=_raised(error), state=_shown(state))
            return
        if put.shape != state.shape:
            message = f"answered shape {put.shape} for a state of shape {state.shape}: answer a state"
        elif not all(same(a, b) for a, b in zip(given, (state, history, u), strict=True)):
            message = "changed what it was shown"
        elif not same(put, again):
            message = "put the student elsewhere when asked again: what is random must come from u"
        elif not np.isfinite(put).all():
            message = f"put the student into {_short(put)}: give finite numbers"
        elif bool(np.all(intervention.triggered(put[None]))):
            message = f"put the student into {_short(put)}, which is in the trigger set"
        elif bool(np.all(trials.task.failed(standing(put[None])))):
            message = f"put the student into {_short(put)}, which is in danger"
        else:
            continue
        yield ContractViolation(what=what, message=message, state=_shown(state))


def _restoring(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Put a second environment, which went elsewhere, to where the first one is; then both must go on alike."""
    for situation in trials.situations(N_SITUATIONS):
        state = situation.state
        second = trials.wander(situation.point.seed)
        given = state.copy()
        seen = task.place(second, given)
        now = np.array(task.read_state(second))
        if not same(given, state):
            message = "changed the state it was given"
        elif difference := trials.difference(Move(state, 0.0, False), Move(now, 0.0, False)):
            message = f"led elsewhere: {difference}"
        elif not similar(flat(situation.observation), flat(seen), tolerance=trials.tolerance):
            message = f"showed the observation {_short(seen)}, but {_short(situation.observation)} is seen there"
        elif parting := _parting(trials, situation, second):
            message = f"forgets something: {parting} (a clock or another hidden variable belongs into the state)"
        else:
            continue
        yield ContractViolation(what="place", message=message, state=_shown(state))


def _parting(trials: Trials, situation: Situation, second: Any) -> str | None:
    """Where two environments part that should be in the same state; None where they do not."""
    actions = trials.some_actions(situation.point)
    parting = trials.parting(trials.follow(situation.env, actions), trials.follow(second, actions))
    if parting is None or trials.randomness_is_known(situation.point, actions):
        return parting
    if trials.warns_of_randomness():
        log.warning("%s: random numbers cannot be made equal: what follows `place` was not compared", trials.task.name)
    return None


def _solitude(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Predicates, resets and other environments leave an environment where it is."""
    for point, env, state, _ in trials.situations(N_SITUATIONS):
        for intervention in task.interventions:
            intervention.triggered(np.array(task.read_state(env))[None])
        if not same(state, task.read_state(env)):
            message = "a trigger moved it"
            yield ContractViolation(what="the environment", message=message, state=_shown(state))
        trials.wander(point.seed + 1)
        if not same(state, task.read_state(env)):
            message = "moved when another environment was stepped: they share something"
            yield ContractViolation(what="the environment", message=message, state=_shown(state))


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {words_of(error)}"


def _shown(state: Any) -> tuple[float, ...] | None:
    return None if state is None else tuple(np.asarray(state).ravel().tolist())


def _short(value: Any) -> str:
    numbers = flat(value)
    return np.array2string(numbers, precision=6, threshold=12, edgeitems=4, separator=", ").replace("\n", "")
