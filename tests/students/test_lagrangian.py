"""The Lagrangian for learners of any kind."""

import gymnasium
import numpy as np
import pytest
import tiny

from cisr import ConfigError, InducedCMDP, Intervention, Lagrangian, Multipliers, ToStart


def played(env, n=60):
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(n):
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        yield reward, info
        if terminated or truncated:
            env.reset()


def test_what_is_paid_is_the_reward_less_the_weighted_costs():
    fixed = {"failures": 2.0, "rescues": 0.5}
    plain = list(played(InducedCMDP(tiny.task, "SR1")))
    charged = list(played(Lagrangian(InducedCMDP(tiny.task, "SR1"), fixed)))
    assert sum(info["costs"]["rescues"] for _, info in plain) > 0
    for (reward, info), (paid, told) in zip(plain, charged, strict=True):
        costs = info["constraint_increments"]
        assert paid == pytest.approx(reward - 2.0 * costs["failures"] - 0.5 * costs["rescues"])
        assert told["reward"] == reward


def test_multipliers_move_by_the_mean_of_the_episodes_since_the_last_time():
    shared = Multipliers(("failures", "rescues"), bound=3.0, rate=1.0)
    shared.add(np.array([0.0, 1.0]))
    shared.add(np.array([0.0, 0.0]))
    moved = shared.respond()
    total = 2 + np.exp(0.5)  # the slack and failures stay at 1, rescues grow by exp(0.5)
    assert moved == pytest.approx({"failures": 3 / total, "rescues": 3 * np.exp(0.5) / total})
    assert shared.respond() == moved


def test_environments_of_one_learner_share_their_multipliers():
    shared = Multipliers(("failures", "rescues"))
    envs = [Lagrangian(InducedCMDP(tiny.task, name), shared) for name in ("SR1", "SR2")]
    for env in envs:
        list(played(env, 200))
    before = dict(shared.weights)
    assert shared.respond() != before
    assert envs[0].weights == envs[1].weights == shared.weights


def test_what_is_no_induced_cmdp_or_lacks_a_multiplier_gets_one_line():
    with pytest.raises(ConfigError, match=r"wrap a cisr\.InducedCMDP"):
        Lagrangian(gymnasium.make("FrozenLake-v1"), {"failures": 1.0})
    with pytest.raises(ConfigError, match="give one for each of failures, rescues"):
        Lagrangian(InducedCMDP(tiny.task, "SR1"), {"failures": 1.0})
    with pytest.raises(ConfigError, match="The multiplier of rescues is nan: give a finite number"):
        Lagrangian(InducedCMDP(tiny.task, "SR1"), {"failures": 1.0, "rescues": float("nan")})
    with pytest.raises(ConfigError, match="give each name once"):
        Multipliers(("failures", "failures", "rescues"))
    strange = Intervention(
        name="two", trigger={"a": lambda s: s[..., 0] > 3, "b": lambda s: s[..., 0] > 4}, reset=ToStart(), tau=0
    )
    with pytest.raises(ConfigError, match="has the triggers a, b: give it those of task 'tiny-lake', rescues"):
        InducedCMDP(tiny.task, strange)
    with pytest.raises(ConfigError, match="calls a trigger 'failures'"):
        Intervention(name="two", trigger={"failures": lambda s: s[..., 0] > 3}, reset=ToStart(), tau=0)


@pytest.mark.parametrize("names", [("failures", "rescues"), ("rescues", "failures")])
def test_who_fails_pays_more_for_failures_in_whatever_order_constraints_are_named(names):
    shared = Multipliers(names, bound=3.0)
    list(played(Lagrangian(InducedCMDP(tiny.task, "none"), shared), 200))
    before, after = shared.weights, shared.respond()
    assert after["failures"] > before["failures"] and after["rescues"] < before["rescues"]


def test_episodes_that_a_wrapper_outside_cuts_off_count_too():
    shared = Multipliers(("failures", "rescues"))
    list(played(gymnasium.wrappers.TimeLimit(Lagrangian(InducedCMDP(tiny.task, "SR1"), shared), 5), 60))
    before = dict(shared.weights)
    assert shared.respond() != before
