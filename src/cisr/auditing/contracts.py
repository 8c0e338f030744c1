"""Checks of what a user brings.

Every broken promise is named, with the state that shows it. What is not named is not proved: the states tried are those
that random play meets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cisr.auditing.agreement import PlayedEpisode, disagreement
from cisr.auditing.cases import deeds, rescues, states_and_moves
from cisr.auditing.excursions import N_RESETS, N_STEPS_OLDEST
from cisr.auditing.following import Course
from cisr.auditing.functions import Asked, actors, others, predicates, resets
from cisr.auditing.habits import habits
from cisr.auditing.interrogation import can_hold
from cisr.auditing.play import same
from cisr.auditing.restoring import placing, rewinding
from cisr.auditing.trials import Trials, short
from cisr.cmdp.finite import model_of
from cisr.cmdp.time_limits import shortened_by_its_own
from cisr.core.checks import check_whole
from cisr.core.errors import AnswerError, words_of
from cisr.core.intervention import Intervention, Place
from cisr.core.moves import holds_standing, standing
from cisr.core.seeding import check_seed, derive_seed, generator
from cisr.core.task import Task, check_task_given
from cisr.system.interrupts import interrupts_told_apart, users_errors
from cisr.training.apart import say_once

NOT_FOUND = (
    "Certificates are about the model, which random play has kept to. Not found is what an environment does otherwise "
    f"after more than {N_STEPS_OLDEST:,} steps or {N_RESETS} resets, or in states that random play does not reach."
)
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
        shown = "" if self.state is None else f", in state {short(self.state)}"
        return f"{self.what}: {self.message}{shown}"

    __repr__ = __str__  # what `assert not check_task(task)` shows


class Examined(NamedTuple):
    """What was seen of a task's code."""

    broken: tuple[ContractViolation, ...] = ()
    """Promises that certificates rest on."""
    habits: tuple[ContractViolation, ...] = ()
    """Where none of these is broken: promises that all else rests on."""
    episodes: tuple[PlayedEpisode, ...] = ()
    """Those that were played as training plays, under every intervention."""
    compiled: tuple[PlayedEpisode, ...] = ()
    """Those of the JAX environment."""


@interrupts_told_apart()
def check_task(
    task: Task, *, seed: int = 0, n_steps: int = 300, tolerance: float = 1e-4
) -> tuple[ContractViolation, ...]:
    """The promises that a task breaks; empty when all is well.

    States are collected in about `n_steps` of random play without an intervention, and starts and moves as training
    meets them (`cisr.auditing.excursions`), more where the task has a model. Then:
    - all functions that verdicts rest on are pure (`cisr.auditing.interrogation`): they give the same answers to the
      same questions, about all states of a model and about numbers of every type that occurs, one by one, in any batch
      and order, now and later, and leave what they are shown as it was;
    - the model, where there is one, has all starts and moves that were met, about as often as they were met, and what
      interventions did in play is what the model says of them (`cisr.auditing.following`);
    - the JAX environment, where there is one, shows and takes what the environment does, its rescues come when they
      should, lead where they should and show what was seen there, it has the moves of the model, in M and under every
      intervention, and where `jax_draws` tells what the environment draws from a seed, its episodes begin as the
      environment's;
    - episodes start outside danger and outside the trigger sets;
    - resets land outside the trigger set;
    - `place`, and `restore` where rewinds use it, lead to the state that was read, show what was seen there, and what
      follows is what would have followed up to a relative `tolerance`, because simulators keep single precision (and
      with equal random numbers: where they cannot be made equal, a line in the log says that this was left out);
    - nothing else moves the environment: neither reading its state nor another environment's steps;
    - observations lie within the bounds of their space, and episodes follow from their seed.

    A time limit of the environment's own that is below the task's horizon is no broken promise: a line in the log says
    that it is the horizon.
    """
    check_task_given(task)
    seen = examine(task, check_seed(seed), check_whole("The number of steps", n_steps), tolerance)
    if not seen.broken and (line := shortened_by_its_own(task)) is not None:
        say_once(line)
    return (*seen.broken, *seen.habits)


