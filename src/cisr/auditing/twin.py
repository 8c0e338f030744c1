"""Whole episodes of many attackers at once, in a task's JAX environment.

A failure there is a claim about that environment. Where it is known what Gymnasium's environment draws from a seed
(`Task.jax_draws`), each episode is that of a seed, so that what fails here can be played there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.cmdp.compiled import CompiledCMDP, Envs
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.rules import Step
from cisr.core.errors import CisrError
from cisr.core.intervention import NONE, Array, Intervention
from cisr.core.jax_env import JaxEnv
from cisr.core.moves import Transition
from cisr.core.seeding import generator
from cisr.core.task import Task
from cisr.kernels.steps import StepKernel, step_kernels
from cisr.students.distributions import Categorical, Categoricals, Distribution, Gaussian
from cisr.system.interrupts import users_errors

Acts = Callable[[Any, Array, Array], Array]
"""acts(known, observations (1, ...), noise (1, ...)) -> actions (1, ...) of one attacker"""
RUNNING = -1


class Flight(NamedTuple):
    """An episode under way."""

    envs: Envs
    outcome: Array  # (1,) which of the task's outcomes it came to; RUNNING
    n_steps: Array  # (1,)


class Recorded(NamedTuple):
    """What is seen of a step; zeros after the episode."""

    state: Array  # (1, d) moved to, before any rescue
    rescued: Array  # (1,)


@dataclass(frozen=True, kw_only=True)
class Played:
    """Episodes of S attackers, E each."""

    seeds: np.ndarray  # (S, E)
    outcomes: np.ndarray  # (S, E)
    n_steps: np.ndarray  # (S, E)
    actions: Array  # (S, T, E, ...) where they were made: few are ever looked at
    recorded: Any  # `Recorded`, or what a kind of twin records instead (S, T, E, ...) where it was asked for

    def failed(self, task: Task) -> np.ndarray:
        """(S, E); dangers are the first of a task's outcomes."""
        return (self.outcomes >= 0) & (self.outcomes < len(task.dangers))

    def actions_of(self, attacker: int, episode: int) -> list[Any]:
        """Until it ended."""
        taken: list[Any] = np.asarray(self.actions[attacker, :, episode])[: self.n_steps[attacker, episode]].tolist()
        return taken


class Draws(NamedTuple):
    """All that is drawn for episodes with seeds (S, E), but for what attackers draw."""

    seeds: np.ndarray  # (S, E)
    reset: np.ndarray  # (S, E, n)
    steps: np.ndarray  # (S, E, T, n)
    place: np.ndarray  # (S, T, E, k)
    drive: np.ndarray  # (S, T, E, max_driven, n)


