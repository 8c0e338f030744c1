"""Importing this module makes the tasks known to `gymnasium.make`, as `cisr/FrozenLake-v0` and so on."""

import gymnasium

from cisr.cmdp.wrapper import Cost, InducedCMDP
from cisr.tasks import BUILT_IN, get_task


def make_induced_env(
    task: str,
    intervention: str = "none",
    student: str | None = None,
    cost: Cost = "failures",
    render_mode: str | None = None,
) -> InducedCMDP:
    """What `gymnasium.make("cisr/FrozenLake-v0", intervention="SR1")` makes."""
    options = {} if render_mode is None else {"render_mode": render_mode}
    return InducedCMDP(get_task(task, student=student), intervention, cost=cost, **options)


for name in BUILT_IN:
    camel = name.title().replace("-", "")
    gymnasium.register(id=f"cisr/{camel}-v0", entry_point=f"{__name__}:make_induced_env", kwargs={"task": name})
