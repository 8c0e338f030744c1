"""Time of impact of a leg that sweeps from one pose to another, against one edge.

Box2D's conservative advancement: along the axis between the nearest features, the last moment at which the deepest
point is still a target's distance away, found by turns of bisection and secant; then again from there. Nearest features
are found by comparing all of them, where Box2D walks from one to the next; ties apart that is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import LEG, LEG_HALF_HEIGHT, LEG_HALF_WIDTH, LINEAR_SLOP
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.terrain import Edge

TARGET, TOLERANCE = LINEAR_SLOP, 0.25 * LINEAR_SLOP
MAX_ADVANCES, MAX_PUSHES, MAX_ROOTS = 20, 16, 50
POINTS, FACE_OF_EDGE, FACE_OF_LEG = 0.0, 1.0, 2.0


class Sweep(NamedTuple):
    """From one pose to another."""

    x0: Array
    y0: Array
    angle0: Array
    x: Array
    y: Array
    angle: Array

    def at(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Position, sine and cosine after a part of the way."""
        angle = (1 - t) * self.angle0 + t * self.angle
        return (1 - t) * self.x0 + t * self.x, (1 - t) * self.y0 + t * self.y, jnp.sin(angle), jnp.cos(angle)


class Axis(NamedTuple):
    """A separating axis: in the world, or in the leg's frame where it is the normal of its face."""

    kind: Array
    x: Array
    y: Array
    on_x: Array  # a point of the face
    on_y: Array


class Witness(NamedTuple):
    """The deepest points: one of the leg's, in its frame, and one of the edge's."""

    leg_x: Array
    leg_y: Array
    edge_x: Array
    edge_y: Array


def nearest(sweep: Sweep, t: Array, edge: Edge) -> tuple[Array, Axis]:
    """Distance, 0 where they overlap, and the axis between the nearest features."""
    x, y, sine, cosine = settled(sweep.at(t))
    below = (edge.along_y, -edge.along_x)
    best = jnp.full_like(x, jnp.inf)
    axis = Axis(*[jnp.zeros_like(x)] * 5)
    middle = ((edge.x1 + edge.x2) / 2, (edge.y1 + edge.y2) / 2)
    length = (edge.x2 - edge.x1) * edge.along_x + (edge.y2 - edge.y1) * edge.along_y

    def better(distance: Array, possible: Array, candidate: Axis) -> tuple[Array, Axis]:
        wins = possible & (distance < best)
        chosen = Axis(*(jnp.where(wins, a, b) for a, b in zip(candidate, axis, strict=True)))
        return settled((jnp.where(wins, distance, best), chosen))

    heights = []
    for lx, ly in LEG.vertices:
        dx, dy = x + cosine * lx - sine * ly - edge.x1, y + sine * lx + cosine * ly - edge.y1
        way = dx * edge.along_x + dy * edge.along_y
        height = dx * below[0] + dy * below[1]
        heights.append(height)
        side = jnp.where(height < 0, -1.0, 1.0)
        face = Axis(jnp.full_like(x, FACE_OF_EDGE), side * below[0], side * below[1], *middle)
        best, axis = better(abs(height), (way > 0) & (way < length), face)

    outside = []
    for ex, ey in ((edge.x1, edge.y1), (edge.x2, edge.y2)):
        lx, ly = cosine * (ex - x) + sine * (ey - y), cosine * (ey - y) - sine * (ex - x)
        outside.append((lx, ly))
        sx, sy = jnp.where(lx < 0, -1.0, 1.0), jnp.where(ly < 0, -1.0, 1.0)
        far_x, far_y = abs(lx) - LEG_HALF_WIDTH, abs(ly) - LEG_HALF_HEIGHT
        zero, own = jnp.zeros_like(x), jnp.full_like(x, FACE_OF_LEG)
        best, axis = better(far_x, (far_x > 0) & (far_y < 0), Axis(own, sx, zero, sx * LEG_HALF_WIDTH, zero))
        best, axis = better(far_y, (far_y > 0) & (far_x < 0), Axis(own, zero, sy, zero, sy * LEG_HALF_HEIGHT))
        vx, vy = sx * LEG_HALF_WIDTH, sy * LEG_HALF_HEIGHT
        dx, dy = x + cosine * vx - sine * vy - ex, y + sine * vx + cosine * vy - ey
        distance = jnp.sqrt(dx * dx + dy * dy)
        apart = jnp.maximum(distance, 1e-12)
        corner = Axis(jnp.full_like(x, POINTS), dx / apart, dy / apart, zero, zero)
        best, axis = better(distance, (far_x >= 0) & (far_y >= 0), corner)

    (x1, y1), (x2, y2) = outside
    least, most = heights[0], heights[0]
    for height in heights[1:]:
        least, most = jnp.minimum(least, height), jnp.maximum(most, height)
    overlapping = (
        (least <= 0)
        & (most >= 0)
        & (jnp.minimum(x1, x2) <= LEG_HALF_WIDTH)
        & (jnp.maximum(x1, x2) >= -LEG_HALF_WIDTH)
        & (jnp.minimum(y1, y2) <= LEG_HALF_HEIGHT)
        & (jnp.maximum(y1, y2) >= -LEG_HALF_HEIGHT)
    )
    return jnp.where(overlapping, 0.0, best), axis