class Twin:
    """A task's JAX environment under one intervention; `acts` is how its attackers act."""

    def __init__(self, task: Task, intervention: Intervention, acts: Acts, *, records: bool = False) -> None:
        assert task.jax_env is not None
        self.task = task
        self.intervention = intervention
        self.horizon = task.horizon_under(intervention)
        self._env = task.jax_env()
        self._params = jax.tree.map(jnp.asarray, self._env.params)
        own = intervention in (*task.interventions, task.intervention(NONE.name))
        if not own:  # else one program for all of the task's
            task = replace(task, interventions=(intervention,), safe_evaluation=None)
        self._cmdp = CompiledCMDP(task, self._env, task.interventions)
        self._rules = self._cmdp.rules(intervention)
        self._acts = acts
        self._records = records
        self._kernels: list[StepKernel] | None = None
        self._written = False
        self.distribution = distribution_of(self._env)

    def trace(self) -> None:
        """Have JAX follow one step of an attacker that is given its actions, and nothing more."""
        noise = drawn_actions(self.distribution, np.random.default_rng(0), (1,))
        steps, place = (np.zeros((1, n), np.float32) for n in (self._env.n_step_uniforms, self._cmdp.n_place_uniforms))
        drive = np.zeros((1, self._cmdp.max_driven, self._env.n_step_uniforms), np.float32)
        start = jax.eval_shape(self._begin, np.zeros((1, self._env.n_reset_uniforms), np.float32))
        jax.eval_shape(self._step, ((), self._rules), start, (noise, steps, place, drive))

    def play(self, known: Any, noise: Array, episodes: np.ndarray | Draws) -> Played:
        """What attackers know is (S, ...), their noise (S, T, E, ...); `episodes` are seeds (S, E), or their draws."""
        draws = episodes if isinstance(episodes, Draws) else self.draws(episodes)
        seeds = draws.seeds
        rules = self._rows(len(seeds))
        steps = jnp.swapaxes(draws.steps, 1, 2)
        end, results = self._fly((known, rules), draws.reset, (noise, steps, draws.place, draws.drive))
        actions, recorded = results if self._records else (results, None)
        return Played(
            seeds=seeds,
            outcomes=np.asarray(end.outcome).reshape(seeds.shape),
            n_steps=np.asarray(end.n_steps).reshape(seeds.shape),
            actions=_alone(actions),
            recorded=None if recorded is None else jax.tree.map(lambda part: np.asarray(_alone(part)), recorded),
        )

    def _rows(self, n: int) -> Any:
        """The rules of each attacker."""
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (n, *np.shape(leaf))), self._rules)

    def _fly(self, shared: Any, reset: np.ndarray, given: Any) -> tuple[Flight, Any]:
        if not self._written:
            self._write(shared, given)
        if self._kernels is None:
            return self._xla(shared, reset, given)
        begin, fly = self._kernels
        _, envs = begin((), (), reset[:, None])
        started = jax.tree.map(lambda leaf: leaf.reshape(*reset.shape[:2], *leaf.shape[3:]), envs)
        nobody = np.full(reset.shape[:2], RUNNING, np.int32)
        return fly(shared, Flight(started, nobody, np.zeros_like(nobody)), given)

    def _write(self, shared: Any, given: Any) -> None:
        def example(tree: Any, axes: int, own: tuple[int, ...] = ()) -> Any:
            return jax.tree.map(lambda leaf: _like((*own, *leaf.shape[axes:]), leaf.dtype), tree)

        u = _like((1, self._env.n_reset_uniforms), jnp.float32)
        start = jax.eval_shape(self._begin, u)
        self._written = True
        if self._cmdp.depth == 1 and self._env.table is None:
            self._kernels = step_kernels(
                f"Task '{self.task.name}'",
                (lambda shared, state, u: ((), self._begin(u).envs), (), (), u),
                (self._step, example(shared, 1), start, example(given, 3, (1,))),
            )

    @cached_property
    def _xla(self) -> Callable[[Any, np.ndarray, Any], tuple[Flight, Any]]:
        def one(shared: Any, reset: Array, given: Any) -> Any:
            alone = jax.tree.map(lambda leaf: leaf[:, None], given)
            return jax.lax.scan(lambda state, x: self._step(shared, state, x), self._begin(reset[None]), alone)

        return jax.jit(jax.vmap(jax.vmap(one, (None, 0, 1), (0, 1))))

    def _begin(self, u: Array) -> Flight:
        envs = self._cmdp.start(self._params, u)
        return Flight(envs, jnp.full(1, RUNNING, jnp.int32), jnp.zeros(1, jnp.int32))

    def _step(self, shared: Any, flight: Flight, given: Any) -> tuple[Flight, Any]:
        known, rules = shared
        noise, u, u_place, u_drive = given
        seen = self._env.get_obs(flight.envs.state, self._params)
        if self._env.table is not None:
            seen = jnp.asarray(self._env.table)[seen]
        actions = self._acts(known, seen, noise)

        def go_on(now: Flight) -> tuple[Flight, Any]:
            envs, step, seen = self._cmdp.transition(self._params, rules, now.envs, actions, u, u_place, u_drive)
            over = step.terminated | step.truncated
            came_to = outcome_of(step.outcomes).astype(jnp.int32)
            after = Flight(envs, jnp.where(over, came_to, RUNNING), now.n_steps + 1)
            return after, self._recorded(now.envs, envs, step, seen)

        def rest(now: Flight) -> tuple[Flight, Any]:
            shapes = jax.eval_shape(go_on, now)[1]
            return now, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

        flight, recorded = jax.lax.cond((flight.outcome == RUNNING).all(), go_on, rest, flight)
        return flight, (actions, recorded) if self._records else actions

    def _recorded(self, before: Envs, after: Envs, step: Step, seen: Transition) -> Any:
        return Recorded(seen.move.state, step.rescued)

    def draws(self, seeds: np.ndarray) -> Draws:
        """A pure function of the seeds (S, E)."""
        env, cmdp = self._env, self._cmdp
        reset = np.empty((seeds.size, env.n_reset_uniforms), np.float32)
        steps = np.empty((seeds.size, self.horizon, env.n_step_uniforms), np.float32)
        for k, seed in enumerate(seeds.ravel().tolist()):
            if self.task.jax_draws is None:
                rng = generator(seed, "twin")
                reset[k], steps[k] = rng.random(reset.shape[1:]), rng.random(steps.shape[1:])
            else:
                reset[k], steps[k] = self.task.jax_draws(seed, self.horizon)
        rng = generator(int(seeds.flat[0]), "rescues")
        shape = (len(seeds), self.horizon, seeds.shape[1])
        return Draws(
            seeds=seeds,
            reset=reset.reshape(*seeds.shape, -1),
            steps=steps.reshape(*seeds.shape, *steps.shape[1:]),
            place=rng.random((*shape, cmdp.n_place_uniforms), np.float32),
            drive=rng.random((*shape, cmdp.max_driven, env.n_step_uniforms), np.float32),
        )

    @property
    def numbers_per_episode(self) -> int:
        """What has to be kept in memory of one, in single numbers."""
        env, cmdp, acts = self._env, self._cmdp, self.distribution
        of_a_step = env.n_step_uniforms * (2 + cmdp.max_driven) + cmdp.n_place_uniforms
        return self.horizon * (of_a_step + acts.n_outputs + 2 * math.prod(acts.shape))


