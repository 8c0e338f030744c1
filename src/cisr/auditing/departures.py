"""Where a task's JAX environment departs from the environment: in what it shows and takes, and, where it is known what
the environment draws from a seed (`Task.jax_draws`), in how episodes go on from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.auditing.rehearsal import rehearse as rehearse
from cisr.auditing.side_by_side import parted
from cisr.auditing.trials import Trials, flat, short, similar
from cisr.auditing.twin import distribution_of
from cisr.core.intervention import Array
from cisr.core.moves import Move, standing
from cisr.core.task import Task
from cisr.kernels.steps import step_kernels
from cisr.training.spaces import seen_by_students, spaces_of, specs_in

N_BEGINNINGS, FEWEST_MOVES, MOST_MOVES = 20, 8, 100
"""Episodes that a JAX environment is to play as well, for so many moves. It need not stay in the same states for longer
than the fewest: there are some where what single precision rounds grows with every move."""
LENIENCY = 100.0
"""With later rewards, which may make much of a small difference between two states."""
ROUNDING = 1e-3
"""Of observations, relative to their largest number."""


def departures(task: Task, trials: Trials) -> Iterator[tuple[str, np.ndarray | None]]:
    """What it does otherwise than the environment, and from which state on."""
    assert task.jax_env is not None
    jax_env, (space, acted) = task.jax_env(), spaces_of(task)
    seen, done = specs_in(task, space, acted)
    shows = jax_env.observation._replace(shape=tuple(jax_env.observation.shape))
    if shows != seen:
        yield f"shows {shows}, where the environment shows {seen}", None
        return
    if not _same_actions(takes := distribution_of(jax_env), done):
        yield f"takes {takes}, where the environment takes {done}", None
        return
    if task.jax_draws is None:
        return
    episodes = [episode for episode in trials.beginnings(N_BEGINNINGS, MOST_MOVES) if episode[1]]
    longest = max(len(moves) for _, moves in episodes)
    actions = [[move.action for move in [*moves, *moves[-1:] * (longest - len(moves))]] for _, moves in episodes]
    played = _beginnings(task, [start.seed for start, _ in episodes], np.array(actions))
    first = [part[:, :FEWEST_MOVES] for part in (played.observation, played.of_state)]
    noisy = not all(similar(flat(a), flat(b), ROUNDING) for a, b in zip(*map(np.concatenate, first), strict=True))
    accused = False
    for k, (start, moves) in enumerate(episodes):
        for n, move in enumerate(moves):
            twin, late = Move(played.state[k, n], played.reward[k, n], played.terminated[k, n]), n >= FEWEST_MOVES
            if late and trials.difference(standing(move.state), standing(twin.state)):
                break
            if difference := trials.difference(move, twin, LENIENCY if late else 1.0):
                yield f"from seed {start.seed} and by the same actions, {difference} after move {n + 1}", start.state
                accused = True
                break
            expected, shown = flat(seen_by_students(space, move.observation)), flat(played.observation[k, n])
            if not (noisy or late or similar(expected, shown, ROUNDING)):
                yield f"shows {short(shown)}, where the environment shows {short(expected)}", move.state
                accused = True
    if not accused and (misled := parted(task, trials)):
        yield misled


def _same_actions(one: Any, other: Any) -> bool:
    """Bounds are compared as the single numbers that actions are."""
    if type(one) is not type(other):
        return False
    fields = zip(astuple(one), astuple(other), strict=True)
    return all(np.array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32)) for a, b in fields)


class Beginnings(NamedTuple):
    """The first n moves of E episodes. They do not stop where an episode ends."""

    state: Array  # (E, n, d)
    reward: Array  # (E, n)
    terminated: Array  # (E, n)
    observation: Array  # (E, n, ...)
    of_state: Array  # (E, n, ...) what is seen where another state is put there; the same unless sensors are noisy


def _beginnings(task: Task, seeds: Sequence[int], actions: np.ndarray) -> Beginnings:
    """Episodes of the JAX environment from seeds, by actions (E, n, ...), with nothing of ours around it."""
    assert task.jax_env is not None and task.jax_draws is not None
    env, (n_episodes, n) = task.jax_env(), actions.shape[:2]
    params = jax.tree.map(jnp.asarray, env.params)
    drawn = [task.jax_draws(seed, n) for seed in seeds]
    reset = np.stack([first for first, _ in drawn])[None, None, :, None]  # (1, 1, E, 1, k), as kernels have it
    uniforms = np.stack([steps for _, steps in drawn]).swapaxes(0, 1)[None, :, :, None]  # (1, n, E, 1, m)
    given = actions.swapaxes(0, 1)[None, :, :, None], uniforms

    def begin(shared: Any, state: Any, u: Array) -> tuple[Any, Any]:
        return (), env.reset_env(u, params)

    def step(shared: Any, state: Any, given: Any) -> tuple[Any, Beginnings]:
        action, u = given
        moved = env.step_env(u, state, action, params)
        vector = env.state_vector(moved.state)
        seen, again = (env.get_obs(at, params) for at in (moved.state, env.set_state(state, vector)))
        reward, ended = jnp.asarray(moved.reward, jnp.float32), jnp.asarray(moved.terminated, bool)
        return moved.state, Beginnings(vector, reward, ended, seen, again)

    def example(tree: Any, axes: int) -> Any:
        return jax.tree.map(lambda leaf: jax.eval_shape(jnp.asarray, leaf[(0,) * axes]), tree)

    start = jax.eval_shape(lambda u: begin((), (), u)[1], example(reset, 3))
    kernels = None
    if env.table is None:
        steps = (begin, (), (), example(reset, 3)), (step, (), start, example(given, 3))
        kernels = step_kernels(f"Task '{task.name}'", *steps)
    if kernels is not None:
        _, started = kernels[0]((), (), reset)
        started = jax.tree.map(lambda leaf: leaf.reshape(1, n_episodes, *leaf.shape[3:]), started)
        _, moves = kernels[1]((), started, given)
        moves = jax.tree.map(lambda leaf: np.asarray(leaf)[0, :, :, 0].swapaxes(0, 1), moves)
    else:

        @jax.jit
        @jax.vmap
        def episode(u: Array, given: Any) -> Any:
            return jax.lax.scan(lambda state, x: step((), state, x), begin((), (), u)[1], given)[1]

        by_episode = jax.tree.map(lambda leaf: jnp.swapaxes(jnp.asarray(leaf)[0], 0, 1), given)  # (E, n, 1, ...)
        moves = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, 0], episode(reset[0, 0], by_episode))
    if env.table is not None:
        table = np.asarray(env.table)
        moves = moves._replace(observation=table[moves.observation], of_state=table[moves.of_state])
    return Beginnings(*moves)
