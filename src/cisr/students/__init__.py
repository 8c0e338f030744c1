"""Students: networks, action distributions, PPO on the Lagrangian with multipliers, written once in JAX.

May import core and system; knows neither curricula nor how it is stepped.
"""

from cisr.students.config import Convolutional, Network, Perceptron, Population, StudentConfig, explorer

__all__ = ["Convolutional", "Network", "Perceptron", "Population", "StudentConfig", "explorer"]
