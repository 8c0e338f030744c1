"""Networks as pure functions: a shared trunk with a policy head and a value head.

Parameters are a flat dictionary of arrays, so that they are a pytree to JAX and a safetensors file as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.core.checks import shown
from cisr.core.errors import ConfigError
from cisr.students.config import CNN, Network

Params = dict[str, jax.Array]
Forward = Callable[[Params, jax.Array], "Outputs"]
"""forward(params, observations (n, ...)) -> Outputs (n, ...)"""

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
HIDDEN_GAIN, CONVOLUTION_GAIN, POLICY_GAIN, VALUE_GAIN = 2**0.5, 1.0, 0.01, 1.0


class ObservationSpec(NamedTuple):
    """What a student sees: an array of a shape, or one of `n_values` numbers (then the shape is empty)."""

    shape: tuple[int, ...]
    n_values: int | None = None

    @property
    def dtype(self) -> type[np.generic]:
        return np.float32 if self.n_values is None else np.int32


class Outputs(NamedTuple):
    policy: jax.Array  # (..., n_outputs) parameters of the action distribution
    value: jax.Array  # (...)


def initialise(key: jax.Array, network: Network, observation: ObservationSpec, n_outputs: int) -> Params:
    """Orthogonal weights, zero biases."""
    layers = _layer_shapes(network, observation, n_outputs)
    params: Params = {}
    for layer_key, (name, (inputs, outputs), gain) in zip(jax.random.split(key, len(layers)), layers, strict=True):
        params[f"{name}.weight"] = jax.nn.initializers.orthogonal(gain)(layer_key, (inputs, outputs), jnp.float32)
        params[f"{name}.bias"] = jnp.zeros(outputs, jnp.float32)
    return params


def check_params(params: Mapping[str, Any], network: Network, observation: ObservationSpec, n_outputs: int) -> None:
    """Complain about arrays that are not those of such a network: they may come from anywhere."""
    expected: dict[str, tuple[int, ...]] = {}
    for name, (inputs, outputs), _ in _layer_shapes(network, observation, n_outputs):
        expected |= {f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)}
    for name in dict.fromkeys((*expected, *params)):
        given = params.get(name)
        if given is None or name not in expected or given.shape != expected[name] or given.dtype != np.float32:
            found = "nothing" if given is None else f"{given.dtype} of shape {tuple(given.shape)}"
            wanted = f"float32 of shape {expected[name]}" if name in expected else "nothing"
            raise ConfigError(f"A student's weights have {found} as {shown(name)}, its network has {wanted} there.")


def apply(network: Network, observation: ObservationSpec, params: Params, observations: jax.Array) -> Outputs:
    """Policy and value for observations of shape (n, *observation.shape)."""
    activation = ACTIVATIONS[network.activation]
    x = observations.astype(jnp.float32)
    if observation.n_values is not None:
        x = jax.nn.one_hot(observations, observation.n_values)
    if isinstance(network, CNN):
        for i in range(len(network.filters)):
            x = activation(dense(params, f"convolution{i}", patches(x, network.kernel_size)))
    x = x.reshape(x.shape[0], -1)
    for i in range(len(network.hidden)):
        x = activation(dense(params, f"hidden{i}", x))
    return heads(params, x)


def forward_for(network: Network, observation: ObservationSpec) -> Forward:
    return partial(apply, network, observation)


def dense(params: Params, name: str, x: jax.Array) -> jax.Array:
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]


def heads(params: Params, features: jax.Array) -> Outputs:
    return Outputs(policy=dense(params, "policy", features), value=dense(params, "value", features)[..., 0])


def patches(x: jax.Array, size: int) -> jax.Array:
    """Every size × size patch of (n, h, w, c) as one row: (n, h', w', size·size·c).

    A convolution is then one matrix product, which XLA runs at full speed on CPUs inside loops; its own convolutions
    fall back to a naive kernel there.
    """
    height, width = x.shape[1] - size + 1, x.shape[2] - size + 1
    shifts = [x[:, i : i + height, j : j + width, :] for i in range(size) for j in range(size)]
    return jnp.concatenate(shifts, axis=-1)


def _layer_shapes(
    network: Network, observation: ObservationSpec, n_outputs: int
) -> list[tuple[str, tuple[int, int], float]]:
    layers: list[tuple[str, tuple[int, int], float]] = []
    width = observation.n_values if observation.n_values is not None else int(np.prod(observation.shape))
    if isinstance(network, CNN):
        if len(observation.shape) != 3:
            raise ConfigError(
                f"A convolutional student needs images (height, width, channels); the environment shows arrays of "
                f"shape {observation.shape}: use an MLP."
            )
        height, breadth, channels = observation.shape
        for i, filters in enumerate(network.filters):
            layers.append((f"convolution{i}", (network.kernel_size**2 * channels, filters), CONVOLUTION_GAIN))
            height, breadth, channels = height - network.kernel_size + 1, breadth - network.kernel_size + 1, filters
        width = height * breadth * channels
        if height < 1 or breadth < 1:
            raise ConfigError(
                f"{len(network.filters)} convolutions of size {network.kernel_size} leave nothing of an image of shape "
                f"{observation.shape}: use fewer or smaller ones."
            )
    for i, hidden in enumerate(network.hidden):
        layers.append((f"hidden{i}", (width, hidden), HIDDEN_GAIN))
        width = hidden
    return [*layers, ("policy", (width, n_outputs), POLICY_GAIN), ("value", (width, 1), VALUE_GAIN)]
