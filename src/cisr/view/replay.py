"""Episodes that can be stepped through: on the map or the state plot of their task, or as pictures that their
environment draws. The page's script moves them; without it one sees the whole way."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from PIL import Image

from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.experiments.comparison import median_student
from cisr.experiments.replaying import Replay, Wanted, replays
from cisr.experiments.trajectories import Trajectory
from cisr.store import Store, owner_of
from cisr.store.load_student import stored_student
from cisr.tasks import task_of
from cisr.view import grids
from cisr.view.contents import Contents, Group
from cisr.view.plots import COLOURS, DANGER, UNTAUGHT, Point
from cisr.view.rendering import render
from cisr.view.state_plot import episodes_plot
from cisr.view.svg import Frame, element, plotted, svg
from cisr.view.words import deployed_in_words, end_in_words

WIDTH = 400
"""Of a picture."""
QUALITY = 80
MOST_EPISODES = 1_000


def wanted(store: Store, student: str, under: str, number: int) -> Wanted:
    """An episode of a student of a store, with its policy of now."""
    runs = store.runs()
    if (owner := owner_of(student)) not in runs:
        raise ConfigError(f"There is no student '{student}' in this store: give one of its names.")
    if not 0 <= number < MOST_EPISODES:
        raise ConfigError(f"Episode {number + 1} is none that can be played: give a number from 1 to {MOST_EPISODES}.")
    return Wanted(student, stored_student(store, student), under, int(runs[owner].get("seed", 0)), number)


def played(task: Task, episodes: Sequence[Wanted]) -> list[Replay]:
    """With pictures, unless there is a map to show them on."""
    return replays(task, episodes, None if task.appearance.floor_plan else as_webp)


def as_webp(drawn: Any) -> bytes:
    """What an environment draws, small enough for a page."""
    picture = Image.fromarray(np.asarray(drawn, np.uint8))
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)))
    kept = io.BytesIO()
    picture.save(kept, "WEBP", quality=QUALITY)
    return kept.getvalue()


def player(contents: Contents, shown: Replay, title: str = "") -> Markup:
    """An episode with the buttons to step through it."""
    plan, state_plot = contents.settings.get("floor plan"), contents.settings.get("state plot")
    colours = contents.colours()
    pictures = all(moment.picture for moment in shown.moments)
    background: Markup | None = None
    if plan:
        width, height, background, points = _on_map(plan, shown, colours)
    elif state_plot:
        width, height, background, points = _on_plot(state_plot, shown, colours)
    elif not pictures:
        raise ConfigError("This task has no map and no state plot, and does not draw itself: there is nothing to see.")
    record: dict[str, Any] = {
        "steps": [moment.step for moment in shown.moments],
        "totals": [moment.total for moment in shown.moments],
        "rescued": [k for k, moment in enumerate(shown.moments) if moment.rescued],
        "failed": shown.failed,
        "end": end_in_words(shown.outcome, shown.steps, shown.total),
    }
    drawn = ""
    if background is not None:
        record["points"] = [[round(x, 1), round(y, 1)] for x, y in points]
        drawn = svg(width, height, [background, *_way(points, shown)], f"An episode of {shown.student}")
    if pictures:
        record["pictures"] = [
            "data:image/webp;base64," + base64.b64encode(moment.picture).decode() for moment in shown.moments
        ]
    data = json.dumps(record)
    return render(
        "replay.html",
        title=title or f"{shown.student}, {'alone' if shown.under == 'none' else f'under {shown.under}'}",
        data=data,
        digest=blake2s(data.encode(), digest_size=8).hexdigest(),
        last=len(shown.moments) - 1,
        end=record["end"],
        failed=shown.failed,
        n_rescues=len(record["rescued"]),
        drawn=drawn,
        picture=record["pictures"][0] if pictures else "",
    )


def _on_map(
    plan: Mapping[str, Any], shown: Replay, colours: Mapping[str, str]
) -> tuple[float, float, Markup, list[Point]]:
    zone = set(plan["zones"].get(shown.under, ()))
    shade = colours.get(shown.under, UNTAUGHT) + "60"
    grid = grids.zone_grid("", plan["rows"], zone, shown.under, shade)
    size = 22 if grid.width <= 30 else 12
    tiles = [int(moment.state[0]) for moment in shown.moments]
    points = [grids.middle(grid, tile, size) for tile in tiles]
    return size * grid.width + 2, size * len(grid.plan) + 24, grids.tiles(grid, size), points


def _on_plot(
    state_plot: Mapping[str, Any], shown: Replay, colours: Mapping[str, str]
) -> tuple[float, float, Markup, list[Point]]:
    lines = {shown.under: colours.get(shown.under, UNTAUGHT)} if shown.under in state_plot["interventions"] else {}
    plot = episodes_plot("", state_plot, lines)
    frame = Frame(x=plot.x, y=plot.y, height=320, top=10)
    (left, right), (low, high) = state_plot["limits"]

    def pixel(state: Sequence[float]) -> Point:
        x, y = state
        return frame.across(min(max(x, left), right)), frame.down(min(max(y, low), high))

    return frame.width, frame.height, plotted(plot, frame), [pixel(moment.state) for moment in shown.moments]


def _way(points: Sequence[Point], shown: Replay) -> list[Markup]:
    """All of it, and where rescues put the student; the script shows what has happened so far."""
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [element("polyline", points=spots, fill="none", stroke=COLOURS[0], stroke_width=2, **{"class": "way"})]
    for k, moment in enumerate(shown.moments):
        if moment.rescued:
            (x1, y1), (x2, y2) = points[k - 1], points[k]
            way: dict[str, Any] = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "stroke": COLOURS[1], "stroke_width": 2}
            ring = element("circle", cx=x1, cy=y1, r=6.0, fill="none", stroke=COLOURS[1], stroke_width=2.5)
            line = element("line", stroke_dasharray="3 2", **way)
            marks: dict[str, Any] = {"class": "rescue", "data_at": k, "hover": f"rescued in step {moment.step}"}
            parts.append(element("g", line, ring, **marks))
    x, y = points[-1]
    colour = DANGER if shown.failed else "#111"
    look: dict[str, Any] = {"stroke": "#fff", "stroke_width": 1.5, "class": "student"}
    return [*parts, element("circle", cx=x, cy=y, r=5.0, fill=colour, **look)]


def kept_players(contents: Contents, group: Group, under: str) -> list[Markup]:
    """Of the episodes that a store has kept for pictures, those of the first student of a curriculum."""
    kept = next(((t.name, e) for t in group.students if (e := contents.trajectories.get(t.name))), None)
    if kept is None:
        return []
    name, episodes = kept
    told = [Replay.of(name, under, Trajectory.from_json(episode)) for episode in episodes]
    return [player(contents, one, f"{group.label}: {name}, episode {k}") for k, one in enumerate(told, 1)]


def replay_section(path: Path, contents: Contents, given: str | None = None) -> Markup:
    """The median student of each curriculum, alone and under the intervention that it met last in training."""
    task = task_of(contents.settings, given)
    cast: list[tuple[str, Wanted]] = []
    with Store(path, read_only=True) as store:
        for group in contents.groups:
            if (name := median_student(group.students)) is not None:
                last = next(t for t in group.students if t.name == name).units[-1].intervention
                cast += [(group.label, wanted(store, name, under, 0)) for under in dict.fromkeys(("none", last))]
    if not cast:
        raise ConfigError("No student of a comparison has finished: there is nobody to replay.")
    shown = [
        player(contents, one, f"{label}: {one.student} {'on its own' if one.under == 'none' else f'under {one.under}'}")
        for (label, _), one in zip(cast, played(task, [episode for _, episode in cast]), strict=True)
    ]
    return render("replays.html", players=shown, alone=deployed_in_words("none"))
