"""Teachers: which curriculum policy to try next, learned across students.

May import curricula, core and system; knows nothing of how students are trained.
"""

from cisr.teachers.base import Belief, Teacher, Trial
from cisr.teachers.gp_ucb import GPUCB, GammaPrior, Hyperpriors
from cisr.teachers.random_search import RandomSearch
from cisr.teachers.top_two import TopTwo

__all__ = ["GPUCB", "Belief", "GammaPrior", "Hyperpriors", "RandomSearch", "Teacher", "TopTwo", "Trial"]
