"""What is measured, as the processes of the Stable-Baselines3 side are told."""

from __future__ import annotations

from typing import NamedTuple

from cisr.core.task import Task
from cisr.students.config import StudentConfig


class Work(NamedTuple):
    """What one process of the Stable-Baselines3 side is sent; a second message starts its clock."""

    task: Task
    config: StudentConfig
    intervention: str
    seconds: float
    seed: int
    plain: bool = False
    """On the task's own environment, without the intervention."""


class Ready(NamedTuple):
    """A process has warmed up."""
