"""The audit as a map: trigger set, danger set and every move that breaks a promise, one panel for each intervention."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle

from cisr.auditing.exact import ExactAudit, InterventionAudit
from cisr.cmdp.finite import Judged, judge
from cisr.core.errors import ConfigError
from cisr.core.model import FiniteModel, model_of
from cisr.core.task import Task
from cisr.system.files import writing

GROUND, DANGER, TRIGGER, INK = "#f4f6f8", "#24476b", "#f2b544", "#33404d"
FAILURE, BAD_RESET, OUT_OF_REACH, START = "#c8102e", "#7b2d8b", "#7a8793", "#0b7a75"
COLUMNS = 4
STARTS = ("starts in danger", "starts in the trigger set")
LETTERED = 24
"""Widest map on which start and goal are lettered."""


def audit_map(task: Task, audit: ExactAudit, path: Path | str, *, model: FiniteModel | None = None) -> None:
    """Draw a finite grid world's audit into a PNG; its states are [tile number], counted row by row."""
    model = model or model_of(task)
    if model is None or task.floor_plan is None:
        raise ConfigError(f"Task '{task.name}' has no floor plan and model: a map can be drawn only of a grid world.")
    letters = np.array([list(row) for row in task.floor_plan["rows"]])  # (height, width)
    if model.states.shape[1] != 1 or not set(model.states[:, 0].tolist()) <= set(range(letters.size)):
        raise ConfigError(f"Task '{task.name}' has states beside its {letters.size} tiles: give states [tile number].")
    judged = judge(task, model)
    columns = min(COLUMNS, len(audit.interventions))
    rows = math.ceil(len(audit.interventions) / columns)
    height = 3.1 * letters.shape[0] / letters.shape[1]
    figure = Figure(figsize=(3.1 * columns, (height + 0.6) * rows + 0.4), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for panel in panels:
        panel.set_axis_off()
    for panel, one in zip(panels, audit.interventions, strict=False):
        _panel(panel, task, judged, letters, one)
    figure.legend(handles=_legend(audit), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    with writing(path) as aside:
        figure.savefig(aside, dpi=150, bbox_inches="tight", pad_inches=0.1)


def _panel(axes: Axes, task: Task, judged: Judged, letters: np.ndarray, one: InterventionAudit) -> None:
    height, width = letters.shape
    states = judged.model.states
    tiles = np.tile(to_rgb(GROUND), (letters.size, 1))
    tiles[states[task.intervention(one.name).triggered(states), 0]] = to_rgb(TRIGGER)
    tiles[states[judged.dangerous, 0]] = to_rgb(DANGER)
    axes.imshow(tiles.reshape(height, width, 3), extent=(0, width, height, 0), interpolation="nearest")
    grid = 0.8 if width <= LETTERED else 0.15
    axes.hlines(range(height + 1), 0, width, color="white", linewidth=grid)
    axes.vlines(range(width + 1), 0, height, color="white", linewidth=grid)
    axes.add_patch(Rectangle((0, 0), width, height, fill=False, edgecolor=INK, linewidth=0.8, zorder=2.5))
    if width <= LETTERED:
        for row, column in np.argwhere(np.isin(letters, ["S", "G"])):
            axes.text(column + 0.5, row + 0.5, letters[row, column], color=INK, ha="center", va="center", weight="bold")

    resets = [(v.next_state, v.landed) for v in one.learning.violations if v.kind == "resets into the trigger set"]
    _arrows(axes, width, resets, BAD_RESET, 0.06)
    _arrows(axes, width, _unreached(one), OUT_OF_REACH, 0.11)
    _arrows(axes, width, [(o.state, o.next_state) for o in one.learning.offences], FAILURE, 0.11)
    for violation in one.learning.violations:
        if violation.kind in STARTS:
            _ring(axes, width, violation.state, START)
    axes.set_xlim(-0.1, width + 0.1)
    axes.set_ylim(height + 0.1, -0.1)
    axes.set_aspect("equal")
    axes.set_title(_title(one), fontsize=10, color=FAILURE if one.learning.status == "refuted" else INK)


def _unreached(one: InterventionAudit) -> list[tuple[Any, Any]]:
    """Failures that break Proposition 2's conditions, in states where the intervention lets nobody stand."""
    happens = {offence.state for offence in one.learning.offences}
    return [
        (violation.state, violation.next_state)
        for violation in one.learning.violations
        if violation.kind == "fails outside the trigger set" and violation.state not in happens
    ]


def _arrows(axes: Axes, width: int, moves: list[tuple[Any, Any]], colour: str, thickness: float) -> None:
    """One arrow for each pair of tiles, a ring where a move stays on its tile."""
    pairs = sorted({(int(start[0]), int(end[0])) for start, end in moves})
    for start, end in pairs:
        if start == end:
            _ring(axes, width, (start,), colour)
    arrows = np.array([pair for pair in pairs if pair[0] != pair[1]]).reshape(-1, 2)
    tails, heads = (np.stack([arrows[:, k] % width, arrows[:, k] // width], axis=1) + 0.5 for k in (0, 1))  # (k, 2)
    margin = 0.25 * (heads - tails) / np.linalg.norm(heads - tails, axis=1, keepdims=True)
    axes.quiver(
        *(tails + margin).T, *(heads - tails - 2 * margin).T, color=colour, angles="xy", scale_units="xy", scale=1,
        units="xy", width=thickness, headwidth=4, headlength=3.5, headaxislength=3.2, minlength=0, zorder=3,
    )  # fmt: skip


def _ring(axes: Axes, width: int, state: tuple[float, ...], colour: str) -> None:
    row, column = divmod(int(state[0]), width)
    axes.add_patch(Circle((column + 0.5, row + 0.5), 0.38, fill=False, edgecolor=colour, linewidth=1.6, zorder=3))


def _title(one: InterventionAudit) -> str:
    how = {True: "\nby Proposition 2", False: "\nby reachability alone", None: ""}
    learning = one.learning
    if learning.status == "certified":
        return f"{one.name}: certified{how[learning.by_proposition_2]}"
    if learning.status == "undecided":
        return f"{one.name}: not decided exactly\n"
    if not learning.offences:
        return f"{one.name}: refuted\nepisodes start in danger"
    first = learning.offences[0]
    return f"{one.name}: refuted, {len(learning.offences)} moves\nfirst: tile {first.state[0]:g}, action {first.action}"


def _legend(audit: ExactAudit) -> list[Any]:
    handles: list[Any] = [Patch(color=DANGER, label="danger"), Patch(color=TRIGGER, label="trigger set")]
    kinds = {v.kind for one in audit.interventions for v in one.learning.violations}
    shown = {
        (FAILURE, "failure that nothing prevents"): any(one.learning.offences for one in audit.interventions),
        (OUT_OF_REACH, "failure that is out of reach"): any(_unreached(one) for one in audit.interventions),
        (BAD_RESET, "reset into the trigger set"): "resets into the trigger set" in kinds,
        (START, "start in danger or in the trigger set"): bool(kinds & {*STARTS}),
    }
    lines = [
        Line2D([], [], color=colour, linewidth=2, label=label)
        for (colour, label), is_shown in shown.items()
        if is_shown
    ]
    return handles + lines