def deepest(sweep: Sweep, t: Array, edge: Edge, axis: Axis) -> tuple[Array, Witness]:
    """The least separation along the axis, and the points that have it."""
    x, _, sine, cosine = settled(sweep.at(t))
    own = axis.kind == FACE_OF_LEG
    ax, ay = _in_world(axis, sine, cosine)
    leg_x = leg_y = depth = None
    for lx, ly in LEG.vertices:  # the leg's vertex farthest against the axis
        value = (cosine * lx - sine * ly) * ax + (sine * lx + cosine * ly) * ay
        if depth is None or leg_x is None or leg_y is None:
            leg_x, leg_y, depth = jnp.full_like(x, lx), jnp.full_like(x, ly), value
            continue
        lower = value < depth
        leg_x, leg_y = jnp.where(lower, lx, leg_x), jnp.where(lower, ly, leg_y)
        depth = jnp.minimum(value, depth)
    assert leg_x is not None and leg_y is not None
    # the edge's end farthest along the axis, or against it where the axis is the leg's
    rise = (edge.x2 - edge.x1) * ax + (edge.y2 - edge.y1) * ay
    second = jnp.where(own, rise < 0, rise > 0)
    end_x, end_y = jnp.where(second, edge.x2, edge.x1), jnp.where(second, edge.y2, edge.y1)
    on_edge = axis.kind == FACE_OF_EDGE
    witness = Witness(
        jnp.where(own, axis.on_x, leg_x),
        jnp.where(own, axis.on_y, leg_y),
        jnp.where(on_edge, axis.on_x, end_x),
        jnp.where(on_edge, axis.on_y, end_y),
    )
    return separation(sweep, t, axis, witness), witness


def separation(sweep: Sweep, t: Array, axis: Axis, witness: Witness) -> Array:
    x, y, sine, cosine = sweep.at(t)
    ax, ay = _in_world(axis, sine, cosine)
    dx = x + cosine * witness.leg_x - sine * witness.leg_y - witness.edge_x
    dy = y + sine * witness.leg_x + cosine * witness.leg_y - witness.edge_y
    gap = dx * ax + dy * ay
    return jnp.where(axis.kind == FACE_OF_LEG, -gap, gap)


def _in_world(axis: Axis, sine: Array, cosine: Array) -> tuple[Array, Array]:
    own = axis.kind == FACE_OF_LEG
    return (
        jnp.where(own, cosine * axis.x - sine * axis.y, axis.x),
        jnp.where(own, sine * axis.x + cosine * axis.y, axis.y),
    )


