"""A learner of Stable-Baselines3: its model, and all of its state as arrays.

Checkpoints hold arrays alone, because a store may come from anywhere and nothing in it is unpickled: weights,
optimisers' moments, counters and the replay buffer. Random numbers need none: they are drawn from seeds with names
whenever the model learns (`seeded`).
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv

from cisr.core.checks import shown
from cisr.core.errors import ConfigError, StoreError, described
from cisr.students.sb3 import SB3Student

COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_current_progress_remaining")
DQN_COUNTERS = ("_n_calls", "exploration_rate")
"""What models count beside their weights."""
KEPT = ("observations", "next_observations", "actions", "dones", "timeouts", "raw_rewards", "costs")
"""The arrays of a replay buffer."""
ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "elu": torch.nn.ELU}
COSTS = "costs"
"""What `info` calls the costs of a step (m,)."""


class ChargedReplayBuffer(ReplayBuffer):  # type: ignore[misc]
    """Keeps rewards and costs apart, so that all of it is paid by the multipliers of now."""

    def __init__(self, *arguments: Any, n_constraints: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.raw_rewards = np.zeros((self.buffer_size, self.n_envs), np.float32)
        self.costs = np.zeros((self.buffer_size, self.n_envs, n_constraints), np.float32)
        self.multipliers = np.zeros(n_constraints, np.float32)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        at, costs = self.pos, np.array([info[COSTS] for info in infos], np.float32)
        self.raw_rewards[at], self.costs[at] = reward, costs
        super().add(obs, next_obs, action, reward - costs @ self.multipliers, done, infos)

    def charge(self, multipliers: np.ndarray) -> None:
        self.multipliers = multipliers.astype(np.float32)
        self.rewards = self.raw_rewards - self.costs @ self.multipliers

    @property
    def n_kept(self) -> int:
        return int(self.buffer_size if self.full else self.pos)


class Horizon(BaseCallback):  # type: ignore[misc]
    """Schedules run over all of a student's life, not over each of its rounds."""

    def __init__(self, total_steps: int) -> None:
        super().__init__()
        self._total_steps = total_steps

    def _on_training_start(self) -> None:
        self.model._total_timesteps = self._total_steps

    def _on_step(self) -> bool:
        return True


class SB3Learner:
    """A model that has learned nothing yet."""

    def __init__(self, student: SB3Student, env: VecEnv, n_constraints: int, total_steps: int, seed: int) -> None:
        self.student = student
        self._total_steps = total_steps
        algorithm = getattr(stable_baselines3, student.algorithm)
        try:
            options = _options(student, env, n_constraints, total_steps)
            with seeded(seed):
                self.model = algorithm(student.policy, env, seed=seed, device="cpu", verbose=0, **options)
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(f"A {student.algorithm} student cannot be made: {described(error)}.") from error
        self.model.set_logger(Logger(folder=None, output_formats=[]))

    @property
    def _buffer(self) -> ChargedReplayBuffer | None:
        return None if self.student.on_policy else self.model.replay_buffer

    def learn(self, steps: int, multipliers: np.ndarray, seed: int) -> None:
        """A best response to these multipliers, on environments that are restarted."""
        if self._buffer is not None:
            self._buffer.charge(multipliers)
        self.model._last_obs = None
        with seeded(seed):
            self.model.action_space.seed(seed)
            self.model.learn(steps, Horizon(self._total_steps), log_interval=None, reset_num_timesteps=False)

    def act(self, observations: np.ndarray, deterministic: bool) -> np.ndarray:
        """Of a frozen policy; random numbers are the caller's, see `seeded`."""
        actions, _ = self.model.predict(observations, deterministic=deterministic)
        return np.asarray(actions)

    def transfer(self) -> None:
        """Knowledge transfer at a switch: networks carry over, optimisers start afresh, and so does the replay buffer:
        under another intervention the same actions lead elsewhere."""
        for name in self._state_dicts:
            if name.endswith("optimizer"):
                attrgetter(name)(self.model).state.clear()
        if self._buffer is not None:
            self._buffer.reset()

    def is_sound(self) -> bool:
        return all(bool(torch.isfinite(weights).all()) for weights in self.model.policy.state_dict().values())

    @property
    def _state_dicts(self) -> list[str]:
        return list(self.model._get_torch_save_params()[0])

    @property
    def _variables(self) -> list[str]:
        return list(self.model._get_torch_save_params()[1])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything that it takes to go on."""
        arrays = {f"count/{name}": np.array(getattr(self.model, name)) for name in self._counters}
        for part in self._state_dicts:
            state = attrgetter(part)(self.model).state_dict()
            if part.endswith("optimizer"):
                state = {f"{k}/{name}": value for k, kept in state["state"].items() for name, value in kept.items()}
            arrays |= {f"{part}/{name}": value.detach().numpy() for name, value in state.items()}
        arrays |= {f"variable/{name}": getattr(self.model, name).detach().numpy() for name in self._variables}
        if (buffer := self._buffer) is not None:
            arrays |= {f"buffer/{name}": getattr(buffer, name)[: buffer.n_kept] for name in KEPT}
            arrays["count/buffer"] = np.array([buffer.pos, buffer.full])
        return {name: np.array(array) for name, array in arrays.items()}  # copies: the model goes on learning

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Become what was kept; arrays that are not of such a model get one line: they may come from anywhere."""
        try:
            self._load(arrays)
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise StoreError(f"The weights kept are none of a {self.student.algorithm} student ({error}).") from error

    def _load(self, arrays: Mapping[str, np.ndarray]) -> None:
        for name in self._counters:
            setattr(self.model, name, type(getattr(self.model, name))(arrays[f"count/{name}"]))
        for part in self._state_dicts:
            found = {k.removeprefix(f"{part}/"): a for k, a in arrays.items() if k.startswith(f"{part}/")}
            under: dict[str, Any] = {name: torch.from_numpy(np.array(array)) for name, array in found.items()}
            target = attrgetter(part)(self.model)
            if part.endswith("optimizer"):
                under = {"state": _by_parameter(under), "param_groups": target.state_dict()["param_groups"]}
            target.load_state_dict(under)
        with torch.no_grad():
            for name in self._variables:
                getattr(self.model, name).copy_(torch.from_numpy(np.array(arrays[f"variable/{name}"])))
        if (buffer := self._buffer) is not None:
            for name in KEPT:
                kept = arrays[f"buffer/{name}"]
                getattr(buffer, name)[: len(kept)] = kept
            buffer.pos, buffer.full = int(arrays["count/buffer"][0]), bool(arrays["count/buffer"][1])
            if not 0 <= buffer.pos < buffer.buffer_size or len(arrays["buffer/costs"]) != buffer.n_kept:
                raise ValueError(f"a replay buffer at {buffer.pos} of {buffer.buffer_size}")

    @property
    def _counters(self) -> list[str]:
        return [*COUNTERS, *(DQN_COUNTERS if self.student.algorithm == "DQN" else ())]


