"""Where a polygon touches an edge of the terrain: Box2D's separating axes, clipping and ids.

Edges have two sides and no neighbours. The reference face is the edge, unless an axis of the polygon separates clearly
better; the other's face is clipped against it. Ids say which features a point came from; a point of equal id inherits
the impulses of the step before.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from cisr.core.intervention import Array
from cisr.tasks.lunar_lander.physics.constants import SKIN, Polygon
from cisr.tasks.lunar_lander.physics.staging import settled
from cisr.tasks.lunar_lander.physics.terrain import Edge
from cisr.tasks.lunar_lander.physics.world import Contact

RADIUS = 2 * SKIN
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 0.98, 0.001
FACE, VERTEX = 64.0, 128.0
"""Bits of ids: where the first and the second feature are a face and not a vertex."""

Vec = tuple[Array, Array]


class Manifold(NamedTuple):
    """Up to two points; ids are −1 where there is none. `on_polygon`: the normal and the plane belong to the polygon
    and are in its frame, and the points to the edge, in the world; else the other way round."""

    on_polygon: Array
    normal: Vec
    plane: Vec
    point_1: Vec
    point_2: Vec
    id_1: Array
    id_2: Array


class _Clipped(NamedTuple):
    points: tuple[Vec, Vec]
    ids: tuple[Array, Array]
    complete: Array


def collide(polygon: Polygon, x: Array, y: Array, angle: Array, edge: Edge) -> Manifold:
    """A polygon whose origin is at (x, y), against an edge."""
    sine, cosine = jnp.sin(angle), jnp.cos(angle)

    def turned(v: tuple[float, float]) -> Vec:
        return cosine * v[0] - sine * v[1], sine * v[0] + cosine * v[1]

    vertices = [(x + rx, y + ry) for rx, ry in map(turned, polygon.vertices)]
    normals = [turned(n) for n in polygon.normals]
    vertices, normals, sine, cosine = settled((vertices, normals, sine, cosine))
    v1, v2 = (edge.x1, edge.y1), (edge.x2, edge.y2)
    below = (edge.along_y, -edge.along_x)
    # Box2D asks the shape's centroid, which is the centre of mass here.
    centroid = turned(polygon.mass.centre)
    front = _dot(below, (x + centroid[0] - v1[0], y + centroid[1] - v1[1])) >= 0
    side = jnp.where(front, 1.0, -1.0)
    normal = (side * below[0], side * below[1])

    edge_separation = _smallest([_dot(normal, _minus(v, v1)) for v in vertices])
    axis, separation = _best_polygon_axis(vertices, normals, v1, v2)
    axis, separation, front, normal, edge_separation = settled((axis, separation, front, normal, edge_separation))
    apart = (edge_separation > RADIUS) | (separation > RADIUS)
    on_polygon = separation > RELATIVE_TOLERANCE * edge_separation + ABSOLUTE_TOLERANCE

    by_edge = settled(_incident_on_polygon(vertices, normals, normal, front, v1, v2))
    by_polygon = settled(_incident_on_edge(vertices, normals, axis, v1, v2))
    (points, ids, complete), face_normal, start = settled(
        (
            _Clipped(
                tuple(_either(on_polygon, a, b) for a, b in zip(by_polygon[0].points, by_edge[0].points, strict=True)),  # type: ignore[arg-type]
                tuple(jnp.where(on_polygon, a, b) for a, b in zip(by_polygon[0].ids, by_edge[0].ids, strict=True)),  # type: ignore[arg-type]
                jnp.where(on_polygon, by_polygon[0].complete, by_edge[0].complete),
            ),
            _either(on_polygon, by_polygon[1], by_edge[1]),
            _either(on_polygon, by_polygon[2], by_edge[2]),
        )
    )
    touching = ~apart & complete & edge.real
    near_1, near_2 = (touching & (_dot(face_normal, _minus(p, start)) <= RADIUS) for p in points)

    def to_local(p: Vec) -> Vec:
        dx, dy = p[0] - x, p[1] - y
        return cosine * dx + sine * dy, cosine * dy - sine * dx

    local_1, local_2 = (_either(on_polygon, p, to_local(p)) for p in points)
    local_normal = _either(on_polygon, _picked(axis, polygon.normals), face_normal)
    plane = _either(on_polygon, _picked(axis, polygon.vertices), start)
    near_1, near_2, local_1, local_2 = settled((near_1, near_2, local_1, local_2))
    manifold = Manifold(
        on_polygon=on_polygon,
        normal=local_normal,
        plane=plane,
        point_1=_either(near_1, local_1, local_2),
        point_2=local_2,
        id_1=jnp.where(near_1, ids[0], jnp.where(near_2, ids[1], -1.0)),
        id_2=jnp.where(near_1 & near_2, ids[1], -1.0),
    )
    return settled(manifold)


def inherit(contact: Contact, manifold: Manifold) -> Contact:
    """The contact with new points, and the impulses of the old ones that have the same ids."""

    def matched(new: Array, first: Array, second: Array) -> Array:
        old = jnp.where(new == contact.id_1, first, jnp.where(new == contact.id_2, second, 0.0))
        return jnp.where(new >= 0, old, 0.0)

    return contact._replace(
        id_1=manifold.id_1,
        id_2=manifold.id_2,
        normal_1=matched(manifold.id_1, contact.normal_1, contact.normal_2),
        normal_2=matched(manifold.id_2, contact.normal_1, contact.normal_2),
        tangent_1=matched(manifold.id_1, contact.tangent_1, contact.tangent_2),
        tangent_2=matched(manifold.id_2, contact.tangent_1, contact.tangent_2),
    )


def _best_polygon_axis(vertices: list[Vec], normals: list[Vec], v1: Vec, v2: Vec) -> tuple[Array, Array]:
    """The face of the polygon that separates best, and by how much; the first that separates at all."""
    index = separation = None
    for k, (vertex, normal) in enumerate(zip(vertices, normals, strict=True)):
        s = jnp.minimum(_dot(normal, _minus(v1, vertex)), _dot(normal, _minus(v2, vertex)))
        if index is None or separation is None:
            index, separation = jnp.zeros_like(s), s
            continue
        better = (s > separation) & ~(separation > RADIUS)
        index, separation = jnp.where(better, float(k), index), jnp.where(better, s, separation)
    assert index is not None and separation is not None
    return index, separation


def _incident_on_polygon(
    vertices: list[Vec], normals: list[Vec], normal: Vec, front: Array, v1: Vec, v2: Vec
) -> tuple[_Clipped, Vec, Vec]:
    """The face of the polygon that most opposes the edge's normal, clipped to the edge."""
    index = jnp.zeros_like(normal[0])
    least = _dot(normal, normals[0])
    for k, candidate in enumerate(normals[1:], 1):
        value = _dot(normal, candidate)
        index, least = jnp.where(value < least, float(k), index), jnp.minimum(value, least)
    following = jnp.where(index + 1 < len(vertices), index + 1, 0.0)
    index, following = settled((index, following))
    incident = settled((_picked(index, vertices), _picked(following, vertices)))
    ids = (_id(0.0, index, FACE), _id(0.0, following, FACE))
    first, last = _either(front, v1, v2), _either(front, v2, v1)
    number = jnp.where(front, 0.0, 1.0)

    def hit(vertex: Array, source: Array) -> Array:  # a vertex of the edge on a face of the polygon
        return _id(vertex, _second_index(source), VERTEX)

    return _clip(incident, ids, normal, first, last, number, 1.0 - number, hit), normal, first


