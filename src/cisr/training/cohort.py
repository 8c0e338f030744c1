"""A cohort: students and their compiled environments as one program. A unit is one executable, a deployment another.

What students differ in is data: weights, seeds, settings and the interventions that they are under. Functions named
`_one_…` are about one student; the others map them over a leading axis S of students.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cisr.cmdp import episodes
from cisr.cmdp.compiled import CompiledCMDP, Envs, Rules
from cisr.cmdp.episodes import Episode, Sums
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array
from cisr.core.jax_env import JaxEnv
from cisr.core.task import Task
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
        self.unit = jax.jit(self._unit)
        """unit(learners, rules, hypers, seeds (S,)) -> (learners, Sums over the unit)"""
        self.deploy = jax.jit(self._deploy)
        """deploy(learners, rules, seeds (S,), violation_score) -> Sums over the episodes that count, visits (S, n)"""

    def _unit(self, learners: Learner, rules: Rules, hypers: Hyperparameters, seeds: Array) -> tuple[Learner, Sums]:
        keys = jax.vmap(jax.random.key)(seeds)

        def respond(state: tuple[Learner, Sums], number: Array) -> tuple[tuple[Learner, Sums], None]:
            learners, total = state
            learners, sums = self._best_response(learners, rules, hypers, _fold(keys, number))
            return (learners, jax.tree.map(jnp.add, total, sums)), None

        start = (learners, episodes.nothing(self.task, seeds.shape, jnp))
        (learners, total), _ = jax.lax.scan(respond, start, jnp.arange(self.config.rounds_per_unit))
        return learners, total

    def _best_response(
        self, learners: Learner, rules: Rules, hypers: Hyperparameters, keys: Array
    ) -> tuple[Learner, Sums]:
        """PPO against fixed multipliers on restarted environments, then the multipliers move."""

        def update(state: tuple[Learner, Experience], number: Array) -> tuple[tuple[Learner, Experience], None]:
            learners, experience = state
            update_keys = _fold(keys, number + 1)
            learners, experience, rollouts = jax.vmap(self._one_rollout)(
                learners, rules, hypers, experience, update_keys
            )
            learners = over_students(self._one_update)(learners, rollouts, hypers, update_keys)
            return (learners, experience), None

        start = jax.vmap(partial(self._start, n=self.config.n_envs))(keys)
        (learners, end), _ = jax.lax.scan(update, (learners, start), jnp.arange(self.config.updates_per_round))
        sums = episodes.add_unfinished(self.task, end.sums, end.running)
        violations = sums.constraint_values / sums.episodes[:, None]
        moved = jax.vmap(exponentiated_gradient)(learners.log_weights, violations, hypers.multiplier_rate)
        return learners._replace(log_weights=moved), sums

    def _one_update(self, learner: Learner, rollout: Rollout, hyper: Hyperparameters, key: jax.Array) -> Learner:
        shuffle = jax.random.fold_in(key, 1)
        return ppo.update(learner, rollout, hyper, shuffle, self.config, self._forward, self.distribution)

    def _one_rollout(
        self, learner: Learner, rules: Rules, hyper: Hyperparameters, experience: Experience, key: jax.Array
    ) -> tuple[Learner, Experience, Rollout]:
        """`n_steps` in E environments."""
        n, params = self.config.n_envs, self._params
        look_up = self._frozen(learner.params)

        def step(
            before: tuple[Experience, Statistics], noise: Noise
        ) -> tuple[tuple[Experience, Statistics], tuple[Array, ...]]:
            (envs, running, sums, returns), statistics = before
            statistics, seen = self._meet(statistics, self._look(envs))
            outputs = look_up(seen)
            actions = self.distribution.act(outputs.policy, noise.action)
            log_probs = self.distribution.log_prob(outputs.policy, actions)
            in_space = self.distribution.in_space(actions)
            envs, stepped = self.cmdp.step(params, rules, envs, in_space, noise.step, noise.place, noise.drive)
            running, ends = episodes.enter(running, stepped), stepped.terminated | stepped.truncated
            sums = episodes.add(sums, episodes.close(running, stepped.outcomes, math.nan), ends)
            statistics, rewards, returns = normalisation.earn(statistics, stepped.reward, ends, returns, hyper.gamma)
            reached = envs
            envs = self.cmdp.restart(params, envs, ends, noise.reset)
            beyond = jnp.zeros(n)
            if self.config.bootstrap_time_limit:
                arrived, _ = self._meet(statistics, self._look(envs))
                after = look_up(self._see(arrived, self._look(reached))).value
                beyond = jnp.where(stepped.truncated, after, 0.0)
            columns = (seen, actions, log_probs, outputs.value, rewards, stepped.costs, ends, beyond)
            return (Experience(envs, episodes.reopen(running, ends), sums, returns), statistics), columns

        start = (experience, learner.statistics)
        (experience, statistics), columns = jax.lax.scan(step, start, self._noise(key, self.config.n_steps, n))
        observations, actions, log_probs, values, rewards, costs, ends, beyond = columns
        _, last = self._meet(statistics, self._look(experience.envs))  # they enter when they are acted on
        rollout = Rollout(observations, actions, log_probs, values, rewards, costs, ends, beyond, look_up(last).value)
        return learner._replace(statistics=statistics), experience, rollout

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
        one = partial(self._one_deployment, violation_score=violation_score)
        return jax.vmap(one)(learners, rules, jax.vmap(jax.random.key)(seeds))

    def _one_deployment(
        self, learner: Learner, rules: Rules, key: jax.Array, violation_score: Array
    ) -> tuple[Sums, Array]:
        """Many environments at once; episodes begun within the budget count, and they are run to their end.

        Also returns how many steps were begun at each of a finite task's observations (n,); empty for other tasks.
        """
        task, params = self.task, self._params
        longest = self.cmdp.longest
        n = max(self.config.n_envs, min(task.training.deployment_steps // longest, MAX_DEPLOYMENT_ENVS))
        budget = -(-task.training.deployment_steps // n)
        if self.episodes is not None:
            n, budget = self.episodes, 1
        steps = budget + longest
        look_up = self._frozen(learner.params)

        def step(now: Experience, drawn: tuple[Noise, Array]) -> tuple[Experience, tuple[Array, Array]]:
            envs, running, sums, _ = now
            noise, clock = drawn
            counted = clock - running.steps < budget
            place = self.jax_env.get_obs(envs.state, params)
            policy = look_up(self._see(learner.statistics, self._look(envs))).policy
            greedy = self.config.deterministic
            actions = self.distribution.mode(policy) if greedy else self.distribution.act(policy, noise.action)
            in_space = self.distribution.in_space(actions)
            envs, stepped = self.cmdp.step(params, rules, envs, in_space, noise.step, noise.place, noise.drive)
            running, ends = episodes.enter(running, stepped), stepped.terminated | stepped.truncated
            sums = episodes.add(sums, episodes.close(running, stepped.outcomes, violation_score), ends & counted)
            envs = self.cmdp.restart(params, envs, ends, noise.reset)
            return Experience(envs, episodes.reopen(running, ends), sums, None), (place, counted)

        noise = self._noise(key, steps, n)
        drawn = (noise, jnp.arange(steps, dtype=jnp.int32))
        start = self._start(key, n)._replace(returns=None)
        end, (places, counted) = jax.lax.scan(step, start, drawn)
        if self.jax_env.table is None:
            return end.sums, jnp.zeros(0)
        return end.sums, jnp.zeros(len(self.jax_env.table)).at[places.ravel()].add(counted.ravel())

    def _forward(self, params: Params, observations: Array) -> Outputs:
        """Policy and value; for a finite task `observations` are numbers into its table."""
        if self._tabulate is None:
            return forward_for(self.config.network, self.jax_env.observation)(params, observations)
        outputs = self._tabulate(params)
        return Outputs(policy=outputs.policy[observations], value=outputs.value[observations])

    def _frozen(self, params: Params) -> Any:
        """The network as a function of observations alone; a table is computed once for the whole rollout."""
        if self._tabulate is None:
            return partial(self._forward, params)
        outputs = self._tabulate(params)
        return lambda numbers: Outputs(policy=outputs.policy[numbers], value=outputs.value[numbers])

    def _start(self, key: jax.Array, n: int) -> Experience:
        u = jax.random.uniform(jax.random.fold_in(key, 0), (n, self.jax_env.n_reset_uniforms))
        envs = self.cmdp.start(self._params, u)
        returns = jnp.zeros(n) if self.config.normalize_rewards else None
        return Experience(envs, episodes.opening(self.task, (n,), jnp), episodes.nothing(self.task, (), jnp), returns)

    def _noise(self, key: jax.Array, steps: int, n: int) -> Noise:
        act, step, place, reset = jax.random.split(jax.random.fold_in(key, 2), 4)
        drive = jax.random.fold_in(key, 3)
        return Noise(
            action=self.distribution.draw(act, (steps, n)),
            step=jax.random.uniform(step, (steps, n, self.jax_env.n_step_uniforms)),
            place=jax.random.uniform(place, (steps, n, self.cmdp.n_place_uniforms)),
            drive=jax.random.uniform(drive, (steps, n, self.cmdp.max_driven, self.jax_env.n_step_uniforms)),
            reset=jax.random.uniform(reset, (steps, n, self.jax_env.n_reset_uniforms)),
        )


def _fold(keys: Array, number: Array) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
