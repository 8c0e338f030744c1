"""The kinds of figures in the report: curves with bands, bars with intervals, timelines, maps of tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cisr.experiments.statistics import Estimate, standard_error
from cisr.training import Transcript, UnitLog
from cisr.view.svg import DANGER, Frame, cross, dot, esc, number, padded, rect, segment, svg, text, ticks
from cisr.view.words import missing

ROW = 20
"""Height of one row of a timeline or of a bar chart."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A mean over students by unit, with one standard error to either side."""

    label: str
    colour: str
    mean: tuple[float, ...]
    sem: tuple[float, ...]
    """NaN where a single student has come so far: no band there."""
    students: tuple[int, ...]
    dash: str = ""
    """For a colour that another curve has already."""


def curve_of(
    label: str, colour: str, transcripts: Iterable[Transcript], value: Callable[[UnitLog], float | None]
) -> Curve:
    """By unit, over the students that have done it and have not failed."""
    rows = [[v for unit in t.units if (v := value(unit)) is not None] for t in transcripts if t.error is None]
    columns = [[row[k] for row in rows if len(row) > k] for k in range(max(map(len, rows), default=0))]
    return Curve(
        label=label,
        colour=colour,
        mean=tuple(float(np.mean(c)) for c in columns),
        sem=tuple(standard_error(c) for c in columns),
        students=tuple(len(c) for c in columns),
    )


def curves(
    shown: Sequence[Curve], title: str, y_label: str, *, y: tuple[float, float] | None = None, width: float = 470
) -> str:
    """Curves over interaction units; "" if there is nothing to show."""
    drawn = [curve for curve in shown if curve.mean]
    if not drawn:
        return ""
    ends = [end for c in drawn for m, s in zip(c.mean, c.sem, strict=True) for end in (m - s, m, m + s)]
    n_units = max(len(c.mean) for c in drawn)
    frame = Frame(x=(1, n_units) if n_units > 1 else (0.5, 1.5), y=y or padded(ends), width=width)
    parts = [frame.axes(title, "interaction unit", y_label, whole_x=True)]
    for c in drawn:
        units = range(1, len(c.mean) + 1)
        lows, highs = ([m + side * s for m, s in zip(c.mean, c.sem, strict=True)] for side in (-1, 1))
        parts += [frame.band(units, lows, highs, c.colour), frame.line(units, c.mean, c.colour, dash=c.dash)]
        for unit, mean, sem, n in zip(units, c.mean, c.sem, c.students, strict=True):
            spread = "" if math.isnan(sem) else f" ± {sem:.2g}"
            hover = f"{c.label}, unit {unit}: {mean:.4g}{spread} ({n} student{'s' * (n > 1)})"
            parts.append(dot(frame.across(unit), frame.down(mean), c.colour, radius=2, hover=hover))
    return svg(frame.width, frame.height, parts, title)


def legend(colours: Mapping[str, str]) -> str:
    """Names beside their colours; one that has come before is shown broken, as its curve is dashed."""
    keys, seen = [], set()
    for name, colour in colours.items():
        swatch = (
            [rect(0, 0, 5, 12, colour), rect(9, 0, 5, 12, colour)] if colour in seen else [rect(0, 0, 14, 12, colour)]
        )
        keys.append(f'<span class="key">{svg(14, 12, swatch, "")}{esc(name)}</span>')
        seen.add(colour)
    return f'<p class="legend">{"".join(keys)}</p>'


def bars(rows: Sequence[tuple[str, str, Estimate, int]], title: str, x_label: str, *, without: str) -> str:
    """A horizontal bar for each (label, colour, estimate, students of whom it is unknown), with its 95 % interval where
    it has one.

    `without` is said where there is nothing to estimate.
    """
    ends = [end for _, _, e, _ in rows for end in (e.mean, e.high) if math.isfinite(end)]
    top = max([*ends, 0.0]) * 1.15 or 1.0
    left = 24 + 7 * min(max((len(label) for label, *_ in rows), default=0), 22)
    height = 28 + 44 + ROW * len(rows)
    frame = Frame(x=(0.0, top), y=(0.0, 1.0), height=height, left=left, right=64)
    floor = height - frame.bottom
    parts = [text(10, 16, title, font_weight="600")]
    for x in ticks(0.0, top):
        parts.append(segment(frame.across(x), frame.top, frame.across(x), floor, "#e4e4e4"))
        parts.append(text(frame.across(x), floor + 17, number(x), anchor="middle", fill="#444"))
    for k, (label, colour, e, unknown) in enumerate(rows):
        y = frame.top + k * ROW
        parts.append(text(left - 6, y + 14, _cut(label, 22), anchor="end"))
        if math.isnan(e.mean):
            parts.append(text(left + 4, y + 14, without, fill="#666"))
            continue
        interval = "" if math.isnan(e.low) else f", 95 % interval [{e.low:.4g}, {e.high:.4g}]"
        hover = f"{label}: {missing(f'{e.mean:.4g}', unknown)}{interval}"
        parts.append(rect(left, y + 4, frame.across(e.mean) - left, ROW - 8, colour, hover=hover))
        if interval:
            low, high = frame.across(e.low), frame.across(e.high)
            parts.append(segment(low, y + ROW / 2, high, y + ROW / 2, "#222", width=1.5))
        end = frame.across(max(e.mean, e.high if interval else e.mean))
        parts.append(text(end + 5, y + 14, missing(number(e.mean), unknown)))
    parts.append(segment(left, frame.top, left, floor))
    parts.append(text((left + frame.width - frame.right) / 2, height - 6, x_label, anchor="middle"))
    return svg(frame.width, height, parts, title)


