"""A counterexample as a picture: the segment to the failure, on the map where the task has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cisr.auditing.counterexample import Counterexample
from cisr.auditing.play import Episode
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.system.files import writing
from cisr.view.grids import EDGE, TRIGGER, centre, paint, zone_grid
from cisr.view.plots import DANGER

WAY, RESCUE = "#30506e", "#e08a00"
LAST = 12
"""Steps before the failure that are drawn boldly."""


def draw(
    task: Task,
    counterexample: Counterexample,
    path: Path | str,
    intervention: Intervention | None = None,
    frame: np.ndarray | None = None,
) -> None:
    """Write a PNG; `intervention` need be given only where it is not one of the task's. A `frame` that the environment
    drew (see `counterexamples.last_frames`) is shown beside the segment."""
    episode, plan = counterexample.episode, task.appearance.floor_plan
    under = intervention or task.intervention(counterexample.intervention)
    figure = Figure(figsize=(6.4, 7.2) if plan else (11.0, 4.8) if frame is not None else (7.2, 4.8))
    figure.set_layout_engine("constrained")
    if plan:
        axes = figure.subplots()
        _draw_on_map(axes, plan["rows"], under, episode)
    else:
        axes = figure.add_subplot(1, 1 if frame is None else 2, 1)
        _draw_in_states(axes, episode)
        if frame is not None:
            beside = figure.add_subplot(1, 2, 2)
            beside.imshow(frame)
            beside.set_axis_off()
            beside.set_title("the last frame", fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(
        f"{task.name} under '{under.name}': {episode.danger} in step {len(episode.steps)}\n"
        f"{counterexample.attacker} play from seed {episode.seed}, {episode.rescues} rescues",
        fontsize=11,
    )
    with writing(path) as aside:
        figure.savefig(aside, dpi=130)


def _segments(episode: Episode) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """The segments between rescues, each (n, d), and the rescues as (from, to)."""
    segments, rescues, segment = [], [], [episode.start]
    for step in episode.steps:
        segment.append(step.state)
        if step.put_to is not None:
            segments.append(np.array(segment))
            rescues.append((step.state, step.put_to))
            segment = [step.put_to]
    return [*segments, np.array(segment)], rescues


def _draw_on_map(axes: Axes, plan: list[str], intervention: Intervention, episode: Episode) -> None:
    tiles = np.arange(sum(map(len, plan)))[:, None]  # a state is [tile number]
    zone = np.zeros(len(tiles), bool) if intervention.judges_actions else intervention.triggered(tiles)
    grid = zone_grid("", plan, set(np.flatnonzero(zone)), intervention.name)
    paint(axes, grid)
    states, kinds = [episode.start], ["start"]
    for step in episode.steps:
        states.append(step.state)
        kinds.append("move" if step.put_to is None else "rescue")
        if step.put_to is not None:
            states.append(step.put_to)
            kinds.append("put back")
    points = centre(grid, np.array(states))
    # A segment crosses itself: every point is moved a little, so that all of it can be seen.
    points += np.random.default_rng(episode.seed).uniform(-0.16, 0.16, points.shape)
    _draw_way(axes, points, kinds)
    axes.plot([], [], "s", color=TRIGGER, markeredgecolor=EDGE, markersize=9, label="trigger set")


def _draw_way(axes: Axes, points: np.ndarray, kinds: list[str]) -> None:
    """Arrows from point to point (n, 2); what leads to the failure boldly, what came before faintly."""
    n = len(points)
    for k in range(1, n):
        bold = k >= n - LAST
        back = kinds[k] == "put back"
        axes.annotate(
            "",
            points[k],
            points[k - 1],
            arrowprops={
                "arrowstyle": "-|>" if bold else "-",
                "color": RESCUE if back else WAY,
                "alpha": 1.0 if bold else 0.25,
                "linewidth": 1.6 if bold else 0.9,
                "linestyle": ":" if back else "-",
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    rescued = points[[kind == "rescue" for kind in kinds]]
    axes.plot([], [], color=WAY, label="segment")
    if len(rescued):
        axes.plot(*rescued.T, "o", color=RESCUE, markersize=4, label="rescue")
    axes.plot(*points[0], "s", color=WAY, markersize=7, label="start")
    axes.plot(*points[-1], "X", color=DANGER, markersize=13, label="failure", markeredgecolor="white")


def _draw_in_states(axes: Axes, episode: Episode) -> None:
    """The first two numbers of the state; where there is only one, the one over time."""
    segments, rescues = _segments(episode)
    flat = len(episode.start) == 1
    clock = 0
    for k, segment in enumerate(segments):
        x, y = (clock + np.arange(len(segment)), segment[:, 0]) if flat else (segment[:, 0], segment[:, 1])
        last = k == len(segments) - 1
        axes.plot(x, y, ".-", color=WAY, alpha=1.0 if last else 0.35, markersize=4, label="segment" if last else None)
        clock += len(segment) - 1
        if k < len(rescues):
            before, after = rescues[k]
            at = [clock, clock] if flat else [before[0], after[0]]
            to = [before[0], after[0]] if flat else [before[1], after[1]]
            axes.plot(at, to, ":", color=RESCUE, linewidth=1)
            axes.plot(at[0], to[0], "o", color=RESCUE, markersize=6, label=None if k else "rescue")
    axes.plot(*((0, episode.start[0]) if flat else episode.start[:2]), "s", color=WAY, markersize=7, label="start")
    axes.plot(x[-1], y[-1], "X", color=DANGER, markersize=13, markeredgecolor="white", label="failure", zorder=5)
    axes.set(xlabel="step" if flat else "state[0]", ylabel="state[0]" if flat else "state[1]")
    if flat:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
