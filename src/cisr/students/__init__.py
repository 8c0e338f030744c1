"""Students: PPO with multipliers, written once in JAX."""

from cisr.students.config import Convolutional, Network, Perceptron, Population, StudentConfig

__all__ = ["Convolutional", "Network", "Perceptron", "Population", "StudentConfig"]
