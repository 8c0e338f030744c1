"""Episodes as training plays them: on environments made afresh, after resets with and without a seed, in M and under
each intervention, to the end of its own horizon. What was seen is held against the task's model; so is its twin.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from cisr.audit.agreement import Step, Way
from cisr.audit.play import Attacker, RandomAttacker, StickyAttacker
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
TWIN_ENVS, TWIN_STEPS = 64, 40


class Excursions(NamedTuple):
    starts: np.ndarray  # (n, d)
    ways: list[Way]


def excursions(task: Task, seed: int, n_environments: int = N_ENVIRONMENTS, n_resets: int = N_RESETS) -> Excursions:
    """Starts and episodes; the `AnswerError` of an environment, or of a `place` that led elsewhere, is the caller's."""
    starts: list[np.ndarray] = []
    ways: list[Way] = []
    under = [task.intervention("none"), *task.interventions]
    for number in range(n_environments):
        root = derive_seed(seed, "environment", number)
        with closing(task.make_env()) as env:
            for k in range(n_resets):
                env.reset(seed=derive_seed(root, "start", k) if k % 2 else None)
                starts.append(np.array(task.read_state(env)))
            played = 0
            while played < N_STEPS:
                intervention = under[len(ways) % len(under)]
                ways.append(
                    _play(task, intervention, env, derive_seed(root, "episode", played), sticky=len(ways) % 3 > 0)
                )
                played += max(len(ways[-1].steps), 1)
    return Excursions(np.stack(starts), ways)


def _play(task: Task, intervention: Intervention, env: Any, seed: int, *, sticky: bool) -> Way:
    """One episode in M_i, after a reset without a seed."""
    row = InducedCMDPs(task, intervention, [env])
    horizon = task.horizon_under(intervention)
    player: Attacker = StickyAttacker(env.action_space, horizon) if sticky else RandomAttacker(env.action_space)
    player.begin(seed)
    observation, _ = row.restart(0)
    start = state = np.array(task.read_state(env))
    steps: list[Step] = []
    while True:
        action = player.act(observation, state)
        step = row.step(np.asarray(action)[None])
        seen = row.transition.move
        move = Move(np.array(seen.state[0]), float(seen.reward[0]), bool(seen.terminated[0]))
        steps.append(Step(state, action, move))
        observation, state = row.observations[0], np.array(task.read_state(env))
        if step.terminated[0] or step.truncated[0]:
            cut_off = bool(step.truncated[0]) and len(steps) < horizon
            return Way(start=start, steps=steps, cut_off=cut_off, horizon=horizon)


def twin_excursions(task: Task, seed: int) -> Excursions:
    """The same of a task's compiled twin, in M: many environments side by side."""
    assert task.twin is not None
    twin, rng = task.twin(), generator(seed, "twin")
    state = twin.reset(twin.parameters, rng.random((TWIN_ENVS, twin.n_reset_uniforms), np.float32))
    starts = np.asarray(twin.vector(state))
    ways = [Way(start=start, steps=[], cut_off=False, horizon=task.horizon) for start in starts]
    running = np.ones(TWIN_ENVS, bool)
    for _ in range(min(TWIN_STEPS, task.horizon)):
        before = np.asarray(twin.vector(state))
        actions = rng.integers(twin.n_actions, size=TWIN_ENVS)
        uniforms = rng.random((TWIN_ENVS, twin.n_step_uniforms), np.float32)
        outcome = twin.step(twin.parameters, state, actions, uniforms)
        state, after = outcome.state, np.asarray(twin.vector(outcome.state))
        rewards, ended = np.asarray(outcome.reward, float), np.asarray(outcome.terminated, bool)
        for k in np.flatnonzero(running).tolist():
            move = Move(after[k], float(rewards[k]), bool(ended[k]))
            ways[k].steps.append(Step(before[k], int(actions[k]), move))
        running &= ~ended
    return Excursions(starts, ways)
