"""A counterexample as a picture: the segment to the failure, on the map where the task has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from cisr.auditing.counterexample import Counterexample
from cisr.auditing.play import Episode
from cisr.core.intervention import Intervention
from cisr.core.task import Task
from cisr.system.files import writing

TILES = {"H": "#bcd7ee", "G": "#c9e8c1", "S": "#e8e8e8"}
WAY, RESCUE, FAILURE, ZONE = "#30506e", "#e08a00", "#c4161c", "#fdf0d5"
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
    drew (see `last_frame`) is shown beside the segment."""
    episode, plan = counterexample.episode, task.floor_plan
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


def _draw_on_map(axes: Axes, rows: list[str], intervention: Intervention, episode: Episode) -> None:
    height, width = len(rows), len(rows[0])
    zone = np.asarray(intervention.triggered(np.arange(height * width)[:, None]))  # a state is [tile number]
    for number, letter in enumerate("".join(rows)):
        y, x = divmod(number, width)
        colour = TILES.get(letter, ZONE if zone[number] else "white")
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="#cccccc", linewidth=0.8))
        if letter != "F":
            axes.text(x - 0.42, y - 0.28, letter, color="#777777", fontsize=8, va="center")

    def centre(states: np.ndarray) -> np.ndarray:
        """Points (n, 2) of states (n, d)."""
        return np.stack(np.divmod(states[:, 0].astype(int), width)[::-1], axis=-1).astype(float)

    def wobble(points: np.ndarray) -> np.ndarray:
        """A segment crosses itself: every point is moved a little, so that all of it can be seen."""
        return points + rng.uniform(-0.16, 0.16, points.shape)

    rng = np.random.default_rng(episode.seed)
    put = episode.start
    points, kinds = [wobble(centre(put[None]))[0]], ["start"]
    for step in episode.steps:
        points.append(wobble(centre(step.state[None]))[0])
        kinds.append("move" if step.put_to is None else "rescue")
        if step.put_to is not None:
            points.append(wobble(centre(step.put_to[None]))[0])
            kinds.append("put back")
    _draw_way(axes, np.array(points), kinds)
    axes.plot([], [], "s", color=ZONE, markeredgecolor="#cccccc", markersize=9, label="trigger set")
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(False)


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
    axes.plot(*points[-1], "X", color=FAILURE, markersize=13, label="failure", markeredgecolor="white")


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
    axes.plot(x[-1], y[-1], "X", color=FAILURE, markersize=13, markeredgecolor="white", label="failure", zorder=5)
    axes.set(xlabel="step" if flat else "state[0]", ylabel="state[0]" if flat else "state[1]")
    if flat:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
