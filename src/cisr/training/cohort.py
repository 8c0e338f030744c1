"""A cohort: students and their compiled environments as one program. A unit is one executable, a deployment another.

What students differ in is data: weights, seeds, settings and the interventions that they are under. Functions named
`_one_…` are about one student; the others map them over a leading axis S of students.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from cisr.cmdp import episodes
from cisr.cmdp.compiled import CompiledCMDP, Envs, Rules
from cisr.cmdp.episodes import Episode, Sums
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array
from cisr.core.jax_env import JaxEnv
from cisr.core.task import Task
from cisr.kernels.steps import StepKernel, step_kernels
from cisr.students import normalisation, ppo
from cisr.students.config import Hyperparameters, StudentConfig
from cisr.students.distributions import Categorical, Distribution
from cisr.students.multipliers import exponentiated_gradient
from cisr.students.networks import Outputs, Params, forward_for
from cisr.students.normalisation import Statistics
from cisr.students.observation_table import tabulator
from cisr.students.ppo import Learner, Rollout
from cisr.students.program import Program, over_students

MAX_DEPLOYMENT_ENVS = 64

Columns = tuple[Array, Array, Array, Array, Array, Array, Array, Array]
"""Of a rollout, but for its last."""
T = TypeVar("T")
Tree = TypeVar("Tree")
LookUp = Callable[[Array], Outputs]
"""A student's network with the weights that it has: observations (E, ...) -> Outputs."""


class Noise(NamedTuple):
    """All that is random in T steps of E environments, drawn before the loop."""

    action: Array  # (T, E, ...)
    step: Array  # (T, E, n_step_uniforms)
    place: Array  # (T, E, n_place_uniforms)
    drive: Array  # (T, E, max_driven, n_step_uniforms)
    reset: Array  # (T, E, n_reset_uniforms)


class Experience(NamedTuple):
    """Environments, and what came of them so far."""

    envs: Envs
    running: Episode  # (E,)
    sums: Sums  # () over the episodes that have ended
    returns: Array | None  # (E,) discounted, of the running episodes; None where rewards are not normalised


class Kernels(NamedTuple):
    """Of one environment of one student each."""

    start: StepKernel
    rollout: StepKernel
    deployment: StepKernel


