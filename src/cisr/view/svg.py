"""Drawing by hand: the few SVG pieces that the report's figures are made of. Everything here returns text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Distinguishable by colour-blind readers (Okabe and Ito); the last, grey, stands for `none`."""

DANGER = "#b00020"


def esc(text: object) -> str:
    """Text that is safe between tags and inside quoted attributes."""
    return escape(str(text), quote=True)


def svg(width: float, height: float, body: Iterable[str], label: str) -> str:
    """A figure that scales with its column; `label` is read out by screen readers."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{esc(label)}">{"".join(body)}</svg>'
    )


def text(x: float, y: float, words: object, *, anchor: str = "start", turn: float = 0, **style: str) -> str:
    turned = f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
    extra = "".join(f' {name.replace("_", "-")}="{esc(value)}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}{extra}>{esc(words)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, *, hover: str = "", stroke: str = "none") -> str:
    shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{stroke}"'
    return f"{shape}><title>{esc(hover)}</title></rect>" if hover else f"{shape}/>"


def segment(
    x1: float, y1: float, x2: float, y2: float, colour: str = "#555", *, width: float = 1, dash: str = ""
) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashed}/>'
    )


def dot(x: float, y: float, colour: str, *, hollow: bool = False, radius: float = 2.5, hover: str = "") -> str:
    fill = "#fff" if hollow else colour
    title = f"<title>{esc(hover)}</title>" if hover else ""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
        f"{title}</circle>"
    )


def cross(x: float, y: float, colour: str, *, size: float = 4, hover: str = "") -> str:
    title = f"<title>{esc(hover)}</title>" if hover else ""
    span = 2 * size
    return (
        f'<path d="M{x - size:.1f} {y - size:.1f}l{span:g} {span:g}m0 {-span:g}l{-span:g} {span:g}" '
        f'stroke="{colour}" stroke-width="2" fill="none">{title}</path>'
    )


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


def number(value: float) -> str:
    """A number for a figure: three digits, thousands apart."""
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return shown.replace("-", "−")


def padded(values: Iterable[float], *, least: float = 1e-9) -> tuple[float, float]:
    """A range that shows all finite values with some air; one unit around a single value."""
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < least:
        air = 0.5 if low == 0 else abs(low) * 0.5
        return low - air, high + air
    air = 0.05 * (high - low)
    return low - air, high + air


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

    def across(self, x: float) -> float:
        low, high = self.x
        return self.left + (x - low) / (high - low) * (self.width - self.left - self.right)

    def down(self, y: float) -> float:
        low, high = self.y
        return self.height - self.bottom - (y - low) / (high - low) * (self.height - self.top - self.bottom)

    def axes(self, title: str, x_label: str, y_label: str, *, whole_x: bool = False) -> str:
        floor, left, right = self.height - self.bottom, self.left, self.width - self.right
        parts = [text(left, 16, title, font_weight="600")]
        for y in ticks(*self.y):
            parts += [segment(left, self.down(y), right, self.down(y), "#e4e4e4")]
            parts += [text(left - 6, self.down(y) + 4, number(y), anchor="end", fill="#444")]
        for x in ticks(*self.x, about=8 if whole_x else 5, whole=whole_x):
            parts += [segment(self.across(x), floor, self.across(x), floor + 4)]
            parts += [text(self.across(x), floor + 17, number(x), anchor="middle", fill="#444")]
        parts += [segment(left, floor, right, floor), segment(left, self.top, left, floor)]
        parts += [text((left + right) / 2, self.height - 6, x_label, anchor="middle")]
        parts += [text(13, (self.top + floor) / 2, y_label, anchor="middle", turn=-90)]
        return "".join(parts)

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, *, width: float = 2, dash: str = "") -> str:
        points = [f"{self.across(x):.1f},{self.down(y):.1f}" for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'

    def band(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], colour: str) -> str:
        there = [(x, y) for x, y in zip(xs, highs, strict=True) if math.isfinite(y)]
        back = [(x, y) for x, y in zip(xs, lows, strict=True) if math.isfinite(y)][::-1]
        bottom, top = self.y
        points = [f"{self.across(x):.1f},{self.down(min(max(y, bottom), top)):.1f}" for x, y in there + back]
        return f'<polygon points="{" ".join(points)}" fill="{colour}" fill-opacity="0.18"/>'
