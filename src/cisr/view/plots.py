"""What is drawn over two axes, as data: the lines, colours, labels and extents that every painter starts from.

`svg.drawn` paints a plot for the page, `figures.paint` with matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from cisr.experiments.statistics import standard_error
from cisr.training import Transcript, UnitLog
from cisr.view.words import several

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Distinguishable by colour-blind readers (Okabe and Ito)."""
UNTAUGHT = "#999999"
DANGER = "#b00020"
DASHED = "6 3"
"""A line whose colour another one has already."""

Point = tuple[float, float]
Groups = Mapping[str, Sequence[Transcript]]
"""Students by curriculum."""


@dataclass(frozen=True, kw_only=True)
class Line:
    points: Sequence[Point]
    colour: str
    width: float = 2
    dash: str = ""
    """As SVG has it: lengths of dashes and gaps."""
    label: str = ""
    """Where there is a legend."""


@dataclass(frozen=True, kw_only=True)
class Band:
    lows: Sequence[Point]
    highs: Sequence[Point]
    colour: str


@dataclass(frozen=True, kw_only=True)
class Dot:
    at: Point
    colour: str
    radius: float = 2.5
    hollow: bool = False
    crossed: bool = False
    """A cross instead of a dot."""
    hover: str = ""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Plot:
    title: str
    x_label: str
    y_label: str
    x: tuple[float, float]
    y: tuple[float, float]
    marks: Sequence[Line | Band | Dot]
    whole_x: bool = False
    """Whether x counts something."""
    described: str = ""
    """What screen readers say; the title, unless told."""


def palette(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name; `none` is grey."""
    others = [name for name in dict.fromkeys(names) if name != "none"]
    return {**{name: COLOURS[k % len(COLOURS)] for k, name in enumerate(others)}, "none": UNTAUGHT}


def padded(values: Iterable[float]) -> tuple[float, float]:
    """A range that shows all finite values with some air; one unit around a single value."""
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    air = 0.05 * (high - low)
    if high - low < 1e-9:
        air = 0.5 if low == 0 else abs(low) * 0.5
    return low - air, high + air


def around(points: Iterable[tuple[Point, float]], colour: str) -> Band:
    """The band of so much to either side of each point."""
    known = list(points)
    lows, highs = ([(x, y + side * spread) for (x, y), spread in known] for side in (-1, 1))
    return Band(lows=lows, highs=highs, colour=colour)


def unit_plot(
    groups: Groups,
    colours: Mapping[str, str],
    value: Callable[[UnitLog], float | None],
    title: str,
    y_label: str,
    y: tuple[float, float] | None = None,
) -> Plot | None:
    """A value by interaction unit: its mean over the students that have done the unit and have not failed, with one
    standard error to either side. None if there is nothing to show."""
    marks: list[Line | Band | Dot] = []
    n_units, drawn = 0, set()
    for label, students in groups.items():
        measured = [[v for unit in t.units if (v := value(unit)) is not None] for t in students if t.error is None]
        units = [[one[k] for one in measured if len(one) > k] for k in range(max(map(len, measured), default=0))]
        n_units, colour = max(n_units, len(units)), colours[label]
        points = [(float(k), fmean(values)) for k, values in enumerate(units, 1)]
        sems = [standard_error(values) for values in units]
        dash = DASHED if colour in drawn else ""
        drawn.add(colour)
        marks.append(around([(at, sem) for at, sem in zip(points, sems, strict=True) if sem is not None], colour))
        marks.append(Line(points=points, colour=colour, dash=dash, label=label))
        for (k, mean), sem, values in zip(points, sems, units, strict=True):
            spread = "" if sem is None else f" ± {sem:.2g}"
            hover = f"{label}, unit {k:.0f}: {mean:.4g}{spread} ({several(len(values), 'student')})"
            marks.append(Dot(at=(k, mean), colour=colour, radius=2, hover=hover))
    if not n_units:
        return None
    ends = [end for mark in marks if isinstance(mark, Band) for _, end in (*mark.lows, *mark.highs)]
    ends += [mean for mark in marks if isinstance(mark, Line) for _, mean in mark.points]
    x = (1.0, float(n_units)) if n_units > 1 else (0.5, 1.5)
    return Plot(
        title=title, x_label="interaction unit", y_label=y_label, x=x, y=y or padded(ends), marks=marks, whole_x=True
    )


def learning_curves(groups: Groups, colours: Mapping[str, str]) -> tuple[list[Plot], str]:
    """Success and return by unit, and where that was: in the deployments after each unit where there are any,
    otherwise in training. No plots before the first unit is done."""
    logs = [unit for students in groups.values() for t in students for unit in t.units]
    deployed = bool(logs) and all(unit.deployment is not None for unit in logs)

    def success(unit: UnitLog) -> float | None:
        return unit.deployment.success if deployed and unit.deployment else unit.success

    def mean_return(unit: UnitLog) -> float:
        return unit.deployment.mean_return if deployed and unit.deployment else unit.mean_return

    left = unit_plot(groups, colours, success, "Success", "success rate", (-0.02, 1.02))
    right = unit_plot(groups, colours, mean_return, "Return", "mean return")
    where = "deployed without a teacher after each unit" if deployed else "in training, under the teacher"
    return [plot for plot in (left, right) if plot is not None], where


def training_curves(groups: Groups, colours: Mapping[str, str], constraints: Sequence[str]) -> list[Plot]:
    """Rescues, failures and the multiplier of each constraint, by unit."""

    def multiplier(k: int) -> Callable[[UnitLog], float | None]:
        return lambda unit: unit.multipliers[k] if k < len(unit.multipliers) else None

    plots = [
        unit_plot(groups, colours, lambda unit: unit.rescues, "Rescues in training", "per student and unit"),
        unit_plot(groups, colours, lambda unit: unit.failures, "Failures in training", "per student and unit"),
        *(
            unit_plot(groups, colours, multiplier(k), f"Multiplier λ for {what}", "λ after the unit")
            for k, what in enumerate(constraints)
        ),
    ]
    return [plot for plot in plots if plot is not None]
