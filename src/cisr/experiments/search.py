"""What a study searches, with whom, and what for: the teachers of a task, its search space, its usual score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cisr.core.checks import shown
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.curricula import CurriculumPolicy, Observation, Parameters, Patient, SearchSpace, Switching
from cisr.store.meaning import making_sense_of
from cisr.teachers import GPUCB, GammaPrior, Hyperpriors, RandomSearch, Teacher, TopTwo
from cisr.training import Transcript, charged_score, default_score

MakeTeacher = Callable[[SearchSpace, int], Teacher]
"""From a search space and a seed."""


def default_teacher(task: Task) -> MakeTeacher:
    """Our own teacher, or the paper's, as the task has it."""
    teaching = task.training.teaching

    def make(space: SearchSpace, seed: int) -> Teacher:
        if teaching.teacher == "top-two":
            return TopTwo(space, seed=seed, n_initial=teaching.n_initial)
        priors = None
        if teaching.hyperpriors is not None:
            signal, *lengthscales, noise = (GammaPrior(mean, variance) for mean, variance in teaching.hyperpriors)
            names = [parameter.name for parameter in space.parameters]
            priors = Hyperpriors(signal=signal, lengthscales=dict(zip(names, lengthscales, strict=True)), noise=noise)
        return GPUCB(
            space,
            seed=seed,
            n_initial=teaching.n_initial,
            initial=[dict(point) for point in teaching.initial[: teaching.n_initial]],
            priors=priors,
        )

    return make


def usual_score(task: Task) -> Callable[[Transcript], float]:
    """What a teacher wants of a student: the paper's the return alone, ours also that it does not fail."""
    return default_score if task.training.teaching.teacher == "gp-ucb" else charged_score(task.max_reward)


def random_teacher(space: SearchSpace, seed: int) -> Teacher:
    """Random search: the plain baseline."""
    return RandomSearch(space, seed=seed)


def search_space(task: Task, observed: Sequence[Observation] = ()) -> SearchSpace:
    """Where teachers of a task search: the 3K + 1 parameters of switching curricula over its interventions.

    A range that the task does not give covers what was observed of the first students, unit by unit, and the
    observation (0, 0) that stands before the first unit.
    """
    if not task.interventions:
        raise ConfigError(f"Task '{task.name}' has no interventions to choose from: give it at least one.")
    return Switching.space(
        task.choices,
        task.training.teaching.n_switches,
        task.training.teaching.return_range or covering([seen.mean_return for seen in observed]),
        task.training.teaching.violation_range or covering([seen.violation for seen in observed]),
    )


def covering(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    return (low, high) if low < high else (0.0, 1.0)


def policy_at(task: Task, parameters: Parameters) -> CurriculumPolicy:
    """The curriculum policy at a point of a task's search space."""
    with making_sense_of(f"The study's point {shown(parameters)}"):  # a store may say anything
        switching = Switching.from_parameters(parameters)
    patience = task.training.teaching.patience
    if patience is None:
        return switching
    return Patient(interventions=switching.interventions, thresholds=switching.thresholds, patience=patience)
