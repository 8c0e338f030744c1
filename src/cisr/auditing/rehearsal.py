"""Episodes of a task's JAX environment in M and under each of the interventions, to the end of the longest horizon, in
one program. Rescues are judged here; whether moves are those of the model is for others to say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.auditing.agreement import PlayedEpisode, PlayedMove
from cisr.auditing.trials import flat, short, similar
from cisr.auditing.twin import Played, Twin, drawn_actions, given_actions, held_actions, obstacle_to_tracing
from cisr.cmdp.compiled import Envs
from cisr.cmdp.rules import Step
from cisr.core.intervention import PUTTING, Array, Intervention, Override, Rewind
from cisr.core.jax_env import JaxEnv
from cisr.core.moves import Move, Transition, stacked
from cisr.core.seeding import generator
from cisr.core.task import Task

log = logging.getLogger(__name__)

MOST_EPISODES, FEWEST_EPISODES = 16, 4
"""Under each intervention."""
MOST_STEPS = 40_000
"""Of all episodes together, if they are to be more than the fewest."""
ROUNDING = 1e-3
"""By how much a rescue may miss a state, and what is seen there."""
SINGLE = 1e-5
"""The same relative to a number, of which single precision keeps seven digits."""
BY_CHANCE = 3
"""Answers about floats that may differ in the last digit: so many, or one in a hundred, are no fault."""


class Told(NamedTuple):
    """What is seen of a step of one environment; zeros after the episode."""

    source: Array  # (1, d)
    shown: Array  # (1, ...) what the student saw there
    done: Array  # (1, ...) what the environment was given
    state: Array  # (1, d) moved to, before any rescue
    reward: Array  # (1,) the environment's
    terminated: Array  # (1,) by the environment
    events: Array  # (1, 1 + k) failures, and by which triggers rescues
    after: Array  # (1, d) where the step is to leave the student
    stands: Array  # (1, d) where it does
    moved: Array  # (1, ...) what would be seen of the state moved to
    again: Array  # (1, ...) what is seen where the environment is put there from the state before the step
    ended: Array  # (1,) the episode did, other than by time
    driven: Array  # (1,)


class Misled(NamedTuple):
    message: str
    state: np.ndarray  # (d,)


def rehearse(task: Task, seed: int) -> Rehearsed:
    """In M alone where JAX cannot trace the task's own functions, which is logged: no student is trained there then."""
    if obstacle := obstacle_to_tracing(task, task.intervention("none")):
        log.warning("%s: JAX cannot trace its functions (%s): its rescues were not played there", task.name, obstacle)
        task = replace(task.with_teaching(interventions=()), interventions=(), safe_evaluation=None, reward=None)
        task = replace(task, danger=_never, success=_never)
    return Rehearsal(task).rehearse(seed)


def _never(move: Move) -> Array:
    return move.terminated & ~move.terminated


