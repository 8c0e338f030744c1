"""The intervention-induced CMDP M_i on Gymnasium environments, stepped on the host by the rules of `cisr.cmdp.rules`.

What is the host's own: asking environments and checking their answers, putting them back to where students were, and
driving them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp import rules
from cisr.cmdp.answers import Answers, checked_flag, checked_reward, checked_state, checked_step, concerns_all, copied
from cisr.cmdp.memory import Memory
from cisr.cmdp.questions import Questions
from cisr.cmdp.rules import Judged, Ride, Step, Terms
from cisr.core import constraints
from cisr.core.checks import LARGEST
from cisr.core.errors import AnswerError
from cisr.core.intervention import Drive, Intervention, Override, Place, Rewind
from cisr.core.moves import Infos, Move, Transition, standing
from cisr.core.seeding import derive_seed
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

Env = gymnasium.Env[Any, Any]
ROUNDING = 1e-3
"""By how much `place` may miss a state: simulators keep single precision."""


class InducedCMDPs:
    """E environments of one task under one intervention, stepped together.

    An environment that raises, or answers what its spaces do not allow, is reported to `on_error(k, error, judged)` and
    left out from then on: its answers are zeros and its episode never ends. `judged` says whether the step in which it
    broke could be judged by the state that it left. Without `on_error` the error is the caller's. `on_ask(k)` is called
    before environment k is asked for a step or put anywhere, `on_ask(None)` before functions of the task are.
    """

    def __init__(
        self,
        task: Task,
        intervention: Intervention,
        envs: Sequence[Env],
        on_error: Callable[[int, BaseException, bool], None] | None = None,
        on_ask: Callable[[int | None], None] = lambda k: None,
    ) -> None:
        self.task = task
        self.intervention = intervention
        self.envs = list(envs)
        self.horizon = task.horizon_under(intervention)
        self._on_error = on_error
        self._on_ask = on_ask
        self._answers = Answers(self.envs[0].observation_space)
        self._left_out: set[int] = set()
        self._ask = Questions(task, intervention, len(self.envs), self.envs[0].action_space)
        self._terms = rules.terms_of(task, intervention)
        self._account = constraints.opening((len(self.envs),), len(task.constraints))
        self.observations: np.ndarray
        """What students see after the last step and any rescue, (E, ...)."""
        self.infos: list[dict[str, Any]] = [{} for _ in self.envs]
        """What each environment itself told at its last step or reset."""
        self.transition: Transition
        """The last step as a whole: where moves led, before any rescue, and where rescues put students."""
        self.drive: list[Move] = []
        """The controller's moves in the last step; environments that are not driven stay where they are."""
        self._observations: list[Any] = [None for _ in self.envs]
        self._uniforms = [np.random.default_rng() for _ in self.envs]
        self._memory = Memory(task, intervention, self.envs)
        self._asks_info = False  # whether a verdict takes more than a state

    def seed(self, seeds: Sequence[int]) -> np.ndarray:
        """Start every environment afresh from its seed; returns observations (E, ...)."""
        return np.stack([self.restart(k, seed)[0] for k, seed in enumerate(seeds)])

    def restart(
        self, k: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a new episode in environment k; returns what the environment's own reset does."""
        if seed is not None:
            self._uniforms[k] = np.random.default_rng(derive_seed(seed, "uniforms"))
        observation, info = self.envs[k].reset(seed=seed, options=options)
        self.infos[k] = copied(info)
        self._observations[k] = self._answers.observation(observation, "The environment's reset")
        if self._answers.not_finite(self._observations[k][None]):
            raise AnswerError("The environment's reset answered an observation that is not finite.")
        state = checked_state(self.task.read_state(self.envs[k]))
        self._memory.begin(k, state, self._observations[k])
        for entry in self._account:
            entry[k] = 0
        return self._observations[k].copy(), self.infos[k]

    @property
    def counts(self) -> np.ndarray:
        """What has happened in each episode so far, (E, m): failures, rescues by each trigger."""
        return np.array(self._account.counts)

    def leave_out(self, k: int) -> None:
        """Never touch environment k again."""
        self._left_out.add(k)

    def step(self, actions: np.ndarray) -> Step:
        """Override, move, judge, rescue; ended episodes are left for `restart`."""
        self._on_ask(None)
        begun, self.drive = self._begun_in_danger(), []
        actions, vetoes = self._overridden(actions)
        states = [past[-1] for past in self._memory.states]
        move, cut_off, here = self._move(actions, states, range(len(self.envs)))
        self._on_ask(None)
        dangers = self._ask.dangers(move) if begun is None else self._ask.dangers(move) | begun
        self._asks_info = self._asks_info or move.info.asked
        judged = rules.judge(
            move,
            dangers=dangers & here[:, None],
            success=self._ask.success(move) & here,
            fired=(self._ask.fired(move.state) if vetoes is None else vetoes) & here[:, None],
        )
        terms = self._terms._replace(horizon=np.where(here, self.horizon, np.inf))
        ride, after = self._drive(judged, terms, cut_off) if terms.drives else (None, self._rescue(judged))
        self._on_ask(None)
        puts_anywhere = isinstance(self.intervention.reset, Place) and judged.rescued.any()
        landed = self._ask.standing_dangers(standing(after)) if puts_anywhere else None
        account = self._account
        self._account, step, self.transition = rules.conclude(judged, terms, account, after, landed, cut_off, ride)
        if self.task.reward is not None:
            step = step._replace(reward=np.where(here, self._paid(), 0.0))
        self.observations = np.stack(self._observations) if judged.rescued.any() else move.observation
        for k in self._answers.not_finite(self.observations):
            if k not in self._left_out:
                self._give_up(k, AnswerError("The environment's step answered an observation that is not finite."))
            self.observations[k] = 0.0
        return step

    def _overridden(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """What environments are given, (E, ...), and which triggers fired at what students chose, (E, k); None where
        triggers do not judge actions."""
        reset = self.intervention.reset
        if not isinstance(reset, Override):
            return actions, None
        states = np.stack([past[-1] for past in self._memory.states])
        chosen = actions.astype(np.int64) if actions.dtype.kind in "iu" else actions  # as models number them
        vetoes = self._ask.fired(states, chosen.copy())
        vetoed = np.asarray(vetoes.any(axis=-1))
        if not vetoed.any():
            return actions, vetoes
        instead = self._ask.actions("act", reset.act, states, chosen.copy(), used=vetoed)
        return np.where(vetoed.reshape(-1, *(1,) * (actions.ndim - 1)), instead, actions), vetoes

    def _move(
        self, actions: np.ndarray, states: list[np.ndarray], who: Iterable[int]
    ) -> tuple[Move, np.ndarray, np.ndarray]:
        """Step some environments; `states` (E, d) become where they are. Returns the moves, whom its own time limit has
        cut off (E,), and who has moved (E,): also an environment that is left out since, because another one of its
        student broke."""
        read_state, answers = self.task.read_state, self._answers
        n = len(self.envs)
        rewards, terminated, cut_off, moved = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        # Discrete spaces check Python's integers faster; vectors are copies, which environments may clip in place.
        chosen = actions.tolist() if actions.ndim == 1 else actions.copy()
        for k in who:
            if k in self._left_out:
                continue
            self._on_ask(k)
            env = self.envs[k]
            try:
                observation, given, over, limit, told = checked_step(env.step(chosen[k]))
                self.infos[k] = copied(told)
                seen = answers.observation(observation, "The environment's step")
                reward = checked_reward(given)
                ended, late = checked_flag(over, "terminated"), checked_flag(limit, "truncated")
                states[k] = checked_state(read_state(env), like=states[k])
                self._observations[k], moved[k] = seen, True
                rewards[k], terminated[k], cut_off[k] = reward, ended, late
            except users_errors() as error:
                states[k], moved[k] = self._last_seen(env, like=states[k])
                self._give_up(k, error, judged=bool(moved[k]))
        move = Move(
            state=np.stack(states),
            reward=rewards,
            terminated=terminated,
            action=actions,
            info=self._told(),
            observation=np.stack(self._observations),
        )
        return move, cut_off, moved

    def _told(self) -> Infos:
        """Whoever is left out has nothing to tell, and nobody will ask."""
        if not self._left_out:
            return Infos(self.infos.copy())
        spare = next((info for k, info in enumerate(self.infos) if k not in self._left_out), {})
        return Infos([spare if k in self._left_out else info for k, info in enumerate(self.infos)])

    def _paid(self) -> np.ndarray:
        """What the task itself pays for the last step, (E,)."""
        paid = self._ask.reward(self.transition)
        fine = abs(paid) <= LARGEST
        for k in np.flatnonzero(~fine).tolist():
            if k not in self._left_out:
                what = f"The reward of task '{self.task.name}' paid {paid[k]:g}"
                self._give_up(k, AnswerError(f"{what}: give finite numbers from {-LARGEST:g} to {LARGEST:g}."))
        return np.where(fine, paid, 0.0).astype(float)

    def _begun_in_danger(self) -> np.ndarray | None:
        """Which dangers hold where episodes start that have not moved yet, (E, n); None where there are none."""
        first = self._account.steps == 0
        if not first.any():
            return None
        states = np.stack([past[-1] for past in self._memory.states])
        starts = standing(states, info=self._told(), observation=np.stack(self._observations))
        return np.asarray(self._ask.standing_dangers(starts) & first[:, None])

    def _rescue(self, judged: Judged) -> np.ndarray:
        """Put those who are rescued where they belong, if their episode goes on; returns where that is, (E, d)."""
        states: np.ndarray = judged.move.state
        after = states.copy()
        for k, rescued in enumerate(judged.rescued.tolist()):
            if not (rescued and (self._terms.puts or self._terms.to_start)):
                self._remember(k, states[k], bool(judged.over[k]))
            elif self._terms.puts and k not in self._left_out:
                self._on_ask(k)
                try:
                    after[k] = self._reset(k, states[k])
                    if not judged.over[k]:
                        self._observations[k] = self._placed(k, after[k])
                except users_errors() as error:
                    self._give_up(k, error)
        return after

    def _remember(self, k: int, state: np.ndarray, over: bool) -> None:
        if self._memory.saves(k):
            if over or k in self._left_out:
                return
            self._on_ask(k)
        try:
            self._memory.add(k, state, self._observations[k], self.horizon - self._account.clock[k] - 1)
        except users_errors() as error:
            self._give_up(k, error)

    def _drive(self, judged: Judged, terms: Terms, cut_off: np.ndarray) -> tuple[Ride, np.ndarray]:
        """Have the controller drive those who are rescued; returns where everyone is then, (E, d)."""
        reset = self.intervention.reset
        assert isinstance(reset, Drive)
        ride = rules.set_off(judged, terms, self._account, cut_off)
        states = list(judged.move.state)
        while who := [k for k in np.flatnonzero(ride.driving).tolist() if k not in self._left_out]:
            self._on_ask(None)
            driven = np.isin(np.arange(len(self.envs)), who)
            actions = self._ask.actions("controller", reset.controller, np.stack(states), used=driven)
            move, late, moved = self._move(actions, states, who)
            self.drive.append(move)
            self._on_ask(None)
            safe = self._ask.safe(move.state)
            ride = ride._replace(driving=ride.driving & moved)  # whoever broke is driven no more
            ride = rules.driven_on(ride, terms, self._account, move, self._ask.dangers(move), safe, late)
        for k, state in enumerate(states):
            self._memory.add(k, state, self._observations[k])
        return ride, np.stack(states)

    def _last_seen(self, env: Env, like: np.ndarray) -> tuple[np.ndarray, bool]:
        """Where an environment broke, if it still can tell: a step may end in danger and in an error. A verdict that
        takes more than a state cannot be had any more."""
        try:
            return checked_state(self.task.read_state(env), like=like), not self._asks_info
        except users_errors():
            return like, False

    def _placed(self, k: int, state: np.ndarray) -> np.ndarray:
        """Put an environment into a state and see that it is there; returns the observation."""
        env, place = self.envs[k], None if self._memory.saves(k) else self.task.place
        who = f"`{'place' if place else 'restore'}` of task '{self.task.name}'"
        seen = place(env, state.copy()) if place else self._memory.restore(k)
        as_seen_then = seen is None and not place
        observation = self._memory.seen(k) if as_seen_then else self._answers.observation(seen, who)
        now = checked_state(self.task.read_state(env), like=state)
        if not np.allclose(now, state, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            raise AnswerError(f"{who} was asked for the state {state.tolist()} and led to {now.tolist()}.")
        return observation

    def _give_up(self, k: int, error: BaseException, judged: bool = True) -> None:
        """Leave an environment out that broke, unless that concerns all."""
        if self._on_error is None or concerns_all(error):
            raise error
        self.leave_out(k)
        self._on_error(k, error, judged)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _reset(self, k: int, state: np.ndarray) -> np.ndarray:
        """The state that the student is put into, (d,)."""
        match self.intervention.reset:
            case Rewind(steps):
                return self._memory.rewind(k, steps)
            case Place(fn, n_history, n_uniforms):
                u = self._uniforms[k].random(n_uniforms)
                placed = self._ask.placed(fn, state, self._memory.history(k, n_history), u)
                self._memory.add(k, placed, self._observations[k])
                return placed
            case reset:
                raise AssertionError(f"{reset} places nobody")
