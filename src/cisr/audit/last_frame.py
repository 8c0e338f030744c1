"""What an environment itself draws at the end of an episode, in a process of its own: a renderer may crash, and take
with it whoever called it."""

from __future__ import annotations

import io
import os
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cisr.audit.counterexample import Counterexample, Reciting
from cisr.audit.play import Arena
from cisr.classroom.executors import start_process
from cisr.classroom.worker import own_channels, receive, send
from cisr.errors import CisrError, described
from cisr.registrations import registrations
from cisr.task import Task

SECONDS = 120
"""That all frames of an audit may take."""


class Wanted(NamedTuple):
    """The ends of some episodes of a task."""

    task: Task
    examples: tuple[Counterexample, ...]


class Frames(NamedTuple):
    """A frame (height, width, 3) for each example, None where there is none, and why one is missing that was tried."""

    pictures: tuple[np.ndarray | None, ...]
    missing: str | None = None


def last_frames(task: Task, examples: Sequence[Counterexample]) -> Frames:
    """Tasks with a floor plan, and environments that do not draw themselves, have none."""
    nothing: tuple[None, ...] = (None,) * len(examples)
    if not examples or task.floor_plan or not _draws_itself(task):
        return Frames(nothing)
    inbox = io.BytesIO()
    try:
        send(inbox, registrations())
        send(inbox, Wanted(task, tuple(examples)))
        process = start_process("cisr.audit.last_frame", JAX_PLATFORMS="cpu", PYGAME_HIDE_SUPPORT_PROMPT="1")
    except CisrError as error:
        return Frames(nothing, str(error))
    try:
        drawn, _ = process.communicate(inbox.getvalue(), timeout=SECONDS)
        end = f"exit code {process.returncode}" if process.returncode >= 0 else f"signal {-process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        drawn, _ = process.communicate()
        end = f"no answer within {SECONDS} seconds"
    found = [frame for frame in receive(io.BytesIO(drawn)) if isinstance(frame, np.ndarray | str | None)]
    missing = next((frame for frame in found if isinstance(frame, str)), None)
    if len(found) < len(examples):
        missing = f"the environment's renderer ended its process ({end})"
    pictures = [frame if isinstance(frame, np.ndarray) else None for frame in found]
    return Frames((*pictures, *nothing)[: len(examples)], missing)


def _draws_itself(task: Task) -> bool:
    env = task.make_env()
    env.close()
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def _drawn(task: Task, example: Counterexample) -> np.ndarray | str:
    """The frame, or why there is none."""
    visible = replace(task, make_env=lambda **options: task.make_env(render_mode="rgb_array", **options))
    try:
        with warnings.catch_warnings(), Arena(visible, task.intervention(example.intervention)) as arena:
            warnings.simplefilter("ignore")
            arena.play(Reciting(example.episode), example.episode.seed)
            return np.asarray(arena.env.render())
    except Exception as error:  # no display, no pygame: the picture does without
        return described(error)


def main() -> None:
    """The process that draws: what is wanted comes in, one answer for each example goes out."""
    inbox, outbox = own_channels()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory: no display is needed
    for wanted in receive(inbox):
        if isinstance(wanted, Wanted):
            for example in wanted.examples:
                send(outbox, _drawn(wanted.task, example))
        else:
            send(outbox, wanted.message)
    outbox.close()
