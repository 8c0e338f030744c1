"""Environments are held against their models: those that follow them are not accused, the others are named."""

import itertools
import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from impostors import IMPOSTORS, lake, stock
from random_cmdps import random_task

from cisr import get_task
from cisr.auditing import audit, quick_audit
from cisr.auditing.agreement import Bet, disagreement
from cisr.auditing.excursions import N_STEPS, excursions
from cisr.cmdp.finite import model_of
from cisr.testing import check_task
from cisr.view.audit import in_one_line

TABLE = model_of(lake())


def met(task, model=None, n_steps=600, seed=0):
    seen = excursions(task, seed, n_environments=max(n_steps // N_STEPS, 1), n_resets=n_steps // 20)
    return disagreement(task, model or model_of(task), seen.episodes, seen.starts)


def test_environments_that_follow_their_models_are_not_accused():
    for seed in range(100):
        task = random_task(np.random.default_rng(seed), starts_in_danger=True)
        assert met(task, n_steps=150, seed=seed) is None, seed


def test_the_stock_lake_is_certified_by_its_own_table():
    report = audit(lake())
    assert report["shore"].status == "certified" and not report.broken


@pytest.mark.parametrize("make_env", IMPOSTORS.values(), ids=IMPOSTORS)
def test_an_environment_that_overrides_step_or_reset_is_not_taken_for_its_table(make_env):
    assert model_of(lake(make_env)) is None
    verdict = quick_audit(lake(make_env))["shore"]
    assert verdict.status == "refuted" and verdict.falsification is not None


@pytest.mark.parametrize("make_env", IMPOSTORS.values(), ids=IMPOSTORS)
@pytest.mark.parametrize("look", [quick_audit, audit], ids=["quick", "whole"])
def test_a_model_that_the_environment_does_not_follow_certifies_nothing(make_env, look):
    report = look(lake(make_env, model=lambda: TABLE))
    assert "the model" in [promise.what for promise in report.broken]
    assert report.refuted and report["shore"].own_play.failures and report.exact is None
    assert "certified" not in in_one_line(report.to_json())
    assert "Broken promise: the model" in in_one_line(report.to_json())


def test_a_move_that_the_model_lacks_is_named_with_its_state():
    found = met(lake(IMPOSTORS["a step of its own"]), TABLE)
    assert found.state.tolist() == [0]
    assert "led to [5] with reward 0 and the episode's end, which the model does not have" in found.message


def test_a_start_that_the_model_lacks_is_named():
    found = met(lake(IMPOSTORS["a reset of its own"]), TABLE)
    assert found.state.tolist() == [9] and "none does in the model" in found.message


def test_another_reward_is_a_disagreement():
    found = met(lake(lambda **_: stock(reward_schedule=(1, 0, -0.5))), TABLE)
    assert "with reward -0.5" in found.message


def test_a_slip_of_another_probability_is_found_and_counted():
    found = met(lake(lambda **_: stock(success_rate=0.8)), TABLE, n_steps=3_000)
    assert "the model says 0.333 of them" in found.message
    assert not met(lake(), TABLE, n_steps=3_000)


def test_other_odds_of_starts_are_found():
    def two_starts(odds):
        def make_env(**_):
            env = stock()
            env.unwrapped.initial_state_distrib = odds * np.eye(16)[0] + (1 - odds) * np.eye(16)[14]
            return env

        return lake(make_env)

    found = met(two_starts(0.5), model_of(two_starts(0.95)), n_steps=3_000)
    assert "episodes started here" in found.message and found.state.tolist() in ([0], [14])
    assert not met(two_starts(0.5), n_steps=3_000)


def test_a_time_limit_is_part_of_the_model():
    wide = replace(lake(), danger=lambda move: move.state[..., 0] < 0, horizon=100)
    short = met(wide, replace(TABLE, time_limit=3))
    assert "went on after 3 steps" in short.message
    cut = replace(wide, make_env=lambda **_: gymnasium.wrappers.TimeLimit(stock(), 4))
    assert "cut an episode off after 4 steps" in met(cut, replace(TABLE, time_limit=None)).message
    assert model_of(cut).time_limit == 4 and met(cut) is None


def test_time_limits_are_those_of_the_wrappers_and_not_of_the_spec():
    limited = gymnasium.wrappers.TimeLimit(stock(), 500)
    assert limited.spec.max_episode_steps == 500
    assert model_of(lake(lambda **_: limited)).time_limit == 100  # the inner one, which cuts first


def test_a_bet_against_a_right_model_is_fair():
    """Over all that can happen the stake's mean is 1, so by Markov's inequality it is rarely large."""
    chances, mean = {"a": 0.7, "b": 0.2, "c": 0.1}, 0.0
    for sequence in itertools.product(chances, repeat=6):
        bet = Bet({"here": chances})
        for follows in sequence:
            bet.on("here", follows)
        mean += math.prod(chances[follows] for follows in sequence) * math.exp(bet.log_stake)
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_the_tasks_of_the_library_agree_with_their_models():
    for scale in ("paper", "quick"):
        assert not check_task(get_task("frozen-lake", scale), n_steps=6_000)
