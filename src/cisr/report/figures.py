"""Figures of a comparison, drawn without a display."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cisr.classroom import UnitLog
from cisr.compare import Comparison
from cisr.report.svg import COLOURS


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
    for path in paths:
        figure.savefig(path, dpi=150)


def _curves(axes: Axes, comparison: Comparison, value: Callable[[UnitLog], float]) -> None:
    for k, (label, transcripts) in enumerate(comparison.transcripts.items()):
        rows = [[value(unit) for unit in t.units] for t in transcripts if t.error is None]
        if not rows:
            continue
        data = np.array(rows)  # (students, units)
        units = np.arange(1, data.shape[1] + 1)
        mean, sem = data.mean(axis=0), data.std(axis=0, ddof=1 if len(data) > 1 else 0) / np.sqrt(len(data))
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(units, mean, color=colour, label=label, linestyle="-" if k < len(COLOURS) else "--")
        axes.fill_between(units, mean - sem, mean + sem, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("interaction unit")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
