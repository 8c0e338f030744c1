"""The audit as a map: trigger set, danger set and every move that breaks a promise, one panel for each intervention."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch

from cisr.auditing.exact import ExactAudit, InterventionAudit
from cisr.cmdp.finite import judge, model_of
from cisr.cmdp.induced import JudgedModel
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.system.files import writing
from cisr.view.grids import INK, TRIGGER, WATER, Grid, centre, paint, zone_grid
from cisr.view.plots import DANGER

BAD_RESET, OUT_OF_REACH, START = "#7b2d8b", "#7a8793", "#0b7a75"
ACROSS = 4
STARTS = ("starts in danger", "starts in the trigger set")


def audit_map(task: Task, audit: ExactAudit, path: Path | str) -> None:
    """Draw a finite grid world's audit into a PNG; its states are [tile number], counted line by line."""
    model = model_of(task)
    if model is None or task.appearance.floor_plan is None:
        raise ConfigError(f"Task '{task.name}' has no floor plan and model: a map can be drawn only of a grid world.")
    plan: list[str] = task.appearance.floor_plan["rows"]
    n_tiles = sum(map(len, plan))
    if model.states.shape[1] != 1 or not set(model.states[:, 0].tolist()) <= set(range(n_tiles)):
        raise ConfigError(f"Task '{task.name}' has states beside its {n_tiles} tiles: give states [tile number].")
    judged = judge(task, model)
    across = min(ACROSS, len(audit.interventions))
    down = math.ceil(len(audit.interventions) / across)
    height = 3.1 * len(plan) / len(plan[0])
    figure = Figure(figsize=(3.1 * across, (height + 0.6) * down + 0.4), layout="constrained")
    panels = np.ravel(figure.subplots(down, across, squeeze=False))
    for panel in panels:
        panel.set_axis_off()
    for panel, one in zip(panels, audit.interventions, strict=False):
        _panel(panel, task, judged, plan, one)
    figure.legend(handles=_legend(audit), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    with writing(path) as aside:
        figure.savefig(aside, dpi=150, bbox_inches="tight", pad_inches=0.1)


def _panel(axes: Axes, task: Task, judged: JudgedModel, plan: list[str], one: InterventionAudit) -> None:
    states = judged.model.states
    each = [np.full(len(states), action) for action in range(judged.model.n_actions)]  # asked where actions are judged
    zone = np.any([task.intervention(one.name).triggered(states, action) for action in each], axis=0)
    grid = zone_grid(_title(one), plan, set(states[zone, 0]), one.name)
    dangerous = set(states[judged.dangerous, 0])
    grid = replace(grid, fills=[WATER if k in dangerous else fill for k, fill in enumerate(grid.fills)])
    paint(axes, grid)
    resets = [(v.next_state, v.landed) for v in one.learning.violations if v.kind == "resets into the trigger set"]
    _arrows(axes, grid, resets, BAD_RESET, 0.06)
    _arrows(axes, grid, _unreached(one), OUT_OF_REACH, 0.11)
    _arrows(axes, grid, [(o.state, o.next_state) for o in one.learning.offences], DANGER, 0.11)
    starts = [violation.state for violation in one.learning.violations if violation.kind in STARTS]
    _arrows(axes, grid, [(state, state) for state in starts], START, 0.11)
    axes.title.set_color(DANGER if one.learning.status == "refuted" else INK)


def _unreached(one: InterventionAudit) -> list[tuple[Any, Any]]:
    """Failures that break Proposition 2's conditions, in states where the intervention lets nobody stand."""
    happens = {offence.state for offence in one.learning.offences}
    return [
        (violation.state, violation.next_state)
        for violation in one.learning.violations
        if violation.kind == "fails outside the trigger set" and violation.state not in happens
    ]


def _arrows(axes: Axes, grid: Grid, moves: list[tuple[Any, Any]], colour: str, thickness: float) -> None:
    """One arrow for each pair of tiles, a ring where a move stays on its tile."""

    pairs = np.array(sorted({(int(start[0]), int(end[0])) for start, end in moves})).reshape(-1, 2)
    stays = pairs[:, 0] == pairs[:, 1]
    for at in centre(grid, pairs[stays]):
        axes.add_patch(Circle(at, 0.38, fill=False, edgecolor=colour, linewidth=1.6, zorder=3))
    tails, heads = (centre(grid, pairs[~stays][:, k : k + 1]) for k in (0, 1))  # (k, 2)
    margin = 0.25 * (heads - tails) / np.linalg.norm(heads - tails, axis=1, keepdims=True)
    axes.quiver(
        *(tails + margin).T, *(heads - tails - 2 * margin).T, color=colour, angles="xy", scale_units="xy", scale=1,
        units="xy", width=thickness, headwidth=4, headlength=3.5, headaxislength=3.2, minlength=0, zorder=3,
    )  # fmt: skip


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
    handles: list[Any] = [Patch(color=WATER, label="danger"), Patch(color=TRIGGER, label="trigger set")]
    kinds = {v.kind for one in audit.interventions for v in one.learning.violations}
    shown = {
        (DANGER, "failure that nothing prevents"): any(one.learning.offences for one in audit.interventions),
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
