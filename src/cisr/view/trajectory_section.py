"""Episodes on the page: lines over the task's state_plot, one panel for each curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cisr.experiments.trajectories import Trajectory
from cisr.view.charts import legend
from cisr.view.contents import ComparisonRecord
from cisr.view.svg import DANGER, Frame, cross, dot, esc, segment, svg

Lines = Mapping[str, Sequence[Sequence[tuple[float, float]]]]
GROUND, RESCUE = "#222222", "#444444"
DASHES = {"trigger": "5 3", "reset": "1.5 3"}
"""How an intervention's lines are drawn, by name; others are whole."""


def trajectory_section(
    record: ComparisonRecord,
    kept: Mapping[str, Sequence[Mapping[str, Any]]],
    state_plot: Mapping[str, Any],
    colours: Mapping[str, str],
) -> str:
    """Where deployed students went; "" where the store has none of their episodes."""
    drawn, behind = [], set()
    for group in record.groups:
        shown = [(t.name, Trajectory.from_json(e)) for t in group.students for e in kept.get(t.name, ())]
        if shown:
            met = {unit.intervention for t in group.students for unit in t.units} & set(state_plot["interventions"])
            behind |= met
            lines = {name: colours[name] for name in colours if name in met}
            drawn.append(_panel(group.label, colours[group.label], shown, state_plot, lines))
    if not drawn:
        return ""
    interventions = legend({name: colours[name] for name in state_plot["interventions"] if name in behind})
    return (
        f'<h3>Where deployed students went</h3>{interventions}<figure><div class="figures">{"".join(drawn)}</div>'
        "<figcaption>Episodes of final policies, the same ones for all students. A dot marks the end of an episode, a "
        "red cross one that ended in danger, a grey dot a rescue with the way to where it put the student. "
        f"{_dashes(state_plot)} of the interventions that these students met in training are drawn in their "
        "colours. What leaves the picture runs along its edge. Hover over an end for the student, its return and the "
        "outcome.</figcaption></figure>"
    )


def state_plot_section(state_plot: Mapping[str, Any], colours: Mapping[str, str]) -> str:
    """Where each intervention triggers and where it puts students."""
    panels = []
    for name in state_plot["interventions"]:
        frame = _frame(state_plot)
        body = [frame.axes(name, *state_plot["axes"]), _behind(frame, state_plot, {name: colours.get(name, "#999999")})]
        panels.append(svg(frame.width, frame.height, body, f"The lines of {name}"))
    return (
        f'<figure><div class="figures">{"".join(panels)}</div><figcaption>{_dashes(state_plot)} of each intervention.'
        "</figcaption></figure>"
    )


def _panel(
    label: str,
    colour: str,
    shown: Sequence[tuple[str, Trajectory]],
    state_plot: Mapping[str, Any],
    met: Mapping[str, str],
) -> str:
    frame = _frame(state_plot)
    body = [frame.axes(label, *state_plot["axes"]), _behind(frame, state_plot, met)]
    for _, episode in shown:
        body += [_line(frame, flight, colour) for flight in episode.flights]
        for at, to in episode.rescues:
            body.append(segment(*_spot(frame, at), *_spot(frame, to), RESCUE, width=0.8))
            body.append(dot(*_spot(frame, at), RESCUE, radius=1.5))
    for student, episode in shown:
        hover = f"{student}: {episode.outcome} after {episode.steps:,} steps, return {episode.total:,.1f}"
        x, y = _spot(frame, episode.flights[-1][-1])
        mark = cross(x, y, DANGER, hover=hover) if episode.failed else dot(x, y, colour, radius=3.5, hover=hover)
        body.append(mark)
    return svg(frame.width, frame.height, body, f"Episodes of students under {label}")


def _behind(frame: Frame, state_plot: Mapping[str, Any], met: Mapping[str, str]) -> str:
    parts = [_line(frame, line, GROUND, width=4) for lines in state_plot["lines"].values() for line in lines]
    for intervention, colour in met.items():
        for name, lines in state_plot["interventions"][intervention].items():
            parts += [_line(frame, line, colour, width=1.5, dash=DASHES.get(name, "")) for line in lines]
    return "".join(parts)


def _line(
    frame: Frame, points: Sequence[tuple[float, float]], colour: str, *, width: float = 1.2, dash: str = ""
) -> str:
    kept = [_within(frame, point) for point in points]
    return frame.line([x for x, _ in kept], [y for _, y in kept], colour, width=width, dash=dash)


def _spot(frame: Frame, point: tuple[float, float]) -> tuple[float, float]:
    x, y = _within(frame, point)
    return frame.across(x), frame.down(y)


def _within(frame: Frame, point: tuple[float, float]) -> tuple[float, float]:
    """What leaves the picture runs along its edge."""
    (left, right), (low, high) = frame.x, frame.y
    return min(max(point[0], left), right), min(max(point[1], low), high)


def _frame(state_plot: Mapping[str, Any]) -> Frame:
    (left, right), (low, high) = state_plot["limits"]
    return Frame(x=(left, right), y=(low, high), width=470, height=320)


def _dashes(state_plot: Mapping[str, Any]) -> str:
    names = list(dict.fromkeys(name for lines in state_plot["interventions"].values() for name in lines))
    how = {"5 3": "dashed", "1.5 3": "dotted", "": "whole"}
    return esc("The lines " + ", ".join(f"“{name}” ({how[DASHES.get(name, '')]})" for name in names))
