"""One whole PPO update from the same weights and the same experience: ours and Stable-Baselines3's agree.

One epoch of one minibatch, right after a rollout, so that nothing is clipped: there the two differ by design.
"""

import dataclasses
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr import InducedCMDP, get_task
from cisr.students import networks, ppo
from cisr.students.config import MLP
from cisr.students.distributions import Categorical, Gaussian
from cisr.students.kinds import student_of
from cisr.students.multipliers import multipliers, uniform_log_weights
from cisr.students.networks import ObservationSpec
from cisr.students.program import program_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what torch and Stable-Baselines3 warn of while they load is theirs
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper

    from cisr.experiments.bench.sb3 import build_ppo, normalised
    from sb3_student import Lagrangian, forget_optimiser

TASK = get_task("frozen-lake", student="cnn")
CONFIG = dataclasses.replace(student_of(TASK), n_minibatches=1, n_epochs=1)
SEEN, DONE = ObservationSpec((10, 10, 1)), Categorical(4)
STEPS, ENVS = CONFIG.n_steps, CONFIG.n_envs


class Recording(Lagrangian):
    """Remembers the rewards, costs and ends that Stable-Baselines3 was shown."""

    log: list

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.log.append((reward, np.array(list(info["constraint_increments"].values())), terminated))
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


class Seen(VecEnvWrapper):
    """Remembers what environments answered before it is normalised."""

    def __init__(self, envs):
        super().__init__(envs)
        self.log = []

    def reset(self):
        observations = self.venv.reset()
        self.log.append((observations.copy(), None, None, observations))
        return observations

    def step_wait(self):
        observations, rewards, ends, infos = self.venv.step_wait()
        reached = np.stack([info.get("terminal_observation", o) for info, o in zip(infos, observations, strict=True)])
        self.log.append((observations.copy(), rewards.copy(), ends.copy(), reached))
        return observations, rewards, ends, infos


ROBOT = dataclasses.replace(
    CONFIG,
    network=MLP(hidden=(16, 16), separate_value=True),
    n_envs=2,
    n_steps=128,  # Pendulum's time limit, 200 steps, falls into the second rollout
    normalize_observations=True,
    normalize_rewards=True,
    bootstrap_time_limit=True,
    clip_range_vf=None,
)
VECTOR, TORQUE = ObservationSpec((3,)), Gaussian((-2.0,), (2.0,), (1,))


def robot_layout(policy):
    own = policy.mlp_extractor
    layers = {"policy": policy.action_net, "value": policy.value_net}
    for prefix, net in (("", own.policy_net), ("value_", own.value_net)):
        layers |= {f"{prefix}hidden{i}": layer for i, layer in enumerate(net[::2])}
    params = {"log_std": jnp.asarray(policy.log_std.detach().numpy().copy())}
    for name, layer in layers.items():
        params[f"{name}.weight"] = jnp.asarray(layer.weight.detach().numpy().T.copy())
        params[f"{name}.bias"] = jnp.asarray(layer.bias.detach().numpy().copy())
    return params


@pytest.mark.filterwarnings("ignore")
def test_one_update_on_a_box_with_normalisation_moves_every_weight_as_stable_baselines3_does():
    config, steps, n = ROBOT, ROBOT.n_steps, ROBOT.n_envs
    seen = Seen(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")] * n))
    theirs = build_ppo(config, normalised(config, seen), 3)
    theirs.learn(steps * n)
    before = robot_layout(theirs.policy)
    forget_optimiser(theirs)
    theirs.learn(steps * n, reset_num_timesteps=False)
    after, buffer = robot_layout(theirs.policy), theirs.rollout_buffer

    program = program_for(config.shape, VECTOR, TORQUE, 1)
    learners = program.new(np.zeros(1, np.uint32))
    learners = learners._replace(params={name: array[None] for name, array in before.items()})
    statistics, returns, moments = learners.statistics, np.zeros((1, n), np.float32), []
    for observations, rewards, ends, reached in seen.log:
        arrived = [x if x is None else x[None] for x in (observations, rewards, ends)]
        statistics, now = program.perceive(statistics, *arrived, returns, np.array([config.gamma], np.float32))
        returns, learners = now.returns, learners._replace(statistics=statistics)
        beyond = np.asarray(program.value(learners, program.see(learners, reached[None])))
        if rewards is None:
            first = np.asarray(now.observations)
        else:
            moments.append((np.asarray(now.observations)[0], np.asarray(now.rewards)[0], ends, beyond[0]))
    met, rewards, ends, beyond = (np.stack(column) for column in zip(*moments, strict=True))
    observations = np.concatenate([first, met])

    def columns(array):
        return np.asarray(array).reshape(n, steps, *np.shape(array)[1:]).swapaxes(0, 1)

    np.testing.assert_allclose(observations[steps : 2 * steps], columns(buffer.observations), atol=1e-5)
    rollout = ppo.Rollout(
        observations=observations[steps : 2 * steps],
        actions=columns(buffer.actions),
        log_probs=columns(buffer.log_probs).reshape(steps, n),
        values=columns(buffer.values).reshape(steps, n),
        rewards=rewards[steps:],
        costs=np.zeros((steps, n, 1), np.float32),
        ends=ends[steps:],
        end_values=np.where(ends[steps:], beyond[steps:], 0.0).astype(np.float32),
        last_values=networks.apply(config.network, VECTOR, before, jnp.asarray(observations[-1])).value,
    )
    assert rollout.ends.any() and (np.abs(rollout.actions) > 2.0).any()  # they are kept as they were drawn
    rollout = jax.tree.map(jnp.asarray, rollout)
    outputs = networks.apply(config.network, VECTOR, before, rollout.observations.reshape(-1, 3))
    log_probs = TORQUE.log_prob(outputs.policy, rollout.actions.reshape(-1, 1)).reshape(steps, n)
    np.testing.assert_allclose(log_probs, rollout.log_probs, atol=1e-5)
    advantages = ppo.advantage(rollout, rollout.rewards, config.hyperparameters())
    np.testing.assert_allclose(advantages, columns(buffer.advantages).reshape(steps, n), atol=1e-5)

    learner = ppo.Learner(before, ppo.fresh_adam(before), uniform_log_weights(1))
    forward = networks.forward_for(config.network, VECTOR)
    ours = ppo.update(learner, rollout, config.hyperparameters(), jax.random.key(0), config, forward, TORQUE).params
    assert ours.keys() == after.keys()
    for name, weight in after.items():
        assert np.abs(weight - before[name]).mean() > 1e-4
        np.testing.assert_allclose(ours[name], weight, atol=1e-5, err_msg=name)
