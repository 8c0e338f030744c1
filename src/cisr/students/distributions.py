"""Action distributions. A network's policy head gives the parameters; the distribution does the rest.

What a student draws and what reaches its environment are two things: `in_space` numbers actions as the space does and
keeps them within its bounds, while probabilities are those of what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.checks import check_number, check_whole, shown
from cisr.core.errors import ConfigError
from cisr.core.intervention import Array


class Distribution(Protocol):
    """What PPO needs of an action distribution; hashable, so that programs can be cached by it."""

    def __hash__(self) -> int: ...
    @property
    def n_outputs(self) -> int:
        """Width of the policy head."""

    @property
    def n_log_std(self) -> int:
        """Logarithms of standard deviations: parameters that no observation changes, appended to what the head says."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action."""

    @property
    def dtype(self) -> type[np.generic]: ...
    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """The noise of that many actions, drawn beforehand."""

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        """Samples, from noise of the same leading shape."""

    def mode(self, outputs: jax.Array) -> jax.Array: ...
    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array: ...
    def entropy(self, outputs: jax.Array) -> jax.Array: ...
    def in_space(self, actions: Array) -> Array:
        """Actions (..., *shape) as the environment is given them; array code."""

    def holds(self, actions: Array) -> Array:
        """Which actions, as the environment is given them, lie in the space, (...); array code."""


def sample(distribution: Distribution, key: jax.Array, outputs: jax.Array) -> jax.Array:
    """Actions for outputs (..., n_outputs + n_log_std)."""
    return distribution.act(outputs, distribution.draw(key, outputs.shape[:-1]))


@dataclass(frozen=True)
class Categorical:
    """One of n actions, from logits (..., n); students number them from 0, spaces from `start`."""

    n_actions: int
    start: int = 0
    n_log_std = 0
    shape = ()
    dtype = np.int32

    @property
    def n_outputs(self) -> int:
        return self.n_actions

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.gumbel(key, (*shape, self.n_actions))

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        return jnp.argmax(outputs + noise, axis=-1)

    def mode(self, outputs: jax.Array) -> jax.Array:
        return jnp.argmax(outputs, axis=-1)

    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array:
        chosen = jax.nn.one_hot(actions, self.n_actions)  # a product, not a gather: its gradient is one too
        return jnp.sum(jax.nn.log_softmax(outputs) * chosen, axis=-1)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(outputs)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)

    def in_space(self, actions: Array) -> Array:
        return actions + self.start if self.start else actions

    def holds(self, actions: Array) -> Array:
        return (actions >= self.start) & (actions < self.start + self.n_actions)


@dataclass(frozen=True)
class Categoricals:
    """Several independent choices (..., k), the i-th among `n_actions[i]`, from all their logits side by side."""

    n_actions: tuple[int, ...]
    start: tuple[int, ...]
    space_shape: tuple[int, ...]
    """Of an action in its space; students have it flat."""
    n_log_std = 0
    dtype = np.int32

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.n_actions),)

    @property
    def n_outputs(self) -> int:
        return sum(self.n_actions)

    def _parts(self, outputs: jax.Array) -> list[tuple[Categorical, jax.Array]]:
        each = jnp.split(outputs, np.cumsum(self.n_actions)[:-1].tolist(), axis=-1)
        return [(Categorical(n), part) for n, part in zip(self.n_actions, each, strict=True)]

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.gumbel(key, (*shape, self.n_outputs))

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        return self.mode(outputs + noise)

    def mode(self, outputs: jax.Array) -> jax.Array:
        return jnp.stack([part.mode(logits) for part, logits in self._parts(outputs)], axis=-1)

    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array:
        each = [part.log_prob(logits, actions[..., i]) for i, (part, logits) in enumerate(self._parts(outputs))]
        return jnp.sum(jnp.stack(each, axis=-1), axis=-1)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        return jnp.sum(jnp.stack([part.entropy(logits) for part, logits in self._parts(outputs)], axis=-1), axis=-1)

    def in_space(self, actions: Array) -> Array:
        return (actions + np.array(self.start, np.int32)).reshape(*actions.shape[:-1], *self.space_shape)

    def holds(self, actions: Array) -> Array:
        first, n = (np.array(each, np.int32).reshape(self.space_shape) for each in (self.start, self.n_actions))
        return ((actions >= first) & (actions < first + n)).all(axis=_last(self.space_shape))


