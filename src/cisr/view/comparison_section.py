"""A comparison on the page: its table, its curves, each student's curriculum, and where students went."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cisr.experiments.comparison import measure_groups
from cisr.experiments.differences import against_the_others
from cisr.training import UnitLog
from cisr.view.charts import Curve, bars, curve_of, curves, legend, tiles, timeline
from cisr.view.contents import ComparisonRecord, Group
from cisr.view.summary import differences_table, summary_table
from cisr.view.svg import esc, rect, svg, text
from cisr.view.words import in_words, where_deployed

SHADES = ((255, 255, 255), (199, 224, 244), (86, 160, 211), (8, 81, 156), (8, 29, 88))
"""From never to often; it darkens steadily, so it reads in grey as well."""
MANY = 100
"""Students whose curricula are shown on demand only: a row each would push all else off the screen."""


def comparison_section(
    record: ComparisonRecord, colours: Mapping[str, str], n_units: int, constraints: Sequence[str]
) -> str:
    return "".join(
        [
            deployed(record),
            f'<div class="wide">{summary_table([group.row for group in record.groups], record.name)}</div>',
            told_apart(record),
            student_figures(record.groups, colours, n_units, constraints),
        ]
    )


def deployed(record: ComparisonRecord) -> str:
    """Where the numbers come from."""
    unfinished = sum(t.deployment is None and t.error is None for group in record.groups for t in group.students)
    waiting = f" {unfinished} students had not finished when this page was made." if unfinished else ""
    return f"<p>Final policies are deployed {esc(where_deployed(record.run['deployed under']))}.{waiting}</p>"


def told_apart(record: ComparisonRecord) -> str:
    """Tests of the first curriculum against the others; "" where it is alone."""
    found = against_the_others(measure_groups({group.label: group.students for group in record.groups}))
    if not found:
        return ""
    drawn = differences_table(found, f"{record.name}-differences")
    return f'<h3>Can they be told apart?</h3><div class="wide">{drawn}</div>'


def student_figures(
    groups: Sequence[Group], colours: Mapping[str, str], n_units: int, constraints: Sequence[str]
) -> str:
    """What students met and how they did, by curriculum."""
    said = "".join(
        f"<tr><td>{esc(label)}</td><td>{esc(in_words(curriculum))}</td></tr>"
        for group in groups
        for label, curriculum in group.curricula.items()
    )
    kind = {group.label: colours[group.label] for group in groups}
    met = {unit.intervention for group in groups for t in group.students for unit in t.units}
    names = {name: colour for name, colour in colours.items() if name in met}
    n_students = sum(len(group.students) for group in groups)
    over = any(t.fresh_starts for group in groups for t in group.students)
    each = (
        f'{legend(names)}<figure class="wide">{timeline([(g.label, g.students) for g in groups], colours, n_units)}'
        "<figcaption>One row per student, one cell per interaction unit, coloured by intervention. A red cross marks a "
        f"student that failed with an error{', a black bar one that started over with new weights' if over else ''}. "
        "Hover over a cell for its return and violation.</figcaption></figure>"
    )
    return "".join(
        [
            f'<details><summary>The curricula in words</summary><table class="plain"><tbody>{said}</tbody></table>'
            "</details>",
            "<h3>Failures, in training and in deployment apart</h3>",
            failures_figure(groups, colours),
            "<h3>Learning curves</h3>",
            legend(kind),
            learning_figure(groups, colours),
            "<h3>Training, unit by unit</h3>",
            legend(kind),
            training_figure(groups, colours, constraints),
            "<h3>Each student's curriculum</h3>",
            f"<details><summary>{n_students} students</summary>{each}</details>" if n_students > MANY else each,
        ]
    )


def failures_figure(groups: Sequence[Group], colours: Mapping[str, str]) -> str:
    training = bars([(g.label, colours[g.label], g.row.training_failures, g.row.unknown_failures) for g in groups],
                    "In training, under the teacher", "failures per student, all units", without="unknown")  # fmt: skip
    deployed = bars([(g.label, colours[g.label], g.row.deployment_failures, 0) for g in groups],
                    "Deployed, after training", "failures per episode", without="no student finished")  # fmt: skip
    return (
        f'<figure><div class="figures">{training}{deployed}</div><figcaption>Lines: 95 % intervals, valid for any '
        "distribution of students; counts per student have none, the table says how many students had any. These are "
        "counts of what happened in these runs; none seen does not mean none possible.</figcaption></figure>"
    )


def learning_figure(groups: Sequence[Group], colours: Mapping[str, str]) -> str:
    logs = [unit for group in groups for t in group.students for unit in t.units]
    deployed = bool(logs) and all(unit.deployment is not None for unit in logs)
    where = "deployed without a teacher after each unit" if deployed else "in training, under the teacher"

    def success(unit: UnitLog) -> float:
        return unit.deployment.success if deployed and unit.deployment else unit.success

    def mean_return(unit: UnitLog) -> float:
        return unit.deployment.mean_return if deployed and unit.deployment else unit.mean_return

    left = curves(_by(groups, colours, success), "Success", "success rate", y=(-0.02, 1.02))
    right = curves(_by(groups, colours, mean_return), "Return", "mean return")
    if not left:
        return '<p class="note">No student has finished a unit yet.</p>'
    return (
        f'<figure><div class="figures">{left}{right}</div><figcaption>Mean over students, {where}; bands are one '
        "standard error. Students that failed with an error are left out.</figcaption></figure>"
    )


def training_figure(groups: Sequence[Group], colours: Mapping[str, str], constraints: Sequence[str]) -> str:
    drawn = [
        curves(_by(groups, colours, lambda u: u.rescues), "Rescues in training", "per student and unit"),
        curves(_by(groups, colours, lambda u: u.total_failures), "Failures in training", "per student and unit"),
    ]
    for k, what in enumerate(constraints):
        value: Callable[[UnitLog], float | None] = lambda u, k=k: u.multipliers[k] if k < len(u.multipliers) else None  # type: ignore[misc]  # noqa: E731
        drawn.append(curves(_by(groups, colours, value), f"Multiplier λ for {what}", "λ after the unit"))
    if not any(drawn):
        return '<p class="note">No student has finished a unit yet.</p>'
    return (
        f'<figure><div class="figures">{"".join(drawn)}</div><figcaption>Mean over students; bands are one standard '
        "error.</figcaption></figure>"
    )


def _by(groups: Sequence[Group], colours: Mapping[str, str], value: Callable[[UnitLog], float | None]) -> list[Curve]:
    made = [curve_of(group.label, colours[group.label], group.students, value) for group in groups]
    shades = [curve.colour for curve in made]
    return [replace(c, dash="6 3" if c.colour in shades[:k] else "") for k, c in enumerate(made)]


def map_section(plan: Mapping[str, Any], colours: Mapping[str, str]) -> str:
    """Where each intervention triggers."""
    rows: list[str] = plan["rows"]
    drawn = []
    zones: Mapping[str, list[int]] = plan["zones"]
    for name in sorted(zones, key=lambda name: list(colours).index(name) if name in colours else len(colours)):
        inside = frozenset(zones[name])

        def fill(k: int, letter: str, inside: frozenset[int] = inside, colour: str = colours.get(name, "#999")) -> str:
            return colour + "80" if k in inside else {"H": "#cfe8f7", "G": "#fff3c4"}.get(letter, "#ffffff")

        def hover(k: int, letter: str, inside: frozenset[int] = inside, name: str = name) -> str:
            return f"tile {k} ({letter})" + (f": {name} triggers here" if k in inside else "")

        drawn.append(tiles(rows, f"{name}: {len(inside)} trigger tiles", fill, hover))
    return (
        f'<figure><div class="figures">{"".join(drawn)}</div><figcaption>S start, G goal, waves: lakes (danger). '
        "Shaded tiles trigger the intervention.</figcaption></figure>"
    )


def visits_section(record: ComparisonRecord, rows: Sequence[str]) -> str:
    """Where the final policies went; "" where the backend does not count it."""
    means = {}
    for group in record.groups:
        counts = [t.deployment.visits for t in group.students if t.deployment and t.deployment.visits]
        if counts and len(counts[0]) == sum(map(len, rows)):
            means[group.label] = np.mean(np.array(counts, float), axis=0)  # (tiles,)
    top = max((float(mean.max()) for mean in means.values()), default=0.0)
    if not top:
        return ""

    def drawn(label: str, mean: np.ndarray) -> str:
        return tiles(
            rows,
            label,
            lambda k, letter: shade(math.log1p(mean[k]) / math.log1p(top)),
            lambda k, letter: f"{label}, tile {k} ({letter}): {mean[k]:,.1f} steps",
            size=17,
        )

    maps = "".join(drawn(label, mean) for label, mean in means.items())
    steps = [rect(110 + 2 * k, 4, 2.5, 12, shade(k / 100)) for k in range(101)]
    scale = svg(420, 22, [text(104, 14, "0 steps", anchor="end"), *steps, text(320, 14, f"{top:,.0f} steps")], "Scale")
    return (
        f'<h3>Where deployed students went</h3><figure><div class="figures">{maps}</div>{scale}<figcaption>Steps '
        "that a student's final policy spent on each tile when deployed, mean over students, on a logarithmic scale "
        "(log(1 + steps)), the same for all maps.</figcaption></figure>"
    )


def shade(share: float) -> str:
    """A colour for a share between 0 and 1."""
    place = min(max(share, 0.0), 1.0) * (len(SHADES) - 1)
    k = min(int(place), len(SHADES) - 2)
    mixed = (round(a + (place - k) * (b - a)) for a, b in zip(SHADES[k], SHADES[k + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def curriculum_files(groups: Iterable[Group]) -> str:
    """The JSON of curricula that a command names by file."""
    return "".join(
        f"<p>{esc(g.label)}.json:</p><pre>{esc(json.dumps(dict(g.curriculum), indent=2))}</pre>" for g in groups
    )
