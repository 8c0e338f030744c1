"""The student's learning, formula by formula on numbers worked out by hand, and a CMDP whose optimum is known."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cisr.core.intervention import Intervention, ToStart
from cisr.core.task import Task
from cisr.core.training import Training
from cisr.curricula import Fixed
from cisr.students import MLP, StudentConfig
from cisr.students.distributions import Categorical
from cisr.students.multipliers import uniform_log_weights
from cisr.students.networks import Outputs
from cisr.students.ppo import (
    Adam,
    Learner,
    Rollout,
    Sample,
    adam_step,
    advantage,
    clip_norm,
    fresh_adam,
    lagrangian,
    loss,
    transfer,
)
from cisr.training import Batch, Checkpoint, Graduation, StudentSpec, TrainingSetup
from cisr.training.gymnasium import train

HALVES = StudentConfig(gamma=0.5, gae_lambda=0.5).hyperparameters()


# Advantages: γ = λ = ½, values 1 2 3 and then 6, every reward 1


def advantages(ends, end_values=(0.0, 0.0, 0.0)):
    column = np.zeros((3, 1), np.float32)
    rollout = Rollout(
        observations=column,
        actions=column,
        log_probs=column,
        values=np.array([[1.0], [2.0], [3.0]]),
        rewards=np.ones((3, 1)),
        costs=np.zeros((3, 1, 2)),
        ends=np.array(ends, bool)[:, None],
        end_values=np.array(end_values)[:, None],
        last_values=np.array([6.0]),
    )
    return np.asarray(jax.jit(advantage)(rollout, rollout.rewards, HALVES))[:, 0]


def test_an_episode_that_goes_on_bootstraps_every_value_and_so_does_one_with_a_rescue_in_it():
    # δ = 1 + ½·2 − 1, 1 + ½·3 − 2, 1 + ½·6 − 3 = 1, ½, 1. A rescue by Rewind leaves no mark here: it is no end.
    np.testing.assert_allclose(advantages([0, 0, 0]), [1 + 0.25 * 0.75, 0.5 + 0.25 * 1, 1.0])


def test_nothing_is_bootstrapped_beyond_an_end():
    # δ_1 = 1 + 0 − 2 = −1, and what came after the end does not reach back over it.
    np.testing.assert_allclose(advantages([0, 1, 0]), [1 - 0.25, -1.0, 1.0])


def test_an_end_at_the_last_step_hides_the_value_of_the_next_episode():
    # δ_2 = 1 + 0 − 3 = −2.
    np.testing.assert_allclose(advantages([0, 0, 1]), [1 + 0.25 * (0.5 - 0.5), 0.5 - 0.5, -2.0])


def test_a_time_limit_can_be_bootstrapped_but_the_next_episode_stays_apart():
    # V = 6 at the limit: δ_1 = 1 + ½·6 − 2 = 2.
    np.testing.assert_allclose(advantages([0, 1, 0], [0.0, 6.0, 0.0]), [1 + 0.25 * 2, 2.0, 1.0])


def test_the_student_maximises_the_reward_less_its_priced_costs():
    costs = np.array([[1.0, 0.0], [0.5, 2.0]])
    np.testing.assert_allclose(lagrangian(np.array([1.0, 2.0]), costs, np.array([0.25, 0.5])), [0.75, 0.875])


# The loss


def sample(advantages=(1.0, 3.0), values=(1.0, 2.0), returns=(2.0, 4.0), log_probs=None):
    """Two steps in which action 0 was taken with probability ½. Normalised, the advantages are −1 and 1."""
    log_probs = np.log([0.5, 0.5]) if log_probs is None else log_probs
    arrays = (np.zeros((2, 1)), np.zeros(2, int), log_probs, values, advantages, returns)
    return Sample(*(jnp.asarray(array) for array in arrays))


def loss_of(logits, value, given, **settings):
    hyper = StudentConfig(**{"clip_range_vf": 0.2, "vf_coef": 0.0, "ent_coef": 0.0, **settings}).hyperparameters()
    outputs = Outputs(policy=jnp.array([logits, logits]), value=jnp.array(value))
    return float(loss(outputs, given, hyper, Categorical(2)))


def test_at_ratio_one_the_policy_loss_is_nothing_and_value_and_entropy_are_left():
    # Value errors 1 and 4, mean 2.5; entropy ln 2.
    total = loss_of([0.0, 0.0], [1.0, 2.0], sample(), vf_coef=0.25, ent_coef=0.1)
    assert total == pytest.approx(0.25 * 2.5 - 0.1 * np.log(2), abs=1e-5)


def test_the_surrogate_is_clipped_where_that_is_the_more_careful_estimate():
    # π(0) rises from ½ to ¾, ratio 1.5. Â = −1 gives 1.5 (not 1.2), Â = 1 gives −1.2 (not −1.5).
    assert loss_of([np.log(3.0), 0.0], [1.0, 2.0], sample()) == pytest.approx((1.5 - 1.2) / 2, abs=1e-5)
    # π(0) falls to ¼, ratio 0.5: Â = −1 gives 0.8, Â = 1 gives −0.5.
    assert loss_of([-np.log(3.0), 0.0], [1.0, 2.0], sample()) == pytest.approx((0.8 - 0.5) / 2, abs=1e-5)


def test_the_value_error_is_the_larger_of_the_clipped_and_the_plain_one():
    # From 0 to 1 with steps of at most 0.2. R = 2: max(1, 1.8²) = 3.24. R = 0: max(1, 0.2²) = 1.
    given = sample(values=(0.0, 0.0), returns=(2.0, 0.0))
    assert loss_of([0.0, 0.0], [1.0, 1.0], given, vf_coef=1.0) == pytest.approx((3.24 + 1) / 2, abs=1e-5)


def test_without_a_value_range_the_value_error_is_plain():
    given = sample(values=(0.0, 0.0), returns=(2.0, 0.0))
    assert loss_of([0.0, 0.0], [1.0, 1.0], given, vf_coef=1.0, clip_range_vf=None) == pytest.approx(1.0, abs=1e-5)


def test_equal_advantages_move_nothing_and_break_nothing():
    assert loss_of([1.0, 0.0], [0.0, 0.0], sample(advantages=(2.0, 2.0))) == pytest.approx(0.0, abs=1e-5)


# The optimiser


def test_the_first_step_of_adam_has_the_length_of_the_learning_rate():
    params = {"w": jnp.array([1.0, 1.0, 1.0])}
    moved, adam = adam_step(params, fresh_adam(params), {"w": jnp.array([2.0, -0.5, 0.0])}, 0.1)
    np.testing.assert_allclose(moved["w"], [1 - 0.1 * 2 / (2 + 1e-5), 1 + 0.1 * 0.5 / (0.5 + 1e-5), 1.0], rtol=1e-6)
    np.testing.assert_allclose(adam.mean["w"], [0.2, -0.05, 0.0], rtol=1e-5)


def test_later_steps_of_adam_by_the_formula():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(5, 3))
    params = {"w": jnp.zeros(3)}
    adam = fresh_adam(params)
    theta, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
    for t, g in enumerate(gradients, start=1):
        params, adam = adam_step(params, adam, {"w": jnp.asarray(g)}, 0.01)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-5)
    np.testing.assert_allclose(params["w"], theta, rtol=1e-4)


def test_a_gradient_longer_than_allowed_is_shortened_and_a_shorter_one_left_alone():
    gradient = {"a": jnp.array([3.0]), "b": jnp.array([[4.0]])}  # of length 5
    shortened = clip_norm(gradient, 0.5)
    np.testing.assert_allclose([shortened["a"][0], shortened["b"][0, 0]], [0.3, 0.4], rtol=1e-5)
    left = clip_norm(gradient, 6.0)
    np.testing.assert_array_equal([left["a"][0], left["b"][0, 0]], [3.0, 4.0])
    nothing = clip_norm({"a": jnp.zeros(2)}, 0.5)
    np.testing.assert_array_equal(nothing["a"], [0.0, 0.0])


def test_a_switch_keeps_weights_and_multipliers_and_clears_the_optimiser():
    params = {"w": jnp.array([1.0, 2.0])}
    adam = Adam({"w": jnp.array([0.3, 0.4])}, {"w": jnp.array([0.5, 0.6])}, jnp.array(7))
    learner = Learner(params=params, adam=adam, log_weights=uniform_log_weights(2) - 1.0)
    after = transfer(learner)
    np.testing.assert_array_equal(after.params["w"], [1.0, 2.0])
    np.testing.assert_array_equal(after.log_weights, learner.log_weights)
    assert [float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(after.adam)] == [0.0, 0.0, 0.0]


# A CMDP whose optimum is known


class TwoArms(gymnasium.Env):
    """Arm 0 pays 1, arm 1 pays 0.6; an episode is one pull, and the state is the arm pulled (or 2, before)."""

    metadata: ClassVar = {"render_modes": []}
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)
    s = 2

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 2
        return self.s, {}

    def step(self, action):
        self.s = int(action)
        return self.s, (1.0, 0.6)[self.s], True, False, {}


ARMS = Task(
    name="two arms",
    make_env=TwoArms,
    danger=lambda move: move.state[..., 0] < 0,
    success=lambda move: move.state[..., 0] == 1,
    interventions=(Intervention(name="help", trigger=lambda s: s[..., 0] == 0, reset=ToStart(), tau=0.05),),
    horizon=1,
    training=Training(n_units=4, deployment_steps=400),
)
PULLER = StudentConfig(
    network=MLP(hidden=(8,)),
    n_envs=4,
    n_steps=32,
    n_epochs=4,
    updates_per_round=6,
    learning_rate=0.01,
    ent_coef=0.05,
    multiplier_bound=1.0,
)


def test_a_constraint_that_forbids_the_better_arm_raises_its_price_until_the_student_leaves_it():
    # Rescues per step may not exceed 0.05, so the best feasible policy pulls arm 0 once in 20. Arm 0 is worth 1 − λ:
    # at the first price λ = 1/3 it is still the better one, above λ = 0.4 it no longer is.
    students = tuple(
        StudentSpec(name=name, policy=Fixed(name), config=PULLER, seed=k) for k, name in enumerate(("help", "none"))
    )
    events = list(train(TrainingSetup(task=ARMS), Batch(name="arms", students=students)))
    units = [event.records for event in events if isinstance(event, Checkpoint)]
    helped, free = zip(*([record.log for record in records] for records in units), strict=True)
    (graduation,) = (event for event in events if isinstance(event, Graduation))
    constrained, greedy = graduation.deployments

    assert greedy.mean_return > 0.95
    assert all(unit.rescues == 0 for unit in free)

    assert max(unit.multipliers[1] for unit in helped) > 0.4
    assert helped[0].violation > 0.2
    assert helped[-1].violation < 0.05
    assert constrained.success > 0.9
