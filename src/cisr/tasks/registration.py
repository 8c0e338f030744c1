"""Importing this module makes the tasks known to `gymnasium.make`, as `cisr/FrozenLake-v0` and so on."""

import gymnasium

from cisr.tasks import BUILT_IN

for name in BUILT_IN:
    gymnasium.register(
        id=f"cisr/{name.title().replace('-', '')}-v0",
        entry_point="cisr.tasks.induced:make_induced_env",
        kwargs={"task": name},
    )