def examine(task: Task, seed: int = 0, n_steps: int = 300, tolerance: float = 1e-4) -> Examined:
    """The promises that a task breaks, and the episodes that were played on the way."""
    habits_found: tuple[ContractViolation, ...] = ()
    found: dict[str, ContractViolation] = {}
    episodes: Sequence[PlayedEpisode] = ()
    compiled: Sequence[PlayedEpisode] = ()
    try:
        with Trials(task, derive_seed(seed, "check task"), n_steps, tolerance, model_of(task)) as trials:
            for checks in (
                (_reading, _predicates),
                (_functions, _resets, _restoring, _solitude, _jax_env),
                (_starts, _model, _later),
            ):
                for promise in (promise for check in checks for promise in check(task, trials)):
                    found.setdefault(promise.what, promise)
                if found:  # the checks that follow rely on these
                    break
            else:
                habits_found = tuple(_broken("the environment", *habit) for habit in habits(task, trials))
            with suppress(*users_errors()):  # where a promise is broken, play may raise
                episodes = trials.seen.episodes
            compiled = trials.rehearsed.episodes() if trials.rehearsed is not None else []
    except users_errors() as error:
        found["the environment"] = _broken("the environment", _raised(error))
    return Examined(tuple(found.values()), habits_found, tuple(episodes), tuple(compiled))


