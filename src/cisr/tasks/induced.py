"""What `gymnasium.make("cisr/FrozenLake-v0", intervention="SR1")` makes."""

from __future__ import annotations

from cisr.cmdp.gymnasium import InducedCMDP
from cisr.tasks import get_task


def make_induced_env(
    task: str, intervention: str = "none", student: str | None = None, render_mode: str | None = None
) -> InducedCMDP:
    options = {} if render_mode is None else {"render_mode": render_mode}
    return InducedCMDP(get_task(task, student=student), intervention, **options)
