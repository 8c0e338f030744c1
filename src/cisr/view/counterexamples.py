"""The counterexamples of an audit as files and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cisr.auditing.report import AuditReport
from cisr.core.task import Task
from cisr.system.files import plain
from cisr.training import STEP_TIMEOUT
from cisr.view.episode_picture import draw
from cisr.view.last_frame import last_frames


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
        if verdict.falsification is not None and verdict.counts
        for number, example in enumerate(verdict.falsification.counterexamples, 1)
    }
    frames = last_frames(task, tuple(examples.values()), step_timeout)
    for (path, example), frame in zip(examples.items(), frames.pictures, strict=True):
        example.save(path)
        draw(task, example, path.with_suffix(".png"), frame=frame)
    return Kept(tuple(examples), frames.missing)