def _reading(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    for _, env, first, _ in trials.situations(N_SITUATIONS):
        if first.ndim != 1:
            yield _broken("read_state", f"gives shape {first.shape}: give a vector (d,)")
            return
        if not same(first, task.read_state(env)):
            yield _broken("read_state", "gives another state when asked again", first)


def _predicates(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    states, moves = states_and_moves(trials)
    yield from _asked(trials, predicates(task, states, moves))


def _functions(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """The others, which may rely on what predicates say."""
    states, moves = states_and_moves(trials)
    yield from _asked(trials, [*actors(task, states, deeds(trials)), *others(task, states, moves)])


def _asked(trials: Trials, functions: Iterable[Asked]) -> Iterator[ContractViolation]:
    yield from (_broken(*fault) for fault in trials.interrogation.ask(functions, trials.types))


def _model(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Random play in the environment is what the model says, and so is that of the JAX environment."""
    if (model := trials.model) is None:
        return
    found = disagreement(task, model, trials.seen.episodes, trials.seen.starts)
    if found:
        yield _broken("the model", found.message, found.state)
    else:
        yield from _astray(trials)
        if (rehearsed := trials.rehearsed) is not None:
            if found := disagreement(task, model, rehearsed.episodes()):
                yield _broken("the JAX environment", found.message, found.state)
            yield from (_broken(*fault) for fault in trials.interrogation.compiled(rehearsed.dtype, rehearsed.xp))


def _astray(trials: Trials) -> Iterator[ContractViolation]:
    """Play under interventions goes as their functions said."""
    courses = {name: Course(world) for name, world in trials.worlds.items()}
    for episode in trials.seen.episodes:
        name = episode.intervention.name
        if found := courses[name].departure(episode):
            yield _broken(f"intervention '{name}'", found.message, found.state)


def _later(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """After all that play functions still answer as they did, also about numbers of types that were met since."""
    if trials.model is not None:
        states = trials.model.states[trials.worlds["none"].explored]
        held = np.any([can_hold(dtype, states) for dtype in trials.types | trials.seen.types], axis=0)
        for state in states[~held]:
            yield _broken("the model", "has a state that the numbers of `read_state` cannot hold", state)
    yield from (_broken(*fault) for fault in trials.interrogation.again(trials.types | trials.seen.types))


def _jax_env(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Students that were trained in the one are to act in the other."""
    if task.jax_env is None:
        return
    try:
        from cisr.auditing.departures import departures, rehearse  # brings in jax

        departed = [_broken("the JAX environment", said, state) for said, state in departures(task, trials)]
        yield from departed
        if not departed:  # the shapes are those that it should have
            trials.rehearsed = rehearse(task, trials.seed)
            yield from (_broken("the JAX environment", *misled) for misled in trials.rehearsed.misled())
    except AnswerError:  # of the environment on the host
        raise
    except users_errors() as error:
        yield _broken("the JAX environment", _raised(error))


def _starts(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """A rescue answers a move: whoever starts inside a trigger set, or in danger, is not rescued from there."""
    for name, danger in task.dangers.items():
        for start in trials.starts[np.asarray(holds_standing(danger, standing(trials.starts)))]:
            yield _broken(f"danger '{name}'", "holds where an episode starts", start)
    for intervention in task.interventions:
        for name, trigger in ({} if intervention.judges_actions else intervention.triggers).items():
            for start in trials.starts[np.asarray(trigger(trials.starts))]:
                yield _broken(f"trigger '{name}' of '{intervention.name}'", "holds where an episode starts", start)


def _resets(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    sound = []
    for intervention in task.interventions:
        if isinstance(intervention.reset, Place):
            broken = list(_placing(f"reset of '{intervention.name}'", intervention, intervention.reset, trials))
            yield from broken
            sound += [] if broken else [intervention]
    yield from _asked(trials, resets(sound, partial(rescues, trials)))


def _placing(what: str, intervention: Intervention, reset: Place, trials: Trials) -> Iterator[ContractViolation]:
    rng = generator(trials.seed, what)
    for state, history in trials.triggered(intervention, reset.n_history):
        u = rng.random(reset.n_uniforms)
        given = (state.copy(), history.copy(), u.copy())
        try:
            put, again = np.asarray(reset.fn(*given)), reset.fn(state.copy(), history.copy(), u.copy())
        except users_errors() as error:
            yield _broken(what, _raised(error), state)
            return
        if put.shape != state.shape:
            message = f"answered shape {put.shape} for a state of shape {state.shape}: answer a state"
        elif not all(same(a, b) for a, b in zip(given, (state, history, u), strict=True)):
            message = "changed what it was shown"
        elif not same(put, again):
            message = "put the student elsewhere when asked again: what is random must come from u"
        elif not np.isfinite(put).all():
            message = f"put the student into {short(put)}: give finite numbers"
        elif bool(np.all(intervention.triggered(put[None]))):
            message = f"put the student into {short(put)}, which is in the trigger set"
        elif any(bool(holds_standing(danger, standing(put[None]))[0]) for danger in trials.task.dangers.values()):
            message = f"put the student into {short(put)}, which is in danger"
        else:
            continue
        yield _broken(what, message, state)


def _restoring(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    for violation in (*placing(task, trials, N_SITUATIONS), *rewinding(task, trials, N_SITUATIONS)):
        yield _broken(*violation)


def _solitude(task: Task, trials: Trials) -> Iterator[ContractViolation]:
    """Predicates, resets and other environments leave an environment where it is."""
    for point, env, state, _ in trials.situations(N_SITUATIONS):
        for intervention in task.interventions:
            if not intervention.judges_actions:
                intervention.triggered(np.array(task.read_state(env))[None])
        if not same(state, task.read_state(env)):
            yield _broken("the environment", "a trigger moved it", state)
        trials.wander(point.seed + 1)
        if not same(state, task.read_state(env)):
            yield _broken("the environment", "moved when another environment was stepped: they share something", state)


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {words_of(error)}"


def _broken(what: str, message: str, state: Any = None) -> ContractViolation:
    shown = None if state is None else tuple(np.asarray(state).ravel().tolist())
    return ContractViolation(what=what, message=message, state=shown)
