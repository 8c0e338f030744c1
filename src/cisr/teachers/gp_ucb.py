"""GP-UCB, the paper's teacher: a Gaussian process over curriculum policies, and what could turn out best tried next.

It follows the paper and its published program: options are as far apart as their numbers 0, 1, 2, …, reals enter as
RBF-ARD, scores are standardised, hyperparameters are at their MAP (in log space) and refit after every point, and the
policy returned is the best observed.

The paper's model has one noise σ_n² for all policies. Ours differs there: where a policy was tried on a class, the
square of the class's standard error is added to σ_n², because classes of ten on the lander differ in it by more than
ten times. With classes of one, as on Frozen Lake, there is none to add and the model is the paper's.

Reals are scaled to [0, 1] inside and length-scales and their priors with them, which is the same model as one on raw
inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from cisr.core.checks import check_kind, check_whole, is_number, shown
from cisr.core.errors import ConfigError
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace
from cisr.teachers.base import Teacher, decode, encode, random_point, scored, unit

if TYPE_CHECKING:  # scikit-learn and scipy are imported where they are used
    from cisr.teachers.kernel import Posterior

Floats = NDArray[np.float64]
SLICE_POINTS = 41


@dataclass(frozen=True)
class GammaPrior:
    """A Gamma distribution given by its mean and its variance, as in the paper's tables."""

    mean: float
    variance: float

    def __post_init__(self) -> None:
        if not (0 < self.mean < math.inf and 0 < self.variance < math.inf):
            raise ConfigError(f"A Gamma prior has mean {self.mean}, variance {self.variance}: give finite numbers > 0.")

    @property
    def shape(self) -> float:
        return self.mean**2 / self.variance

    @property
    def rate(self) -> float:
        return self.mean / self.variance


@dataclass(frozen=True, kw_only=True)
class Hyperpriors:
    """What is believed about the Gaussian process before any data; scores are standardised."""

    signal: GammaPrior
    """Of the signal variance σ_f²."""
    lengthscales: Mapping[str, GammaPrior]
    """Of each parameter's length-scale l_j, in that parameter's own units."""
    noise: GammaPrior
    """Of the noise variance σ_n²."""


def default_priors(space: SearchSpace) -> Hyperpriors:
    """Hyperpriors scaled to the ranges of the space.

    Signal, noise and options as in both of the paper's tables; for a real, exponential with a mean of a sixth of its
    range, as its Frozen Lake return thresholds have.
    """

    def lengthscale(parameter: Real | Choice) -> GammaPrior:
        if isinstance(parameter, Choice):
            return GammaPrior(0.2, 0.2)
        mean = (parameter.high - parameter.low) / 6
        return GammaPrior(mean, mean**2)

    return Hyperpriors(
        signal=GammaPrior(1.0, 0.2),
        lengthscales={p.name: lengthscale(p) for p in space.parameters},
        noise=GammaPrior(0.01, 0.1),
    )


@dataclass(frozen=True, kw_only=True)
class Model:
    """A fitted Gaussian process and the scale of its scores: score = location + scale · standardised."""

    posterior: Posterior
    location: float
    scale: float