class Cohort:
    """The functions of a unit and a deployment for students of one shape on one task.

    `extra` names interventions beyond the task's own that curricula may use (`Back-x`); `episodes` is how many a
    deployment has, where it has not as many as begin within the task's `deployment_steps`.
    """

    def __init__(
        self, task: Task, config: StudentConfig, extra: tuple[str, ...] = (), episodes: int | None = None
    ) -> None:
        if task.jax_env is None:
            raise ConfigError(f"Task '{task.name}' has no JAX environment: use the gymnasium backend.")
        self.task = task
        self.config = config
        self.episodes = episodes
        self.jax_env: JaxEnv = task.jax_env()
        self._params = jax.tree.map(jnp.asarray, self.jax_env.params)
        actions = self.jax_env.n_actions
        self.distribution: Distribution = Categorical(actions) if isinstance(actions, int) else actions
        interventions = [*task.interventions, *(task.intervention(name) for name in extra)]
        self.cmdp = CompiledCMDP(task, self.jax_env, interventions)
        self.program = Program(config, self.jax_env.observation, self.distribution, len(task.constraints))
        table = self.jax_env.table
        # A table of outputs would have to be made anew for each step whose observations move the statistics.
        self._tabulate = self._table = None
        if table is not None and config.normalize_observations:
            self._table = jnp.asarray(table)
        elif table is not None:
            self._tabulate = tabulator(config.network, self.jax_env.observation, table)
        self._keys = jax.jit(jax.vmap(jax.random.key))
        self._fold = jax.jit(lambda keys, number: jax.vmap(lambda key: jax.random.fold_in(key, number))(keys))
        self._noises = jax.jit(
            lambda keys, *sizes: jax.vmap(lambda key: self._noise(key, *sizes))(keys), static_argnums=(1, 2, 3)
        )
        self._start_noises = jax.jit(
            lambda keys, n: jax.vmap(lambda key: self._start_noise(key, n))(keys), static_argnums=1
        )
        self._learn = jax.jit(over_students(self._one_update))
        self._move_multipliers = jax.jit(jax.vmap(_moved))

    @cached_property
    def unit(self) -> Callable[[Learner, Rules, Hyperparameters, Array], tuple[Learner, Sums]]:
        """unit(learners, rules, hypers, seeds (S,)) -> (learners, Sums over the unit)"""
        return self._unit if self.on_host else jax.jit(self._unit)

    @cached_property
    def deploy(self) -> Callable[[Learner, Rules, Array, Array], tuple[Sums, Array]]:
        """deploy(learners, rules, seeds (S,), violation_score) -> Sums over the episodes that count, visits (S, n)"""
        return self._deploy if self.on_host else jax.jit(self._deploy)

    @cached_property
    def on_host(self) -> bool:
        """Whether steps are made by native code, between programs of JAX's, and not within one."""
        return self.kernels is not None and self.kernels.start.on_host

    def _unit(self, learners: Learner, rules: Rules, hypers: Hyperparameters, seeds: Array) -> tuple[Learner, Sums]:
        keys = self._keys(seeds)

        def respond(state: tuple[Learner, Sums], number: Array) -> tuple[Learner, Sums]:
            learners, total = state
            learners, sums = self._best_response(learners, rules, hypers, self._fold(keys, number))
            return learners, jax.tree.map(operator.add, total, sums)

        start = (learners, episodes.nothing(self.task, seeds.shape))
        return self._repeated(respond, start, self.config.rounds_per_unit)

    def _best_response(
        self, learners: Learner, rules: Rules, hypers: Hyperparameters, keys: Array
    ) -> tuple[Learner, Sums]:
        """PPO against fixed multipliers on restarted environments, then the multipliers move."""

        def update(state: tuple[Learner, Experience], number: Array) -> tuple[Learner, Experience]:
            learners, experience = state
            update_keys = self._fold(keys, number + 1)
            learners, experience, rollouts = self._rollouts(learners, rules, hypers, experience, update_keys)
            return self._learn(learners, rollouts, hypers, update_keys), experience

        start = (learners, self._starts(keys, self.config.n_envs))
        learners, end = self._repeated(update, start, self.config.updates_per_round)
        sums = episodes.add_unfinished(self.task, end.sums, end.running)
        return self._move_multipliers(learners, sums, hypers), sums

    def _repeated(self, body: Callable[[T, Any], T], state: T, times: int) -> T:
        """The state after so many times, each of which is told its number."""
        if self.on_host:
            for number in np.arange(times, dtype=np.int32):
                state = body(state, number)
            return state
        end, _ = jax.lax.scan(lambda state, number: (body(state, number), None), state, jnp.arange(times))
        return end

    def _one_update(self, learner: Learner, rollout: Rollout, hyper: Hyperparameters, key: jax.Array) -> Learner:
        shuffle = jax.random.fold_in(key, 1)
        return ppo.update(learner, rollout, hyper, shuffle, self.config, self._forward, self.distribution)

    def _starts(self, keys: Array, n: int) -> Experience:
        """New episodes of each student in n environments."""
        u = self._start_noises(keys, n)  # (S, n, n_reset_uniforms)
        running, sums = episodes.opening(self.task, u.shape[:2]), episodes.nothing(self.task, u.shape[:1])
        returns = np.zeros(u.shape[:2], np.float32) if self.config.normalize_rewards else None
        return Experience(self._start_envs(u), running, sums, returns)

    def _start_noise(self, key: jax.Array, n: int) -> Array:
        return jax.random.uniform(jax.random.fold_in(key, 0), (n, self.jax_env.n_reset_uniforms))

    def _start_envs(self, u: Array) -> Envs:
        if self.kernels is None:
            begun: Envs = jax.vmap(partial(self.cmdp.start, self._params))(u)
            return begun
        _, made = self.kernels.start((), (), u.reshape(len(u), 1, *u.shape[1:]))
        envs: Envs = _without(1, _without(3, made))
        return envs

    def _rollouts(
        self, learners: Learner, rules: Rules, hypers: Hyperparameters, experience: Experience, keys: Array
    ) -> tuple[Learner, Experience, Rollout]:
        """`n_steps` of each student in E environments."""
        if self.kernels is None:
            return jax.vmap(self._one_rollout)(learners, rules, hypers, experience, keys)
        noise = self._noises(keys, self.config.n_steps, self.config.n_envs, True)
        alone = experience._replace(sums=episodes.nothing(self.task, experience.running.steps.shape))
        shared = learners.params, rules, hypers.gamma
        (end, _), rows = self.kernels.rollout(shared, (alone, learners.statistics), noise)
        experience = _together(end, experience.sums)
        columns: Columns = _without(3, rows)
        rollout = Rollout(*columns, last_values=self._values(learners, experience.envs))
        return learners, experience, rollout

    @cached_property
    def _values(self) -> Callable[[Learner, Envs], Array]:
        return jax.jit(jax.vmap(lambda learner, envs: self._forward(learner.params, self._look(envs)).value))

    def _one_rollout(
        self, learner: Learner, rules: Rules, hyper: Hyperparameters, experience: Experience, key: jax.Array
    ) -> tuple[Learner, Experience, Rollout]:
        look_up = self._frozen(learner.params)
        step = partial(self._step, look_up, rules, hyper.gamma)
        noise = self._noise(key, self.config.n_steps, self.config.n_envs, True)
        (experience, statistics), columns = jax.lax.scan(step, (experience, learner.statistics), noise)
        _, last = self._meet(statistics, self._look(experience.envs))  # they enter when they are acted on
        rollout = Rollout(*columns, last_values=look_up(last).value)
        return learner._replace(statistics=statistics), experience, rollout

    def _step(
        self, look_up: LookUp, rules: Rules, gamma: Array, before: tuple[Experience, Statistics], noise: Noise
    ) -> tuple[tuple[Experience, Statistics], Columns]:
        """One step of a student in E environments, in training: what comes of it, and a row of its rollout."""
        (envs, running, sums, returns), statistics = before
        statistics, seen = self._meet(statistics, self._look(envs))
        outputs = look_up(seen)
        actions = self.distribution.act(outputs.policy, noise.action)
        log_probs = self.distribution.log_prob(outputs.policy, actions)
        in_space = self.distribution.in_space(actions)
        envs, stepped = self.cmdp.step(self._params, rules, envs, in_space, noise.step, noise.place, noise.drive)
        running, ends = episodes.enter(running, stepped), stepped.terminated | stepped.truncated
        sums = episodes.add(sums, episodes.close(running, stepped.outcomes, math.nan), ends)
        statistics, rewards, returns = normalisation.earn(statistics, stepped.reward, ends, returns, gamma)
        reached = envs
        envs = self.cmdp.restart(self._params, envs, ends, noise.reset)
        beyond = jnp.zeros_like(outputs.value)
        if self.config.bootstrap_time_limit:
            arrived, _ = self._meet(statistics, self._look(envs))
            after = look_up(self._see(arrived, self._look(reached))).value
            beyond = jnp.where(stepped.truncated, after, 0.0)
        columns = (seen, actions, log_probs, outputs.value, rewards, stepped.costs, ends, beyond)
        return (Experience(envs, episodes.reopen(running, ends), sums, returns), statistics), columns

    def _look(self, envs: Envs) -> Array:
        """What the environments show; where students look outputs up, numbers into the table."""
        shown = self.jax_env.get_obs(envs.state, self._params)
        return shown if self._table is None else self._table[shown]

    def _see(self, statistics: Statistics, observations: Array) -> Array:
        return normalisation.see(statistics, self.jax_env.observation, observations)

    def _meet(self, statistics: Statistics, observations: Array) -> tuple[Statistics, Array]:
        """The statistics with observations that arrive, and these as they are seen then."""
        statistics = normalisation.meet(statistics, self.jax_env.observation, observations)
        return statistics, self._see(statistics, observations)

    def _deploy(self, learners: Learner, rules: Rules, seeds: Array, violation_score: Array) -> tuple[Sums, Array]:
        """Many environments at once; episodes begun within the budget count, and they are run to their end.

        Also returns how many steps were begun at each of a finite task's observations (S, n); empty for other tasks.
        """
        keys = self._keys(seeds)
        n, budget = self._deployment_size()
        steps = budget + self.cmdp.longest
        start = self._starts(keys, n)._replace(returns=None)
        if self.kernels is None:
            one = partial(self._one_deployment, violation_score=violation_score, n=n, steps=steps)
            return jax.vmap(one)(learners, rules, keys, start)
        alone = start._replace(sums=episodes.nothing(self.task, start.running.steps.shape))
        noise = self._noises(keys, steps, n, not self.config.deterministic)
        clock = np.broadcast_to(np.arange(steps, dtype=np.int32)[:, None], (len(seeds), steps, n))
        shared = learners.params, learners.statistics, rules, violation_score + np.zeros(seeds.shape, np.float32)
        end, _ = self.kernels.deployment(shared, alone, (noise, clock))
        return _together(end, start.sums).sums, np.zeros((len(seeds), 0))

    def _one_deployment(
        self,
        learner: Learner,
        rules: Rules,
        key: jax.Array,
        start: Experience,
        violation_score: Array,
        n: int,
        steps: int,
    ) -> tuple[Sums, Array]:
        step = partial(self._deployed_step, self._frozen(learner.params), learner.statistics, rules, violation_score)
        noise = self._noise(key, steps, n, not self.config.deterministic)
        end, (places, counted) = jax.lax.scan(step, start, (noise, jnp.arange(steps, dtype=jnp.int32)))
        if self.jax_env.table is None:
            return end.sums, jnp.zeros(0)
        return end.sums, jnp.zeros(len(self.jax_env.table)).at[places.ravel()].add(counted.ravel())

    def _deployment_size(self) -> tuple[int, int]:
        """Environments of each student, and within how many of their steps the episodes begin that count."""
        if self.episodes is not None:
            return self.episodes, 1
        steps = self.task.training.deployment_steps
        n = max(self.config.n_envs, min(steps // self.cmdp.longest, MAX_DEPLOYMENT_ENVS))
        return n, -(-steps // n)

    def _deployed_step(
        self,
        look_up: LookUp,
        statistics: Statistics,
        rules: Rules,
        violation_score: Array,
        now: Experience,
        drawn: tuple[Noise, Array],
    ) -> tuple[Experience, tuple[Array, Array]]:
        """One step of a frozen policy: where it began, by number where observations have one, and whether it counts."""
        envs, running, sums, _ = now
        noise, clock = drawn
        counted = self._counts(now, clock)
        place = self.jax_env.get_obs(envs.state, self._params)
        policy = look_up(self._see(statistics, self._look(envs))).policy
        greedy = self.config.deterministic
        actions = self.distribution.mode(policy) if greedy else self.distribution.act(policy, noise.action)
        in_space = self.distribution.in_space(actions)
        envs, stepped = self.cmdp.step(self._params, rules, envs, in_space, noise.step, noise.place, noise.drive)
        running, ends = episodes.enter(running, stepped), stepped.terminated | stepped.truncated
        sums = episodes.add(sums, episodes.close(running, stepped.outcomes, violation_score), ends & counted)
        envs = self.cmdp.restart(self._params, envs, ends, noise.reset)
        return Experience(envs, episodes.reopen(running, ends), sums, None), (place, counted)

    def _counts(self, now: Experience, clock: Array) -> Array:
        """Whose episodes began within the budget of steps, (E,). Whose did not never will again."""
        _, budget = self._deployment_size()
        return clock - now.running.steps < budget

    @cached_property
    def kernels(self) -> Kernels | None:
        """Loops over steps as kernels, where environments know nothing of each other and have no long memory."""
        normalises = self.config.normalize_observations or self.config.normalize_rewards
        if normalises or self.jax_env.table is not None or self.cmdp.depth > 1:
            return None

        def begin(shared: Any, state: Any, u: Array) -> Any:
            return (), self.cmdp.start(self._params, u)

        def learn(shared: Any, before: Any, noise: Noise) -> Any:
            params, rules, gamma = shared
            return self._step(self._frozen(params), rules, gamma, before, noise)

        def deploy(shared: Any, now: Any, drawn: Any) -> Any:
            params, statistics, rules, score = shared

            def fly(now: Experience) -> Experience:
                after, _ = self._deployed_step(self._frozen(params), statistics, rules, score, now, drawn)
                return after

            _, clock = drawn
            return jax.lax.cond(self._counts(now, clock).any(), fly, lambda same: same, now), ()

        learner, rules, start, noise, frozen_noise = self._example()
        number, u = np.float32(0), jnp.zeros((1, self.jax_env.n_reset_uniforms))
        each = step_kernels(
            f"Task '{self.task.name}'",
            (begin, (), (), u),
            (learn, (learner.params, rules, number), (start, learner.statistics), noise),
            (deploy, (learner.params, learner.statistics, rules, number), start, (frozen_noise, np.int32(0))),
        )
        return None if each is None else Kernels(*each)

    def _example(self) -> tuple[Learner, Rules, Experience, Noise, Noise]:
        """What a student in a single environment has, and what a step of it is given in training and once deployed, as
        shapes."""

        def made(key: jax.Array) -> tuple[Learner, Experience, Noise, Noise]:
            learner: Learner = jax.tree.map(lambda leaf: leaf[0], self.program.new(jnp.zeros(1, jnp.uint32)))
            draws = (True, not self.config.deterministic)
            noise, frozen = (jax.tree.map(lambda leaf: leaf[0], self._noise(key, 1, 1, drawn)) for drawn in draws)
            envs = self.cmdp.start(self._params, self._start_noise(key, 1))
            running, sums = episodes.opening(self.task, (1,), jnp), episodes.nothing(self.task, (), jnp)
            return learner, Experience(envs, running, sums, None), noise, frozen

        learner, start, noise, frozen = jax.eval_shape(made, jax.random.key(0))
        return learner, self.cmdp.rules(self.task.intervention("none")), start, noise, frozen

    def _forward(self, params: Params, observations: Array) -> Outputs:
        """Policy and value; for a finite task `observations` are numbers into its table."""
        if self._tabulate is None:
            return forward_for(self.config.network, self.jax_env.observation)(params, observations)
        outputs = self._tabulate(params)
        return Outputs(policy=outputs.policy[observations], value=outputs.value[observations])

    def _frozen(self, params: Params) -> LookUp:
        """The network as a function of observations alone; a table is computed once for the whole rollout."""
        if self._tabulate is None:
            return partial(self._forward, params)
        outputs = self._tabulate(params)
        return lambda numbers: Outputs(policy=outputs.policy[numbers], value=outputs.value[numbers])

    def _noise(self, key: jax.Array, steps: int, n: int, draws: bool) -> Noise:
        """Without any for actions where these are not drawn."""
        act, step, place, reset = jax.random.split(jax.random.fold_in(key, 2), 4)
        drive = jax.random.fold_in(key, 3)
        return Noise(
            action=self.distribution.draw(act, (steps, n)) if draws else jnp.zeros((steps, n, 0)),
            step=jax.random.uniform(step, (steps, n, self.jax_env.n_step_uniforms)),
            place=jax.random.uniform(place, (steps, n, self.cmdp.n_place_uniforms)),
            drive=jax.random.uniform(drive, (steps, n, self.cmdp.max_driven, self.jax_env.n_step_uniforms)),
            reset=jax.random.uniform(reset, (steps, n, self.jax_env.n_reset_uniforms)),
        )


def _without(axis: int, tree: Tree) -> Tree:
    """Arrays without an axis on which there is but one."""
    squeezed: Tree = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:axis], *leaf.shape[axis + 1 :]), tree)
    return squeezed


def _together(end: Experience, before: Sums) -> Experience:
    """Environments of a kernel (S, E, 1, ...), each with sums of its own, as those of students."""
    envs, running = _without(2, (end.envs, end.running))
    sums = jax.tree.map(lambda total, each: total + each.sum(axis=1), before, end.sums)
    return Experience(envs, running, sums, end.returns)


def _moved(learner: Learner, sums: Sums, hyper: Hyperparameters) -> Learner:
    """After the multipliers have moved."""
    violations = sums.constraint_values / sums.episodes
    moved = exponentiated_gradient(learner.log_weights, violations, hyper.multiplier_rate)
    return learner._replace(log_weights=moved)
