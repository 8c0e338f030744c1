"""Networks as pure functions, against formulas written another way."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.students import CNN, MLP
from cisr.students.networks import ObservationSpec, apply, initialise

IMAGE = ObservationSpec(shape=(7, 6, 2))
SMALL_CNN = CNN(filters=(3, 4), kernel_size=3, hidden=(5,))


compiled = jax.jit(apply, static_argnums=(0, 1))
PARAMS = jax.jit(lambda key: initialise(key, SMALL_CNN, IMAGE, 4))


def random_params(network, observation, n_outputs, seed=0):
    """Parameters with biases that are not zero, so that forgetting one would show."""
    shapes = jax.eval_shape(lambda key: initialise(key, network, observation, n_outputs), jax.random.key(0))
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=spec.shape).astype(np.float32) for name, spec in shapes.items()}


def convolved(x, weight, bias, size, channels):
    kernel = weight.reshape(size, size, channels, -1)  # height, width, in, out
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return np.asarray(y) + bias


def test_a_convolutional_student_computes_what_jax_calls_a_convolution():
    params = random_params(SMALL_CNN, IMAGE, 4)
    images = np.random.default_rng(1).normal(size=(8, 7, 6, 2)).astype(np.float32)
    x, channels = images, 2
    for layer, filters in (("convolution0", 3), ("convolution1", 4)):
        x = np.maximum(convolved(x, params[f"{layer}.weight"], params[f"{layer}.bias"], 3, channels), 0)
        channels = filters
    assert x.shape == (8, 3, 2, 4)
    x = np.maximum(x.reshape(8, -1) @ params["hidden0.weight"] + params["hidden0.bias"], 0)
    outputs = compiled(SMALL_CNN, IMAGE, params, images)
    np.testing.assert_allclose(
        outputs.policy, x @ params["policy.weight"] + params["policy.bias"], rtol=1e-4, atol=1e-3
    )
    value = (x @ params["value.weight"] + params["value.bias"])[:, 0]
    np.testing.assert_allclose(outputs.value, value, rtol=1e-4, atol=1e-3)


def test_a_single_convolution_sees_its_patch_by_hand():
    network = CNN(filters=(1,), kernel_size=2, hidden=(1,))
    observation = ObservationSpec(shape=(2, 2, 1))
    params = {
        "convolution0.weight": np.array([[1.0], [10.0], [100.0], [1000.0]]),  # rows of the patch, left to right
        "convolution0.bias": np.array([0.5]),
        "hidden0.weight": np.array([[2.0]]),
        "hidden0.bias": np.array([0.0]),
        "policy.weight": np.array([[1.0, -1.0]]),
        "policy.bias": np.zeros(2),
        "value.weight": np.array([[1.0]]),
        "value.bias": np.array([3.0]),
    }
    outputs = compiled(network, observation, params, np.array([[[[1.0], [2.0]], [[3.0], [4.0]]]]))
    np.testing.assert_allclose(outputs.value, [2 * 4321.5 + 3])
    np.testing.assert_allclose(outputs.policy, [[8643.0, -8643.0]])


@pytest.mark.parametrize(
    ("name", "gain"),
    [("convolution0", 1.0), ("convolution1", 1.0), ("hidden0", 2**0.5), ("policy", 0.01), ("value", 1.0)],
)
def test_weights_start_orthogonal_with_the_gain_of_their_layer(name, gain):
    weight = np.asarray(PARAMS(jax.random.key(3))[f"{name}.weight"], np.float64)
    if weight.shape[0] < weight.shape[1]:
        weight = weight.T
    np.testing.assert_allclose(weight.T @ weight, gain**2 * np.eye(weight.shape[1]), atol=1e-5 * max(gain, 0.1) ** 2)


def test_biases_start_at_zero_and_seeds_matter():
    params = [jax.tree.map(np.asarray, PARAMS(jax.random.key(seed))) for seed in (0, 0, 1)]
    assert not any(np.any(array) for name, array in params[0].items() if name.endswith("bias"))
    np.testing.assert_array_equal(params[0]["hidden0.weight"], params[1]["hidden0.weight"])
    assert np.abs(params[0]["hidden0.weight"] - params[2]["hidden0.weight"]).max() > 0.1


@pytest.mark.parametrize(("activation", "function"), [("relu", lambda x: np.maximum(x, 0)), ("tanh", np.tanh)])
def test_a_perceptron_by_hand(activation, function):
    network, observation = MLP(hidden=(2, 2), activation=activation), ObservationSpec(shape=(2,))
    params = {
        "hidden0.weight": np.array([[1.0, -1.0], [2.0, 0.5]]),
        "hidden0.bias": np.array([0.1, -0.2]),
        "hidden1.weight": np.array([[1.0, 0.0], [0.0, -1.0]]),
        "hidden1.bias": np.array([0.0, 0.3]),
        "policy.weight": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "policy.bias": np.array([0.0, 0.0, 1.0]),
        "value.weight": np.array([[1.0], [1.0]]),
        "value.bias": np.array([-1.0]),
    }
    a, b = function(0.5 - 2.0 + 0.1), function(-0.5 - 0.5 - 0.2)  # the observation is (0.5, −1)
    c, d = function(a), function(-b + 0.3)
    outputs = compiled(network, observation, params, np.array([[0.5, -1.0]]))
    np.testing.assert_allclose(outputs.policy, [[c + 4 * d, 2 * c + 5 * d, 3 * c + 6 * d + 1]], rtol=1e-5)
    np.testing.assert_allclose(outputs.value, [c + d - 1], rtol=1e-5)


def test_discrete_observations_are_one_hot_encoded():
    network = MLP(hidden=(4,))
    discrete, box = ObservationSpec(shape=(), n_values=5), ObservationSpec(shape=(5,))
    params = random_params(network, discrete, 3)
    assert params["hidden0.weight"].shape == (5, 4)
    numbers = np.array([0, 4, 2])
    seen = compiled(network, discrete, params, numbers)
    spelled_out = compiled(network, box, params, np.eye(5, dtype=np.float32)[numbers])
    np.testing.assert_allclose(seen.policy, spelled_out.policy, rtol=1e-5)
    np.testing.assert_allclose(seen.value, spelled_out.value, rtol=1e-5)


def test_a_perceptron_flattens_what_it_sees():
    network = MLP(hidden=(4,))
    params = random_params(network, IMAGE, 3)
    images = np.random.default_rng(1).normal(size=(2, 7, 6, 2)).astype(np.float32)
    flat = compiled(network, ObservationSpec(shape=(84,)), params, images.reshape(2, 84))
    np.testing.assert_allclose(compiled(network, IMAGE, params, images).policy, flat.policy, rtol=1e-5)


@pytest.mark.parametrize("observation", [ObservationSpec(shape=(), n_values=9), ObservationSpec(shape=(8,))])
def test_a_convolutional_student_without_an_image_is_refused(observation):
    with pytest.raises(ConfigError, match=r"needs images .* use an MLP"):
        initialise(jax.random.key(0), SMALL_CNN, observation, 4)


def test_convolutions_that_leave_nothing_of_the_image_are_refused():
    with pytest.raises(ConfigError, match=r"2 convolutions of size 3 leave nothing of an image of shape \(4, 9, 1\)"):
        initialise(jax.random.key(0), SMALL_CNN, ObservationSpec(shape=(4, 9, 1)), 4)


def test_strided_convolutions_are_those_of_jax_with_kernels_of_their_own():
    observation = ObservationSpec(shape=(21, 17, 2), image=True)
    network = CNN(filters=(4, 3), kernel_size=(5, 3), strides=(3, 2), hidden=(6,))
    params = initialise(jax.random.key(0), network, observation, 2)
    images = np.random.default_rng(0).integers(0, 256, (2, 21, 17, 2), np.uint8)
    x = images.astype(np.float32) / 255
    for i, (filters, size, stride) in enumerate(network.convolutions):
        kernel = params[f"convolution{i}.weight"].reshape(size, size, x.shape[-1], filters)
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=layout))
    hidden = jax.nn.relu(x.reshape(2, -1) @ params["hidden0.weight"])
    found = apply(network, observation, params, jnp.asarray(images))
    np.testing.assert_allclose(found.policy, hidden @ params["policy.weight"], atol=1e-5)


def test_a_separate_value_shares_nothing_with_the_policy():
    observation, network = ObservationSpec(shape=(3,)), MLP(hidden=(4, 4), separate_value=True)
    params = initialise(jax.random.key(0), network, observation, 2)
    seen = jnp.ones((1, 3))
    other = {name: array + 1.0 if name.startswith("value") else array for name, array in params.items()}
    before, after = (apply(network, observation, p, seen) for p in (params, other))
    np.testing.assert_array_equal(before.policy, after.policy)
    assert not np.allclose(before.value, after.value)
