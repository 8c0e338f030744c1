"""How far a run has come: the first section of the live page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from cisr.store.runs import PLANNED
from cisr.training import Transcript
from cisr.training.records import total
from cisr.view.contents import Contents
from cisr.view.live.pace import Pace
from cisr.view.plots import COLOURS, DANGER
from cisr.view.rendering import render
from cisr.view.svg import rect, svg, text
from cisr.view.words import failures_in_training, fixed, missing

HEADING = "Now"
MOST_IN_TRAINING, MOST_ERRORS = 12, 10
MOST_BARS = 100


def now_section(contents: Contents, pace: Pace, running: bool) -> Markup:
    students = contents.students
    finished = [t for t in students if t.deployment is not None]
    broken = [t for t in students if t.error is not None]
    learning = [t for t in students if t.deployment is None and t.error is None]
    begun = [t for t in learning if t.units]
    planned = max(sum(contents.settings.get(PLANNED, {}).get(name, 0) for name in contents.runs), len(students))
    units_in_all = planned * contents.n_units
    failures, unknown = failures_in_training(students)
    return render(
        "now.html",
        running=running,
        n_planned=planned,
        n_students=len(students),
        n_finished=len(finished),
        n_broken=len(broken),
        n_begun=len(begun),
        n_waiting=len(learning) - len(begun),
        units_done=(done := _units_done(students, contents.n_units)),
        units_in_all=units_in_all,
        rate=_rate(pace),
        left=_left(pace, units_in_all - done) if running else "",
        failures=missing(fixed(failures, 0), unknown),
        rescues=fixed(total([t.rescues for t in students]), 0),
        how_far=how_far(students, contents.n_units) if students and contents.n_units else "",
        in_training=[_line(t, contents.n_units) for t in begun[:MOST_IN_TRAINING]],
        more_in_training=max(len(begun) - MOST_IN_TRAINING, 0),
        news=list(pace.news),
        errors=[(t.name, len(t.units), t.error) for t in broken[-MOST_ERRORS:][::-1]],
        more_errors=max(len(broken) - MOST_ERRORS, 0),
    )


def _units_done(students: Sequence[Transcript], n_units: int) -> int:
    """A student that has finished need do no more; one that an error ended is taught again from the start."""
    return sum(n_units if t.deployment else 0 if t.error else len(t.units) for t in students)


def _rate(pace: Pace) -> str:
    rate = pace.rate
    if rate is None:
        return ""
    return f"{fixed(60 * rate.units / rate.at, 1)} units a minute, {fixed(rate.steps / rate.at, 0)} steps a second"


def _left(pace: Pace, units: int) -> str:
    rate = pace.rate
    return "" if rate is None or not rate.units else duration(units * rate.at / rate.units)


def duration(seconds: float) -> str:
    """Roughly, in words."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    if minutes < 90:
        return f"{minutes:.0f} minutes"
    hours = minutes / 60
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _line(t: Transcript, n_units: int) -> tuple[str, ...]:
    last = t.units[-1]
    return (
        t.name,
        f"{last.unit} of {n_units}",
        last.intervention,
        fixed(last.mean_return, 2),
        fixed(last.violation, 3),
        fixed(total([unit.total_rescues for unit in t.units]), 0),
        fixed(t.training_failures, 0),
    )


def how_far(students: Sequence[Transcript], n_units: int) -> Markup:
    """How many students have done so many units; those that finished and those that an error ended apart."""
    each = -(-(n_units + 1) // MOST_BARS)  # units that share a bar
    counts = Counter(len(t.units) // each for t in students if t.deployment is None and t.error is None)
    n_bars = n_units // each + 1
    bars = [(_range(k * each, min((k + 1) * each - 1, n_units)), counts[k], COLOURS[0]) for k in range(n_bars)]
    bars.append(("finished", sum(t.deployment is not None for t in students), COLOURS[2]))
    bars.append(("failed", sum(t.error is not None for t in students), DANGER))
    every, wide = max(1, (n_bars - 1) // (15 if each == 1 else 5)), 30.0 if n_bars <= 13 else 640 / n_bars
    most, height = max(n for _, n, _ in bars), 70.0
    parts, x = [], 4.0
    for k, (label, n, colour) in enumerate(bars):
        ends = k >= n_bars
        width = 64.0 if ends else wide
        tall = height * n / most
        parts.append(rect(x + 2, 18 + height - tall, width - 4, max(tall, 1.0), colour, hover=f"{label}: {n} students"))
        if n and (ends or wide >= 22):
            parts.append(text(x + width / 2, 14 + height - tall, n, anchor="middle"))
        if ends or k % every == 0:
            parts.append(text(x + width / 2, height + 33, label, anchor="middle", fill="#444"))
        x += width
    parts.append(text(4, height + 49, "units done", fill="#444"))
    return svg(x + 4, height + 54, parts, "How many units students have done")


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"