@final
class GPUCB(Teacher):
    """Maximises μ(x) + β σ(x) over the latent score; see the module.

    The first `n_initial` points are the ones given in `initial` and then random ones. Of several points asked for at
    once, each after the first is chosen as if the ones before had scored just what the model expects (GP-BUCB).
    A failed class (score None) enters the model as the lowest score seen, so that its surroundings are avoided; while
    nothing has a score, points are random.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        n_initial: int = 10,
        initial: Sequence[Parameters] = (),
        priors: Hyperpriors | None = None,
        beta: float = 2.0,
    ) -> None:
        super().__init__(space, seed=seed)
        check_whole("n_initial", n_initial, 0)
        if not isinstance(initial, Sequence) or not all(isinstance(point, Mapping) for point in initial):
            raise ConfigError(f"The initial policies are {shown(initial)}: give points of the search space.")
        check_kind("The priors of GP-UCB", priors, (Hyperpriors, type(None)), "a cisr.teachers.Hyperpriors, or None")
        if len(initial) > n_initial:
            raise ConfigError(f"{len(initial)} initial policies, but n_initial is {n_initial}: give at least as many.")
        if not is_number(beta) or beta < 0:
            raise ConfigError(f"GP-UCB's weight beta is {shown(beta)}: give a finite number >= 0.")
        for point in initial:
            space.check(point)
        self.n_initial = n_initial
        self.initial = [dict(point) for point in initial]
        self.priors = priors or default_priors(space)
        names = [p.name for p in space.parameters]
        if sorted(self.priors.lengthscales) != sorted(names):
            raise ConfigError(
                f"Length-scale priors for {sorted(self.priors.lengthscales)}, the search space has {sorted(names)}: "
                f"give one for each parameter."
            )
        self.beta = beta
        self._fitted: tuple[int, Model | None] = (0, None)

    def _propose(self, n: int) -> list[Parameters]:
        told = len(self._trials)
        model = self._model() if told + n > self.n_initial else None
        posterior = None if model is None else model.posterior
        points: list[Parameters] = []
        for k in range(told, told + n):
            if k < len(self.initial):
                points.append(dict(self.initial[k]))
            elif k < self.n_initial or posterior is None:
                points.append(random_point(self.space, self.seed, k))
            else:
                points.append(self._promising_point(posterior, k))
            if posterior is not None:
                posterior = posterior.hallucinate(encode(self.space, points[-1]))
        return points

    def posterior(self, points: Sequence[Parameters]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the latent score at each point, in units of the score."""
        scored(self._trials)  # complains if there is nothing to fit
        model = self._model()
        assert model is not None
        mean, sd = model.posterior.mean_sd(np.stack([encode(self.space, point) for point in points]))
        return model.location + model.scale * mean, model.scale * sd

    def hyperparameters(self) -> dict[str, Any]:
        """The fitted σ_f², l and σ_n² as plain numbers; empty while nothing has a score.

        Variances are those of standardised scores, length-scales are in their parameter's own units.
        """
        model = self._model()
        if model is None:
            return {}
        rbf, white = model.posterior.gp.kernel_.k1, model.posterior.gp.kernel_.k2
        lengthscales = zip(self.space.parameters, rbf.scales, strict=True)
        return {
            "signal_variance": float(rbf.signal),
            "lengthscales": {p.name: float(unit(p) * scaled) for p, scaled in lengthscales},
            "noise_variance": float(white.noise_level),
        }

    def describe(self) -> dict[str, Any]:
        """The hyperparameters, and the posterior along each real parameter with all others as in the best policy."""
        if self._model() is None:
            return {}
        best = self.best()
        slices = {}
        for p in self.space.reals:
            at = np.linspace(p.low, p.high, SLICE_POINTS).tolist()
            mean, sd = self.posterior([{**best, p.name: value} for value in at])
            slices[p.name] = {"at": at, "mean": mean.tolist(), "sd": sd.tolist()}
        return {"hyperparameters": self.hyperparameters(), "slices": slices}

    def _promising_point(self, posterior: Posterior, number: int) -> Parameters:
        levels = [len(p.options) if isinstance(p, Choice) else 0 for p in self.space.parameters]
        x = posterior.maximise_ucb(levels, beta=self.beta, rng=np.random.default_rng([self.seed, number]))
        return decode(self.space, x)

    def _model(self) -> Model | None:
        """Fitted once for each number of trials: trials are only ever added."""
        if self._fitted[0] != len(self._trials):
            self._fitted = (len(self._trials), self._fit())
        return self._fitted[1]

    def _fit(self) -> Model | None:
        from cisr.teachers.kernel import LogGamma, fit_map

        finite = [trial.score for trial in self._trials if trial.score is not None]
        if not finite:
            return None
        scores = np.array([min(finite) if trial.score is None else trial.score for trial in self._trials])  # (n,)
        errors = np.array([trial.sem or 0.0 for trial in self._trials])  # (n,)
        location = float(scores.mean())
        scale = float(scores.std()) if np.ptp(scores) > 0 else 1.0

        # A prior on l_j holds for l_j / unit in the scaled inputs: same shape, rate times unit.
        parameters = self.space.parameters
        priors = [*(self.priors.lengthscales[p.name] for p in parameters), self.priors.signal, self.priors.noise]
        units = [*(unit(p) for p in parameters), 1.0, 1.0]
        posterior = fit_map(
            np.stack([encode(self.space, trial.parameters) for trial in self._trials]),
            (scores - location) / scale,
            errors / scale,
            prior=LogGamma(
                shape=np.array([prior.shape for prior in priors]),
                rate=np.array([prior.rate * size for prior, size in zip(priors, units, strict=True)]),
            ),
        )
        return Model(posterior=posterior, location=location, scale=scale)
