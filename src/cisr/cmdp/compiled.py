"""The induced CMDP of a JAX environment, as pure functions of one student's E environments.

Steps go by the rules of `cisr.cmdp.rules`; remembering where students were is what is done here. Interventions are data
(`Rules`): every trigger and reset of the task is evaluated and the student's own is selected, so that one executable
serves every curriculum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.cmdp import rules as step_rules
from cisr.cmdp.rules import Step, Terms
from cisr.core import constraints
from cisr.core.constraints import Account
from cisr.core.intervention import Array, Intervention, Place, Rewind, ToStart
from cisr.core.jax_env import EnvParams, JaxEnv, State
from cisr.core.task import Move, Task, standing

REWIND, TO_START, PLACE = 0, 1, 2


class Rules(NamedTuple):
    """An intervention as data."""

    trigger: Array  # () which of the interventions' triggers
    reset: Array  # () REWIND, TO_START, or PLACE + which of the placing functions
    rewind: Array  # () steps
    horizon: Array  # () steps
    tolerance: Array  # (m,)


class Envs(NamedTuple):
    """Environments in the middle of their episodes."""

    state: State  # (E, ...)
    account: Account  # (E, m), (E,)
    visited: Array  # (E, depth, d) this episode's last non-trigger states
    length: Array  # (E,) how many of them are kept
    doomed: Array  # (E, n) by which dangers its start is inside D: the first step is a failure and ends it


class CompiledCMDP:
    """A JAX environment under any of a task's interventions.

    `depth` is how many non-trigger states are remembered: 1 is enough for `Rewind(1)`; longer rewinds need them all.
    """

    def __init__(self, task: Task, jax_env: JaxEnv, interventions: Sequence[Intervention]) -> None:
        self.task = task
        self.jax_env = jax_env
        known = [tuple(i.triggers.values()) for i in (task.intervention("none"), *interventions)]
        self._triggers = list(dict.fromkeys(known))
        self._places = list(dict.fromkeys(i.reset for i in interventions if isinstance(i.reset, Place)))
        rewinds = [i.reset.steps for i in interventions if isinstance(i.reset, Rewind)]
        self.longest = max([task.horizon, *(task.horizon_under(i) for i in interventions)])
        """Steps of an episode, at most."""
        self.depth = 1 if max([1, *rewinds, *(p.n_history for p in self._places)]) == 1 else self.longest + 1
        self.n_place_uniforms = max([0, *(p.n_uniforms for p in self._places)])

    def rules(self, intervention: Intervention) -> Rules:
        reset = intervention.reset
        kind = TO_START if isinstance(reset, ToStart) else REWIND
        if isinstance(reset, Place):
            kind = PLACE + self._places.index(reset)
        return Rules(
            trigger=np.int32(self._triggers.index(tuple(intervention.triggers.values()))),
            reset=np.int32(kind),
            rewind=np.int32(reset.steps if isinstance(reset, Rewind) else 0),
            horizon=np.int32(self.task.horizon_under(intervention)),
            tolerance=np.array(constraints.tolerances(intervention), np.float32),
        )

    def start(self, params: EnvParams, u: Array) -> Envs:
        """New episodes from uniforms (E, n_reset_uniforms)."""
        n = u.shape[0]
        state = self.jax_env.reset_env(u, params)
        account = constraints.opening((n,), len(self.task.constraints), jnp)
        vector = self.jax_env.state_vector(state)
        visited = jnp.zeros((n, self.depth, vector.shape[-1]), vector.dtype).at[:, 0].set(vector)
        return Envs(state, account, visited, jnp.ones(n, jnp.int32), self._standing_in_danger(vector))

    def step(
        self, params: EnvParams, rules: Rules, envs: Envs, action: Array, u: Array, u_place: Array
    ) -> tuple[Envs, Step]:
        """Move, judge, account, rescue; ended episodes are left for `restart`."""
        task, jax_env = self.task, self.jax_env
        moved = jax_env.step_env(u, envs.state, action, params)
        vector = jax_env.state_vector(moved.state)
        move = moved._replace(state=vector)
        each = [jnp.stack([trigger(vector) for trigger in triggers], axis=-1) for triggers in self._triggers]
        judged = step_rules.judge(
            move,
            dangers=self._dangers_of(move) | envs.doomed,
            success=task.success(move),
            fired=jnp.stack(each)[rules.trigger],
        )
        to_start = rules.reset == TO_START
        placed = step_rules.to_be_placed(judged, to_start)
        moved_on = ~judged.over & ~judged.rescued
        target, visited, length = self._remember(rules, envs, vector, moved_on, placed, u_place)
        where_to = jnp.where((judged.rescued & ~to_start)[:, None], target, vector)
        landed = self._standing_in_danger(target) if self._places else None  # a rewind leads to where nothing was wrong
        terms = Terms(task.constraint_form, rules.tolerance, rules.horizon, to_start)
        account, step, transition = step_rules.conclude(judged, terms, envs.account, where_to, landed)
        if task.reward is not None:
            step = step._replace(reward=task.reward(transition))
        after = Envs(
            state=_choose(placed, jax_env.set_state(moved.state, target), moved.state),
            account=account,
            visited=visited,
            length=length,
            doomed=envs.doomed,
        )
        return after, step

    def _standing_in_danger(self, vector: Array) -> Array:
        """Which dangers hold of states (E, d) that nobody moved to, (E, n): starts, and ends of rescues."""
        return self._dangers_of(standing(vector))

    def _dangers_of(self, move: Move) -> Array:
        return jnp.stack([danger(move) for danger in self.task.dangers.values()], axis=-1)

    def restart(self, params: EnvParams, envs: Envs, ended: Array, u: Array) -> Envs:
        """Begin new episodes where the last ones ended."""
        restarted: Envs = _choose(ended, self.start(params, u), envs)
        return restarted

    def _remember(
        self, rules: Rules, envs: Envs, vector: Array, moved_on: Array, placed: Array, u_place: Array
    ) -> tuple[Array, Array, Array]:
        """Where a rescue would lead (E, d), and the history after this step."""
        everyone = jnp.arange(len(moved_on))
        cut = jnp.maximum(envs.length - rules.rewind, 0)  # a rewind ends at the state of this index
        if self.depth == 1:
            cut = jnp.zeros_like(cut)
        target = envs.visited[everyone, cut]
        for k, place in enumerate(self._places):
            past = jnp.maximum(jnp.arange(-place.n_history, 0) + envs.length[:, None], 0)  # (E, n)
            if self.depth == 1:
                past = jnp.zeros_like(past)
            history = jnp.take_along_axis(envs.visited, past[..., None], axis=1)
            computed = place.fn(vector, history, u_place[:, : place.n_uniforms])
            target = jnp.where(rules.reset == PLACE + k, computed.astype(target.dtype), target)
        appended = moved_on | (placed & (rules.reset >= PLACE))
        at = jnp.zeros_like(envs.length) if self.depth == 1 else jnp.minimum(envs.length, self.depth - 1)
        newest = jnp.where(moved_on[:, None], vector, target)
        kept = envs.visited.at[everyone, at].set(jnp.where(appended[:, None], newest, envs.visited[everyone, at]))
        length = jnp.where(appended, envs.length + 1, jnp.where(placed, cut + 1, envs.length))
        return target, kept, jnp.minimum(length, self.depth)


def _choose(condition: Array, one: Any, other: Any) -> Any:
    """Leaf by leaf, along the first axis."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (jnp.ndim(a) - 1)), a, b)

    return jax.tree.map(pick, one, other)