def _by_parameter(flat: Mapping[str, torch.Tensor]) -> dict[int, dict[str, torch.Tensor]]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = value
    return state


def steps_of_round(student: SB3Student, longest: int) -> int:
    """At most: the last rollout is finished, which may be one of whole episodes of up to `longest` steps."""
    named = "n_steps" if student.on_policy else "train_freq"
    usual = inspect.signature(getattr(stable_baselines3, student.algorithm)).parameters[named].default
    length = student.settings.get(named, usual)
    many, unit = length if isinstance(length, list | tuple) and len(length) == 2 else (length, "step")
    if isinstance(many, bool) or not isinstance(many, int) or many < 1:
        return student.steps_per_round  # the algorithm says what is wrong with it
    if unit == "episode":
        return student.steps_per_round + many * longest * student.n_envs
    rollout = many * student.n_envs
    return -(-student.steps_per_round // rollout) * rollout


def _options(student: SB3Student, env: VecEnv, n_constraints: int, total_steps: int) -> dict[str, Any]:
    """The arguments of the algorithm, from JSON."""
    options = dict(student.settings)
    if "policy_kwargs" in options:
        named = dict(options["policy_kwargs"])
        if "activation_fn" in named:
            named["activation_fn"] = _activation(named["activation_fn"])
        options["policy_kwargs"] = named
    if student.on_policy:
        return options
    if options.get("n_steps", 1) != 1:
        raise ConfigError(f"A {student.algorithm} student has n_steps={options['n_steps']}: its buffer knows 1 alone.")
    if "train_freq" in options and isinstance(options["train_freq"], list):
        options["train_freq"] = tuple(options["train_freq"])
    if "action_noise" in options:  # its standard deviation
        shape = env.action_space.shape
        options["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, float(options["action_noise"])))
    # A student never sees more than this: a larger buffer would only take memory.
    options["buffer_size"] = min(options.get("buffer_size", 1_000_000), total_steps + env.num_envs)
    return options | {
        "replay_buffer_class": ChargedReplayBuffer,
        "replay_buffer_kwargs": {"n_constraints": n_constraints},
    }


def _activation(name: Any) -> Any:
    if name not in ACTIVATIONS:
        raise ConfigError(f"The activation_fn of a student is {shown(name)}: give one of {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """One thread, and all that Stable-Baselines3 draws from: torch's, numpy's and Python's own generators; they are put
    back afterwards as they were."""
    threads, before = torch.get_num_threads(), (torch.get_rng_state(), np.random.get_state(), random.getstate())
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])
