"""Students: networks, action distributions, PPO on the Lagrangian with multipliers, written once in JAX.

May import core and system; knows neither curricula nor how it is stepped.
"""

from cisr.students.config import CNN, MLP, Network, Population, StudentConfig, explorer

__all__ = ["CNN", "MLP", "Network", "Population", "StudentConfig", "explorer"]
