"""The moon: eleven heights, ten edges between them, and a pad in the middle.

The edge at height 0 that Gymnasium puts under all of it is left out: terrain that low needs three draws in a row below
a hundredth of their range.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import HEIGHT, WIDTH
from cisr.tasks.lunar_lander.physics.staging import in_doubles, settled
from cisr.tasks.lunar_lander.physics.world import N_HEIGHTS

N_EDGES = N_HEIGHTS - 1
N_UNIFORMS = N_HEIGHTS + 1
SPACING = WIDTH / N_EDGES
PAD = range(N_HEIGHTS // 2 - 2, N_HEIGHTS // 2 + 3)
SMOOTHING = 0.33


class Edge(NamedTuple):
    """From left to right, with the unit vector along it; `real` is false beyond the ends of the terrain."""

    number: Array
    real: Array
    x1: Array
    y1: Array
    x2: Array
    y2: Array
    along_x: Array
    along_y: Array


def heights(u: Array) -> Array:
    """Of the vertices (11, ...), from uniforms (12, ...); Gymnasium computes them in double precision."""
    with in_doubles():
        drawn = u.astype(jnp.float64) * (HEIGHT / 2)
        raw = [jnp.full_like(drawn[k], HEIGHT / 4) if k in PAD else drawn[k] for k in range(N_UNIFORMS)]
        smooth = [SMOOTHING * (raw[k - 1] + raw[k] + raw[k + 1]) for k in range(N_HEIGHTS)]
        return jnp.stack([height.astype(jnp.float32) for height in smooth])


def edges_near(heights: Array, x: Array) -> Edge:
    """The edge of even and that of odd number (2, ...) at the vertex nearest to x: all that a body there can meet."""
    vertex = jnp.clip(jnp.round(x / SPACING), 0, N_EDGES)
    odd = vertex % 2
    return settled(edge(heights, settled(jnp.stack([vertex - odd, vertex - 1 + odd]))))


def highest(heights: Array, left: Array, right: Array) -> Array:
    """No edge over this stretch, or within a metre of it, is higher."""
    top = jnp.full_like(left, -jnp.inf)
    for k in range(N_HEIGHTS):
        x = k * SPACING
        near = (x >= left - SPACING - 1) & (x <= right + SPACING + 1)
        top = jnp.maximum(top, jnp.where(near, heights[k], -jnp.inf))
    return top


def edge(heights: Array, number: Array) -> Edge:
    """The edges of these numbers."""
    real = (number >= 0) & (number < N_EDGES)
    number = jnp.clip(number, 0, N_EDGES - 1)
    y1 = y2 = jnp.zeros_like(number)
    for k in range(N_EDGES):
        y1 = jnp.where(number == k, heights[k], y1)
        y2 = jnp.where(number == k, heights[k + 1], y2)
    x1 = number * SPACING
    rise = y2 - y1
    per_length = 1 / jnp.sqrt(SPACING * SPACING + rise * rise)
    return Edge(number, real, x1, y1, x1 + SPACING, y2, SPACING * per_length, rise * per_length)
