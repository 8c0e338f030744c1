"""How episodes of a task's JAX environment begin, from seeds of which it is known what the environment draws
(`Task.jax_draws`): with nothing of ours around it, to be held against the environment's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.intervention import Array
from cisr.core.task import Task
from cisr.kernels.steps import step_kernels


class Beginnings(NamedTuple):
    """The first n moves of E episodes. They do not stop where an episode ends."""

    state: Array  # (E, n, d)
    reward: Array  # (E, n)
    terminated: Array  # (E, n)
    observation: Array  # (E, n, ...)
    of_state: Array  # (E, n, ...) what is seen where another state is put there; the same unless sensors are noisy


def beginnings(task: Task, seeds: Sequence[int], actions: np.ndarray) -> Beginnings:
    """By actions (E, n, ...)."""
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
