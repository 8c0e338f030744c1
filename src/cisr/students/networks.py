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
from cisr.students.config import CNN, MLP, Network

Params = dict[str, jax.Array]
Forward = Callable[[Params, jax.Array], "Outputs"]
"""forward(params, observations (n, ...)) -> Outputs (n, ...)"""

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
LOG_STD = "log_std"
"""Logarithms of standard deviations, (a,): parameters of their own, whatever is seen."""
HIDDEN_GAIN, CONVOLUTION_GAIN, POLICY_GAIN, VALUE_GAIN = 2**0.5, 1.0, 0.01, 1.0


class ObservationSpec(NamedTuple):
    """What a student sees: an array of a shape, or one of `n_values` numbers (then the shape is empty)."""

    shape: tuple[int, ...]
    n_values: int | None = None
    start: int = 0
    """The first of the numbers."""
    image: bool = False
    """Bytes, which networks see as 0 to 1."""

    @property
    def dtype(self) -> type[np.generic]:
        if self.image:
            return np.uint8
        return np.float32 if self.n_values is None else np.int32

    def taken(self, given: Any) -> np.ndarray:
        """One observation or several (..., *shape) from anywhere, in the type that networks know; complains about what
        is none. Bytes may come as whole numbers of any type."""
        try:
            array = np.asarray(given)
        except ValueError as error:  # rows of several lengths
            raise ConfigError(f"An observation is {shown(given)}: this student sees {self.shape}.") from error
        if array.shape[max(array.ndim - len(self.shape), 0) :] != self.shape:
            raise ConfigError(f"An observation has shape {array.shape}: this student sees {self.shape}.")
        first, n = (0, 256) if self.image else (self.start, self.n_values)
        if n is None and array.dtype.kind in "biuf":
            return array
        if n is None or array.dtype.kind not in "biu" or ((array < first) | (array >= first + n)).any():
            wanted = "numbers" if n is None else f"whole numbers from {first} to {first + n - 1}"
            what = "bytes of images, " * self.image + wanted
            raise ConfigError(
                f"An observation holds {array.dtype}, such as {shown(array.ravel()[:1].tolist())}: this student sees "
                f"{what}, as its environment shows them."
            )
        return array.astype(self.dtype)


class Outputs(NamedTuple):
    policy: jax.Array  # (..., n_outputs + n_log_std) parameters of the action distribution
    value: jax.Array  # (...)


def initialise(
    key: jax.Array, network: Network, observation: ObservationSpec, n_outputs: int, n_log_std: int = 0
) -> Params:
    """Orthogonal weights, zero biases, standard deviations of 1."""
    layers = _layer_shapes(network, observation, n_outputs)
    params: Params = {}
    for layer_key, (name, (inputs, outputs), gain) in zip(jax.random.split(key, len(layers)), layers, strict=True):
        params[f"{name}.weight"] = jax.nn.initializers.orthogonal(gain)(layer_key, (inputs, outputs), jnp.float32)
        params[f"{name}.bias"] = jnp.zeros(outputs, jnp.float32)
    if n_log_std:
        params[LOG_STD] = jnp.zeros(n_log_std, jnp.float32)
    return params


def check_params(
    params: Mapping[str, Any], network: Network, observation: ObservationSpec, n_outputs: int, n_log_std: int = 0
) -> None:
    """Complain about arrays that are not those of such a network: they may come from anywhere."""
    expected: dict[str, tuple[int, ...]] = {LOG_STD: (n_log_std,)} if n_log_std else {}
    for name, (inputs, outputs), _ in _layer_shapes(network, observation, n_outputs):
        expected |= {f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)}
    check_arrays("weights", params, expected, "its network has")


