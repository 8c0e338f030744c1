"""The counterexamples of an audit as files and pictures, with what the environment itself draws at the end.

Renderers crash: the last frame is drawn in a process of its own.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2s
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cisr.auditing.counterexample import Counterexample, Reciting
from cisr.auditing.play import Arena
from cisr.auditing.report import AuditReport
from cisr.core.errors import CisrError, described
from cisr.core.task import Task
from cisr.system.files import plain
from cisr.system.interrupts import users_errors
from cisr.training import STEP_TIMEOUT
from cisr.training.apart import play_apart
from cisr.view.episode_picture import draw

Drawn = Callable[[np.ndarray | str | None], None]


class Kept(NamedTuple):
    """Counterexamples on disk."""

    paths: tuple[Path, ...]
    missing: str | None
    """Why their pictures do without the environment's own last frame, where that is no matter of course."""


def keep_counterexamples(task: Task, report: AuditReport, folder: Path, step_timeout: float = STEP_TIMEOUT) -> Kept:
    """Each counterexample as a file that can be replayed, with a picture beside it; those of `none` are no news."""
    examples = {
        folder / f"{plain(verdict.name)}-{plain(example.attacker)}-{number}.json": example
        for verdict in report.verdicts
        if verdict.counts
        for number, example in enumerate(verdict.counterexamples, 1)
    }
    frames = last_frames(task, tuple(examples.values()), step_timeout)
    for (path, example), frame in zip(examples.items(), frames.pictures, strict=True):
        example.save(path)
        draw(task, example, path.with_suffix(".png"), frame=frame)
    return Kept(tuple(examples), frames.missing)


def keep_candidates(report: AuditReport, folder: Path) -> int:
    """What failed in a JAX environment and could not be played on Gymnasium's, as files of a folder; how many."""
    found = [candidate for v in report.verdicts if v.falsification for candidate in v.falsification.candidates]
    for candidate in found:
        did = blake2s(json.dumps(candidate.actions).encode(), digest_size=4).hexdigest()  # by another search, perhaps
        where = (plain(candidate.intervention), plain(candidate.attacker), str(candidate.seed), did)
        candidate.save(folder / f"{'-'.join(where)}.json")
    return len(found)


class Frames(NamedTuple):
    """A frame (height, width, 3) for each example, None where there is none, and why one is missing that was tried."""

    pictures: tuple[np.ndarray | None, ...]
    missing: str | None = None


def last_frames(task: Task, examples: Sequence[Counterexample], step_timeout: float = STEP_TIMEOUT) -> Frames:
    """Tasks with a floor plan, and environments that do not draw themselves, have none."""
    found: list[np.ndarray | str | None] = []
    missing: str | None = None
    if examples and not task.appearance.floor_plan:
        try:
            play_apart(_draw, task, tuple(examples), step_timeout=step_timeout, listen=found.append)
        except CisrError as error:
            missing = str(error).rstrip(".")
    missing = missing or next((frame for frame in found if isinstance(frame, str)), None)
    pictures = [frame if isinstance(frame, np.ndarray) else None for frame in found]
    return Frames((*pictures, *[None] * len(examples))[: len(examples)], missing)


def _draw(task: Task, examples: Sequence[Counterexample], tell: Drawn) -> None:
    """Tell the frame of each example, or why there is none; nothing where the environment does not draw itself."""
    env = task.make_env()
    env.close()
    if "rgb_array" in (env.metadata.get("render_modes") or ()):
        for example in examples:
            tell(_drawn(task, example))


def _drawn(task: Task, example: Counterexample) -> np.ndarray | str:
    """The frame, or why there is none."""
    visible = replace(task, make_env=lambda **options: task.make_env(render_mode="rgb_array", **options))
    try:
        with warnings.catch_warnings(), Arena(visible, task.intervention(example.intervention)) as arena:
            warnings.simplefilter("ignore")
            arena.play(Reciting(example.episode.actions), example.episode.seed)
            return np.asarray(arena.env.render())
    except users_errors() as error:  # no display, no pygame: the picture does without
        return described(error)
