"""Figures of a comparison, drawn without a display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.experiments.comparison import Comparison
from cisr.experiments.playing import Act, at_random, by_student, episode_seed, trajectory
from cisr.experiments.statistics import standard_error
from cisr.experiments.trajectories import Trajectory
from cisr.store import Store
from cisr.store.load_student import StoredStudent, stored_student
from cisr.system.files import check_suffix, writing
from cisr.training import UnitLog
from cisr.training.apart import play_apart
from cisr.view.svg import COLOURS, DANGER

LINES = {"trigger": "#009E73", "reset": "#E69F00"}
"""Colours of an intervention's lines in a state_plot, as in the paper's figure; others are grey."""


def learning_curves(comparison: Comparison, *paths: Path) -> None:
    """Success and return by unit, mean over students with a band of one standard error, into each of the files.

    Shows the deployments after each unit where there are any, otherwise what was seen in training.
    """
    logs = [unit for group in comparison.transcripts.values() for t in group for unit in t.units]
    deployed = bool(logs) and all(unit.deployment is not None for unit in logs)
    where = "deployed without a teacher" if deployed else "in training, under the teacher"
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curves(left, comparison, lambda u: u.deployment.success if deployed and u.deployment else u.success)
    _curves(right, comparison, lambda u: u.deployment.mean_return if deployed and u.deployment else u.mean_return)
    left.set(ylabel=f"success, {where}", ylim=(-0.02, 1.02))
    right.set(ylabel=f"return, {where}")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    figure.suptitle(f"{comparison.title}, mean ± standard error over students")
    _save(figure, paths)


def check_picture(path: Path) -> None:
    """Complain about a file that matplotlib cannot write by its name."""
    check_suffix(path, [f".{kind}" for kind in sorted(FigureCanvasBase.filetypes)])


def _save(figure: Figure, paths: Sequence[Path]) -> None:
    for path in paths:
        with writing(path) as aside:
            figure.savefig(aside, dpi=150)


def _curves(axes: Axes, comparison: Comparison, value: Callable[[UnitLog], float]) -> None:
    for k, (label, transcripts) in enumerate(comparison.transcripts.items()):
        rows = [[value(unit) for unit in t.units] for t in transcripts if t.error is None]
        if not rows:
            continue
        data = np.array(rows)  # (students, units)
        units = np.arange(1, data.shape[1] + 1)
        mean, sem = data.mean(axis=0), np.array([standard_error(column) for column in data.T])
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(units, mean, color=colour, label=label, linestyle="-" if k < len(COLOURS) else "--")
        axes.fill_between(units, mean - sem, mean + sem, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("interaction unit")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)


def rescues_figure(task: Task, *paths: Path, act: Act | None = None, n_episodes: int = 3, seed: int = 0) -> None:
    """Where each intervention triggers and where it puts students, with a few episodes under it, into the files.

    `act` plays, by default actions at random. The task must have a state_plot.
    """
    state_plot = check_state_plot(task)
    names = list(state_plot["interventions"])
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.0 * rows + 0.3), layout="constrained")
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, columns, number)
        for k in range(n_episodes):
            player = act or at_random(task, episode_seed(seed, k))
            _episode(axes, trajectory(task, player, under=name, seed=episode_seed(seed, k)), COLOURS[(3, 0, 5)[k % 3]])
        _state_plot(axes, state_plot, name)
        axes.set_title(name)
    handles, labels = axes.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    figure.legend(by_label.values(), by_label.keys(), loc="outside lower center", ncols=len(by_label), frameon=False)
    _save(figure, paths)


def students_rescues(store: Store, task: Task, student: str, path: Path, *, seed: int = 0, **apart: Any) -> None:
    """The same of a student of a store, as `play_apart` plays."""
    play_apart(_draw_student, task, stored_student(store, student), path, seed, **apart)


def _draw_student(task: Task, student: StoredStudent, path: Path, seed: int, tell: object) -> None:
    rescues_figure(task, path, act=by_student(student.ready(task)), seed=seed)


def check_state_plot(task: Task) -> Mapping[str, Any]:
    if task.state_plot is None:
        raise ConfigError(
            f"Task '{task.name}' has no state plot to draw episodes on: "
            "pass one to Task(state_plot=…), or do without this picture."
        )
    return task.state_plot


def _state_plot(axes: Axes, state_plot: Mapping[str, Any], intervention: str) -> None:
    for name, lines in state_plot["lines"].items():
        for line in lines:
            axes.plot(*np.array(line).T, color="#222222", linewidth=4, solid_capstyle="butt", label=name, zorder=2)
    for name, lines in state_plot["interventions"][intervention].items():
        for line in lines:
            axes.plot(*np.array(line).T, color=LINES.get(name, "#888888"), linewidth=2, label=f"{name} line", zorder=1)
    x, y = state_plot["limits"]
    axes.set(xlim=x, ylim=y, xlabel=state_plot["axes"][0], ylabel=state_plot["axes"][1])
    axes.spines[["top", "right"]].set_visible(False)


def _episode(axes: Axes, episode: Trajectory, colour: str) -> None:
    """A line, a thin straight one for each rescue, and how it ended."""
    for flight in episode.flights:
        axes.plot(*np.array(flight).T, color=colour, linewidth=1.2, zorder=3)
    for at, to in episode.rescues:
        arrow = {"arrowstyle": "->", "color": "#444444", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=to, xytext=at, arrowprops=arrow, zorder=4)
        axes.plot(*at, marker="o", markersize=3.5, color="#444444", linestyle="", label="rescue", zorder=5)
    axes.plot(
        *episode.flights[-1][-1],
        marker="X" if episode.failed else "o",
        color=DANGER if episode.failed else "#222222",
        markeredgecolor="white",
        markersize=9,
        linestyle="",
        label=episode.outcome,
        zorder=6,
    )
