"""The induced CMDP of a JAX environment, as pure functions of one student's E environments.

Steps go by the rules of `cisr.cmdp.rules`; remembering where students were is what is done here. Interventions are data
(`Rules`): every trigger and reset of the task is evaluated and the student's own is selected, so that one executable
serves every curriculum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.cmdp import rules as step_rules
from cisr.cmdp.rules import Judged, Ride, Step, Terms
from cisr.core import constraints
from cisr.core.constraints import Account
from cisr.core.errors import TaskError
from cisr.core.intervention import Array, Drive, Intervention, Override, Place, Reset, Rewind, ToStart, Trigger
from cisr.core.jax_env import EnvParams, JaxEnv, State
from cisr.core.moves import Move, Transition, Unknown, holds_standing, standing
from cisr.core.task import Task

REWIND, TO_START, OTHERS = 0, 1, 2

jax.tree_util.register_static(Unknown)  # parts of moves that a JAX environment does not tell


class Rules(NamedTuple):
    """An intervention as data."""

    trigger: Array  # () which of the interventions' triggers
    reset: Array  # () REWIND, TO_START, or OTHERS + which of the other resets
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
        self._triggers = list(dict.fromkeys(map(_triggers_of, (task.intervention("none"), *interventions))))
        others = [i.reset for i in interventions if not isinstance(i.reset, Rewind | ToStart)]
        self._others: list[Reset] = list(dict.fromkeys(others))
        self._places = [(k, r) for k, r in enumerate(self._others, OTHERS) if isinstance(r, Place)]
        self._drives = [(k, r) for k, r in enumerate(self._others, OTHERS) if isinstance(r, Drive)]
        self._overrides = [(k, r) for k, r in enumerate(self._others, OTHERS) if isinstance(r, Override)]
        rewinds = [i.reset.steps for i in interventions if isinstance(i.reset, Rewind)]
        self.longest = max([task.horizon, *(task.horizon_under(i) for i in interventions)])
        """Steps of an episode, at most."""
        self.depth = 1 if max([1, *rewinds, *(p.n_history for _, p in self._places)]) == 1 else self.longest + 1
        self.n_place_uniforms = max([0, *(p.n_uniforms for _, p in self._places)])
        self.max_driven = max([0, *(d.max_steps for _, d in self._drives)])
        """Steps of a drive, at most."""

    def rules(self, intervention: Intervention) -> Rules:
        reset = intervention.reset
        kind = TO_START if isinstance(reset, ToStart) else REWIND
        if reset in self._others:
            kind = OTHERS + self._others.index(reset)
        return Rules(
            trigger=np.int32(self._triggers.index(_triggers_of(intervention))),
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
        unknown = jnp.zeros((n, self.depth - 1, vector.shape[-1]), vector.dtype)
        visited = jnp.concatenate([vector[:, None], unknown], axis=1)
        return Envs(state, account, visited, jnp.ones(n, jnp.int32), self._standing_in_danger(vector))

    def step(
        self,
        params: EnvParams,
        rules: Rules,
        envs: Envs,
        action: Array,
        u: Array,
        u_place: Array,
        u_drive: Array | None = None,
    ) -> tuple[Envs, Step]:
        """Override, move, judge, rescue, account; ended episodes are left for `restart`.

        `u_drive` (E, max_driven, n_step_uniforms) is for driven steps, where the task has drives. A program cannot
        complain: where a rescue acted outside of the action space, `driven` is no number.
        """
        after, step, _ = self.transition(params, rules, envs, action, u, u_place, u_drive)
        return after, step

    def transition(
        self,
        params: EnvParams,
        rules: Rules,
        envs: Envs,
        action: Array,
        u: Array,
        u_place: Array,
        u_drive: Array | None = None,
    ) -> tuple[Envs, Step, Transition]:
        """The same, with what the move was before any rescue."""
        task, jax_env = self.task, self.jax_env
        action, vetoes, astray = self._overridden(rules, envs, action)
        moved, move = self._move(params, envs.state, action, u)
        vector = move.state
        judged = step_rules.judge(
            move,
            dangers=self._dangers_of(move) | envs.doomed,
            success=task.success(move),
            fired=self._fired(rules, vector, vetoes),
        )
        terms = self._terms(rules)
        placed = step_rules.to_be_placed(judged, terms.puts)
        target, visited, length = self._remember(rules, envs, vector, judged, placed, u_place)
        where_to = jnp.where((judged.rescued & terms.puts)[:, None], target, vector)
        landed = self._standing_in_danger(target) if self._places else None  # a rewind leads to where nothing was wrong
        state, ride = self._put(placed, moved, target), None
        if self._drives:
            assert u_drive is not None
            state, ride, lost = self._drive(params, rules, terms, envs.account, judged, state, u_drive)
            astray = lost if astray is None else astray | lost
            where_to = jnp.where((ride.steps > 0)[:, None], jax_env.state_vector(state), where_to)
        account, step, transition = step_rules.conclude(judged, terms, envs.account, where_to, landed, ride=ride)
        if task.reward is not None:
            step = step._replace(reward=task.reward(transition))
        if astray is not None:
            step = step._replace(driven=jnp.where(astray, jnp.nan, step.driven))
        after = Envs(state=state, account=account, visited=visited, length=length, doomed=envs.doomed)
        return after, step, transition

    def _put(self, placed: Array, state: State, target: Array) -> State:
        """The states with those that are placed where they are to be."""

        def put(state: State) -> State:
            return _choose(placed, self.jax_env.set_state(state, target), state)

        return jax.lax.cond(placed.any(), put, lambda same: same, state)

    def _terms(self, rules: Rules) -> Terms:
        return Terms(
            form=self.task.constraint_form,
            tolerance=rules.tolerance,
            horizon=rules.horizon,
            to_start=(rules.reset == TO_START) | _is_one_of(rules, [(k, o) for k, o in self._overrides if o.ends]),
            puts=(rules.reset == REWIND) | _is_one_of(rules, self._places),
            drives=_is_one_of(rules, self._drives),
            max_driven=sum((jnp.where(rules.reset == k, d.max_steps, 0) for k, d in self._drives), start=0),
        )

    def _move(self, params: EnvParams, state: State, action: Array, u: Array) -> tuple[State, Move]:
        """The environments' own state after a move, and the move as the task sees it."""
        moved = self.jax_env.step_env(u, state, action, params)
        move = moved._replace(state=self.jax_env.state_vector(moved.state), action=action)
        if self.jax_env.table is None:  # else an observation is but a number into it
            move = move._replace(observation=self.jax_env.get_obs(moved.state, params))
        return moved.state, move

    def _overridden(self, rules: Rules, envs: Envs, action: Array) -> tuple[Array, dict[int, Array], Array | None]:
        """What the environments are given, (E, ...), the verdicts (E, k) of each of the triggers that judge actions, by
        its number, and whom an `act` gave an action outside of the space (E,)."""
        if not self._overrides:
            return action, {}, None
        vector = self.jax_env.state_vector(envs.state)
        vetoes = {
            number: jnp.stack([trigger(vector, action) for trigger in triggers], axis=-1)
            for number, (triggers, judges_actions) in enumerate(self._triggers)
            if judges_actions
        }
        given, astray = action, jnp.zeros(len(vector), bool)
        for number, fired in vetoes.items():
            vetoed = (rules.trigger == number) & fired.any(axis=-1)
            for k, override in self._overrides:
                mine = vetoed & (rules.reset == k)
                instead = self._actions("act of an Override", override.act(vector, action), action)
                given = jnp.where(mine.reshape(mine.shape + (1,) * (action.ndim - 1)), instead, given)
                astray = astray | (mine & ~self._are_actions(instead))
        return given, vetoes, astray

    def _actions(self, what: str, answer: Array, like: Array) -> Array:
        """What a rescue does, (E, ...), in numbers like those of actions."""
        answer = jnp.asarray(answer)
        if answer.shape != like.shape or not np.can_cast(answer.dtype, like.dtype, "same_kind"):
            raise TaskError(
                f"The {what} of task '{self.task.name}' answered {answer.dtype} of shape {answer.shape} for "
                f"{len(like)} states: answer {like.dtype} of shape {like.shape}, an action for each."
            )
        return answer.astype(like.dtype)

    def _are_actions(self, given: Array) -> Array:
        """Which of them lie in the action space, (E,)."""
        n = self.jax_env.n_actions
        return (given >= 0) & (given < n) if isinstance(n, int) else n.holds(given)

    def _fired(self, rules: Rules, vector: Array, vetoes: dict[int, Array]) -> Array:
        """Which of the student's own triggers fired, (E, k)."""

        def verdicts(number: int, vector: Array, vetoes: dict[int, Array]) -> Array:
            triggers, judges_actions = self._triggers[number]
            return vetoes[number] if judges_actions else jnp.stack([fires(vector) for fires in triggers], axis=-1)

        branches = [partial(verdicts, number) for number in range(len(self._triggers))]
        fired: Array = jax.lax.switch(rules.trigger, branches, vector, vetoes)
        return fired

    def _drive(
        self,
        params: EnvParams,
        rules: Rules,
        terms: Terms,
        account: Account,
        judged: Judged,
        state: State,
        u_drive: Array,
    ) -> tuple[State, Ride, Array]:
        """Steps of the controllers, until nobody is driven any more; and whom one gave an action outside of the space
        (E,)."""

        def drive_on(now: tuple[Array, State, Ride, Array]) -> tuple[Array, State, Ride, Array]:
            t, state, ride, astray = now
            vector = self.jax_env.state_vector(state)
            action = judged.move.action
            for k, drive in self._drives:
                steered = self._actions("controller of a Drive", drive.controller(vector), action)
                action = jnp.where(rules.reset == k, steered, action)
            moved, move = self._move(params, state, action, u_drive[:, t])
            safe = ~self._fired(rules, move.state, self._no_vetoes(len(vector))).any(axis=-1)
            for k, drive in self._drives:
                if drive.until is not None:
                    safe = jnp.where(rules.reset == k, drive.until(move.state), safe)
            after = step_rules.driven_on(ride, terms, account, move, self._dangers_of(move), safe, False)
            astray = astray | (ride.driving & ~self._are_actions(action))
            return t + 1, _choose(ride.driving, moved, state), after, astray

        ride = step_rules.set_off(judged, terms, account, False)
        start = (jnp.int32(0), state, ride, jnp.zeros_like(ride.driving))
        _, state, ride, astray = jax.lax.while_loop(lambda now: now[2].driving.any(), drive_on, start)
        return state, ride, astray

    def _no_vetoes(self, n: int) -> dict[int, Array]:
        m = len(self.task.constraints) - 1
        return {k: jnp.zeros((n, m), bool) for k, (_, judges_actions) in enumerate(self._triggers) if judges_actions}

    def _standing_in_danger(self, vector: Array) -> Array:
        """Which dangers hold of states (E, d) that nobody moved to, (E, n): starts, and ends of rescues."""
        move = standing(vector)
        return jnp.stack([holds_standing(danger, move) for danger in self.task.dangers.values()], axis=-1)

    def _dangers_of(self, move: Move) -> Array:
        return jnp.stack([danger(move) for danger in self.task.dangers.values()], axis=-1)

    def restart(self, params: EnvParams, envs: Envs, ended: Array, u: Array) -> Envs:
        """Begin new episodes where the last ones ended."""

        def begin(envs: Envs) -> Envs:
            begun: Envs = _choose(ended, self.start(params, jnp.where(ended[:, None], u, -1.0)), envs)
            return begun

        restarted: Envs = jax.lax.cond(ended.any(), begin, lambda same: same, envs)
        return restarted

    def _remember(
        self, rules: Rules, envs: Envs, vector: Array, judged: Judged, placed: Array, u_place: Array
    ) -> tuple[Array, Array, Array]:
        """Where a rescue would put the student (E, d), and the history after this step."""
        moved_on = ~judged.over & ~judged.rescued
        cut = jnp.maximum(envs.length - rules.rewind, 0)  # a rewind ends at the state of this index
        target = self._visited(envs, cut[:, None])[:, 0]
        for k, place in self._places:
            past = jnp.maximum(jnp.arange(-place.n_history, 0) + envs.length[:, None], 0)  # (E, n)
            compute = partial(_placed, place, vector, self._visited(envs, past), u_place[:, : place.n_uniforms])
            target = jax.lax.cond((rules.reset == k) & judged.rescued.any(), compute, lambda same: same, target)
        appended = moved_on | (placed & _is_one_of(rules, self._places))
        newest = jnp.where(moved_on[:, None], vector, target)
        length = jnp.where(appended, envs.length + 1, jnp.where(placed, cut + 1, envs.length))
        return target, self._with(envs, newest, appended), jnp.minimum(length, self.depth)

    def _visited(self, envs: Envs, index: Array) -> Array:
        """Of the states that each environment remembers those of these indices (E, n): (E, n, d)."""
        if self.depth == 1:
            return jnp.broadcast_to(envs.visited, (*index.shape, envs.visited.shape[-1]))
        return jnp.take_along_axis(envs.visited, index[..., None], axis=1)

    def _with(self, envs: Envs, newest: Array, appended: Array) -> Array:
        """What is remembered, with the newest (E, d) where it is to be (E,)."""
        if self.depth == 1:
            return jnp.where(appended[:, None, None], newest[:, None], envs.visited)
        everyone, at = jnp.arange(len(appended)), jnp.minimum(envs.length, self.depth - 1)
        return envs.visited.at[everyone, at].set(jnp.where(appended[:, None], newest, envs.visited[everyone, at]))


def _triggers_of(intervention: Intervention) -> tuple[tuple[Trigger, ...], bool]:
    """With whether they judge actions, too."""
    return tuple(intervention.triggers.values()), intervention.judges_actions


def _placed(place: Place, vector: Array, history: Array, u: Array, like: Array) -> Array:
    """Where a rescue puts students, in numbers like these."""
    return place.fn(vector, history, u).astype(like.dtype)


def _is_one_of(rules: Rules, resets: list[tuple[int, Any]]) -> Array:
    """Whether the student's reset is one of these, ()."""
    return sum((rules.reset == k for k, _ in resets), start=jnp.zeros((), bool))


def _choose(condition: Array, one: Any, other: Any) -> Any:
    """Leaf by leaf, along the first axis."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (jnp.ndim(a) - 1)), a, b)

    return jax.tree.map(pick, one, other)
