"""Episodes: how they end, what counts, and what they add up to, on hosts and in compiled programs alike."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from cisr import get_task
from cisr.cmdp import episodes
from cisr.cmdp.episodes import EpisodeLog, total
from cisr.cmdp.rules import Step


def step(rewards=(0.0, 0.0), values=None, driven=None, **facts):
    """A step of one student in two environments; facts such as `failed=[0]` name those that they hold for."""
    flags = ("terminated", "truncated", "rescued", "failed")
    held = {name: np.isin([0, 1], facts.get(name, [])) for name in flags}
    succeeded = np.isin([0, 1], facts.get("succeeded", []))
    ways = [held["failed"], succeeded, held["terminated"] & held["rescued"], held["truncated"]]
    return Step(
        reward=np.array([rewards]),
        costs=np.zeros((1, 2, 2)),
        constraint_values=np.zeros((1, 2, 2)) if values is None else np.array([values], float),
        driven=np.zeros((1, 2)) if driven is None else np.array([driven], float),
        outcomes=np.stack(ways, axis=-1)[None],
        **{name: fact[None] for name, fact in held.items()},
    )


def log_of(*steps, **options):
    log = EpisodeLog(tiny.task, 1, 2, **options)
    for each in steps:
        log.add(each)
    return log


def outcome_of(closed):
    (which,) = np.flatnonzero(closed.outcomes)
    return tiny.task.outcomes[which]


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
    ((episode,),) = log_of(step(**facts)).closed
    assert outcome_of(episode) == outcome


def test_an_episode_adds_up_its_own_steps():
    log = log_of(
        step((1.0, 10.0), rescued=[0, 1]),
        step((2.0, 20.0), terminated=[1]),
        step((4.0, 40.0), terminated=[0], failed=[0], values=[[0.1, 0.2], [0.3, 0.4]]),
    )
    ((second, first),) = log.closed
    assert (first.total_reward, first.steps, first.failures, first.rescues) == (7.0, 3, 1, 1)
    assert (second.total_reward, second.steps, second.failures, second.rescues) == (30.0, 2, 0, 1)
    np.testing.assert_array_equal(first.constraint_values, [0.1, 0.2])
    np.testing.assert_array_equal(second.constraint_values, [0.0, 0.0])
    assert (first.violation, second.violation) == (0.2, 0.0)


def test_the_next_episode_starts_from_nothing():
    log = log_of(step((5.0, 0.0), rescued=[0], terminated=[0]), step((1.0, 0.0)), step((1.0, 0.0), terminated=[0]))
    assert [(e.total_reward, e.steps, e.rescues) for e in log.closed[0]] == [(5.0, 1, 1), (2.0, 2, 0)]


def test_the_values_of_an_episode_do_not_change_with_later_steps():
    values = np.array([[[0.5, 0.5], [0.0, 0.0]]])
    log = log_of(step(terminated=[0])._replace(constraint_values=values))
    values[...] = 9.0
    np.testing.assert_array_equal(log.closed[0][0].constraint_values, [0.5, 0.5])


def test_unfinished_episodes_do_not_count_where_another_has_ended():
    log = log_of(step((1.0, 1.0)), step((1.0, 1.0), terminated=[1]))
    log.close()
    assert [e.total_reward for e in log.closed[0]] == [2.0]


def test_unfinished_episodes_count_where_none_has_ended():
    log = log_of(step((1.0, 2.0)), step((1.0, 2.0), rescued=[1], values=[[0, -0.1], [0, 0.4]]))
    log.close()
    assert [(e.total_reward, e.steps, outcome_of(e)) for e in log.closed[0]] == [(2.0, 2, "other"), (4.0, 2, "other")]
    np.testing.assert_array_equal([e.constraint_values[1] for e in log.closed[0]], [-0.1, 0.4])


@pytest.mark.parametrize("ending", [{}, {"terminated": [1]}, {"terminated": [0, 1]}])
def test_failures_and_rescues_are_counted_over_all_steps_ended_or_not(ending):
    log = log_of(step(failed=[0], rescued=[0, 1]), step(rescued=[0]), step(failed=[1], rescued=[1], **ending))
    log.close()
    assert (log.failures[0], log.rescues[0]) == (2, 4)


def test_it_knows_whether_an_episode_begun_within_the_budget_is_still_running():
    log = log_of(step(terminated=[1]), step(), budget=1)
    assert log.running()
    log.add(step(terminated=[0]))
    assert not log.running()


def test_only_episodes_begun_within_the_budget_are_kept():
    log = log_of(step((1.0, 2.0), terminated=[1]), step((4.0, 8.0), terminated=[0, 1]), budget=1)
    assert [e.total_reward for e in log.closed[0]] == [2.0, 5.0]


def test_the_total_is_over_all_episodes():
    log = log_of(step((6.0, -2.0), terminated=[0], succeeded=[0]), step((2.0, 1.0), rescued=[1], truncated=[0, 1]))
    sums = total(tiny.task, log.closed[0])
    assert (sums.episodes, sums.steps, sums.total_reward, sums.score, sums.rescues) == (3, 4, 7.0, 7.0, 1)
    assert dict(zip(tiny.task.outcomes, sums.outcomes, strict=True)) == {
        "success": 1,
        "failure": 0,
        "rescue": 0,
        "timeout": 2,
        "other": 0,
    }
    assert total(tiny.task, []).episodes == 0


@pytest.mark.parametrize("event", ["rescued", "failed"])
def test_in_safe_evaluation_an_episode_with_a_rescue_or_a_failure_scores_the_price_of_a_violation(event):
    price = tiny.task.violation_score("HR")
    log = log_of(step((6.0, -1.0), terminated=[0, 1], **{event: [1]}), violation_score=price)
    sums = total(tiny.task, log.closed[0])
    assert sums.total_reward == 5.0
    assert sums.score == 6.0 + price == 6.0 - 2 * tiny.task.horizon * tiny.task.max_reward


@pytest.mark.parametrize("ends", [[], [2], [1, 2, 5]])
def test_a_compiled_program_adds_up_what_a_host_keeps(ends):
    """Numbers are such that single precision holds them exactly."""
    steps = [
        step((t, 2.0 * t), [[0, t / 4], [0, -t / 2]], terminated=[t % 2] * (t in ends), rescued=[1] * (t == 4))
        for t in range(6)
    ]
    log = log_of(*steps)
    log.close()

    @jax.jit
    def play(steps):
        def one(state, step):
            running, sums = state
            running, ended = episodes.enter(running, step), step.terminated | step.truncated
            sums = episodes.add(sums, episodes.close(running, step.outcomes, math.nan), ended)
            return (episodes.reopen(running, ended), sums), None

        start = (episodes.opening(tiny.task, (1, 2), jnp), episodes.nothing(tiny.task, (1,), jnp))
        (running, sums), _ = jax.lax.scan(one, start, steps)
        return episodes.add_unfinished(tiny.task, sums, running)

    compiled = play(jax.tree.map(lambda *each: jnp.stack(each), *steps))
    host = total(tiny.task, log.closed[0])._replace(failures=log.failures[0], rescues=log.rescues[0])
    for name, ours, theirs in zip(host._fields, host, compiled, strict=True):
        np.testing.assert_array_equal(ours, theirs[0], err_msg=name)


def test_the_price_of_a_violation_follows_the_horizon_of_the_safe_evaluation():
    lander = get_task("lunar-lander")
    assert lander.violation_score("Funnel") == -2 * 500 * 100.0
    assert lander.violation_score("Wide") is None and lander.violation_score("none") is None
