"""Action distributions against closed forms, and on their way to the environment."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.students.distributions import Categorical, Categoricals, Gaussian, from_json, sample, to_json

BOX = Gaussian(low=(-1.0, -2.0), high=(1.0, np.inf), space_shape=(2,))
BOTH = Categoricals(n_actions=(2, 3), start=(0, 7), space_shape=(2,))


def test_a_gaussian_has_the_density_and_entropy_of_its_coordinates():
    outputs = jnp.array([0.5, -1.0, np.log(2.0), 0.0])  # means, logarithms of standard deviations
    z = np.array([(1.5 - 0.5) / 2, 2.0 + 1.0])
    expected = np.sum(-0.5 * z**2 - np.log([2.0, 1.0]) - 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(BOX.log_prob(outputs, jnp.array([1.5, 2.0])), expected, rtol=1e-6)
    np.testing.assert_allclose(BOX.entropy(outputs), np.log(2.0) + 1 + np.log(2 * np.pi), rtol=1e-6)
    np.testing.assert_array_equal(BOX.mode(outputs), [0.5, -1.0])


def test_gaussian_samples_have_their_mean_and_deviation_whatever_the_bounds():
    outputs = jnp.broadcast_to(jnp.array([0.5, -1.0, np.log(2.0), 0.0]), (20_000, 4))
    drawn = sample(BOX, jax.random.key(0), outputs)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, -1.0], atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), [2.0, 1.0], atol=0.05)


def test_actions_are_clipped_on_their_way_to_the_environment():
    np.testing.assert_array_equal(BOX.in_space(np.array([[-3.0, 9.0]], np.float32)), [[-1.0, 9.0]])
    square = Gaussian(low=(0.0,) * 4, high=(1.0,) * 4, space_shape=(2, 2))
    assert square.in_space(np.zeros((5, 4), np.float32)).shape == (5, 2, 2)


@pytest.mark.parametrize(
    ("distribution", "within", "beyond"),
    [
        (Categorical(3), [0, 2], [-1, 3]),
        (Categorical(3, start=-1), [-1, 1], [-2, 2]),
        (BOTH, [[0, 7], [1, 9]], [[2, 7], [0, 6], [-1, 8]]),
        (BOX, [[-1.0, -2.0], [1.0, 99.0]], [[1.1, 0.0], [0.0, np.inf], [np.nan, 0.0], [0.0, -3.0]]),
    ],
    ids=str,
)
def test_actions_lie_in_their_space_or_do_not(distribution, within, beyond):
    for xp in (np, jnp):
        assert distribution.holds(xp.array(within)).tolist() == [True] * len(within)
        assert distribution.holds(xp.array(beyond)).tolist() == [False] * len(beyond)


def test_several_choices_are_independent_categoricals():
    outputs = jnp.array([0.3, -0.2, 1.0, 0.0, 2.0])
    parts = [(Categorical(2), outputs[:2], 1), (Categorical(3), outputs[2:], 0)]
    together = sum(float(part.log_prob(logits, jnp.array(action))) for part, logits, action in parts)
    np.testing.assert_allclose(BOTH.log_prob(outputs, jnp.array([1, 0])), together, rtol=1e-6)
    apart = sum(float(part.entropy(logits)) for part, logits, _ in parts)
    np.testing.assert_allclose(BOTH.entropy(outputs), apart, rtol=1e-6)
    np.testing.assert_array_equal(BOTH.mode(outputs), [0, 2])
    drawn = np.asarray(sample(BOTH, jax.random.key(0), jnp.broadcast_to(outputs, (20_000, 5))))
    np.testing.assert_allclose((drawn[:, 1] == 2).mean(), jax.nn.softmax(outputs[2:])[2], atol=0.02)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03


def test_actions_are_numbered_as_their_space_does():
    np.testing.assert_array_equal(BOTH.in_space(np.array([[1, 2]])), [[1, 9]])
    np.testing.assert_array_equal(Categorical(3, start=-1).in_space(np.array([0, 2])), [-1, 1])


@pytest.mark.parametrize("distribution", [BOX, BOTH, Categorical(4), Categorical(3, start=-1)])
def test_a_described_distribution_is_itself_again(distribution):
    assert from_json(json.loads(json.dumps(to_json(distribution)))) == distribution


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "text"},
        {"kind": "discrete", "n_actions": 0, "start": 0},
        {"kind": "box", "low": [0.0], "high": [1.0, 2.0], "space_shape": [1]},
        {"kind": "box", "low": [0.0], "high": [float("nan")], "space_shape": [1]},
        {"kind": "multi-discrete", "n_actions": [2], "start": [0], "space_shape": [-1]},
    ],
)
def test_descriptions_of_no_actions_are_refused(fields):
    with pytest.raises(ConfigError):
        from_json(fields)
