"""What an environment itself draws at the end of an episode. Renderers crash: it is drawn in a process of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cisr.auditing.counterexample import Counterexample, Reciting
from cisr.auditing.play import Arena
from cisr.core.errors import CisrError, described
from cisr.core.task import Task
from cisr.system.interrupts import users_errors
from cisr.training import STEP_TIMEOUT
from cisr.training.apart import play_apart

Drawn = Callable[[np.ndarray | str | None], None]


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
            arena.play(Reciting(example.episode), example.episode.seed)
            return np.asarray(arena.env.render())
    except users_errors() as error:  # no display, no pygame: the picture does without
        return described(error)
