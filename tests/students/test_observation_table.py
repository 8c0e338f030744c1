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
SMALL = Lake(("SFFFFFF", "FFHFFFF", "FFFFFFF", "FHFFFFF", "FFFFFFF", "FFFFHFF", "FFFFFFG")).images


def seen(images):
    return ObservationSpec(images.shape[1:])


def random_params(network, images=IMAGES):
    params = networks.initialise(jax.random.key(0), network, seen(images), 4)
    keys = jax.random.split(jax.random.key(1), len(params))
    return {n: p + 0.05 * jax.random.normal(k, p.shape) for k, (n, p) in zip(keys, params.items(), strict=True)}


@pytest.mark.parametrize(
    ("network", "images"),
    [
        (CNN(), IMAGES),
        (CNN(filters=(4,), kernel_size=2, hidden=(8, 6), activation="tanh"), SMALL),
        (CNN(filters=(3, 5, 4), kernel_size=3, hidden=(8,)), SMALL),
        (MLP(hidden=(16,)), IMAGES),
    ],
)
def test_outputs_and_gradients_equal_the_plain_networks(network, images):
    params = random_params(network, images)
    tabulate = tabulator(network, seen(images), images)
    some = np.arange(0, len(images), 7)
    weights = jax.random.normal(jax.random.key(2), (len(some), 5))

    def loss(policy, value):
        return jnp.sum(weights[:, :4] * jnp.tanh(policy)) + jnp.sum(weights[:, 4] * value**2)

    plain = jax.jit(lambda p: networks.apply(network, seen(images), p, jnp.asarray(images)))(params)
    shared = jax.jit(tabulate)(params)
    np.testing.assert_allclose(shared.policy, plain.policy, atol=2e-6)
    np.testing.assert_allclose(shared.value, plain.value, atol=2e-6)
    of_plain = jax.grad(lambda p: loss(*networks.apply(network, seen(images), p, jnp.asarray(images[some]))))
    of_shared = jax.grad(lambda p: loss(*(outputs[some] for outputs in tabulate(p))))
    expected, found = jax.jit(of_plain)(params), jax.jit(of_shared)(params)
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
    plain = networks.apply(CNN(), seen(IMAGES), params, jnp.asarray(odd))
    np.testing.assert_allclose(tabulator(CNN(), seen(IMAGES), odd)(params).value, plain.value, atol=1e-6)