def check_arrays(what: str, arrays: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]], wants: str) -> None:
    """Complain about arrays of a student that have other names, shapes or types; `wants` begins to say what it should
    have."""
    for name in dict.fromkeys((*expected, *arrays)):
        given = arrays.get(name)
        if given is None or name not in expected or given.shape != expected[name] or given.dtype != np.float32:
            found = "nothing" if given is None else f"{given.dtype} of shape {tuple(given.shape)}"
            wanted = f"float32 of shape {expected[name]}" if name in expected else "nothing"
            raise ConfigError(f"A student's {what} have {found} as {shown(name)}, {wants} {wanted}.")


def apply(network: Network, observation: ObservationSpec, params: Params, observations: jax.Array) -> Outputs:
    """Policy and value for observations of shape (n, *observation.shape)."""
    activation = ACTIVATIONS[network.activation]
    x = as_numbers(observation, observations)
    if isinstance(network, CNN):
        for i, (_, size, stride) in enumerate(network.convolutions):
            x = activation(dense(params, f"convolution{i}", patches(x, size, stride)))
    x = for_value = x.reshape(x.shape[0], -1)
    for i in range(len(network.hidden)):
        x = activation(dense(params, f"hidden{i}", x))
    if not has_separate_value(network):
        return heads(params, x)
    for i in range(len(network.hidden)):
        for_value = activation(dense(params, f"value_hidden{i}", for_value))
    return heads(params, x, for_value)


def as_numbers(observation: ObservationSpec, observations: jax.Array) -> jax.Array:
    """What a network computes with. Images of floating-point numbers were seen in other units before and stay as they
    are."""
    if observation.n_values is not None:
        return jax.nn.one_hot(observations - observation.start, observation.n_values)
    if observation.image and jnp.issubdtype(observations.dtype, jnp.integer):
        return observations.astype(jnp.float32) / 255
    return observations.astype(jnp.float32)


def has_separate_value(network: Network) -> bool:
    return isinstance(network, MLP) and network.separate_value


def forward_for(network: Network, observation: ObservationSpec) -> Forward:
    return partial(apply, network, observation)


def dense(params: Params, name: str, x: jax.Array) -> jax.Array:
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]


def heads(params: Params, features: jax.Array, for_value: jax.Array | None = None) -> Outputs:
    """Policy and value from the features that they share, or the value from its own."""
    policy = dense(params, "policy", features)
    if LOG_STD in params:
        policy = jnp.concatenate([policy, jnp.broadcast_to(params[LOG_STD], policy.shape)], axis=-1)
    value = dense(params, "value", features if for_value is None else for_value)
    return Outputs(policy=policy, value=value[..., 0])


def patches(x: jax.Array, size: int, stride: int = 1) -> jax.Array:
    """Every size × size patch of (n, h, w, c), `stride` pixels apart, as one row: (n, h', w', size·size·c).

    A convolution is then one matrix product, which XLA runs at full speed on CPUs inside loops; its own convolutions
    fall back to a naive kernel there.
    """
    height, width = x.shape[1] - size + 1, x.shape[2] - size + 1
    shifts = [x[:, i : i + height : stride, j : j + width : stride, :] for i in range(size) for j in range(size)]
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
        for i, (filters, size, stride) in enumerate(network.convolutions):
            layers.append((f"convolution{i}", (size**2 * channels, filters), CONVOLUTION_GAIN))
            height, breadth, channels = (height - size) // stride + 1, (breadth - size) // stride + 1, filters
            if height < 1 or breadth < 1:
                raise ConfigError(
                    f"{len(network.filters)} convolutions of size {network.kernel_size} leave nothing of an image of "
                    f"shape {observation.shape}: use fewer or smaller ones."
                )
        width = height * breadth * channels
    widths = (width, *network.hidden)
    for whose in ("", "value_") if has_separate_value(network) else ("",):
        for i in range(len(network.hidden)):
            layers.append((f"{whose}hidden{i}", (widths[i], widths[i + 1]), HIDDEN_GAIN))
    return [*layers, ("policy", (widths[-1], n_outputs), POLICY_GAIN), ("value", (widths[-1], 1), VALUE_GAIN)]
