"""Teachers: which curriculum policy to try next, learned across students."""

from cisr.teachers.base import Teacher, Trial
from cisr.teachers.gp_ucb import GPUCB, GammaPrior, Hyperpriors
from cisr.teachers.random_search import RandomSearch

__all__ = ["GPUCB", "GammaPrior", "Hyperpriors", "RandomSearch", "Teacher", "Trial"]
