"""Grid worlds: their tiles, coloured once and painted for the page and with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from cisr.view.plots import Groups
from cisr.view.svg import element, rect, svg, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WATER = "#7fb0d6"
TILES = {"H": WATER, "G": "#c9e8c1"}
GROUND, TRIGGER = "#ffffff", "#fbd991"
EDGE, INK = "#c8c8c8", "#33404d"
SHADES = ((255, 255, 255), (199, 224, 244), (86, 160, 211), (8, 81, 156), (8, 29, 88))
"""From never to often; it darkens steadily, so it reads in grey as well."""
LETTERED = 24
"""Widest map on which tiles carry letters."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    title: str
    plan: Sequence[str]
    """A letter for each tile, line by line: S start, G goal, H danger."""
    fills: Sequence[str]
    """A colour for each tile."""
    hovers: Sequence[str] = ()

    @property
    def width(self) -> int:
        return max(map(len, self.plan))


def zone_grid(title: str, plan: Sequence[str], zone: Collection[int], name: str, colour: str = TRIGGER) -> Grid:
    """Where an intervention triggers."""
    letters = "".join(plan)
    return Grid(
        title=title,
        plan=plan,
        fills=[colour if k in zone else TILES.get(letter, GROUND) for k, letter in enumerate(letters)],
        hovers=[
            f"tile {k} ({letter})" + (f": {name} triggers here" if k in zone else "")
            for k, letter in enumerate(letters)
        ],
    )


def visit_grids(groups: Groups, plan: Sequence[str]) -> tuple[list[Grid], float]:
    """Where the final policies of each curriculum went, and the most steps on a tile; no grids where the backend does
    not count them."""
    letters = "".join(plan)
    means = {}
    for label, students in groups.items():
        counts = [t.deployment.visits for t in students if t.deployment and t.deployment.visits]
        if counts and len(counts[0]) == len(letters):
            means[label] = np.mean(np.array(counts, float), axis=0)  # (tiles,)
    most = max((float(mean.max()) for mean in means.values()), default=0.0)
    grids = [
        Grid(
            title=label,
            plan=plan,
            fills=[shade(math.log1p(steps) / math.log1p(most)) for steps in mean],
            hovers=[f"{label}, tile {k} ({letters[k]}): {steps:,.1f} steps" for k, steps in enumerate(mean)],
        )
        for label, mean in means.items()
        if most
    ]
    return grids, most


def shade(share: float) -> str:
    """A colour for a share between 0 and 1."""
    place = min(max(share, 0.0), 1.0) * (len(SHADES) - 1)
    k = min(int(place), len(SHADES) - 2)
    mixed = (round(a + (place - k) * (b - a)) for a, b in zip(SHADES[k], SHADES[k + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def drawn(grid: Grid, size: float = 22) -> Markup:
    """For the page, with its title."""
    parts = [text(1, 14, grid.title, font_weight="600"), tiles(grid, size)]
    return svg(max(size * grid.width + 2, 7.4 * len(grid.title)), size * len(grid.plan) + 24, parts, grid.title)


def tiles(grid: Grid, size: float = 22) -> Markup:
    """Dangers are framed and waved, start and goal carry their letters."""
    parts, k = [], 0
    for i, letters in enumerate(grid.plan):
        for j, letter in enumerate(letters):
            x, y = 1 + j * size, 22 + i * size
            parts.append(rect(x, y, size, size, grid.fills[k], hover=grid.hovers[k], stroke=EDGE))
            if letter == "H":
                parts.append(_wave(x, y, size))
            elif letter in "SG":
                halo: dict[str, Any] = {"stroke": "#fff", "stroke_width": 3, "paint_order": "stroke"}
                at = (x + size / 2, y + size / 2 + 4)
                parts.append(text(*at, letter, anchor="middle", font_weight="700", **halo))
            k += 1
    return Markup().join(parts)


def middle(grid: Grid, tile: int, size: float = 22) -> tuple[float, float]:
    """Where `drawn` has the middle of a tile."""
    row, column = divmod(tile, grid.width)
    return 1 + (column + 0.5) * size, 22 + (row + 0.5) * size


def scale(most: float) -> Markup:
    """What the shades of visits mean."""
    steps = [rect(110 + 2 * k, 4, 2.5, 12, shade(k / 100)) for k in range(101)]
    ends = [text(104, 14, "0 steps", anchor="end"), text(320, 14, f"{most:,.0f} steps")]
    return svg(420, 22, [*steps, *ends], "Scale")


def _wave(x: float, y: float, size: float) -> Markup:
    q = (size - 6) / 4
    lines = "".join(f"M{x + 3:.1f} {y + size * at:.1f}q{q:g} -5 {2 * q:g} 0t{2 * q:g} 0" for at in (0.42, 0.72))
    look: dict[str, Any] = {"fill": "none", "stroke": "#000", "stroke_width": 1.4, "pointer_events": "none"}
    return element("g", rect(x + 1, y + 1, size - 2, size - 2, ""), element("path", d=lines), **look)


def paint(axes: Axes, grid: Grid) -> None:
    """With matplotlib: the first tile is centred at (0.5, 0.5), y grows downwards."""
    height, width = len(grid.plan), grid.width
    tiles = np.array([list(bytes.fromhex(fill[1:])) for fill in grid.fills], np.uint8).reshape(height, width, 3)
    axes.imshow(tiles, extent=(0, width, height, 0), interpolation="nearest")
    thin = 0.8 if width <= LETTERED else 0.15
    axes.hlines(range(height + 1), 0, width, color=EDGE, linewidth=thin)
    axes.vlines(range(width + 1), 0, height, color=EDGE, linewidth=thin)
    if width <= LETTERED:
        for i, letters in enumerate(grid.plan):
            for j, letter in enumerate(letters):
                if letter in "SG":
                    axes.text(j + 0.5, i + 0.5, letter, color=INK, ha="center", va="center", weight="bold")
    axes.set(xlim=(-0.1, width + 0.1), ylim=(height + 0.1, -0.1), aspect="equal")
    axes.set_title(grid.title, fontsize=10)
    axes.set_axis_off()


def centre(grid: Grid, states: np.ndarray) -> np.ndarray:
    """The points (n, 2) of states (n, d), which begin with the number of a tile."""
    tiles = states[:, 0].astype(int)  # (n,)
    return np.stack([tiles % grid.width, tiles // grid.width], axis=-1) + 0.5
