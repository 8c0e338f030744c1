"""Optuna's samplers as teachers, for comparison."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal, final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from optuna.trial import TrialState, create_trial

from cisr.curricula.space import Choice, Parameters, SearchSpace
from cisr.teachers import Teacher
from cisr.teachers.base import best_observed, random_point

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


@final
class OptunaTeacher(Teacher):
    """A sampler with its default options; it returns the policy with the best observed mean score.

    The random design comes from cisr, so that it is every teacher's. Samplers keep a memory: unlike other teachers,
    this one may answer differently when it is asked twice.
    """

    def __init__(self, space: SearchSpace, *, seed: int, sampler: Literal["tpe", "gp"], n_initial: int) -> None:
        super().__init__(space, seed=seed)
        self.n_initial = n_initial
        self.distributions: dict[str, BaseDistribution] = {
            p.name: CategoricalDistribution(p.options) if isinstance(p, Choice) else FloatDistribution(p.low, p.high)
            for p in space.parameters
        }
        kind: type[TPESampler] | type[GPSampler] = TPESampler if sampler == "tpe" else GPSampler
        chosen: BaseSampler = kind(seed=seed, n_startup_trials=n_initial)
        self.study = optuna.create_study(direction="maximize", sampler=chosen)

    def _propose(self, n: int) -> list[Parameters]:
        told = len(self._trials)
        return [
            random_point(self.space, self.seed, k) if k < self.n_initial else self._sample()
            for k in range(told, told + n)
        ]

    def _sample(self) -> Parameters:
        trial = self.study.ask(self.distributions)
        self.study.tell(trial, state=TrialState.FAIL)  # samplers pass over it: `tell` adds what was really tried
        return dict(trial.params)

    def tell(
        self,
        parameters: Mapping[str, float | str],
        score: float | None,
        sem: float | None = None,
        each: Sequence[float] = (),
    ) -> None:
        super().tell(parameters, score, sem)
        if score is not None:
            tried = create_trial(params=dict(parameters), distributions=self.distributions, value=score)
            self.study.add_trial(tried)

    def best(self) -> Parameters:
        return best_observed(self._trials)
