"""Environments brought into known situations, for the checks of a user's task in `cisr.testing`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cisr.auditing.excursions import N_ENVIRONMENTS, N_RESETS, N_STEPS_OLDEST, Excursions, excursions
from cisr.auditing.interrogation import Interrogation
from cisr.auditing.play import RandomAttacker, StickyAttacker
from cisr.cmdp.answers import copied
from cisr.cmdp.finite import judge, world_of
from cisr.cmdp.gymnasium import Env
from cisr.cmdp.induced import Induced
from cisr.cmdp.luck import global_randomness
from cisr.core.intervention import Intervention
from cisr.core.model import FiniteModel
from cisr.core.moves import Move, stacked
from cisr.core.seeding import MAX_SEED, derive_seed, generator
from cisr.core.task import Task
from cisr.system.interrupts import users_errors

if TYPE_CHECKING:
    from cisr.auditing.rehearsal import Rehearsed

CONTINUATION = 15
"""Steps for which two environments are compared."""


class EpisodePoint(NamedTuple):
    """A point of an episode: how to get there, and the state met there."""

    seed: int
    actions: tuple[Any, ...]
    state: np.ndarray  # (d,)


class Situation(NamedTuple):
    """An environment in the middle of an episode. Environments that ignore their seeds are not quite at the point."""

    point: EpisodePoint
    env: Env
    state: np.ndarray  # (d,)
    observation: Any


class Trials:
    """Episodes of random play in M, and environments that are brought back to points of them. Use it as a context."""

    def __init__(self, task: Task, seed: int, n_steps: int, tolerance: float, model: FiniteModel | None = None) -> None:
        self.task = task
        self.seed = seed
        self.tolerance = tolerance
        self._warned = False
        self._first, self._second = task.make_env(), task.make_env()
        self._episodes: list[list[EpisodePoint]] = []  # each from its start; the last point ended it
        self._moves: list[Move] = []
        while len(self._moves) < n_steps:
            self._play(derive_seed(seed, "episode", len(self._episodes)) % MAX_SEED)
        self.moves = stacked(self._moves)
        rewards, ends = self.moves.reward[:, None], np.zeros((len(self._moves), 1))
        with np.errstate(invalid="ignore"):
            spread = np.concatenate([self.moves.state, rewards, ends], axis=1).std(axis=0)
        self._spread = np.nan_to_num(spread, nan=0.0, posinf=0.0)  # (d + 2,); states may hold what is infinite
        self.model = model
        self.interrogation = Interrogation(self._first.action_space, derive_seed(seed, "functions"))
        self.rehearsed: Rehearsed | None = None
        """What is met by playing in the JAX environment, once that was done."""

    @cached_property
    def seen(self) -> Excursions:
        """What is met by playing as training does; more of it where there is a model to hold against it."""
        how = (N_ENVIRONMENTS, N_RESETS, N_STEPS_OLDEST) if self.model is not None else (2, 10)
        return excursions(self.task, derive_seed(self.seed, "excursions"), *how)

    @cached_property
    def worlds(self) -> dict[str, Induced]:
        """M_i under each intervention and none, where there is a model."""
        if self.model is None:
            return {}
        judged, task = judge(self.task, self.model), self.task
        return {i.name: world_of(task, judged, i) for i in (task.intervention("none"), *task.interventions)}

    @property
    def types(self) -> set[np.dtype[Any]]:
        """Of the numbers in states, as they were read."""
        return {point.state.dtype for episode in self._episodes for point in episode}

    @property
    def acted(self) -> tuple[np.ndarray, np.ndarray]:
        """States (n, d) and the actions (n, ...) that were taken there."""
        taken = [(before.state, now.actions[-1]) for e in self._episodes for before, now in pairwise(e)]
        states, actions = map(np.array, zip(*taken, strict=True))
        return states, actions

    @property
    def starts(self) -> np.ndarray:
        """Where episodes started, (n, d)."""
        return np.array([*(episode[0].state for episode in self._episodes), *self.seen.starts])

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._first.close()
        self._second.close()

    def _play(self, seed: int) -> None:
        """Random and sticky episodes by turns."""
        env, task = self._first, self.task
        sticky = len(self._episodes) % 2
        player = StickyAttacker(env.action_space, task.horizon) if sticky else RandomAttacker(env.action_space)
        player.begin(derive_seed(seed, "player"))
        observation, _ = env.reset(seed=seed)
        episode = [EpisodePoint(seed, (), np.array(task.read_state(env)))]
        for _ in range(task.horizon):
            before = episode[-1]
            action = player.act(observation, before.state)
            observation, reward, terminated, truncated, info = env.step(action)
            now = EpisodePoint(seed, (*before.actions, action), np.array(task.read_state(env)))
            episode.append(now)
            move = Move(now.state, float(reward), bool(terminated), action, copied(info), np.array(observation))
            self._moves.append(move)
            if terminated or truncated or self._fails(move):
                break
        self._episodes.append(episode)

    def _fails(self, move: Move) -> bool:
        try:
            return any(bool(np.any(danger(stacked([move])))) for danger in self.task.dangers.values())
        except users_errors():  # it will be asked again, and named
            return False

    def beginnings(self, n_episodes: int, n_moves: int) -> Iterator[tuple[EpisodePoint, list[Move]]]:
        """Where episodes start, and how they go on from there."""
        ends = np.cumsum([len(episode) - 1 for episode in self._episodes])
        for episode, end in zip(self._episodes[:n_episodes], ends.tolist(), strict=False):
            yield episode[0], self._moves[end - len(episode) + 1 : end][:n_moves]

    def situations(self, n: int) -> Iterator[Situation]:
        """The first environment in about n situations, one after the other, spread over all episodes."""
        running = [point for episode in self._episodes for point in episode[:-1]]
        for i in sorted({int(i) for i in np.linspace(0, len(running) - 1, n)}):
            situation = self._reach(running[i])
            if situation is not None:
                yield situation

    def _reach(self, point: EpisodePoint) -> Situation | None:
        """Back to a point by the same seed and actions, or near it; None where the episode ends on the way."""
        observation, _ = self._first.reset(seed=point.seed)
        for action in point.actions:
            observation, _, terminated, truncated, _ = self._first.step(action)
            if terminated or truncated:
                return None
        return Situation(point, self._first, np.array(self.task.read_state(self._first)), copied(observation))

    def wander(self, seed: int) -> Env:
        """The second environment, a few steps away from its start."""
        env = self._second
        env.reset(seed=seed)
        env.action_space.seed(derive_seed(seed, "player"))
        for _ in range(int(generator(seed, "wander").integers(1, 5))):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset(seed=seed)
        return env

    def some_actions(self, point: EpisodePoint) -> list[Any]:
        player = StickyAttacker(self._first.action_space, CONTINUATION)
        player.begin(derive_seed(point.seed, len(point.actions)))
        return [player.act(point.state, point.state) for _ in range(CONTINUATION)]

    def triggered(self, intervention: Intervention, n_history: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """States (d,) in the trigger set, with the n non-trigger states (n, d) before each."""
        for episode in self._episodes:
            fired = np.asarray(intervention.triggered(np.array([point.state for point in episode])))
            past = [episode[0].state]
            for point, inside in zip(episode[1:], fired[1:], strict=True):
                if inside:
                    yield point.state, np.array([past[max(i, 0)] for i in range(len(past) - n_history, len(past))])
                else:
                    past.append(point.state)

    def follow(self, env: Env, actions: Sequence[Any]) -> list[Move]:
        """Step until the actions or the episode end, with the same random numbers every time.

        Time limits are no part of a state, so `truncated` is not looked at.
        """
        steps: list[Move] = []
        share_randomness(env, self.seed)
        with global_randomness(self.seed):
            for action in actions:
                _, reward, terminated, _, _ = env.step(action)
                steps.append(Move(np.array(self.task.read_state(env)), float(reward), bool(terminated)))
                if terminated:
                    break
        return steps

    def randomness_is_known(
        self, point: EpisodePoint, actions: Sequence[Any], env: Env, put: Callable[[Env], Any]
    ) -> bool:
        """Are random numbers the same every time? Then episodes go on alike that were seeded differently and put into
        the same state, and so do repetitions of one episode."""

        def placed(seed: int) -> list[Move]:
            env.reset(seed=seed)
            put(env)
            return self.follow(env, actions)

        def repeated() -> list[Move]:
            situation = self._reach(point)
            return self.follow(situation.env, actions) if situation else []

        seeds = (point.seed, point.seed + 1)
        return self.parting(*map(placed, seeds)) is None and self.parting(repeated(), repeated()) is None

    def warns_of_randomness(self) -> bool:
        """True the first time."""
        first, self._warned = not self._warned, True
        return first

    def parting(self, expected: Sequence[Move], got: Sequence[Move]) -> str | None:
        """Where two episodes part, in words; None where they are the same."""
        for number, (one, other) in enumerate(zip(expected, got, strict=False), start=1):
            difference = self.difference(one, other)
            if difference:
                return f"{number} step{'s' * (number > 1)} later {difference}"
        return None

    def difference(self, expected: Move, got: Move, leniency: float = 1.0) -> str | None:
        """The first number that differs by more than simulators in single precision lose, or so many times as much.

        That is measured by the number itself and by how much it varies in random play.
        """
        one, other = flat(expected[:3]), flat(got[:3])
        with np.errstate(invalid="ignore"):
            near = np.isfinite(one) & (np.abs(one - other) <= leniency * self.tolerance * (np.abs(one) + self._spread))
        differing = np.flatnonzero(~(near | (one == other) | (np.isnan(one) & np.isnan(other))))
        if not len(differing):
            return None
        k, d = int(differing[0]), len(one) - 2
        what = f"state[{k}]" if k < d else ("the reward", "the end of the episode")[k - d]
        return f"{what} is {other[k]:.6g} instead of {one[k]:.6g}"


def share_randomness(env: Env, seed: int) -> None:
    """Give all random generators that can be found in an environment and its wrappers a fresh state."""
    layer: Any = env
    while True:
        for name, value in list(vars(layer).items()):
            fresh = _fresh(value, seed)
            if fresh is not None:
                setattr(layer, name, fresh)
        if layer is env.unwrapped:
            break
        layer = layer.env
    env.unwrapped.np_random = np.random.default_rng(seed)


def _fresh(value: Any, seed: int) -> Any:
    if isinstance(value, np.random.Generator):
        return np.random.default_rng(seed)
    if isinstance(value, np.random.RandomState):
        return np.random.RandomState(seed)
    return random.Random(seed) if isinstance(value, random.Random) else None


def flat(value: Any) -> np.ndarray:
    """Any observation or record of numbers as one vector."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return np.concatenate([np.zeros(0), *(flat(part) for part in value)])
    return np.asarray(value, float).ravel()


def short(value: Any) -> str:
    """The numbers of a state or an observation in a message."""
    return np.array2string(flat(value), precision=6, threshold=12, edgeitems=4, separator=", ").replace("\n", "")


def similar(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    """Equal in size, and in numbers up to a tolerance relative to the largest."""
    largest = np.abs(one).max(initial=0.0)
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=tolerance * largest, equal_nan=True))
