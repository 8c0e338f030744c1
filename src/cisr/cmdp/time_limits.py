"""Time limits of environments' own: one below a task's horizon is the horizon, and its author should know."""

from __future__ import annotations

from typing import Any

from gymnasium.wrappers import TimeLimit

from cisr.cmdp.saving import layers
from cisr.core.task import Task


def time_limit(env: Any) -> int | None:
    """The shortest of the wrappers' own; a spec may name one that is not there."""
    limits = [layer._max_episode_steps for layer in layers(env) if isinstance(layer, TimeLimit)]
    return min(limits, default=None)


def shortened(task: Task, limit: int | None) -> str | None:
    """What is to be said of a limit in steps; None where it cuts off no episode before its time."""
    longest = max([task.horizon, *(task.horizon_under(intervention) for intervention in task.interventions)])
    if limit is None or limit >= longest:
        return None
    return (
        f"The environment of task '{task.name}' cuts its episodes off after {limit} steps (TimeLimit), before the "
        f"horizon of {longest}: {limit} is the horizon then; give horizon={limit}, or an environment with "
        f"max_episode_steps={longest}."
    )


def shortened_by_its_own(task: Task) -> str | None:
    """The same, of an environment that is made for it."""
    env = task.make_env()
    try:
        return shortened(task, time_limit(env))
    finally:
        env.close()
