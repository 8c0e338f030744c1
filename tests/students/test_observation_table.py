"""The observation table gives what the plain network gives, for every observation, gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import CNN, MLP
from cisr.students import networks
from cisr.students.networks import ObservationSpec
from cisr.students.observation_table import agent_images, tabulator
from cisr.tasks.frozen_lake.lake import PAPER_MAP, Lake

IMAGES = Lake(PAPER_MAP).images
SEEN = ObservationSpec(IMAGES.shape[1:])


def random_params(network):
    params = networks.initialise(jax.random.key(0), network, SEEN, 4)
    keys = jax.random.split(jax.random.key(1), len(params))
    return {n: p + 0.05 * jax.random.normal(k, p.shape) for k, (n, p) in zip(keys, params.items(), strict=True)}


@pytest.mark.parametrize(
    "network",
    [
        CNN(),
        CNN(filters=(4,), kernel_size=2, hidden=(8, 6), activation="tanh"),
        CNN(filters=(3, 5, 4), kernel_size=3, hidden=(8,)),
        MLP(hidden=(16,)),
    ],
)
def test_outputs_and_gradients_equal_the_plain_networks(network):
    params = random_params(network)
    tabulate = tabulator(network, SEEN, IMAGES)
    weights = jax.random.normal(jax.random.key(2), (100, 5))

    def loss(outputs):
        return jnp.sum(weights[:, :4] * jnp.tanh(outputs.policy)) + jnp.sum(weights[:, 4] * outputs.value**2)

    plain = networks.apply(network, SEEN, params, jnp.asarray(IMAGES))
    shared = tabulate(params)
    np.testing.assert_allclose(shared.policy, plain.policy, atol=2e-6)
    np.testing.assert_allclose(shared.value, plain.value, atol=2e-6)
    expected = jax.grad(lambda p: loss(networks.apply(network, SEEN, p, jnp.asarray(IMAGES))))(params)
    found = jax.grad(lambda p: loss(tabulate(p)))(params)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=2e-4, atol=2e-4, err_msg=name)


def test_images_of_one_scene_are_recognised():
    found = agent_images(IMAGES)
    assert found.scene[0, 0, 0] == pytest.approx(0.6)
    assert found.agent[0, 0, 0] == pytest.approx(0.4)


def test_images_that_differ_elsewhere_are_evaluated_one_by_one():
    odd = IMAGES.copy()
    odd[7, 9, 9] = 0.5
    assert agent_images(odd) is None
    params = random_params(CNN())
    plain = networks.apply(CNN(), SEEN, params, jnp.asarray(odd))
    np.testing.assert_allclose(tabulator(CNN(), SEEN, odd)(params).value, plain.value, atol=1e-6)
