"""Importing this module makes the tasks known to `gymnasium.make`, as `cisr/FrozenLake-v0` and so on."""

import gymnasium

gymnasium.register(id="cisr/FrozenLake-v0", entry_point="cisr.tasks.frozen_lake.environment:make_induced_env")
