"""Episodes and interventions over a task's state plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cisr.experiments.trajectories import Trajectory
from cisr.view.plots import DANGER, Dot, Line, Plot, Point
from cisr.view.words import end_in_words

GROUND, RESCUE = "#222222", "#444444"
OTHER_END = "other end"
DASHES = {"trigger": "5 3", "reset": "1.5 3"}
"""How an intervention's lines are drawn, by name; others are whole."""
LOOKS = {"5 3": "dashed", "1.5 3": "dotted", "": "whole"}


def episodes_plot(
    title: str,
    state_plot: Mapping[str, Any],
    interventions: Mapping[str, str],
    episodes: Iterable[tuple[str, str, Trajectory]] = (),
) -> Plot:
    """Episodes, each of a student in a colour, over the lines of some interventions in their colours.

    The shape of an episode's last mark says how it ended, the colour whose it is. What leaves the picture runs along
    its edge.
    """
    x, y = (tuple(ends) for ends in state_plot["limits"])

    def kept(points: Iterable[Point]) -> list[Point]:
        return [(min(max(across, x[0]), x[1]), min(max(up, y[0]), y[1])) for across, up in points]

    marks: list[Line | Dot] = [
        Line(points=kept(line), colour=GROUND, width=4, label=name)
        for name, lines in state_plot["lines"].items()
        for line in lines
    ]
    marks += [
        Line(points=kept(line), colour=colour, width=1.5, dash=DASHES.get(name, ""), label=f"{name} line")
        for intervention, colour in interventions.items()
        for name, lines in state_plot["interventions"][intervention].items()
        for line in lines
    ]
    ends = []
    for student, colour, episode in episodes:
        marks += [Line(points=kept(flight), colour=colour, width=1.2) for flight in episode.flights]
        for rescue in episode.rescues:
            way = kept(rescue)
            marks.append(Line(points=way, colour=RESCUE, width=0.8))
            marks.append(Dot(at=way[0], colour=RESCUE, radius=1.5, label="rescue"))
        end = "failure" if episode.failed else "success" if episode.outcome == "success" else OTHER_END
        ends.append(
            Dot(
                at=kept(episode.flights[-1])[-1],
                colour=DANGER if episode.failed else colour,
                radius=3.5,
                crossed=episode.failed,
                hollow=end == OTHER_END,
                hover=f"{student}: {end_in_words(episode.outcome, episode.steps, episode.total)}",
                label=end,
            )
        )
    across, up = state_plot["axes"]
    described = f"Episodes of students under {title}" if ends else f"The lines of {title}"
    return Plot(title=title, x_label=across, y_label=up, x=x, y=y, marks=[*marks, *ends], described=described)


def lines_in_words(state_plot: Mapping[str, Any]) -> str:
    names = dict.fromkeys(name for lines in state_plot["interventions"].values() for name in lines)
    return "The lines " + ", ".join(f"“{name}” ({LOOKS[DASHES.get(name, '')]})" for name in names)
