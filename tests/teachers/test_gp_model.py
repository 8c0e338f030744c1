"""The Gaussian process of the GP-UCB teacher, against BoTorch, finite differences and hand-worked numbers."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.curricula.space import Choice, Parameters, Real, SearchSpace
from cisr.teachers import GPUCB, GammaPrior, Hyperpriors
from cisr.teachers.base import random_point

SMALL = SearchSpace(
    parameters=(
        Real(name="r", low=-1.0, high=3.0),
        Choice(name="c", options=("a", "b", "c")),
        Real(name="v", low=0.0, high=0.2),
    )
)
LAKE = SearchSpace(
    parameters=(
        Real(name="return_1", low=-0.5, high=5.5),
        Real(name="violation_1", low=0.0, high=0.2),
        Real(name="return_2", low=-0.5, high=5.5),
        Real(name="violation_2", low=0.0, high=0.2),
        *(Choice(name=f"intervention_{i}", options=("SR1", "SR2", "HR")) for i in (1, 2, 3)),
    )
)
RETURN, VIOLATION, INTERVENTION = GammaPrior(1.0, 1.0), GammaPrior(0.05, 0.02), GammaPrior(0.2, 0.2)
LAKE_PRIORS = Hyperpriors(
    signal=GammaPrior(1.0, 0.2),
    lengthscales=dict(
        zip(
            [p.name for p in LAKE.parameters],
            [RETURN, VIOLATION, RETURN, VIOLATION, INTERVENTION, INTERVENTION, INTERVENTION],
            strict=True,
        )
    ),
    noise=GammaPrior(0.01, 0.1),
)
"""The paper's table for the teacher in Frozen Lake."""


def small_teacher(*, sem: float | None = None) -> GPUCB:
    """A teacher that has seen a wave over both reals, another one for each option, with some terrible scores."""
    teacher = GPUCB(SMALL, seed=0)
    for k in range(14):
        point = random_point(SMALL, 99, k)
        score = math.sin(float(point["r"])) + 5 * float(point["v"]) + {"a": 0.0, "b": 0.5, "c": -4.0}[str(point["c"])]
        teacher.tell(point, score, sem)
    return teacher


def test_a_gamma_prior_has_shape_mean_squared_over_variance_and_rate_mean_over_variance():
    prior = GammaPrior(0.05, 0.02)
    assert prior.shape == pytest.approx(0.125)
    assert prior.rate == pytest.approx(2.5)


@pytest.mark.parametrize("sem", [None, 0.1])
def test_the_posterior_is_that_of_botorch_on_raw_inputs(sem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        models = pytest.importorskip("botorch.models")
        kernels = pytest.importorskip("gpytorch.kernels")
        teacher = small_teacher(sem=sem)
        fitted = teacher.hyperparameters()
        scores = np.array([trial.score for trial in teacher.trials])
        errors = np.full(len(scores), sem or 0.0)
        queries = [random_point(SMALL, 7, k) for k in range(40)]

        def features(points: list[Parameters]):
            return torch.tensor([[p["r"], p["v"], "abc".index(p["c"])] for p in points]).double()

        x = features([trial.parameters for trial in teacher.trials])
        y = torch.tensor((scores - scores.mean()) / scores.std())[:, None]
        variance = fitted["noise_variance"] + 1e-8 + torch.tensor((errors / scores.std()) ** 2)[:, None]
        rbf = kernels.RBFKernel(ard_num_dims=x.shape[1])
        oracle = models.SingleTaskGP(x, y, variance, covar_module=kernels.ScaleKernel(rbf), outcome_transform=None)
        oracle.mean_module = torch.nn.Module()
        oracle.mean_module.forward = lambda inputs: torch.zeros(inputs.shape[:-1], dtype=inputs.dtype)
        scales = fitted["lengthscales"]
        oracle.covar_module.base_kernel.lengthscale = torch.tensor([scales["r"], scales["v"], scales["c"]]).double()
        oracle.covar_module.outputscale = fitted["signal_variance"]
        expected = oracle.posterior(features(queries))
        expected_mean = expected.mean[:, 0].detach().numpy() * scores.std() + scores.mean()
        expected_sd = expected.variance[:, 0].sqrt().detach().numpy() * scores.std()

    mean, sd = teacher.posterior(queries)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-6)
    np.testing.assert_allclose(sd**2, expected_sd**2, atol=1e-6)