def _incident_on_edge(
    vertices: list[Vec], normals: list[Vec], axis: Array, v1: Vec, v2: Vec
) -> tuple[_Clipped, Vec, Vec]:
    """The edge, clipped to a face of the polygon."""
    following = jnp.where(axis + 1 < len(vertices), axis + 1, 0.0)
    normal, first, last = settled((_picked(axis, normals), _picked(axis, vertices), _picked(following, vertices)))
    same = _id(axis, 0.0, FACE)

    def hit(vertex: Array, source: Array) -> Array:
        return _id(axis, vertex, FACE)

    return _clip((v1, v2), (same, same), normal, first, last, axis, following, hit), normal, first


def _clip(
    segment: tuple[Vec, Vec],
    ids: tuple[Array, Array],
    normal: Vec,
    first: Vec,
    last: Vec,
    number_1: Array,
    number_2: Array,
    hit: object,
) -> _Clipped:
    """A segment clipped to the strip over a face from `first` to `last`."""
    side = (normal[1], -normal[0])
    back = (-side[0], -side[1])
    once = settled(_clip_to_line(segment, ids, side, _dot(side, first), number_1, hit))
    twice = _clip_to_line(once.points, once.ids, back, _dot(back, last), number_2, hit)
    return twice._replace(complete=once.complete & twice.complete)


def _clip_to_line(
    segment: tuple[Vec, Vec], ids: tuple[Array, Array], side: Vec, offset: Array, number: Array, hit: object
) -> _Clipped:
    d1, d2 = _dot(side, segment[0]) - offset, _dot(side, segment[1]) - offset
    crossing = d1 * d2 < 0
    part = d1 / jnp.where(crossing, d1 - d2, 1.0)
    cut = tuple(a + part * (b - a) for a, b in zip(*segment, strict=True))
    cut_id = hit(number, ids[0])  # type: ignore[operator]
    first = _either(d1 <= 0, segment[0], segment[1])
    second = _either(crossing, cut, segment[1])
    return _Clipped(
        points=(first, second),
        ids=(jnp.where(d1 <= 0, ids[0], ids[1]), jnp.where(crossing, cut_id, ids[1])),
        complete=crossing | ((d1 <= 0) & (d2 <= 0)),
    )


def _id(first: Array | float, second: Array | float, kind: float) -> Array:
    return first + 8.0 * second + kind


def _second_index(ids: Array) -> Array:
    return jnp.floor((ids % FACE) / 8.0)


def _picked(index: Array, values: object) -> Vec:
    """The value of this index."""
    x = y = jnp.zeros_like(index)
    for k, (vx, vy) in enumerate(values):  # type: ignore[arg-type, var-annotated]
        x, y = jnp.where(index == k, vx, x), jnp.where(index == k, vy, y)
    return x, y


def _either(condition: Array, one: Vec, other: Vec) -> Vec:
    return jnp.where(condition, one[0], other[0]), jnp.where(condition, one[1], other[1])


def _smallest(values: list[Array]) -> Array:
    least = values[0]
    for value in values[1:]:
        least = jnp.minimum(least, value)
    return least


def _minus(a: Vec, b: Vec) -> Vec:
    return a[0] - b[0], a[1] - b[1]


def _dot(a: Vec, b: Vec) -> Array:
    return a[0] * b[0] + a[1] * b[1]
