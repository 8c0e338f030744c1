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
from cisr.cmdp.rules import Step, Terms
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
        rewards, terminated, cut_off, states, here = self._move(actions)
        self._on_ask(None)
        move = Move(state=states, reward=rewards, terminated=terminated)
        whose = f"of '{self.intervention.name}'"
        fired = [self._judge(f"trigger '{name}' {whose}", trigger, states) for name, trigger in self._triggers]
        judged = rules.judge(
            move,
            dangers=self._in_danger(move) & here[:, None],
            success=self._judge("success", self.task.success, move) & here,
            fired=np.stack(fired, axis=-1) & here[:, None],
        )
        after = self._rescue(states, judged.rescued, judged.over)
        self._on_ask(None)
        landed = None
        if isinstance(self.intervention.reset, Place) and judged.rescued.any():
            landed = self._standing_in_danger(after)
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

    def _move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Step every environment: rewards (E,), terminated (E,), cut off by its own time limit (E,), states (E, d), and
        who has moved (E,): also an environment that is left out since, because another one of its student broke."""
        read_state, answers = self.task.read_state, self._answers
        rewards, terminated, cut_off, states, moved = [], [], [], [], []
        chosen = actions.tolist() if actions.ndim == 1 else actions  # Discrete spaces check Python's integers faster
        for k, env in enumerate(self.envs):
            reward, ended, late, state, sound = 0.0, False, False, self._visited[k][-1], False
            if k not in self._left_out:
                self._on_ask(k)
                try:
                    observation, given, over, limit, self.infos[k] = checked_step(env.step(chosen[k]))
                    seen = answers.observation(observation, "The environment's step")
                    reward = checked_reward(given)
                    ended, late = checked_flag(over, "terminated"), checked_flag(limit, "truncated")
                    state = checked_state(read_state(env), like=state)
                    self._observations[k], sound = seen, True
                except users_errors() as error:
                    reward, ended, late = 0.0, False, False
                    state, sound = self._last_seen(env, like=state)
                    self._give_up(k, error, judged=sound)
            rewards.append(reward)
            terminated.append(ended)
            cut_off.append(late)
            states.append(state)
            moved.append(sound)
        return np.array(rewards), np.array(terminated), np.array(cut_off), np.stack(states), np.array(moved)

    def _paid(self) -> np.ndarray:
        """What the task itself pays for the last step, (E,)."""
        assert self.task.reward is not None
        what = f"The reward of task '{self.task.name}'"
        paid = np.asarray(self._asked(what, self.task.reward, self.transition))
        if paid.shape != (len(self.envs),) or paid.dtype.kind not in "biuf":
            raise TaskError(
                f"{what} answered {paid.dtype} of shape {paid.shape} for {len(self.envs)} transitions: answer a number "
                f"for each; index the last axis of the state (state[..., 0])."
            )
        for k in np.flatnonzero(~np.isfinite(paid)).tolist():
            if k not in self._left_out:
                self._give_up(k, AnswerError(f"{what} paid {paid[k]}: it must pay finite numbers."))
        return np.where(np.isfinite(paid), paid, 0.0).astype(float)

    def _in_danger(self, move: Move) -> np.ndarray:
        """Which dangers hold, (E, n): after this move, or already where the episode started."""
        held = self._dangers_of(move)
        first = self._account.steps == 0
        if first.any():
            begun = self._standing_in_danger(np.stack([past[0] for past in self._visited]))
            held = held | (begun & first[:, None])
        return held

    def _standing_in_danger(self, states: np.ndarray) -> np.ndarray:
        """Which dangers hold, (E, n), of states (E, d) that nobody moved to: starts, and ends of rescues."""
        return self._dangers_of(standing(states))

    def _dangers_of(self, move: Move) -> np.ndarray:
        return np.stack([self._judge(f"danger '{name}'", danger, move) for name, danger in self._dangers], axis=-1)

    def _rescue(self, states: np.ndarray, rescued: np.ndarray, terminated: np.ndarray) -> np.ndarray:
        """Put those who are rescued where they belong, if their episode goes on; returns where that is, (E, d)."""
        after = states.copy()
        to_start = isinstance(self.intervention.reset, ToStart)
        for k, is_rescued in enumerate(rescued.tolist()):
            if not is_rescued:
                self._visited[k].append(states[k])
            elif not to_start and k not in self._left_out:
                self._on_ask(k)
                try:
                    after[k] = self._reset(k, states[k])
                    if not terminated[k]:
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

    def _judge(self, what: str, predicate: Callable[[Any], Any], about: Any) -> np.ndarray:
        verdict = np.asarray(self._asked(f"The {what} of task '{self.task.name}'", predicate, about))
        if verdict.shape != (len(self.envs),) or verdict.dtype != bool:
            raise TaskError(
                f"The {what} of task '{self.task.name}' answered {verdict.dtype} of shape {verdict.shape} for "
                f"{len(self.envs)} states: answer one bool for each; index the last axis of the state (state[..., 0])."
            )
        return verdict

    def _asked(self, what: str, function: Callable[[Any], Any], about: Any) -> Any:
        try:
            return function(about)
        except (CisrError, MemoryError):
            raise
        except users_errors() as error:
            raise TaskError(f"{what} raised {described(error)}, asked about {len(self.envs)} states.") from error

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


class InducedCMDP(gymnasium.Wrapper[Any, Any, Any, Any]):
    """M_i as one Gymnasium environment, for any learner.

    `info` holds, at every step, `cost` (1.0 for a failure), `costs` (the constraint increments), `intervention` (the
    name of the one that rescued the student in this step, or None) and `is_success`.

    >>> import gymnasium
    >>> env = gymnasium.make("cisr/FrozenLake-v0", intervention="HR")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> info["cost"], info["intervention"], terminated
    (0.0, 'HR', True)
    """

    def __init__(self, task: Task, intervention: str | Intervention = "none", **env_options: Any) -> None:
        super().__init__(task.make_env(**env_options))
        chosen = task.intervention(intervention) if isinstance(intervention, str) else intervention
        self._row = InducedCMDPs(task, chosen, [self.env])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self._row.restart(0, seed, options)
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._row.step(np.array([action]))
        info = {
            **self._row.infos[0],
            "cost": float(step.failed[0]),
            "costs": step.costs[0],
            "intervention": self._row.intervention.name if step.rescued[0] else None,
            "is_success": bool(step.outcomes[0, len(self._row.task.dangers)]),
        }
        return (
            self._observed(self._row.observations[0]),
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
            info,
        )

    def _observed(self, observation: np.ndarray) -> Any:
        discrete = isinstance(self.observation_space, gymnasium.spaces.Discrete)
        return int(observation) if discrete else observation
