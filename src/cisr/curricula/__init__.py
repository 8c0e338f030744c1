"""Curriculum policies as frozen values, their JSON files, and the space in which a teacher searches for them.

May import core and system.
"""

from cisr.curricula.base import CurriculumPolicy, Observation, Stage, fresh_starts
from cisr.curricula.files import load_policy, policy_from_json, save_policy
from cisr.curricula.patient import Patient
from cisr.curricula.policies import Bandit, Fixed, Schedule, Switching, Threshold, named_policy
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace

__all__ = [
    "Bandit",
    "Choice",
    "CurriculumPolicy",
    "Fixed",
    "Observation",
    "Parameters",
    "Patient",
    "Real",
    "Schedule",
    "SearchSpace",
    "Stage",
    "Switching",
    "Threshold",
    "fresh_starts",
    "load_policy",
    "named_policy",
    "policy_from_json",
    "save_policy",
]
