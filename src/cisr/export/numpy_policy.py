"""A trained policy that needs numpy alone: this file and the .npz beside it are all there is to it.

>>> from numpy_policy import NumpyPolicy
>>> policy = NumpyPolicy("student.npz")  # doctest: +SKIP
>>> action = policy.predict(observation)  # doctest: +SKIP

Written by `cisr export`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

FORMAT = "cisr policy 1"
Array = Any


class NumpyPolicy:
    """Acts as the student did that it was made from; drawn actions follow from the seed and the calls so far."""

    def __init__(self, path: Any, seed: int = 0) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.about: dict[str, Any] = json.loads(str(arrays.pop("about", "{}")))
        if self.about.get("format") != FORMAT:
            raise ValueError(f"{path} is no policy for this program: its format is not {FORMAT!r}.")
        self._arrays = arrays
        self._actions = self.about["actions"]
        self._shape = tuple(self.about["observation"]["shape"])
        self._rng = np.random.default_rng(seed)

    def predict(self, observation: Any, deterministic: bool | None = None) -> Any:
        """The action for one observation, or actions (n, ...) for a batch (n, ...), as the action space has them.

        An observation of several parts (a dictionary or a tuple) is taken as it is, one at a time, or flattened. Where
        `deterministic` is None it acts as the student does once deployed.
        """
        parts = self.about["observation"]["parts"]
        flat = isinstance(observation, np.ndarray) and observation.shape[-1:] == self._shape
        given = np.asarray(_flat(parts, observation) if parts and not flat else observation)
        if given.shape[given.ndim - len(self._shape) :] != self._shape:
            raise ValueError(f"An observation has shape {given.shape}: this policy sees {self._shape}.")
        greedy = self.about["deterministic"] if deterministic is None else deterministic
        actions = self._act(given.reshape(-1, *self._shape), greedy)
        if given.ndim != len(self._shape):
            return actions
        return actions[0] if self._actions["shape"] else actions[0].item()

    def outputs(self, observations: Any) -> Array:
        """What the policy says of observations (n, ...): logits (n, k), or means and, where it has them, logarithms of
        standard deviations side by side."""
        x = self._numbers(np.asarray(observations))
        for what, *how in self.about["steps"]:
            x = self._step(what, how, x)
        said = self._dense("policy", x)
        if "log_std" in self._arrays:
            return np.concatenate([said, np.broadcast_to(self._arrays["log_std"], said.shape)], axis=-1)
        if "log_std.weight" in self._arrays:
            return np.concatenate([said, self._dense("log_std", x).clip(*self._actions["log_std_range"])], axis=-1)
        return said

    def _numbers(self, x: Array) -> Array:
        """Bytes of images may come as whole numbers of any type, and as nothing else."""
        kind = self.about["observation"]["kind"]
        fits = x.dtype.kind in ("biuf" if kind == "real" else "biu")
        if not fits or (kind == "byte" and ((x < 0) | (x > 255)).any()):
            sees = {"real": "numbers", "integer": "whole numbers", "byte": "bytes of images, 0 to 255"}[kind]
            raise ValueError(f"An observation holds {x.dtype}: this policy sees {sees}, as its environment shows them.")
        return x

    def _step(self, what: str, how: list[Any], x: Array) -> Array:
        if what == "one-hot":
            start, n = how
            return (np.asarray(x)[:, None] - start == np.arange(n)).astype(np.float32)
        if what == "divide":
            return x.astype(np.float32) / np.float32(how[0])
        if what == "flatten":
            return x.reshape(len(x), -1).astype(np.float32)
        x = x.astype(np.float32)
        if what == "normalise":
            return ((x - self._arrays["observation.mean"]) / self._arrays["observation.std"]).clip(-how[0], how[0])
        if what == "dense":
            return self._dense(how[0], x)
        if what == "convolve":
            name, size, stride = how
            windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))[:, ::stride, ::stride]
            patches = windows.transpose(0, 1, 2, 4, 5, 3)  # (n, h, w, size, size, c)
            return self._dense(name, patches.reshape(*patches.shape[:3], -1))
        if what == "relu":
            return np.maximum(x, 0)
        if what == "elu":
            return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        if what == "tanh":
            return np.tanh(x)
        raise ValueError(f"The policy has a step {what!r}, which this program does not know.")

    def _dense(self, name: str, x: Array) -> Array:
        return x @ self._arrays[f"{name}.weight"] + self._arrays[f"{name}.bias"]

    def _act(self, observations: Array, greedy: bool) -> Array:
        said, shape = self.outputs(observations), self._actions["shape"]
        if self._actions["kind"] == "discrete":
            noise = 0 if greedy else self._noise(said.shape)
            counts = np.cumsum(self._actions["n"])[:-1]
            chosen = np.stack([part.argmax(axis=-1) for part in np.split(said + noise, counts, axis=-1)], axis=-1)
            return (chosen + np.array(self._actions["start"])).reshape(len(said), *shape)
        low, high = (
            np.array([other if x is None else x for x in self._actions[end]], np.float32)
            for end, other in (("low", -np.inf), ("high", np.inf))
        )
        mean, log_std = said[:, : len(low)], said[:, len(low) :]
        if not greedy and log_std.size:
            mean = (mean + np.exp(log_std) * self._rng.standard_normal(mean.shape)).astype(np.float32)
        within = low + (high - low) * (np.tanh(mean) + 1) / 2 if self._actions["squashed"] else mean.clip(low, high)
        return within.reshape(len(said), *shape)

    def _noise(self, shape: tuple[int, ...]) -> Array:
        """What makes the largest of logits plus noise a draw; of values, any of them now and then."""
        if "exploration" not in self._actions:
            return self._rng.gumbel(size=shape)
        explores = self._rng.random((shape[0], 1)) < self._actions["exploration"]
        return np.where(explores, 1e30 * self._rng.random(shape), 0)


def _flat(parts: Any, observation: Any) -> Array:
    """An observation of several parts as a vector."""
    what, *how = parts
    if what == "each":
        return np.concatenate([_flat(part, observation[place]) for place, part in how[0]] or [np.zeros(0)])
    numbers = np.asarray(observation).ravel()
    if what == "numbers":
        return numbers.astype(np.float32)
    hot = [np.arange(n) == number - start for number, start, n in zip(numbers, *how, strict=True)]
    return np.concatenate(hot).astype(np.float32)
