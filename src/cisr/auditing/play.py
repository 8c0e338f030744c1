"""Episodes of frozen attackers on real Gymnasium environments, recorded step by step.

Every episode starts from a seed of its own, so that each can be played again by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cisr.cmdp.episodes import outcome_of
from cisr.core.callback import ProgressEvent
from cisr.core.checks import shown
from cisr.core.errors import CisrError, ConfigError, TaskError, words_of
from cisr.core.intervention import Intervention
from cisr.core.libraries import GYMNASIUM
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

if GYMNASIUM:  # finite tasks are audited without
    import gymnasium

    from cisr.cmdp.answers import check_environment
    from cisr.cmdp.gymnasium import InducedCMDPs

Script = Callable[[np.ndarray], Any]
"""script(state (d,)) -> action: a worst case that the user has in mind."""


@dataclass(frozen=True)
class AuditProgress(ProgressEvent):
    """What a callback hears of an audit: an attacker has played."""

    intervention: str
    attacker: str
    """Its name; `training` while one is trained."""
    steps: int
    """Since the last such event."""


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """One recorded step."""

    action: Any
    reward: float
    """The student's: the task's own where it has one."""
    state: np.ndarray
    """(d,) the state moved to, before any rescue."""
    rescued: bool
    """Whether the trigger fired, even too late."""
    put_to: np.ndarray | None
    """(d,) where the rescue put or drove the student; None where nobody was put anywhere."""
    done: Any = None
    """What the environment was given, where that was not the student's action."""
    driven: int = 0
    """Steps that a controller drove."""


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A whole episode under an intervention."""

    seed: int
    start: np.ndarray
    """(d,)"""
    steps: tuple[RecordedStep, ...]
    danger: str | None
    """The danger that ended it, or None."""

    @property
    def actions(self) -> list[Any]:
        return [step.action for step in self.steps]

    @property
    def rescues(self) -> int:
        """How often the student was put or driven somewhere, or its action replaced."""
        return sum(step.put_to is not None or step.done is not None for step in self.steps)

    @property
    def n_steps(self) -> int:
        """Of the environment."""
        return len(self.steps) + sum(step.driven for step in self.steps)


class Attacker(Protocol):
    """Something that acts in one episode after the other; what it draws follows from the episode's seed."""

    def begin(self, seed: int) -> None: ...
    def act(self, observation: np.ndarray, state: np.ndarray) -> Any: ...


class RandomAttacker:
    """Uniform random actions."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = copy.deepcopy(space)

    def begin(self, seed: int) -> None:
        self._space.seed(seed)

    def act(self, observation: np.ndarray, state: np.ndarray) -> Any:
        return self._space.sample()


class StickyAttacker:
    """Random actions, each held for a random number of steps, 1 to T on a logarithmic scale.

    Where steps are short, plain random play hardly leaves the start; this gets about.
    """

    def __init__(self, space: gymnasium.Space[Any], horizon: int) -> None:
        self._space = copy.deepcopy(space)
        self._horizon = horizon

    def begin(self, seed: int) -> None:
        self._space.seed(seed)
        self._rng = generator(seed, "hold")
        self._left = 0

    def act(self, observation: np.ndarray, state: np.ndarray) -> Any:
        if not self._left:
            self._held = self._space.sample()
            self._left = int(self._horizon ** self._rng.random())
        self._left -= 1
        return self._held


class ScriptedAttacker:
    """The user's own idea of what is worst."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def begin(self, seed: int) -> None:
        pass

    def act(self, observation: np.ndarray, state: np.ndarray) -> Any:
        return self._script(state.copy())


class Arena:
    """One environment of a task under one intervention, to play whole episodes in. Use it as a context."""

    def __init__(self, task: Task, intervention: Intervention) -> None:
        self.task = task
        self.intervention = intervention
        self.env = task.make_env()
        check_environment(self.env)
        self.space = self.env.action_space
        self._cmdp = InducedCMDPs(task, intervention, [self.env])

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self._cmdp.close()

    def play(self, attacker: Attacker, seed: int, who: str = "An attacker") -> Episode:
        """An episode to its end; it is a function of the attacker, called `who`, and the seed."""
        steps: list[RecordedStep] = []
        try:
            return self._play(attacker, seed, steps, who)
        except TaskError as error:
            raise type(error)(f"{error} That was in step {len(steps) + 1} of the episode with seed {seed}.") from error
        except CisrError:
            raise
        except users_errors() as error:
            raise TaskError(
                f"Task '{self.task.name}' under '{self._cmdp.intervention.name}' raised {type(error).__name__} at "
                f"step {len(steps) + 1} of the episode with seed {seed}: {words_of(error)}"
            ) from error

    def _play(self, attacker: Attacker, seed: int, steps: list[RecordedStep], who: str) -> Episode:
        observation, _ = self._cmdp.restart(0, seed)
        start = state = np.array(self.task.read_state(self.env))
        attacker.begin(derive_seed(seed, "attacker"))  # seeded alike, its draws would follow the environment's
        while True:
            action = self._checked(attacker.act(observation, state), who)
            step = self._cmdp.step(action[None])
            seen = self._cmdp.transition
            overridden = bool(seen.rescued[0]) and self.intervention.judges_actions
            put = bool(seen.rescued[0]) and not step.terminated[0] and not overridden
            state = np.array(seen.after[0] if put else seen.move.state[0])
            steps.append(
                RecordedStep(
                    action=action.tolist(),
                    reward=float(step.reward[0]),
                    state=np.array(seen.move.state[0]),
                    rescued=bool(step.rescued[0]),
                    put_to=state if put else None,
                    done=seen.move.action[0].tolist() if overridden else None,
                    driven=int(step.driven[0]),
                )
            )
            observation = self._cmdp.observations[0]
            if step.terminated[0] or step.truncated[0]:
                outcome = self.task.outcomes[outcome_of(step.outcomes[0])]
                danger = outcome if outcome in self.task.dangers else None
                return Episode(seed=seed, start=start, steps=tuple(steps), danger=danger)

    def _checked(self, action: Any, who: str) -> np.ndarray:
        try:
            given = np.asarray(action, dtype=self.space.dtype)
        except (OverflowError, TypeError, ValueError):
            given = np.empty(0)
        whole = np.issubdtype(given.dtype, np.floating) or np.array_equal(given, action)  # 1.5 is no Discrete action
        if given.shape != self.space.shape or not whole or not self.space.contains(given):
            raise ConfigError(f"{who} answered the action {shown(action)}: give an element of {self.space}.")
        return given


def same(one: Any, other: Any) -> bool:
    """Equal in shape and numbers; NaN, for which None stands too, equals NaN."""
    return np.array_equal(np.asarray(one, float), np.asarray(other, float), equal_nan=True)