def test_the_kernels_gradient_is_that_of_finite_differences():
    from cisr.teachers.kernel import ARD

    x = np.array([[0.1, 0.0, 0.9], [0.4, 1.0, 0.2], [0.8, 1.0, 0.5], [0.3, 2.0, 0.5]])
    kernel = ARD(np.array([0.3, 0.7, 0.5]), 1.7)
    _, gradient = kernel(x, eval_gradient=True)
    for j, step in enumerate(1e-6 * np.eye(4)):
        up, down = (kernel.clone_with_theta(kernel.theta + sign * step)(x) for sign in (1, -1))
        np.testing.assert_allclose(gradient[..., j], (up - down) / 2e-6, atol=1e-8)


def test_the_gradient_of_ucb_is_that_of_finite_differences():
    model = small_teacher()._model()
    assert model is not None
    x = np.array([0.37, 1.0, 0.62])
    _, gradient = model.posterior.ucb_gradient(x, 2.0)
    for j in (0, 2):
        step = 1e-6 * np.eye(3)[j]
        up, down = (model.posterior.ucb((x + sign * step)[None], 2.0)[0] for sign in (1, -1))
        assert gradient[j] == pytest.approx((up - down) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_the_papers_priors_never_let_a_length_scale_collapse(seed):
    teacher = GPUCB(LAKE, seed=seed, priors=LAKE_PRIORS)
    rng = np.random.default_rng(seed)
    for k in range(30):
        teacher.tell(random_point(LAKE, seed, k), rng.normal())
    for name, lengthscale in teacher.hyperparameters()["lengthscales"].items():
        assert lengthscale > 0.1 * LAKE_PRIORS.lengthscales[name].mean


def test_a_score_known_to_be_uncertain_moves_the_model_less():
    point: Parameters = {"r": 1.5, "c": "b", "v": 0.12}
    sure, unsure = small_teacher(), small_teacher()
    sure.tell(point, 3.0, 0.0)
    unsure.tell(point, 3.0, 3.0)
    assert unsure.posterior([point])[0][0] < sure.posterior([point])[0][0] - 0.1


def test_equal_scores_leave_untried_policies_uncertain():
    teacher = GPUCB(SMALL, seed=0)
    for k in range(3):  # the mean of three 0.1 is not exactly 0.1
        teacher.tell({"r": -1.0 + 0.1 * k, "c": "a", "v": 0.0}, 0.1)
    mean, sd = teacher.posterior([{"r": 3.0, "c": "c", "v": 0.2}])
    assert mean[0] == pytest.approx(0.1)
    assert sd[0] > 0.1


def test_hyperparameters_are_plain_numbers_in_the_parameters_units():
    fitted = small_teacher().hyperparameters()
    assert json.loads(json.dumps(fitted)) == fitted
    assert sorted(fitted["lengthscales"]) == ["c", "r", "v"]
    assert fitted["lengthscales"]["r"] > 5 * fitted["lengthscales"]["v"]


def test_bad_priors_are_explained():
    with pytest.raises(ConfigError, match="mean 0"):
        GammaPrior(0.0, 1.0)
    with pytest.raises(ConfigError, match="variance inf"):
        GammaPrior(1.0, math.inf)


def test_a_posterior_without_scores_is_explained():
    with pytest.raises(ConfigError, match="None of the 0 policies"):
        GPUCB(SMALL, seed=0).posterior([random_point(SMALL, 0, 0)])
