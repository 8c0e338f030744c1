"""The intervention-induced CMDP M_i on Gymnasium environments, stepped on the host by the rules of `cisr.cmdp.rules`.

What is the host's own: asking environments and checking their answers, remembering where students were, and putting
environments back there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from cisr.cmdp import rules
from cisr.cmdp.answers import Answers, checked_flag, checked_reward, checked_state, checked_step
from cisr.cmdp.rules import Judged, Step, Terms
from cisr.core import constraints
from cisr.core.errors import AnswerError, CisrError, TaskError, described
from cisr.core.intervention import Intervention, Place, Rewind, ToStart
from cisr.core.seeding import derive_seed
from cisr.core.task import Move, Task, Transition, standing
from cisr.system.compilation import is_out_of_memory
from cisr.system.interrupts import users_errors

Env = gymnasium.Env[Any, Any]
ROUNDING = 1e-3
"""By how much `place` may miss a state: simulators keep single precision."""


def concerns_all(error: BaseException) -> bool:
    """Whether an error is not that of one environment alone: a broken contract, or a lack of memory."""
    return is_out_of_memory(error) or (isinstance(error, TaskError) and not isinstance(error, AnswerError))


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
        self._dangers = list(task.dangers.items())
        self._triggers = list(intervention.triggers.items())
        self._terms = Terms(
            form=task.constraint_form,
            tolerance=np.array(constraints.tolerances(intervention)),
            horizon=self.horizon,
            to_start=isinstance(intervention.reset, ToStart),
        )
        self._account = constraints.opening((len(self.envs),), len(task.constraints))
        self.observations: np.ndarray
        """What students see after the last step and any rescue, (E, ...)."""
        self.infos: list[dict[str, Any]] = [{} for _ in self.envs]
        """What each environment itself told at its last step."""
        self.transition: Transition
        """The last step as a whole: where moves led, before any rescue, and where rescues put students."""
        self._observations: list[Any] = [None for _ in self.envs]
        self._uniforms = [np.random.default_rng() for _ in self.envs]
        self._visited: list[list[np.ndarray]] = [[] for _ in self.envs]  # this episode's non-trigger states (d,)

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
        self._observations[k] = self._answers.observation(observation, "The environment's reset")
        if self._answers.not_finite(self._observations[k][None]):
            raise AnswerError("The environment's reset answered an observation that is not finite.")
        self._visited[k] = [np.array(checked_state(self.task.read_state(self.envs[k])))]
        self._account.counts[k] = 0
        self._account.steps[k] = 0
        return self._observations[k], info

    def leave_out(self, k: int) -> None:
        """Never touch environment k again."""
        self._left_out.add(k)

    def step(self, actions: np.ndarray) -> Step:
        """Move, judge, rescue; ended episodes are left for `restart`."""
        move, cut_off, here = self._move(actions)
        self._on_ask(None)
        whose = f"of '{self.intervention.name}'"
        fired = [self._asked(f"trigger '{name}' {whose}", trigger, move.state) for name, trigger in self._triggers]
        judged = rules.judge(
            move,
            dangers=self._in_danger(move) & here[:, None],
            success=self._asked("success", self.task.success, move) & here,
            fired=np.stack(fired, axis=-1) & here[:, None],
        )
        after = self._rescue(judged)
        self._on_ask(None)
        landed = None
        if isinstance(self.intervention.reset, Place) and judged.rescued.any():
            landed = self._dangers_of(standing(after))
        terms = self._terms._replace(horizon=np.where(here, self.horizon, np.inf))
        self._account, step, self.transition = rules.conclude(judged, terms, self._account, after, landed, cut_off)
        if self.task.reward is not None:
            step = step._replace(reward=np.where(here, self._paid(), 0.0))
        self.observations = np.stack(self._observations)
        for k in self._answers.not_finite(self.observations):
            if k not in self._left_out:
                self._give_up(k, AnswerError("The environment's step answered an observation that is not finite."))
            self.observations[k] = 0.0
        return step

    def _move(self, actions: np.ndarray) -> tuple[Move, np.ndarray, np.ndarray]:
        """Step every environment: the moves, whom its own time limit has cut off (E,), and who has moved (E,): also an
        environment that is left out since, because another one of its student broke."""
        read_state, answers = self.task.read_state, self._answers
        n = len(self.envs)
        rewards, terminated, cut_off, moved = np.zeros(n), np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        states = [past[-1] for past in self._visited]
        chosen = actions.tolist() if actions.ndim == 1 else actions  # Discrete spaces check Python's integers faster
        for k, env in enumerate(self.envs):
            if k in self._left_out:
                continue
            self._on_ask(k)
            try:
                observation, given, over, limit, self.infos[k] = checked_step(env.step(chosen[k]))
                seen = answers.observation(observation, "The environment's step")
                reward = checked_reward(given)
                ended, late = checked_flag(over, "terminated"), checked_flag(limit, "truncated")
                states[k] = checked_state(read_state(env), like=states[k])
                self._observations[k], moved[k] = seen, True
                rewards[k], terminated[k], cut_off[k] = reward, ended, late
            except users_errors() as error:
                states[k], moved[k] = self._last_seen(env, like=states[k])
                self._give_up(k, error, judged=bool(moved[k]))
        return Move(np.stack(states), rewards, terminated), cut_off, moved

    def _paid(self) -> np.ndarray:
        """What the task itself pays for the last step, (E,)."""
        assert self.task.reward is not None
        paid = self._asked("reward", self.task.reward, self.transition, "biuf", "transitions: answer a number")
        for k in np.flatnonzero(~np.isfinite(paid)).tolist():
            if k not in self._left_out:
                self._give_up(
                    k, AnswerError(f"The reward of task '{self.task.name}' paid {paid[k]}: it must pay finite numbers.")
                )
        return np.where(np.isfinite(paid), paid, 0.0).astype(float)

    def _in_danger(self, move: Move) -> np.ndarray:
        """Which dangers hold, (E, n): after this move, or already where the episode started."""
        held = self._dangers_of(move)
        first = self._account.steps == 0
        if first.any():
            begun = self._dangers_of(standing(np.stack([past[0] for past in self._visited])))
            held = held | (begun & first[:, None])
        return held

    def _dangers_of(self, move: Move) -> np.ndarray:
        return np.stack([self._asked(f"danger '{name}'", danger, move) for name, danger in self._dangers], axis=-1)

    def _rescue(self, judged: Judged) -> np.ndarray:
        """Put those who are rescued where they belong, if their episode goes on; returns where that is, (E, d)."""
        states: np.ndarray = judged.move.state
        after = states.copy()
        for k, rescued in enumerate(judged.rescued.tolist()):
            if not rescued:
                self._visited[k].append(states[k])
            elif not self._terms.to_start and k not in self._left_out:
                self._on_ask(k)
                try:
                    after[k] = self._reset(k, states[k])
                    if not judged.over[k]:
                        self._observations[k] = self._placed(self.envs[k], after[k])
                except users_errors() as error:
                    self._give_up(k, error)
        return after

    def _last_seen(self, env: Env, like: np.ndarray) -> tuple[np.ndarray, bool]:
        """Where an environment broke, if it still can tell: a step may end in danger and in an error."""
        try:
            return checked_state(self.task.read_state(env), like=like), True
        except users_errors():
            return like, False

    def _placed(self, env: Env, state: np.ndarray) -> np.ndarray:
        """Put an environment into a state and see that it is there; returns the observation."""
        who = f"`place` of task '{self.task.name}'"
        observation = self._answers.observation(self.task.place(env, state.copy()), who)
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

    def _asked(
        self,
        what: str,
        function: Callable[[Any], Any],
        about: Any,
        kinds: str = "b",
        wanted: str = "states: answer one bool",
    ) -> np.ndarray:
        """What a function of the task answers: a number of one of these kinds for each environment, (E,)."""
        who, n = f"The {what} of task '{self.task.name}'", len(self.envs)
        try:
            answer = function(about)
        except (CisrError, MemoryError):
            raise
        except users_errors() as error:
            raise TaskError(f"{who} raised {described(error)}, asked about {n} states.") from error
        array = np.asarray(answer)
        if array.shape != (n,) or array.dtype.kind not in kinds:
            raise TaskError(
                f"{who} answered {array.dtype} of shape {array.shape} for {n} {wanted} for each; index the last axis "
                f"of the state (state[..., 0])."
            )
        return array

    def _reset(self, k: int, state: np.ndarray) -> np.ndarray:
        """The state that the student is put into, (d,)."""
        past = self._visited[k]
        match self.intervention.reset:
            case Rewind(steps):
                del past[max(len(past) - steps, 0) + 1 :]
                return past[-1]
            case Place(fn, n_history, n_uniforms):
                history = np.stack([past[max(i, 0)] for i in range(len(past) - n_history, len(past))])  # (n, d)
                placed = np.asarray(fn(state, history, self._uniforms[k].random(n_uniforms)))
                if placed.shape != state.shape:
                    raise TaskError(
                        f"The reset of '{self.intervention.name}' answered shape {placed.shape} for a state of shape "
                        f"{state.shape}: answer a state."
                    )
                past.append(placed)
                return placed
            case reset:
                raise AssertionError(f"{reset} places nobody")
