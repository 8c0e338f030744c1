"""The same episodes in the environment and in a task's JAX environment, under every intervention and to the horizon,
where it is known what the environment draws from a seed (`Task.jax_draws`).

Single precision may make much of a small difference: two episodes may part slowly, and at a contact that comes a step
later in one of them at once. Of another kind are those of which most part at once after the same number of moves, or
after a rescue.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np

from cisr.auditing.excursions import N_STEPS
from cisr.auditing.play import Attacker, RandomAttacker, StickyAttacker
from cisr.auditing.rehearsal import Misled, Rehearsal, Told
from cisr.auditing.trials import Trials
from cisr.auditing.twin import Draws
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.intervention import Intervention, Place
from cisr.core.moves import Move
from cisr.core.seeding import MAX_SEED, derive_seed
from cisr.core.task import Task

FEWEST_EPISODES = 3
"""Under each intervention, and that depart by the same cause before anybody is accused."""
SHARE = 0.5
"""Of the episodes that could, those that depart."""
SLOWLY, AT_ONCE = 0.1, 100.0
"""How many times the tolerance: episodes that have parted so far are followed no longer, those that part by so much
more in one move depart."""


class Flown(NamedTuple):
    """An episode in the environment."""

    seed: int
    actions: np.ndarray  # (n, ...) the student's
    moves: list[Move]  # before rescues
    rescued: list[bool]
    after: list[np.ndarray]  # (d,) where each step left the student
    driven: list[int]


class Compared(NamedTuple):
    """An episode in both."""

    together: int
    """After how many moves they were still the same."""
    rescued: bool
    """Whether there was a rescue until then."""
    cause: str | int | None = None
    """They part at once after a rescue, or after so many moves."""
    misled: Misled | None = None


def parted(task: Task, trials: Trials) -> Misled | None:
    """How the JAX environment goes on otherwise than the environment; None where it does not."""
    rehearsal = Rehearsal(task)
    n = max(N_STEPS * 10 // (len(rehearsal.under) * rehearsal.horizon), FEWEST_EPISODES)
    rows: list[list[Flown]] = []
    for row, intervention in enumerate(rehearsal.under):
        with closing(task.make_env()) as env:
            cmdp = InducedCMDPs(task, intervention, [env])
            seeds = [derive_seed(trials.seed, "side by side", row, k) % MAX_SEED for k in range(n)]
            rows.append([_flown(task, intervention, cmdp, seed, sticky=k % 3 > 0) for k, seed in enumerate(seeds)])
    longest = rehearsal.horizon
    filled = [[_filled(flown.actions, longest) for flown in row] for row in rows]
    played = rehearsal.play((), np.array(filled).swapaxes(1, 2), _draws(task, rehearsal, rows))
    compared = []
    for row, intervention in enumerate(rehearsal.under):
        for e, flown in enumerate(rows[row]):
            told = Told(*(part[row, : played.n_steps[row, e], e] for part in played.recorded))
            compared.append(_compared(trials, intervention, flown, told))
    for cause in dict.fromkeys(one.cause for one in compared if one.cause is not None):
        tries = [one for one in compared if (one.rescued if isinstance(cause, str) else one.together >= cause)]
        departed = [one.misled for one in tries if one.cause == cause]
        if len(departed) >= max(FEWEST_EPISODES, SHARE * len(tries)):
            return departed[0]
    return None


def _flown(task: Task, intervention: Intervention, cmdp: InducedCMDPs, seed: int, *, sticky: bool) -> Flown:
    space = cmdp.envs[0].action_space
    player: Attacker = StickyAttacker(space, cmdp.horizon) if sticky else RandomAttacker(space)
    player.begin(derive_seed(seed, "player"))
    observation, _ = cmdp.restart(0, seed)
    state = np.array(task.read_state(cmdp.envs[0]))
    flown = Flown(seed, np.zeros(0), [], [], [], [])
    actions: list[np.ndarray] = []
    while True:
        actions.append(np.asarray(player.act(observation, state)))
        step = cmdp.step(actions[-1][None])
        move = cmdp.transition.move
        flown.moves.append(Move(np.array(move.state[0]), float(move.reward[0]), bool(move.terminated[0])))
        flown.rescued.append(bool(step.rescued[0]))
        flown.driven.append(int(step.driven[0]))
        flown.after.append(state := np.array(task.read_state(cmdp.envs[0])))
        if step.terminated[0] or step.truncated[0]:
            return flown._replace(actions=np.array(actions))
        observation = cmdp.observations[0]


def _filled(actions: np.ndarray, n: int) -> np.ndarray:
    """Up to n of them, the last again and again."""
    return np.concatenate([actions, np.repeat(actions[-1:], n - len(actions), axis=0)])


def _draws(task: Task, rehearsal: Rehearsal, rows: list[list[Flown]]) -> Draws:
    """What the environment has drawn: in a row for a student's steps and those of drives between them."""
    assert task.jax_draws is not None
    draws = rehearsal.draws(np.array([[flown.seed for flown in row] for row in rows]))
    for row, (intervention, episodes) in enumerate(zip(rehearsal.under, rows, strict=True)):
        for e, flown in enumerate(episodes):
            longest = draws.drive.shape[3]
            _, drawn = task.jax_draws(flown.seed, rehearsal.horizon + longest + sum(flown.driven))
            place, at = np.random.default_rng(derive_seed(flown.seed, "uniforms")), 0
            for t, (rescued, driven) in enumerate(zip(flown.rescued, flown.driven, strict=True)):
                draws.steps[row, e, t] = drawn[at]
                draws.drive[row, t, e] = drawn[at + 1 : at + 1 + longest]
                at += 1 + driven
                if rescued and isinstance(intervention.reset, Place):
                    u = place.random(intervention.reset.n_uniforms)
                    draws.place[row, t, e, : len(u)] = u
    return draws


def _compared(trials: Trials, intervention: Intervention, flown: Flown, told: Told) -> Compared:
    rescued, just_now = False, False  # whether there was a rescue, and after the last move

    def departed(n: int, said: str, at: np.ndarray, by_rescue: bool) -> Compared:
        misled = Misled(f"under '{intervention.name}' from seed {flown.seed} and by the same actions, {said}", at)
        return Compared(n, rescued or by_rescue, "a rescue" if by_rescue else n, misled)

    for n, move in enumerate(flown.moves):
        if n == len(told.state):
            return departed(n, f"the episode is over after {n} moves", move.state, just_now)
        twin = Move(told.state[n], float(told.reward[n]), bool(told.terminated[n]))
        if difference := trials.difference(move, twin, AT_ONCE):
            return departed(n, f"{difference} after move {n + 1}", told.source[n], just_now)
        if trials.difference(move, twin, SLOWLY):
            return Compared(n, rescued)
        just_now = flown.rescued[n]
        if just_now != bool(told.events[n, 1:].any()):
            said = f"there is {'no' if just_now else 'a'} rescue after move {n + 1}"
            return departed(n, said, move.state, True)
        rescued = rescued or just_now
        one, other = (Move(state, 0.0, False) for state in (flown.after[n], told.stands[n]))
        if difference := trials.difference(one, other, AT_ONCE):
            said = f"{difference} after the rescue that follows move {n + 1}"
            return departed(n, said, move.state, True)
        if trials.difference(one, other, SLOWLY):
            return Compared(n, rescued)
    return Compared(len(flown.moves), rescued)
