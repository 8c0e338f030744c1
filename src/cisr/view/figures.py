"""Plots as pictures, painted with matplotlib and without a display."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.experiments.comparison import Comparison
from cisr.experiments.playing import Act, at_random, by_student, episode_seed, trajectory
from cisr.store import Store
from cisr.store.load_student import StoredStudent, stored_student
from cisr.system.files import check_suffix, writing
from cisr.training.apart import play_apart
from cisr.view.plots import COLOURS, Band, Dot, Line, Plot, learning_curves, palette
from cisr.view.state_plot import GROUND, episodes_plot

LINES, EPISODES = COLOURS[2], (COLOURS[3], COLOURS[0], COLOURS[5])
"""Colours of interventions and of episodes, where each intervention has a panel of its own."""


def paint(axes: Axes, plot: Plot) -> None:
    """A plot on matplotlib's axes; what has a label is for the legend."""
    for mark in plot.marks:
        match mark:
            case Line(points=points, colour=colour, width=width, dash=dash):
                style: Any = (0, tuple(float(length) / width for length in dash.split())) if dash else "-"
                axes.plot(*np.array(points).T, color=colour, linewidth=width, linestyle=style, label=mark.label or None)
            case Band(lows=lows, highs=highs, colour=colour) if lows:
                (x, low), (_, high) = np.array(lows).T, np.array(highs).T
                axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
            case Dot(at=at, colour=colour, crossed=crossed):
                look: dict[str, Any] = {"marker": "X" if crossed else "o", "markersize": 2 * mark.radius}
                look |= {"markerfacecolor": "white"} if mark.hollow else {}
                axes.plot(*at, **look, color=colour)
                if mark.label:  # its shape has a meaning in the legend, its colour only beside an episode's line
                    axes.plot([], [], **look, color=colour if crossed else GROUND, linestyle="", label=mark.label)
    axes.set(xlim=plot.x, ylim=plot.y, xlabel=plot.x_label, ylabel=plot.y_label, title=plot.title)
    if plot.whole_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)


def learning_figure(comparison: Comparison, *paths: Path) -> None:
    """Success and return by unit, mean over students with a band of one standard error, into each of the files."""
    plots, where = learning_curves(comparison.transcripts, palette(comparison.transcripts))
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, plot in zip(figure.subplots(1, 2), plots, strict=False):
        paint(axes, plot)
    figure.suptitle(f"{comparison.title}\n{where}, mean ± standard error over students", fontsize=11)
    _save(figure, paths)


def check_picture(path: Path) -> None:
    """Complain about a file that matplotlib cannot write by its name."""
    check_suffix(path, [f".{kind}" for kind in sorted(FigureCanvasBase.filetypes)])


def _save(figure: Figure, paths: tuple[Path, ...]) -> None:
    """With one legend for all panels, in which each label stands once."""
    shown: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if shown:
        n = min(len(shown), 6)
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=n, frameon=False)
    for path in paths:
        with writing(path) as aside:
            figure.savefig(aside, dpi=150)


def rescues_figure(task: Task, *paths: Path, act: Act | None = None, n_episodes: int = 3, seed: int = 0) -> None:
    """Where each intervention triggers and where it puts students, with a few episodes under it, into the files.

    `act` plays, by default actions at random. The task must have a state_plot.
    """
    state_plot = check_state_plot(task)
    names = list(state_plot["interventions"])
    across = min(len(names), 2)
    down = -(-len(names) // across)
    figure = Figure(figsize=(5.6 * across, 4.0 * down + 0.3), layout="constrained")
    for panel, name in enumerate(names, 1):
        episodes = []
        for k in range(n_episodes):
            player = act or at_random(task, episode_seed(seed, k))
            episode = trajectory(task, player, under=name, seed=episode_seed(seed, k))
            episodes.append((f"episode {k + 1}", EPISODES[k % len(EPISODES)], episode))
        paint(figure.add_subplot(down, across, panel), episodes_plot(name, state_plot, {name: LINES}, episodes))
    _save(figure, paths)


def students_rescues(store: Store, task: Task, student: str, path: Path, *, seed: int = 0, **apart: Any) -> None:
    """The same of a student of a store, as `play_apart` plays."""
    play_apart(_draw_student, task, stored_student(store, student), path, seed, **apart)


def _draw_student(task: Task, student: StoredStudent, path: Path, seed: int, tell: object) -> None:
    rescues_figure(task, path, act=by_student(student.ready(task)), seed=seed)


def check_state_plot(task: Task) -> Mapping[str, Any]:
    if task.appearance.state_plot is None:
        raise ConfigError(
            f"Task '{task.name}' has no state plot to draw episodes on: "
            "give it one in its Appearance, or do without this picture."
        )
    return task.appearance.state_plot
