"""Drawing for the page: the few SVG elements that its figures are made of, and plots painted with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from cisr.view.plots import Band, Dot, Line, Plot, Point

GRID, AXIS, INK = "#e4e4e4", "#555", "#444"


def element(name: str, *inside: str, hover: str = "", **attributes: Any) -> Markup:
    """An element; what is empty is left out of its attributes, `_` in their names stands for a dash."""
    said = "".join(
        f' {key.replace("_", "-")}="{escape(f"{round(value, 1):g}" if isinstance(value, float) else value)}"'
        for key, value in attributes.items()
        if value not in ("", None)
    )
    title = [element("title", hover)] if hover else []
    return Markup(f"<{name}{said}>{Markup().join([*title, *inside])}</{name}>")


def svg(width: float, height: float, body: Iterable[Markup], label: str) -> Markup:
    """A figure that scales with its column; `label` is read out by screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *body, viewBox=box, width=float(width), height=float(height), role="img", aria_label=label)


def text(x: float, y: float, words: str | int, *, anchor: str = "start", turn: float = 0, **style: Any) -> Markup:
    turned = f"rotate({turn:g} {x:.1f} {y:.1f})" if turn else ""
    return element(
        "text", str(words) if isinstance(words, int) else words, x=x, y=y, text_anchor=anchor, transform=turned, **style
    )


def rect(x: float, y: float, width: float, height: float, fill: str, *, hover: str = "", stroke: str = "") -> Markup:
    return element("rect", x=x, y=y, width=float(width), height=float(height), fill=fill, stroke=stroke, hover=hover)


def segment(
    x1: float, y1: float, x2: float, y2: float, colour: str = AXIS, *, width: float = 1, dash: str = ""
) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, stroke_dasharray=dash)


def dot(x: float, y: float, colour: str, *, hollow: bool = False, radius: float = 2.5, hover: str = "") -> Markup:
    fill = "#fff" if hollow else colour
    return element("circle", cx=x, cy=y, r=radius, fill=fill, stroke=colour, stroke_width=1.5, hover=hover)


def cross(x: float, y: float, colour: str, *, size: float = 4, hover: str = "") -> Markup:
    span = 2 * size
    lines = f"M{x - size:.1f} {y - size:.1f}l{span:g} {span:g}m0 {-span:g}l{-span:g} {span:g}"
    return element("path", d=lines, stroke=colour, stroke_width=2, fill="none", hover=hover)


def ticks(low: float, high: float, *, about: int = 5, whole: bool = False) -> list[float]:
    """Round numbers within [low, high], a step of 1, 2 or 5 times a power of ten apart."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.7)
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """A number for a figure: three digits, thousands apart."""
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return shown.replace("-", "−")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The plotting area of a figure: axes, and the way from data to pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float = 470
    height: float = 270
    left: float = 62
    right: float = 12
    top: float = 28
    bottom: float = 44

    @property
    def floor(self) -> float:
        return self.height - self.bottom

    def across(self, x: float) -> float:
        low, high = self.x
        return self.left + (x - low) / (high - low) * (self.width - self.left - self.right)

    def down(self, y: float) -> float:
        low, high = self.y
        return self.floor - (y - low) / (high - low) * (self.floor - self.top)

    def x_axis(self, label: str, *, about: int = 5, whole: bool = False, grid: bool = False) -> Markup:
        parts = []
        for tick in ticks(*self.x, about=about, whole=whole):
            x = self.across(tick)
            parts += [segment(x, self.top, x, self.floor, GRID)] if grid else []
            parts += [segment(x, self.floor, x, self.floor + 4)]
            parts += [text(x, self.floor + 17, short(tick), anchor="middle", fill=INK)]
        parts.append(segment(self.left, self.floor, self.width - self.right, self.floor))
        middle = (self.left + self.width - self.right) / 2
        return Markup().join([*parts, text(middle, self.height - 6, label, anchor="middle")])

    def y_axis(self, label: str) -> Markup:
        parts = []
        for y in ticks(*self.y):
            parts.append(segment(self.left, self.down(y), self.width - self.right, self.down(y), GRID))
            parts.append(text(self.left - 6, self.down(y) + 4, short(y), anchor="end", fill=INK))
        parts.append(segment(self.left, self.top, self.left, self.floor))
        return Markup().join([*parts, text(13, (self.top + self.floor) / 2, label, anchor="middle", turn=-90)])

    def spots(self, points: Sequence[Point]) -> str:
        return " ".join(f"{self.across(x):.1f},{self.down(y):.1f}" for x, y in points)

    def mark(self, mark: Line | Band | Dot) -> Markup:
        look: dict[str, Any]
        match mark:
            case Line(points=points, colour=colour, width=width, dash=dash):
                look = {"stroke": colour, "stroke_width": width, "stroke_dasharray": dash}
                return element("polyline", points=self.spots(points), fill="none", **look)
            case Band(lows=lows, highs=highs, colour=colour):
                low, high = self.y
                edge = [(x, min(max(y, low), high)) for x, y in (*highs, *reversed(lows))]
                return element("polygon", points=self.spots(edge), fill=colour, fill_opacity="0.18")
            case Dot(at=(x, y), crossed=True):
                return cross(self.across(x), self.down(y), mark.colour, hover=mark.hover)
            case Dot(at=(x, y)):
                look = {"hollow": mark.hollow, "radius": mark.radius, "hover": mark.hover}
                return dot(self.across(x), self.down(y), mark.colour, **look)


def drawn(plot: Plot, **size: float) -> Markup:
    """A plot of some size."""
    frame = Frame(x=plot.x, y=plot.y, **size)
    return svg(frame.width, frame.height, [plotted(plot, frame)], plot.described or plot.title)


def plotted(plot: Plot, frame: Frame) -> Markup:
    """What is drawn of a plot in a frame, for figures that draw more over it."""
    parts = [text(frame.left, 16, plot.title, font_weight="600")] if plot.title else []
    parts += [frame.y_axis(plot.y_label)]
    parts += [frame.x_axis(plot.x_label, about=8 if plot.whole_x else 5, whole=plot.whole_x)]
    return Markup().join([*parts, *(frame.mark(mark) for mark in plot.marks)])