class Rehearsal(Twin):
    """Row by row M and each of the interventions."""

    def __init__(self, task: Task) -> None:
        none = task.intervention("none")
        super().__init__(task, none, given_actions, records=True)
        self.under = (none, *task.interventions)
        self.horizon = self._cmdp.longest
        self.table = self._env.table
        self._cmdp.jax_env = _Numbers(self._env)

    def rehearse(self, seed: int) -> Rehearsed:
        """Half of the episodes hold their actions for a while."""
        rng, n_rows = generator(seed, "jax_env"), len(self.under)
        n = int(np.clip(MOST_STEPS // (n_rows * self.horizon), FEWEST_EPISODES, MOST_EPISODES))
        seeds = rng.integers(2**31, size=(n_rows, n))
        held = held_actions(self.distribution, rng, self.horizon, n_rows * (n // 2))
        drawn = drawn_actions(self.distribution, rng, (n_rows * (n - n // 2), self.horizon))
        chosen = [part.reshape(n_rows, -1, *part.shape[1:]) for part in (held, drawn)]
        actions = np.concatenate(chosen, axis=1).swapaxes(1, 2)  # (S, T, E, ...)
        return Rehearsed(self, actions, self.play((), actions, seeds))

    def _rows(self, n: int) -> Any:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *map(self._cmdp.rules, self.under))

    def _recorded(self, before: Envs, after: Envs, step: Step, seen: Transition) -> Told:
        env, params = self._env, self._params
        stands, move = env.state_vector(after.state), seen.move
        again = env.get_obs(env.set_state(before.state, stands), params)
        return Told(
            source=env.state_vector(before.state),
            shown=env.get_obs(before.state, params),
            done=jnp.asarray(move.action),
            state=move.state,
            reward=jnp.asarray(move.reward, jnp.float32),
            terminated=jnp.asarray(move.terminated, bool),
            events=after.account.counts - before.account.counts > 0,
            after=seen.after,
            stands=stands,
            moved=move.observation,
            again=again,
            ended=step.terminated,
            driven=step.driven,
        )


class _Numbers:
    """The environment with numbers into its table as observations, which moves then tell too."""

    table = None

    def __init__(self, env: JaxEnv) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


class Rehearsed:
    """What came of it."""

    xp = jnp
    """Where the arrays come from that functions are asked about."""

    def __init__(self, rehearsal: Rehearsal, actions: np.ndarray, played: Played) -> None:
        self._task = rehearsal.task
        self._under = rehearsal.under
        self._actions = actions
        self._n_steps = played.n_steps  # (S, E)
        told: Told = played.recorded
        if (table := rehearsal.table) is not None:
            told = told._replace(**{name: table[getattr(told, name)] for name in ("shown", "moved", "again")})
        self._told = told  # (S, T, E, ...)
        self.dtype: np.dtype[Any] = told.source.dtype
        """Of the numbers in states."""

    def episodes(self) -> list[PlayedEpisode]:
        """As the model is asked about them."""
        return [self._episode(row, e) for row, e in np.ndindex(self._n_steps.shape)]

    def _of(self, row: int, e: int) -> Told:
        n = self._n_steps[row, e]
        return Told(*(part[row, :n, e] for part in self._told))

    def _episode(self, row: int, e: int) -> PlayedEpisode:
        told, horizon = self._of(row, e), self._task.horizon_under(self._under[row])
        columns = (told.source, told.done.tolist(), told.state, told.reward.tolist(), told.terminated.tolist())
        steps = [
            PlayedMove(source, done, Move(state, reward, terminated, done))
            for source, done, state, reward, terminated in zip(*columns, strict=True)
        ]
        driven = int(told.driven.sum())
        under, danger = self._under[row], self._danger(steps) if told.events[:, 0].any() else None
        return PlayedEpisode(told.source[0], steps, driven, False, horizon, under, danger)

    def _danger(self, steps: list[PlayedMove]) -> str:
        """Which danger the last move met; where a rescue did, the first."""
        last = stacked([steps[-1].move._replace(action=steps[-1].action)])
        met = (name for name, danger in self._task.dangers.items() if np.asarray(danger(last)).any())
        return next(met, next(iter(self._task.dangers)))

    def misled(self) -> Iterator[Misled]:
        """Rescues that are not what they should be: when, where to, and what is seen there."""
        for row, intervention in enumerate(self._under[1:], 1):
            episodes = [self._of(row, e) for e in range(self._n_steps.shape[1])]
            chosen = [self._actions[row, : len(told.state), e] for e, told in enumerate(episodes)]
            yield from self._judged_otherwise(intervention, episodes, chosen)
            if isinstance(intervention.reset, PUTTING):
                yield from self._elsewhere(intervention, episodes)
            if isinstance(intervention.reset, Rewind):
                yield from self._seen_otherwise(intervention, intervention.reset.steps, episodes)

    def _judged_otherwise(
        self, intervention: Intervention, episodes: list[Told], chosen: list[np.ndarray]
    ) -> Iterator[Misled]:
        """Triggers, asked in the program, must say what they say on hosts."""
        told = Told(*map(np.concatenate, zip(*episodes, strict=True)))
        actions, state = np.concatenate(chosen), told.state
        if isinstance(intervention.reset, Override):
            state = told.source
        about = (state, actions) if intervention.judges_actions else (state,)
        for k, (name, trigger) in enumerate(intervention.triggers.items(), 1):
            here, there = np.asarray(trigger(*about)), told.events[:, k]
            if _too_many(np.asarray(here != there), state):
                at = np.flatnonzero(here != there)[0]
                said = (
                    f"trigger '{name}' of '{intervention.name}' answers {there[at]} in it, and {here[at]} on the host"
                )
                yield Misled(said, state[at])
        if isinstance(intervention.reset, Override):
            vetoed = told.events[:, 1:].any(axis=1)
            instead = np.asarray(intervention.reset.act(*about))
            expected = np.where(vetoed.reshape(-1, *(1,) * (actions.ndim - 1)), instead, actions)
            differs = _apart(expected.reshape(len(actions), -1), told.done.reshape(len(actions), -1))
            if _too_many(differs, state):
                at = np.flatnonzero(differs)[0]
                said = f"it is given the action {short(told.done[at])} under '{intervention.name}', where "
                yield Misled(f"{said}{short(expected[at])} is given on the host", state[at])

    def _elsewhere(self, intervention: Intervention, episodes: list[Told]) -> Iterator[Misled]:
        for told in episodes:
            for at in np.flatnonzero(_apart(told.stands, told.after) & _put(told))[:1]:
                asked = (
                    f"its set_state, asked by a rescue of '{intervention.name}' for the state {short(told.after[at])},"
                )
                yield Misled(f"{asked} led to {short(told.stands[at])}", told.state[at])
                return

    def _seen_otherwise(self, intervention: Intervention, n: int, episodes: list[Told]) -> Iterator[Misled]:
        """What is seen after a rewind is what was seen then, unless sensors are noisy."""
        back = [(told, now, then) for told in episodes for now, then in _rewinds(told, n)]
        known = all(similar(flat(told.shown[now]), flat(told.again[now - 1]), ROUNDING) for told, now, _ in back)
        for told, now, then in back:
            was, seen, before = (flat(part) for part in (told.shown[then], told.shown[now], told.moved[now - 1]))
            left = not similar(before, was, ROUNDING) and similar(seen, before, ROUNDING)
            if (known or left) and not similar(was, seen, ROUNDING):
                said = f"shows {short(seen)} after a rescue of '{intervention.name}', where {short(was)} was seen"
                yield Misled(said, told.source[now])
                return


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which rows (n, d) differ by more than rounding, (n,): whole numbers are not rounded."""
    if one.dtype.kind in "biu" and other.dtype.kind in "biu":
        return np.asarray((one != other).any(axis=1))
    near = np.asarray(np.isclose(one, other, rtol=SINGLE, atol=ROUNDING, equal_nan=True))
    return np.asarray(~near.all(axis=1))


def _put(told: Told) -> np.ndarray:
    """After which steps a rescue put the environment somewhere, (n,)."""
    return np.asarray(told.events[:, 1:].any(axis=1) & ~told.ended)


def _rewinds(told: Told, n: int) -> Iterator[tuple[int, int]]:
    """After which step a rescue led back to before which one, where the episode went on."""
    past = [0]
    for t, (rescued, put) in enumerate(zip(told.events[:, 1:].any(axis=1), _put(told), strict=True), 1):
        if put:
            del past[max(len(past) - n, 0) + 1 :]
            if t < len(told.state):
                yield t, past[-1]
        elif not rescued:
            past.append(t)


def _too_many(differs: np.ndarray, state: np.ndarray) -> bool:
    """Whether answers differ by more than chance: those about floats may, in their last digit."""
    by_chance = max(BY_CHANCE, len(differs) // 100) if state.dtype.kind == "f" else 0
    return int(differs.sum()) > by_chance
