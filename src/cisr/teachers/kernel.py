"""The Gaussian process behind GP-UCB: its kernel, the MAP of its hyperparameters, its posterior, and the highest UCB.

Inputs x have one column for each parameter: reals scaled to [0, 1], choices coded 0, 1, 2, …
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.stats import qmc
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, WhiteKernel

Floats = NDArray[np.float64]

WIDE = (1e-12, 1e12)
"""Bounds that scikit-learn is told; the hyperpriors hold the hyperparameters well inside."""
JITTER = 1e-8
"""Added to every observation's variance, so that K stays positive definite when points coincide."""
MAP_STARTS = 4
MAX_COMBINATIONS = 512
"""Of more combinations of options than this, a random sample is searched, together with those tried before."""
CANDIDATES = 2**14
"""Quasi-random candidates of one search for the highest UCB, shared out among the combinations."""
REFINED = 8
"""Candidates from which a local search starts."""


class ARD(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """RBF with one length-scale for each parameter: k(x, x') = σ_f² exp(-½ Σ_j (x_j - x'_j)² / l_j²).

    theta holds log l_1, …, log l_d, log σ_f², the order in which scikit-learn sorts the names.
    """

    def __init__(self, lengthscales: Floats, signal: float) -> None:
        self.lengthscales = lengthscales  # (d,)
        self.signal = signal

    @property
    def scales(self) -> Floats:
        return np.atleast_1d(self.lengthscales)  # (d,); scikit-learn turns a single one into a number

    @property
    def hyperparameter_lengthscales(self) -> Any:
        return Hyperparameter("lengthscales", "numeric", WIDE, len(self.scales))

    @property
    def hyperparameter_signal(self) -> Any:
        return Hyperparameter("signal", "numeric", WIDE)

    def __call__(self, x: Floats, z: Floats | None = None, eval_gradient: bool = False) -> Any:
        """K (m, n); with `eval_gradient`, also ∂K/∂theta (m, n, d + 1)."""
        z = x if z is None else z
        exponent = np.zeros((len(x), len(z)))
        terms = []  # (x_j - x'_j)² / l_j², kept only for the gradient: candidates are many
        for j, lengthscale in enumerate(self.scales):
            term = ((x[:, j, None] - z[None, :, j]) / lengthscale) ** 2
            exponent += term
            if eval_gradient:
                terms.append(term)
        k = self.signal * np.exp(-0.5 * exponent)
        if not eval_gradient:
            return k
        # ∂k/∂log l_j = k (x_j - x'_j)² / l_j², ∂k/∂log σ_f² = k
        return k, k[:, :, None] * np.stack([*terms, np.ones_like(k)], axis=-1)

    def diag(self, x: Floats) -> Floats:
        return np.full(len(x), self.signal)

    def is_stationary(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class LogGamma:
    """Gamma priors seen in log space, one for each entry of theta: l_1, …, l_d, σ_f², σ_n²."""

    shape: Floats  # (d + 2,)
    rate: Floats  # (d + 2,)

    @property
    def mode(self) -> Floats:
        """Where the density over theta is highest: the logarithm of the mean."""
        return np.log(self.shape / self.rate)

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """log p(theta) up to a constant, and its gradient.

        Gamma(v; a, b) ∝ v^(a-1) exp(-b v) with v = exp(theta); the Jacobian dv/dtheta = v makes it v^a exp(-b v).
        Without the Jacobian the density of a shape below 1 is unbounded at v = 0 and length-scales collapse.
        """
        scaled = self.rate * np.exp(theta)
        return float(self.shape @ theta - scaled.sum()), self.shape - scaled


@dataclass(frozen=True)
class Posterior:
    """What the data say about the latent score f, without the noise of an observation."""

    gp: Any  # a fitted GaussianProcessRegressor with kernel ARD + WhiteKernel

    @property
    def x(self) -> Floats:
        return np.asarray(self.gp.X_train_)  # (n, d)

    def mean_sd(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of f at the rows of x, (m,) each.

        μ = k(x)ᵀ K⁻¹ y, σ² = σ_f² - ‖L⁻¹ k(x)‖² with K + noise = L Lᵀ. (scikit-learn's own `predict` adds σ_n².)
        """
        rbf = self.gp.kernel_.k1
        cross = rbf(x, self.x)  # (m, n)
        half = solve_triangular(self.gp.L_, cross.T, lower=True)  # (n, m)
        variance = rbf.signal - np.einsum("nm,nm->m", half, half)
        return cross @ self.gp.alpha_, np.sqrt(np.maximum(variance, 1e-12 * rbf.signal))

    def ucb(self, x: Floats, beta: float) -> Floats:
        mean, sd = self.mean_sd(x)
        return mean + beta * sd  # (m,)

    def ucb_gradient(self, x: Floats, beta: float) -> tuple[float, Floats]:
        """UCB at one point x (d,), and its gradient (d,), meaningful in the columns that hold numbers.

        ∇μ = ∇k(x)ᵀ K⁻¹ y, ∇σ = -∇k(x)ᵀ K⁻¹ k(x) / σ, ∂k_i/∂x_j = -k_i (x_j - x_ij) / l_j².
        """
        rbf = self.gp.kernel_.k1
        cross = rbf(x[None], self.x)[0]  # (n,)
        solved = cho_solve((self.gp.L_, True), cross)
        sd = np.sqrt(max(rbf.signal - cross @ solved, 1e-12 * rbf.signal))
        weights = cross * (self.gp.alpha_ - beta * solved / sd)  # (n,)
        gradient = -weights @ (x - self.x) / rbf.scales**2
        return float(cross @ self.gp.alpha_ + beta * sd), gradient

    def hallucinate(self, x: Floats) -> Posterior:
        """The posterior after observing, at x (d,), just what it expects there, hyperparameters kept."""
        mean, _ = self.mean_sd(x[None])
        return condition(
            self.gp.kernel_,
            np.vstack([self.x, x]),
            np.append(self.gp.y_train_, mean),
            np.append(self.gp.alpha, JITTER),
        )

    def maximise_ucb(self, levels: Sequence[int], *, beta: float, rng: np.random.Generator) -> Floats:
        """The input (d,) with the highest μ + β σ; `levels` (d,) holds 0 for a real, else the number of options.

        Every combination of options gets the same quasi-random reals; L-BFGS-B then improves the reals of the best.
        """
        reals = [j for j, n in enumerate(levels) if n == 0]
        grid = _candidates(levels, reals, rng)  # (C, M, d)
        n_combinations, _, d = grid.shape
        values = self.ucb(grid.reshape(-1, d), beta).reshape(grid.shape[:2])  # (C, M)

        # Starts come from different combinations where possible, and from the tried points, where narrow peaks are.
        keep = max(1, REFINED // n_combinations)
        best_each = np.argsort(-values, axis=1, kind="stable")[:, :keep]  # (C, keep)
        pool = np.vstack([np.take_along_axis(grid, best_each[..., None], axis=1).reshape(-1, d), self.x])
        pool = pool[np.argsort(-self.ucb(pool, beta), kind="stable")[:REFINED]]

        def refine(start: Floats) -> Floats:
            x = start.copy()

            def loss(numbers: Floats) -> tuple[float, Floats]:
                x[reals] = numbers
                value, gradient = self.ucb_gradient(x, beta)
                return -value, -gradient[reals]

            x[reals] = minimize(loss, start[reals], jac=True, bounds=[(0.0, 1.0)] * len(reals)).x
            return x

        if reals:
            pool = np.vstack([pool, *(refine(start) for start in pool)])
        return np.asarray(pool[np.argmax(self.ucb(pool, beta))])


def condition(kernel: Any, x: Floats, y: Floats, noise: Floats) -> Posterior:
    """The posterior under given hyperparameters; `noise` (n,) is variance beyond σ_n²."""
    return Posterior(GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(x, y))


def fit_map(x: Floats, y: Floats, sem: Floats, *, prior: LogGamma) -> Posterior:
    """The posterior under the maximum a posteriori hyperparameters, best of several starts.

    x (n, d), y (n,) standardised, sem (n,) standard errors in units of y.
    """
    # Where a prior hardly decays (a noise variance with shape 0.001), the data may push without end.
    bounds = np.stack([prior.mode - np.log(1e3), prior.mode + np.log(1e3)], axis=1)
    spread = np.random.default_rng(0).standard_normal((MAP_STARTS - 1, len(prior.mode)))

    def maximise(negative_lml: Any, initial: Floats, **_: Any) -> tuple[Floats, float]:
        def loss(theta: Floats) -> tuple[float, Floats]:
            value, gradient = negative_lml(theta)
            log_prior, prior_gradient = prior.log_density(theta)
            return value - log_prior, gradient - prior_gradient

        runs = [minimize(loss, s, jac=True, bounds=bounds) for s in (initial, *(initial + spread))]
        found = min(runs, key=lambda run: float(run.fun))
        return found.x, float(found.fun)

    *lengthscales, signal, noise = np.exp(prior.mode)
    kernel = ARD(np.array(lengthscales), float(signal)) + WhiteKernel(float(noise), WIDE)
    return Posterior(GaussianProcessRegressor(kernel, alpha=sem**2 + JITTER, optimizer=maximise).fit(x, y))


def _candidates(levels: Sequence[int], reals: Sequence[int], rng: np.random.Generator) -> Floats:
    """C combinations of options with M quasi-random settings of the reals each, (C, M, d)."""
    choices = [j for j, n in enumerate(levels) if n > 0]
    options = [levels[j] for j in choices]
    if math.prod(options) <= MAX_COMBINATIONS:
        combinations = np.array(list(itertools.product(*map(range, options))))
    else:
        combinations = np.unique(rng.integers(options, size=(MAX_COMBINATIONS, len(options))), axis=0)
    log2_m = min(9, int(math.log2(CANDIDATES / len(combinations)))) if reals else 0
    grid = np.empty((len(combinations), 2**log2_m, len(levels)))
    grid[:, :, choices] = combinations[:, None]
    if reals:
        grid[:, :, reals] = qmc.Sobol(len(reals), seed=rng).random_base2(log2_m)
    return grid