def timeline(groups: Sequence[tuple[str, Sequence[Transcript]]], colours: Mapping[str, str], n_units: int) -> str:
    """One row for each student of each (label, students), one cell for each unit in the colour of its intervention; a
    bar where a student started over."""
    rows = [("" if k else label, student) for label, students in groups for k, student in enumerate(students)]
    met = {unit.intervention for _, student in rows for unit in student.units}
    unclear = len({colours.get(name) for name in met}) < len(met)  # then cells need the room to be named
    row, gap = (18, 6) if len(rows) <= 60 or unclear else (9, 4)
    longest = max((len(label) for label, _ in groups), default=0)
    left = 16 + 6.6 * min(longest, 30)
    cell = min(52.0, 640 / max(n_units, 1))
    width, height = left + n_units * cell + 28, 26 + row * len(rows) + gap * len(groups)
    parts = [
        text(left + (unit - 0.5) * cell, 14, unit, anchor="middle", fill="#444")
        for unit in range(1, n_units + 1)
        if n_units <= 20 or unit % 5 == 0 or unit == 1
    ]
    y = 20.0 - gap - row
    for label, student in rows:
        y += row + (gap if label else 0)
        if label:
            parts.append(text(left - 6, y + row / 2 + 4, _cut(label, 30), anchor="end"))
        for unit in student.units:
            x = left + (unit.unit - 1) * cell
            colour = colours.get(unit.intervention, "#999999")
            hover = (
                f"{student.name}, unit {unit.unit}: {unit.intervention}; return {unit.mean_return:.3g}, "
                f"violation {unit.violation:.3g}, {unit.rescues:,} rescues, {unit.failures:,} failures"
            )
            if unit.evaluation is not None:
                hover += f"; tried in M_0: return {unit.evaluation.mean_return:.3g}"
                hover += ", handed in" if unit.unit == student.handed_in else ""
            if unit.unit in student.fresh_starts:
                hover += "; begun anew, with new weights"
            parts.append(rect(x, y, cell - 1, row - 1, colour, hover=hover))
            if unit.unit in student.fresh_starts:
                parts.append(rect(x - 2, y, 4, row - 1, "#000000", hover=hover))
            if row >= 14 and cell >= 7 * len(unit.intervention) + 2:
                ink = "#fff" if _dark(colour) else "#000"
                name = text(x + cell / 2, y + row / 2 + 4, unit.intervention, anchor="middle", fill=ink)
                parts.append(name.replace("<text", '<text pointer-events="none"', 1))
        if student.error:
            parts.append(
                cross(left + len(student.units) * cell + 9, y + row / 2, DANGER, size=3.5, hover=student.error)
            )
    return svg(width, height, parts, "The intervention of each student in each unit")


def tiles(
    rows: Sequence[str], title: str, fill: Callable[[int, str], str], hover: Callable[[int, str], str], size: float = 22
) -> str:
    """A map, tile by tile; lakes are framed and waved, start and goal carry their letters."""
    width, height = size * max(map(len, rows)) + 2, size * len(rows) + 24
    parts, shade = [text(1, 14, title, font_weight="600")], 0
    for i, letters in enumerate(rows):
        for j, letter in enumerate(letters):
            x, y = 1 + j * size, 22 + i * size
            parts.append(rect(x, y, size, size, fill(shade, letter), hover=hover(shade, letter), stroke="#c8c8c8"))
            if letter == "H":
                parts.append(_wave(x, y, size))
            elif letter in "SG":
                mark = text(x + size / 2, y + size / 2 + 4, letter, anchor="middle", font_weight="700", fill="#000")
                halo = mark.replace("<text", '<text stroke="#fff" stroke-width="3" paint-order="stroke"', 1)
                parts.append(halo)
            shade += 1
    return svg(max(width, 7.4 * len(title)), height, parts, title)


def _wave(x: float, y: float, size: float) -> str:
    q = (size - 6) / 4
    lines = "".join(f"M{x + 3:.1f} {y + size * at:.1f}q{q:g} -5 {2 * q:g} 0t{2 * q:g} 0" for at in (0.42, 0.72))
    framed = f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{size - 2:g}" height="{size - 2:g}"'
    return f'<g fill="none" stroke="#000" stroke-width="1.4" pointer-events="none">{framed}/><path d="{lines}"/></g>'


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def _cut(label: str, most: int) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
