"""One whole PPO update from the same weights and the same experience: ours and Stable-Baselines3's agree.

One epoch of one minibatch, right after a rollout, so that nothing is clipped: there the two differ by design.
"""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import InducedCMDP, get_task
from cisr.students import networks, ppo
from cisr.students.config import student_of
from cisr.students.distributions import Categorical
from cisr.students.multipliers import multipliers, uniform_log_weights
from cisr.students.networks import ObservationSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what torch and Stable-Baselines3 warn of while they load is theirs
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    from cisr.experiments.bench.sb3 import build_ppo, forget_optimiser
    from sb3_student import Lagrangian

TASK = get_task("frozen-lake", student="cnn")
CONFIG = dataclasses.replace(student_of(TASK), n_minibatches=1, n_epochs=1)
SEEN, DONE = ObservationSpec((10, 10, 1)), Categorical(4)
STEPS, ENVS = CONFIG.n_steps, CONFIG.n_envs


class Recording(Lagrangian):
    """Remembers the rewards, costs and ends that Stable-Baselines3 was shown."""

    log: list

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.log.append((reward, info["costs"], terminated))
        return observation, reward, terminated, truncated, info


def our_layout(policy):
    """Stable-Baselines3's weights under our names; its images lie channels first."""
    first, second, hidden = [layer for layer in policy.features_extractor.layers if hasattr(layer, "weight")]
    layers = {
        "convolution0": (first, lambda w: w.transpose(2, 3, 1, 0).reshape(-1, 32)),
        "convolution1": (second, lambda w: w.transpose(2, 3, 1, 0).reshape(-1, 64)),
        "hidden0": (hidden, lambda w: w.reshape(32, 64, 6, 6).transpose(2, 3, 1, 0).reshape(-1, 32)),
        "policy": (policy.action_net, np.transpose),
        "value": (policy.value_net, np.transpose),
    }
    params = {}
    for name, (layer, arrange) in layers.items():
        params[f"{name}.weight"] = jnp.asarray(arrange(layer.weight.detach().numpy().copy()))
        params[f"{name}.bias"] = jnp.asarray(layer.bias.detach().numpy().copy())
    return params


def in_time(buffer):
    """(T, E, ...) from the flattened buffer of Stable-Baselines3."""
    return np.asarray(buffer).reshape(ENVS, STEPS, *np.shape(buffer)[1:]).swapaxes(0, 1)


@pytest.mark.filterwarnings("ignore")
def test_one_update_moves_every_weight_as_stable_baselines3_does():
    weights = np.asarray(multipliers(uniform_log_weights(2), CONFIG.multiplier_bound))
    envs = [Recording(InducedCMDP(TASK, "SR1"), weights) for _ in range(ENVS)]
    for env in envs:
        env.log = []
    theirs = build_ppo(CONFIG, DummyVecEnv([lambda env=env: env for env in envs]), 3)
    theirs.learn(STEPS * ENVS)
    for env in envs:
        env.log.clear()
    before = our_layout(theirs.policy)
    forget_optimiser(theirs)
    theirs.learn(STEPS * ENVS, reset_num_timesteps=False)
    after = our_layout(theirs.policy)

    buffer = theirs.rollout_buffer
    costs = np.array([[cost for _, cost, _ in env.log] for env in envs]).swapaxes(0, 1)
    shaped = np.array([[reward for reward, _, _ in env.log] for env in envs]).T
    rollout = ppo.Rollout(
        observations=in_time(buffer.observations),
        actions=in_time(buffer.actions)[..., 0].astype(np.int32),
        log_probs=in_time(buffer.log_probs).reshape(STEPS, ENVS),
        values=in_time(buffer.values).reshape(STEPS, ENVS),
        rewards=(shaped + costs @ weights).astype(np.float32),
        costs=costs.astype(np.float32),
        ends=np.array([[end for _, _, end in env.log] for env in envs]).T,
        end_values=np.zeros((STEPS, ENVS), np.float32),
        last_values=networks.apply(CONFIG.network, SEEN, before, jnp.asarray(theirs._last_obs)).value,
    )
    assert rollout.ends.any()
    advantages = ppo.advantage(rollout, jnp.asarray(shaped, jnp.float32), CONFIG.hyperparameters())
    np.testing.assert_allclose(advantages, in_time(buffer.advantages).reshape(STEPS, ENVS), atol=1e-5)

    learner = ppo.Learner(before, ppo.fresh_adam(before), uniform_log_weights(2))
    rollout = jax.tree.map(jnp.asarray, rollout)
    forward = networks.forward_for(CONFIG.network, SEEN)
    ours = ppo.update(learner, rollout, CONFIG.hyperparameters(), jax.random.key(0), CONFIG, forward, DONE).params
    for name, weight in after.items():
        assert np.abs(weight - before[name]).mean() > 1e-4  # it did move
        np.testing.assert_allclose(ours[name], weight, atol=1e-5, err_msg=name)
