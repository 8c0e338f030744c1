"""The page's other figures: bars with intervals, what a teacher believes, timelines, legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup

from cisr.curricula import Observation, Switching
from cisr.experiments.statistics import Estimate
from cisr.training import Transcript, UnitLog
from cisr.view.plots import COLOURS, DANGER, UNTAUGHT, padded
from cisr.view.svg import Frame, cross, dot, element, rect, segment, short, svg, text
from cisr.view.words import fixed, in_words, interval, missing, several

HEIGHT = 20
"""Of a bar or of a policy."""
MOST_POLICIES = 40
SMALL, SMALL_GAP = 9, 4
LARGE, LARGE_GAP = 18, 6
MANY = 60
"""Students whose lines are thin, unless their cells must be named."""


def key(mark: Markup, name: str) -> Markup:
    return element("span", svg(16, 16, [mark], ""), name, **{"class": "key"})


def legend(colours: Mapping[str, str]) -> Markup:
    """Names beside their colours; one that has come before is shown broken, as its curve is dashed."""
    keys, seen = [], set()
    for name, colour in colours.items():
        whole = [rect(1, 2, 14, 12, colour)]
        broken = [rect(1, 2, 5, 12, colour), rect(10, 2, 5, 12, colour)]
        keys.append(key(Markup().join(broken if colour in seen else whole), name))
        seen.add(colour)
    return element("p", *keys, **{"class": "legend"})


class Bar(NamedTuple):
    label: str
    colour: str
    estimate: Estimate
    unknown: int = 0
    """Students of whom it is not known."""


def bars(shown: Sequence[Bar], title: str, x_label: str, *, without: str) -> Markup:
    """Horizontal bars, with 95 % intervals where there are any; `without` is said where nothing is known."""
    ends = [end for bar in shown for end in (bar.estimate.mean, bar.estimate.high) if end is not None]
    left = 24 + 7 * min(max((len(bar.label) for bar in shown), default=0), 22)
    top = max([*ends, 0.0]) * 1.15 or 1.0
    frame = Frame(x=(0.0, top), y=(0.0, 1.0), height=72 + HEIGHT * len(shown), left=left, right=64)
    parts = [text(10, 16, title, font_weight="600"), frame.x_axis(x_label, grid=True)]
    for k, bar in enumerate(shown):
        y, estimate = frame.top + k * HEIGHT, bar.estimate
        parts.append(text(left - 6, y + 14, _cut(bar.label, 22), anchor="end"))
        if estimate.mean is None:
            parts.append(text(left + 4, y + 14, without, fill="#666"))
            continue
        end = frame.across(estimate.mean)
        between = interval(estimate.low, estimate.high)
        hover = f"{bar.label}: {missing(f'{estimate.mean:.4g}', bar.unknown)}"
        hover += f", 95 % interval {between}" if between else ""
        parts.append(rect(left, y + 4, end - left, HEIGHT - 8, bar.colour, hover=hover))
        if estimate.low is not None and estimate.high is not None:
            low, high = frame.across(estimate.low), frame.across(estimate.high)
            parts.append(segment(low, y + HEIGHT / 2, high, y + HEIGHT / 2, "#222", width=1.5))
            end = max(end, high)
        parts.append(text(end + 5, y + 14, missing(short(estimate.mean), bar.unknown)))
    parts.append(segment(left, frame.top, left, frame.floor))
    return svg(frame.width, frame.height, parts, title)


@dataclass(frozen=True, kw_only=True)
class BelievedPolicy:
    """A policy as its teacher sees it, however often it was tried."""

    parameters: Mapping[str, float | str]
    policy: Mapping[str, Any]
    """As JSON."""
    numbers: tuple[int, ...]
    """Which policies of the search it was, counted from 1."""
    students: int
    expected: float
    bound: float
    best: bool

    @property
    def label(self) -> str:
        """The interventions that students meet: not a first one that (0, 0) skips, and equal neighbours once."""
        policy = Switching.from_parameters(dict(self.parameters))
        skipped = bool(policy.thresholds) and policy.thresholds[0].passed(Observation())
        met = " → ".join(name for name, _ in groupby(policy.interventions[skipped:]))
        tried = ", ".join(map(str, self.numbers[:3])) + ("…" if len(self.numbers) > 3 else "")
        return f"{met} (policy {tried})"

    @property
    def hover(self) -> str:
        tried = several(self.students, "student")
        return f"expected {self.expected:.4g}, at least {self.bound:.4g}; {tried}. {in_words(self.policy)}"


def beliefs(policies: Sequence[BelievedPolicy]) -> Markup:
    """From the bound on each policy to what is expected of it, the surest at the top."""
    shown = policies[:MOST_POLICIES]
    x = padded([end for policy in shown for end in (policy.bound, policy.expected)])
    frame = Frame(x=x, y=(0, 1), width=960, height=72 + HEIGHT * len(shown), left=250, right=90)
    title = "What the teacher believes of each policy"
    parts = [
        text(frame.left, 16, title, font_weight="600"),
        text(frame.width - 8, 16, "students", anchor="end"),
        frame.x_axis("mean score of new students", about=8, grid=True),
    ]
    for k, policy in enumerate(shown):
        y = frame.top + HEIGHT * (k + 0.5)
        colour, weight = (COLOURS[1], "600") if policy.best else (COLOURS[0], "400")
        low, mean = frame.across(policy.bound), frame.across(policy.expected)
        marks = [
            text(frame.left - 8, y + 4, policy.label, anchor="end", font_weight=weight),
            segment(low, y, mean, y, colour, width=2),
            segment(low, y - 4, low, y + 4, colour, width=2),
            dot(mean, y, colour, radius=4),
            text(frame.width - 8, y + 4, policy.students, anchor="end", font_weight=weight),
        ]
        parts.append(element("g", *marks, hover=policy.hover))
    return svg(frame.width, frame.height, parts, title)


class Lines(NamedTuple):
    """Students of a timeline."""

    groups: dict[str, list[Transcript]]
    shown: int
    students: int

    def __str__(self) -> str:
        if self.shown == self.students:
            return f"each of {several(self.students, 'student')}"
        return f"{self.shown} of {self.students:,} students, those in training first; the report has all"


def lines(groups: Mapping[str, Sequence[Transcript]], most: int | None) -> Lines:
    """The students of a timeline, `most` of them: those in training first, then who finished or failed last."""
    students = [t for group in groups.values() for t in group]
    if most is None or len(students) <= most:
        return Lines({label: list(group) for label, group in groups.items()}, len(students), len(students))
    ended = [bool(t.deployment or t.error) + 2 * (not t.units) for t in students]
    order = sorted(range(len(students)), key=lambda k: (ended[k], -k))
    chosen = {students[k].name for k in order[:most]}
    kept = {label: [t for t in group if t.name in chosen] for label, group in groups.items()}
    return Lines({label: group for label, group in kept.items() if group}, most, len(students))


def timeline(groups: Mapping[str, Sequence[Transcript]], colours: Mapping[str, str], n_units: int) -> Markup:
    """A cell for each unit of each student, in the colour of its intervention; a bar where a student started over."""
    met = {unit.intervention for students in groups.values() for student in students for unit in student.units}
    unclear = len({colours.get(name) for name in met}) < len(met)  # then cells need the room to be named
    n_students = sum(map(len, groups.values()))
    height, gap = (LARGE, LARGE_GAP) if n_students <= MANY or unclear else (SMALL, SMALL_GAP)
    left = 16 + 6.6 * min(max(map(len, groups), default=0), 30)
    cell = min(52.0, 640 / max(n_units, 1))
    every = 1 if n_units <= 20 else 5 * -(-n_units // 100)
    parts = [
        text(left + (unit - 0.5) * cell, 14, unit, anchor="middle", fill="#444")
        for unit in sorted({1, *range(every, n_units + 1, every)} if n_units else ())
    ]
    y = 20.0
    for label, students in groups.items():
        parts.append(text(left - 6, y + height / 2 + 4, _cut(label, 30), anchor="end"))
        for student in students:
            for unit in student.units:
                x = left + (unit.unit - 1) * cell
                parts += _unit(student, unit, colours.get(unit.intervention, UNTAUGHT), x, y, cell, height)
            if student.error:
                x = left + len(student.units) * cell + 9
                parts.append(cross(x, y + height / 2, DANGER, size=3.5, hover=student.error))
            y += height
        y += gap
    return svg(left + n_units * cell + 28, y + 6, parts, "The intervention of each student in each unit")


def _unit(
    student: Transcript, unit: UnitLog, colour: str, x: float, y: float, width: float, height: float
) -> list[Markup]:
    begun_anew = unit.unit in student.fresh_starts
    hover = (
        f"{student.name}, unit {unit.unit}: {unit.intervention}; return {unit.mean_return:.3g}, "
        f"violation {unit.violation:.3g}, {fixed(unit.rescues, 0)} rescues, {fixed(unit.failures, 0)} failures"
    )
    if unit.evaluation is not None:
        hover += f"; tried in M_0: return {unit.evaluation.mean_return:.3g}"
        hover += f", {several(unit.evaluation.failures, 'failure')}" if unit.evaluation.failures else ""
        hover += ", handed in" if unit.unit == student.handed_in else ""
    hover += "; begun anew, with new weights" if begun_anew else ""
    drawn = [rect(x, y, width - 1, height - 1, colour, hover=hover)]
    if begun_anew:
        drawn.append(rect(x - 2, y, 4, height - 1, "#000000", hover=hover))
    if height == LARGE and width >= 7 * len(unit.intervention) + 2:
        ink, at = "#fff" if _dark(colour) else "#000", (x + width / 2, y + height / 2 + 4)
        drawn.append(text(*at, unit.intervention, anchor="middle", fill=ink, pointer_events="none"))
    return drawn


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def _cut(label: str, most: int) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
