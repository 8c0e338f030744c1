"""What `gymnasium.make` finds: called by Gymnasium's plug-in loader, in the namespace `cisr`."""

import gymnasium


def register_environments() -> None:
    gymnasium.register(id="FrozenLake-v0", entry_point="cisr.tasks.frozen_lake:make_induced_env")