@dataclass(frozen=True)
class Gaussian:
    """Vectors (..., a) from means by the network and standard deviations that are the same everywhere.

    They are drawn without bounds and clipped on their way to the environment, as Stable-Baselines3 does.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    space_shape: tuple[int, ...]
    """Of an action in its space; students have it flat."""
    dtype = np.float32

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.low),)

    @property
    def n_outputs(self) -> int:
        return len(self.low)

    @property
    def n_log_std(self) -> int:
        return len(self.low)

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        return jax.random.normal(key, (*shape, self.n_outputs))

    def act(self, outputs: jax.Array, noise: jax.Array) -> jax.Array:
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return mean + jnp.exp(log_std) * noise

    def mode(self, outputs: jax.Array) -> jax.Array:
        return outputs[..., : self.n_outputs]

    def log_prob(self, outputs: jax.Array, actions: jax.Array) -> jax.Array:
        """Σ −(a − μ)²/2σ² − log σ − ½ log 2π."""
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        z = (actions - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * jnp.square(z) - log_std - 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self, outputs: jax.Array) -> jax.Array:
        log_std = outputs[..., self.n_outputs :]
        return jnp.sum(log_std + 0.5 * (1 + math.log(2 * math.pi)), axis=-1)

    def in_space(self, actions: Array) -> Array:
        clipped = actions.clip(np.array(self.low, np.float32), np.array(self.high, np.float32))
        return clipped.reshape(*actions.shape[:-1], *self.space_shape)

    def holds(self, actions: Array) -> Array:
        low, high = (np.array(each, np.float32).reshape(self.space_shape) for each in (self.low, self.high))
        return ((actions >= low) & (actions <= high) & (abs(actions) < np.inf)).all(axis=_last(self.space_shape))


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of one action."""
    return tuple(range(-len(shape), 0))


KINDS: dict[str, type[Any]] = {"discrete": Categorical, "multi-discrete": Categoricals, "box": Gaussian}


def to_json(distribution: Distribution) -> dict[str, Any]:
    kind = next(name for name, each in KINDS.items() if isinstance(distribution, each))
    return {"kind": kind, **asdict(cast(Any, distribution))}


def from_json(fields: Mapping[str, Any]) -> Distribution:
    """A distribution from anywhere, checked."""
    match fields:
        case {"kind": "discrete", "n_actions": n, "start": start}:
            return Categorical(check_whole("Its number of actions", n), _whole(start))
        case {"kind": "multi-discrete", "n_actions": [*counts], "start": [*starts], "space_shape": [*shape]}:
            each = tuple(check_whole("Its number of actions", n) for n in counts)
            if len(each) == len(starts) == _size(shape):
                return Categoricals(each, tuple(_whole(start) for start in starts), tuple(shape))
        case {"kind": "box", "low": [*low], "high": [*high], "space_shape": [*shape]}:
            if len(low) == len(high) == _size(shape):
                return Gaussian(tuple(_bound(x) for x in low), tuple(_bound(x) for x in high), tuple(shape))
    raise ConfigError(f"Its actions are {shown(dict(fields))}: no kind of actions is described like this.")


def _size(shape: list[Any]) -> int:
    return math.prod(check_whole("A side of its actions", side) for side in shape)


def _whole(number: Any) -> int:
    return int(check_number("Its first action", number))


def _bound(number: Any) -> float:
    return float(number) if number in (math.inf, -math.inf) else check_number("A bound of its actions", number)
