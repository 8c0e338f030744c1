"""Importing this module makes the tasks known to `gymnasium.make`, as `cisr/FrozenLake-v0` and so on."""

import gymnasium

gymnasium.register(id="cisr/FrozenLake-v0", entry_point="cisr.tasks.frozen_lake.environment:make_induced_env")
gymnasium.register(id="cisr/LunarLander-v0", entry_point="cisr.tasks.lunar_lander.environment:make_induced_env")
