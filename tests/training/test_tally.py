"""Tallies: how episodes end, what counts, and what a deployment adds up to."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

from cisr import get_task
from cisr.cmdp.rules import Step
from cisr.training.tally import Episode, Tally, deployment_of


def step(rewards=(0.0, 0.0), values=None, **facts):
    """A step of one student in two environments; facts such as `failed=[0]` name those that they hold for."""
    flags = ("terminated", "truncated", "rescued", "failed")
    held = {name: np.isin([0, 1], facts.get(name, [])) for name in flags}
    succeeded = np.isin([0, 1], facts.get("succeeded", []))
    ways = [held["failed"], succeeded, held["terminated"] & held["rescued"], held["truncated"]]
    return Step(
        reward=np.array([rewards]),
        costs=np.zeros((1, 2, 2)),
        constraint_values=np.zeros((1, 2, 2)) if values is None else np.array([values], float),
        outcomes=np.stack(ways, axis=-1)[None],
        **{name: fact[None] for name, fact in held.items()},
    )


def tally_of(*steps):
    tally = Tally(tiny.task, 1, 2)
    for each in steps:
        tally.add(each)
    return tally


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"terminated": [0], "succeeded": [0]}, "success"),
        ({"terminated": [0], "failed": [0]}, "failure"),
        ({"terminated": [0], "failed": [0], "rescued": [0]}, "failure"),
        ({"terminated": [0], "rescued": [0]}, "rescue"),
        ({"truncated": [0]}, "timeout"),
        ({"truncated": [0], "rescued": [0]}, "timeout"),
        ({"terminated": [0]}, "other"),
    ],
)
def test_an_episode_ends_in_one_of_five_ways(facts, outcome):
    ((episode,),) = tally_of(step(**facts)).episodes
    assert episode.outcome == outcome
    assert outcome in tiny.task.outcomes


def test_an_episode_adds_up_its_own_steps():
    tally = tally_of(
        step((1.0, 10.0), rescued=[0, 1]),
        step((2.0, 20.0), terminated=[1]),
        step((4.0, 40.0), terminated=[0], failed=[0], values=[[0.1, 0.2], [0.3, 0.4]]),
    )
    ((second, first),) = tally.episodes
    assert (first.total_reward, first.steps, first.failures, first.rescues) == (7.0, 3, 1, 1)
    assert (second.total_reward, second.steps, second.failures, second.rescues) == (30.0, 2, 0, 1)
    np.testing.assert_array_equal(first.constraint_values, [0.1, 0.2])
    np.testing.assert_array_equal(second.constraint_values, [0.0, 0.0])


def test_the_next_episode_starts_from_nothing():
    tally = tally_of(step((5.0, 0.0), rescued=[0], terminated=[0]), step((1.0, 0.0)), step((1.0, 0.0), terminated=[0]))
    assert [(e.total_reward, e.steps, e.rescues, e.began) for e in tally.episodes[0]] == [
        (5.0, 1, 1, 0),
        (2.0, 2, 0, 1),
    ]


def test_the_values_of_an_episode_do_not_change_with_later_steps():
    values = np.array([[[0.5, 0.5], [0.0, 0.0]]])
    tally = Tally(tiny.task, 1, 2)
    tally.add(step(terminated=[0])._replace(constraint_values=values))
    values[...] = 9.0
    np.testing.assert_array_equal(tally.episodes[0][0].constraint_values, [0.5, 0.5])


def test_unfinished_episodes_do_not_count_where_another_has_ended():
    tally = tally_of(step((1.0, 1.0)), step((1.0, 1.0), terminated=[1]))
    tally.close()
    assert [e.total_reward for e in tally.episodes[0]] == [2.0]


def test_unfinished_episodes_count_where_none_has_ended():
    tally = tally_of(step((1.0, 2.0)), step((1.0, 2.0), rescued=[1], values=[[0, -0.1], [0, 0.4]]))
    tally.close()
    assert [(e.total_reward, e.steps, e.outcome) for e in tally.episodes[0]] == [(2.0, 2, "other"), (4.0, 2, "other")]
    np.testing.assert_array_equal([e.constraint_values[1] for e in tally.episodes[0]], [-0.1, 0.4])


@pytest.mark.parametrize("ending", [{}, {"terminated": [1]}, {"terminated": [0, 1]}])
def test_failures_and_rescues_are_counted_over_all_steps_ended_or_not(ending):
    tally = tally_of(step(failed=[0], rescued=[0, 1]), step(rescued=[0]), step(failed=[1], rescued=[1], **ending))
    tally.close()
    assert (tally.failures[0], tally.rescues[0]) == (2, 4)


def test_it_knows_whether_an_episode_from_before_some_time_is_still_running():
    tally = tally_of(step(terminated=[1]), step())
    assert tally.open_since_before(1)
    assert not tally.open_since_before(0)
    tally.add(step(terminated=[0]))
    assert not tally.open_since_before(1)
    assert tally.open_since_before(2)


def episode(total_reward, outcome, rescues=0, failures=0, steps=10):
    return Episode(total_reward, steps, failures, rescues, outcome, np.zeros(2), 0)


def test_a_deployment_sums_up_its_episodes():
    episodes = [episode(6.0, "success"), episode(-2.0, "timeout", rescues=3), episode(2.0, "failure", failures=1)]
    deployment = deployment_of(tiny.task, episodes, "none")
    assert (deployment.episodes, deployment.steps, deployment.failures, deployment.rescues) == (3, 30, 1, 3)
    assert deployment.mean_return == deployment.score == 2.0
    assert deployment.outcomes == pytest.approx(
        {"success": 1 / 3, "failure": 1 / 3, "rescue": 0, "timeout": 1 / 3, "other": 0}
    )
    assert deployment.success == pytest.approx(1 / 3)


@pytest.mark.parametrize("event", ["rescues", "failures"])
def test_in_safe_evaluation_an_episode_with_a_rescue_or_a_failure_scores_the_price_of_a_violation(event):
    episodes = [episode(6.0, "success"), episode(-1.0, "other", **{event: 1})]
    deployment = deployment_of(tiny.task, episodes, "HR")
    assert deployment.mean_return == 2.5
    assert deployment.score == (6.0 - 2 * tiny.task.horizon * tiny.task.max_reward) / 2


def test_the_price_of_a_violation_follows_the_horizon_of_the_safe_evaluation():
    lander = get_task("lunar-lander")
    assert lander.violation_score("Funnel") == -2 * 500 * 100.0
    assert lander.violation_score("Wide") is None and lander.violation_score("none") is None