def obstacle_to_tracing(task: Task, intervention: Intervention) -> str | None:
    """What stands in the way of playing the JAX environment under an intervention; None where nothing does.

    Functions of users that NumPy takes may do what JAX does not, such as writing in place.
    """
    try:
        Twin(task, intervention, given_actions).trace()
    except CisrError:
        raise
    except users_errors() as error:
        return type(error).__name__
    return None


def _like(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _alone(array: Array) -> Array:
    """(S, T, E, 1, ...) without the axis on which each environment is alone."""
    return array.reshape(*array.shape[:3], *array.shape[4:])


def distribution_of(env: JaxEnv) -> Distribution:
    """Of actions in this environment."""
    return Categorical(env.n_actions) if isinstance(env.n_actions, int) else env.n_actions


def given_actions(known: Any, seen: Array, noise: Array) -> Array:
    """Of attackers that do what was drawn for them."""
    return noise


def drawn_actions(distribution: Distribution, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform ones (*shape, ...), as the environment is given them; normal ones where a space has no bounds."""
    if isinstance(distribution, Categorical):
        return rng.integers(distribution.n_actions, size=shape, dtype=np.int32) + np.int32(distribution.start)
    if isinstance(distribution, Categoricals):
        flat = rng.integers(np.array(distribution.n_actions), size=(*shape, *distribution.shape), dtype=np.int32)
        return np.asarray(distribution.in_space(flat))
    assert isinstance(distribution, Gaussian)
    low, high = np.array(distribution.low), np.array(distribution.high)
    bounded = np.isfinite(low) & np.isfinite(high)
    within = np.where(bounded, low, 0) + rng.random((*shape, len(low))) * np.where(bounded, high - low, 0)
    unbound = rng.normal(size=(*shape, len(low)))
    return np.asarray(distribution.in_space(np.where(bounded, within, unbound).astype(np.float32)))


def held_actions(distribution: Distribution, rng: np.random.Generator, n_steps: int, n: int) -> np.ndarray:
    """Of n episodes (n, T, ...): each held for a random number of steps, 1 to T on a logarithmic scale."""
    holds: list[np.ndarray] = []  # (n,) each; 0 of episodes that are full
    left = np.full(n, n_steps)
    while left.any():
        holds.append(np.minimum(n_steps ** rng.random(n), left).astype(left.dtype))
        left -= holds[-1]
    drawn = drawn_actions(distribution, rng, (n, len(holds)))
    held = np.repeat(drawn.reshape(-1, *drawn.shape[2:]), np.stack(holds, axis=1).ravel(), axis=0)
    return held.reshape(n, n_steps, *held.shape[1:])
