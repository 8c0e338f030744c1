"""Students: PPO with multipliers, written once in JAX."""

from cisr.students.config import Convolutional, Network, Perceptron, Population, StudentConfig, explorer

__all__ = ["Convolutional", "Network", "Perceptron", "Population", "StudentConfig", "explorer"]
