"""The observation table: where a task has finitely many observations, the network runs once for each of them.

An optional encoder for finite tasks. The student's observations are then *numbers* into a table of what it can see,
and policy and value are looked up in the outputs for the whole table. Results equal those of the plain network up to
rounding.

Two savings, both exact:
- one evaluation for each distinct observation rather than for each sample;
- where the observations are images of one scene that differ only in the pixel where the agent is, convolutions are
  shared between them: away from the agent all images look alike. For a layer let `plain` (h, w, c) be its activations
  without an agent and `change` (h, w, R, R, c) what is added at position u when the agent stands at u + r, r in
  {0 … R−1}². A convolution with kernel W (size s) gives

      plain'[u]  = b + Σ_k plain[u+k] W[k]          change'[u, r] = Σ_{k+o=r} change[u+k, o] W[k],   R' = R + s − 1,

  and the first dense layer adds the changes of all positions onto the agent's place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.students import networks
from cisr.students.config import CNN, Network
from cisr.students.networks import ObservationSpec, Outputs, Params


class AgentImages(NamedTuple):
    """A scene and what the agent's presence adds to each of its pixels."""

    scene: np.ndarray  # (h, w, c)
    agent: np.ndarray  # (h, w, c)


def tabulator(network: Network, observation: ObservationSpec, table: np.ndarray) -> Callable[[Params], Outputs]:
    """A function from parameters to the outputs for all observations of the table (n, ...)."""
    images = agent_images(table) if isinstance(network, CNN) and network.strides == 1 else None
    if images is None or not isinstance(network, CNN):
        return lambda params: networks.apply(network, observation, params, jnp.asarray(table))
    return lambda params: _outputs_for_all_places(network, params, images)


def agent_images(table: np.ndarray) -> AgentImages | None:
    """The scene behind images (h·w, h, w, c) of which image p differs from it in pixel p alone; None if they do not."""
    if table.ndim != 4 or len(table) != table.shape[1] * table.shape[2]:
        return None
    pixels = table.reshape(len(table), len(table), -1)  # (place of the agent, pixel, c)
    places = np.arange(len(table))
    scene = pixels[(places + 1) % len(table), places]  # each pixel as seen from elsewhere
    expected = np.repeat(scene[None], len(table), axis=0)
    expected[places, places] = pixels[places, places]
    if not np.array_equal(expected, pixels):
        return None
    shape = table.shape[1:]
    return AgentImages(scene=scene.reshape(shape), agent=(pixels[places, places] - scene).reshape(shape))


def _outputs_for_all_places(network: CNN, params: Params, images: AgentImages) -> Outputs:
    activation = networks.ACTIVATIONS[network.activation]
    plain, change = jnp.asarray(images.scene), jnp.asarray(images.agent)[:, :, None, None, :]
    for i, (_, size, _) in enumerate(network.convolutions):
        before, added = _convolve(plain, change, params, f"convolution{i}", size)
        plain = activation(before)
        change = activation(before[:, :, None, None] + added) - plain[:, :, None, None]
    x = activation(_gather(plain, change, params, "hidden0"))  # (places, hidden)
    for i in range(1, len(network.hidden)):
        x = activation(networks.dense(params, f"hidden{i}", x))
    return networks.heads(params, x)


def _convolve(plain: jax.Array, change: jax.Array, params: Params, name: str, size: int) -> tuple[jax.Array, jax.Array]:
    """(h, w, c), (h, w, R, R, c) -> (h', w', c'), (h', w', R', R', c')."""
    before = networks.dense(params, name, networks.patches(plain[None], size)[0])
    height, width, channels = before.shape
    reach = change.shape[2]
    kernel = params[f"{name}.weight"].reshape(size, size, -1, channels)
    added = jnp.zeros(())
    for i in range(size):
        for j in range(size):
            moved = change[i : i + height, j : j + width] @ kernel[i, j]
            added = added + _pad(moved, (2, 3), (i, j), reach + size - 1)
    return before, added


def _gather(plain: jax.Array, change: jax.Array, params: Params, name: str) -> jax.Array:
    """The first dense layer for every place of the agent: (h, w, c), (h, w, R, R, c) -> (places, n)."""
    height, width, reach = change.shape[:3]
    weight = params[f"{name}.weight"].reshape(height, width, change.shape[-1], -1)
    share = jnp.einsum("hwrsc,hwcn->hwrsn", change, weight)
    total = jnp.einsum("hwc,hwcn->n", plain, weight) + params[f"{name}.bias"]
    for i in range(reach):
        for j in range(reach):
            total = total + _pad(share[:, :, i, j], (0, 1), (i, j), (height + reach - 1, width + reach - 1))
    return total.reshape(-1, weight.shape[-1])


def _pad(x: jax.Array, axes: tuple[int, int], begin: tuple[int, int], size: int | tuple[int, int]) -> jax.Array:
    """Place x into zeros of the given size along two axes."""
    sizes = (size, size) if isinstance(size, int) else size
    widths = [(0, 0)] * x.ndim
    for axis, start, whole in zip(axes, begin, sizes, strict=True):
        widths[axis] = (start, whole - start - x.shape[axis])
    return jnp.pad(x, widths)