class _Advance(NamedTuple):
    number: Array  # () how many times
    t: Array
    hit: Array
    active: Array


class _Push(NamedTuple):
    number: Array
    t: Array  # tentative time of impact
    hit: Array  # touching at the advance's own time
    ended: Array  # nothing more to find: hit, separated or failed
    active: Array


class _Root(NamedTuple):
    number: Array
    t: Array
    low: Array
    high: Array
    at_low: Array
    at_high: Array
    active: Array


def time_of_impact(sweep: Sweep, edge: Edge, asked: Array) -> Array:
    """The part of the way at which the leg comes to touch the edge; 1 where it does not, or was not asked for."""

    def advance(now: _Advance) -> _Advance:
        distance, axis = settled(nearest(sweep, now.t, edge))
        overlapped, touching = distance <= 0, distance < TARGET + TOLERANCE
        going = now.active & ~overlapped & ~touching
        start = _Push(jnp.int32(0), jnp.ones_like(now.t), jnp.zeros_like(going), jnp.zeros_like(going), going)
        pushed = _pushed_back(sweep, edge, axis, now.t, start)
        hit = now.hit | (now.active & touching & ~overlapped) | (going & pushed.hit)
        t = jnp.where(going & ~pushed.ended, pushed.t, now.t)
        return _Advance(now.number + 1, t, hit, going & ~pushed.ended)

    start = _Advance(jnp.int32(0), jnp.zeros(asked.shape, jnp.float32), jnp.zeros_like(asked), asked)
    end = jax.lax.while_loop(lambda now: (now.number < MAX_ADVANCES) & now.active.any(), advance, start)
    return jnp.where(end.hit, end.t, 1.0)


def _pushed_back(sweep: Sweep, edge: Edge, axis: Axis, t1: Array, start: _Push) -> _Push:
    """From the end of the way back to where the deepest point, and then every other, is as near as the target."""

    def push(now: _Push) -> _Push:
        s2, witness = settled(deepest(sweep, now.t, edge, axis))
        separated, reached = s2 > TARGET + TOLERANCE, s2 > TARGET - TOLERANCE
        s1 = settled(separation(sweep, t1, axis, witness))
        failed, hit = s1 < TARGET - TOLERANCE, s1 <= TARGET + TOLERANCE
        seek = now.active & ~reached & ~failed & ~hit
        t = _root(sweep, axis, witness, _Root(jnp.int32(0), now.t, t1, now.t, s1, s2, seek))
        return _Push(
            now.number + 1,
            jnp.where(seek, t, now.t),
            now.hit | (now.active & ~reached & ~failed & hit),
            now.ended | (now.active & (separated | (~reached & (failed | hit)))),
            seek,
        )

    return jax.lax.while_loop(lambda now: (now.number < MAX_PUSHES) & now.active.any(), push, start)


def _root(sweep: Sweep, axis: Axis, witness: Witness, start: _Root) -> Array:
    """When these points are as near as the target."""

    def narrow(now: _Root) -> _Root:
        fall = jnp.where(now.at_high == now.at_low, 1.0, now.at_high - now.at_low)
        secant = now.low + (TARGET - now.at_low) * (now.high - now.low) / fall
        t = jnp.where(now.number % 2 == 1, secant, 0.5 * (now.low + now.high))
        s = settled(separation(sweep, settled(t), axis, witness))
        found = abs(s - TARGET) < TOLERANCE
        above = s > TARGET
        return _Root(
            now.number + 1,
            jnp.where(now.active & found, t, now.t),
            jnp.where(above, t, now.low),
            jnp.where(above, now.high, t),
            jnp.where(above, s, now.at_low),
            jnp.where(above, now.at_high, s),
            now.active & ~found,
        )

    return jax.lax.while_loop(lambda now: (now.number < MAX_ROOTS) & now.active.any(), narrow, start).t
