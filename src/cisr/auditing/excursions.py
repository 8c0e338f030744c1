"""Episodes as training plays them: on environments made afresh, after resets with and without a seed, in M and under
each intervention, to the end of its own horizon. What was seen is held against the task's model.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import numpy as np

from cisr.auditing.agreement import PlayedEpisode, PlayedMove, Verdicts
from cisr.auditing.play import Attacker, RandomAttacker, StickyAttacker
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.intervention import Intervention
from cisr.core.seeding import derive_seed
from cisr.core.task import Move, Task

N_ENVIRONMENTS = 10
"""Environments that are made: they are taken to be alike, and one may not be."""
N_RESETS = 60
"""Starts that are looked at in each of them, every second one without a seed."""
N_STEPS = 300
"""Steps that are played in each of them, at least one episode."""
N_STEPS_OLDEST = 3_000
"""Steps that are played in the first of them, where there is a model: it may change with its own age."""


class Excursions(NamedTuple):
    starts: np.ndarray  # (n, d)
    episodes: list[PlayedEpisode]

    @property
    def types(self) -> set[np.dtype[Any]]:
        """Of the numbers in states."""
        met = {step.verdicts.after.dtype for e in self.episodes for step in e.steps if step.verdicts is not None}
        return {self.starts.dtype, *met, *(episode.start.dtype for episode in self.episodes)}


def excursions(
    task: Task, seed: int, n_environments: int = N_ENVIRONMENTS, n_resets: int = N_RESETS, oldest: int = N_STEPS
) -> Excursions:
    """Starts and episodes; the `AnswerError` of an environment, or of a `place` that led elsewhere, is the caller's."""
    starts: list[np.ndarray] = []
    episodes: list[PlayedEpisode] = []
    under = [task.intervention("none"), *task.interventions]
    for number in range(n_environments):
        root = derive_seed(seed, "environment", number)
        with ExitStack() as made:
            env = made.enter_context(closing(task.make_env()))
            beside = _alone
            if number % 2:
                beside = _wanderer(made.enter_context(closing(task.make_env())), derive_seed(root, "beside"))
            for k in range(n_resets):
                env.reset(seed=derive_seed(root, "start", k) if k % 2 else None)
                starts.append(np.array(task.read_state(env)))
            played = 0
            while played < (N_STEPS if number else oldest):
                intervention = under[len(episodes) % len(under)]
                episodes.append(
                    _play(
                        task,
                        intervention,
                        env,
                        derive_seed(root, "episode", played),
                        sticky=len(episodes) % 3 > 0,
                        beside=beside,
                    )
                )
                played += max(len(episodes[-1].steps), 1)
    return Excursions(np.stack(starts), episodes)


def _alone() -> None:
    pass


def _wanderer(env: Any, seed: int) -> Callable[[], None]:
    """Takes one random step of an environment, or begins it anew. Training steps several by turns, and what they share
    shows only then."""
    env.action_space.seed(seed)
    over = True

    def step() -> None:
        nonlocal over
        if over:
            env.reset()
            over = False
        else:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = bool(terminated or truncated)

    return step


def _play(
    task: Task, intervention: Intervention, env: Any, seed: int, *, sticky: bool, beside: Callable[[], None]
) -> PlayedEpisode:
    """One episode in M_i, after a reset without a seed; what is `beside` it moves before each step."""
    cmdp = InducedCMDPs(task, intervention, [env])
    horizon = task.horizon_under(intervention)
    player: Attacker = StickyAttacker(env.action_space, horizon) if sticky else RandomAttacker(env.action_space)
    player.begin(seed)
    observation, _ = cmdp.restart(0)
    start = state = np.array(task.read_state(env))
    steps: list[PlayedMove] = []
    driven = 0
    while True:
        beside()
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
            outcome = task.outcomes[outcome_of(step.outcomes[0])]
            danger = outcome if outcome in task.dangers else None
            return PlayedEpisode(start, steps, driven, cut_off, horizon, intervention, danger)


def _of_one(moves: Move) -> Move:
    """The move of a single environment, in plain numbers."""
    reward, terminated = float(moves.reward[0]), bool(moves.terminated[0])
    return Move(np.array(moves.state[0]), reward, terminated, moves.action[0].tolist())
