"""Episodes as training plays them: on environments made afresh, after resets with and without a seed, in M and under
each intervention, to the end of its own horizon. What was seen is held against the task's model; so is its JAX
environment.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from cisr.auditing.agreement import PlayedEpisode, PlayedMove, Verdicts
from cisr.auditing.play import Attacker, RandomAttacker, StickyAttacker
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.intervention import Intervention
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Move, Task

N_ENVIRONMENTS = 10
"""Environments that are made: they are taken to be alike, and one may not be."""
N_RESETS = 60
"""Starts that are looked at in each of them, every second one without a seed."""
N_STEPS = 300
"""Steps that are played in each of them, at least one episode."""
JAX_ENVS, JAX_STEPS = 64, 40


class Excursions(NamedTuple):
    starts: np.ndarray  # (n, d)
    episodes: list[PlayedEpisode]
    xp: Any = np
    """Where the arrays come from that functions are asked about."""

    @property
    def types(self) -> set[np.dtype[Any]]:
        """Of the numbers in states."""
        met = {step.verdicts.after.dtype for e in self.episodes for step in e.steps if step.verdicts is not None}
        return {self.starts.dtype, *met, *(episode.start.dtype for episode in self.episodes)}


def excursions(task: Task, seed: int, n_environments: int = N_ENVIRONMENTS, n_resets: int = N_RESETS) -> Excursions:
    """Starts and episodes; the `AnswerError` of an environment, or of a `place` that led elsewhere, is the caller's."""
    starts: list[np.ndarray] = []
    episodes: list[PlayedEpisode] = []
    under = [task.intervention("none"), *task.interventions]
    for number in range(n_environments):
        root = derive_seed(seed, "environment", number)
        with closing(task.make_env()) as env:
            for k in range(n_resets):
                env.reset(seed=derive_seed(root, "start", k) if k % 2 else None)
                starts.append(np.array(task.read_state(env)))
            played = 0
            while played < N_STEPS:
                intervention = under[len(episodes) % len(under)]
                episodes.append(
                    _play(task, intervention, env, derive_seed(root, "episode", played), sticky=len(episodes) % 3 > 0)
                )
                played += max(len(episodes[-1].steps), 1)
    return Excursions(np.stack(starts), episodes)


def _play(task: Task, intervention: Intervention, env: Any, seed: int, *, sticky: bool) -> PlayedEpisode:
    """One episode in M_i, after a reset without a seed."""
    cmdp = InducedCMDPs(task, intervention, [env])
    horizon = task.horizon_under(intervention)
    player: Attacker = StickyAttacker(env.action_space, horizon) if sticky else RandomAttacker(env.action_space)
    player.begin(seed)
    observation, _ = cmdp.restart(0)
    start = state = np.array(task.read_state(env))
    steps: list[PlayedMove] = []
    driven = 0
    while True:
        action = player.act(observation, state)
        before = cmdp.counts[0]
        step = cmdp.step(np.asarray(action)[None])
        move = _of_one(cmdp.transition.move)  # with the action of an override where it acted instead
        chosen, events = np.asarray(action).tolist(), (cmdp.counts[0] - before).astype(bool)
        drive = [_of_one(moves) for moves in cmdp.drive]
        source, state = state, np.array(task.read_state(env))
        verdicts = Verdicts(chosen, bool(events[0]), events[1:], drive, state, bool(step.terminated[0]))
        steps.append(PlayedMove(source, move.action, move, verdicts))
        driven += int(step.driven[0])
        observation = cmdp.observations[0]
        if step.terminated[0] or step.truncated[0]:
            cut_off = bool(step.truncated[0]) and len(steps) + driven < horizon
            return PlayedEpisode(start, steps, driven, cut_off, horizon, intervention)


def _of_one(moves: Move) -> Move:
    """The move of a single environment, in plain numbers."""
    reward, terminated = float(moves.reward[0]), bool(moves.terminated[0])
    return Move(np.array(moves.state[0]), reward, terminated, moves.action[0].tolist())


def jax_excursions(task: Task, seed: int) -> Excursions:
    """The same of a task's JAX environment, in M: many environments side by side."""
    assert task.jax_env is not None
    jax_env, rng = task.jax_env(), generator(seed, "jax_env")
    state = jax_env.reset_env(rng.random((JAX_ENVS, jax_env.n_reset_uniforms), np.float32), jax_env.params)
    vector = jax_env.state_vector(state)
    starts = np.asarray(vector)
    episodes = [PlayedEpisode(start=start, steps=[], driven=0, cut_off=False, horizon=task.horizon) for start in starts]
    running = np.ones(JAX_ENVS, bool)
    for _ in range(min(JAX_STEPS, task.horizon)):
        before = np.asarray(jax_env.state_vector(state))
        assert isinstance(jax_env.n_actions, int)  # it is held against a finite model
        actions = rng.integers(jax_env.n_actions, size=JAX_ENVS)
        uniforms = rng.random((JAX_ENVS, jax_env.n_step_uniforms), np.float32)
        moved = jax_env.step_env(uniforms, state, actions, jax_env.params)
        state, after = moved.state, np.asarray(jax_env.state_vector(moved.state))
        rewards, ended = np.asarray(moved.reward, float), np.asarray(moved.terminated, bool)
        for k in np.flatnonzero(running).tolist():
            move = Move(after[k], float(rewards[k]), bool(ended[k]), int(actions[k]))
            episodes[k].steps.append(PlayedMove(before[k], int(actions[k]), move))
        running &= ~ended
    return Excursions(starts, episodes, vector.__array_namespace__())
