"""Curriculum policies: which intervention comes next, worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cisr.core.errors import ConfigError
from cisr.curricula import Bandit, Choice, Fixed, Observation, Real, Schedule, Switching, Threshold, named_policy

RNG = np.random.default_rng(0)
FL_A = Switching(
    interventions=("SR1", "SR2", "HR"),
    thresholds=(
        Threshold(min_return=2.1027, max_violation=0.05295),
        Threshold(min_return=-0.0582, max_violation=0.1597),
    ),
)


def curriculum(policy, observations, seed=0):
    """The interventions that a student meets; the first one is chosen on the observation (0, 0)."""
    rng = np.random.default_rng(seed)
    stage, met = policy.first_stage, []
    for observed in [Observation(), *observations]:
        stage = policy.next_stage(stage, observed, rng)
        stage = json.loads(json.dumps(stage))  # a stage survives being stored
        met.append(policy.intervention(stage))
    return met


# Switching


def test_a_good_return_alone_does_not_end_a_stage():
    assert FL_A.next_stage(0, Observation(mean_return=5.0, violation=0.2), RNG) == 0


def test_a_small_violation_alone_does_not_end_a_stage():
    assert FL_A.next_stage(0, Observation(mean_return=2.0, violation=-0.1), RNG) == 0


def test_both_together_end_a_stage_and_the_thresholds_themselves_are_enough():
    assert FL_A.next_stage(0, Observation(mean_return=2.1027, violation=0.05295), RNG) == 1


def test_at_most_one_switch_before_each_unit():
    assert FL_A.next_stage(0, Observation(mean_return=6.0, violation=-0.1), RNG) == 1


def test_the_last_stage_stays():
    excellent = Observation(mean_return=6.0, violation=-0.1)
    assert FL_A.next_stage(2, excellent, RNG) == 2
    assert curriculum(FL_A, [excellent] * 5) == ["SR1", "SR2", "HR", "HR", "HR", "HR"]


def test_a_stage_is_never_taken_back():
    terrible = Observation(mean_return=-5.0, violation=0.9)
    assert FL_A.next_stage(1, terrible, RNG) == 1


def test_the_observation_before_the_first_unit_can_skip_the_first_intervention():
    eager = Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-0.1, max_violation=0.0),))
    assert curriculum(eager, []) == ["HR"]
    strict = Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-0.1, max_violation=-0.01),))
    assert curriculum(strict, []) == ["SR1"]


def test_a_student_walks_through_the_published_curriculum():
    seen = [Observation(0.5, 0.3), Observation(2.2, 0.06), Observation(2.2, 0.05), Observation(-0.1, 0.1)]
    assert curriculum(FL_A, [*seen, Observation(0.0, 0.15)]) == ["SR1", "SR1", "SR1", "SR2", "SR2", "HR"]


@pytest.mark.parametrize(("n_interventions", "n_thresholds"), [(1, 1), (3, 1), (0, 0), (2, 2)])
def test_every_switch_needs_one_threshold(n_interventions, n_thresholds):
    with pytest.raises(ConfigError, match=f"{n_interventions} interventions with {n_thresholds} thresholds"):
        Switching(
            interventions=("SR1",) * n_interventions,
            thresholds=(Threshold(min_return=0.0, max_violation=0.0),) * n_thresholds,
        )


@pytest.mark.parametrize("field", ["min_return", "max_violation"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_thresholds_are_finite(field, number):
    with pytest.raises(ConfigError, match=f"threshold's {field} is {number}"):
        Threshold(**{"min_return": 0.0, "max_violation": 0.0, field: number})


@pytest.mark.parametrize("n_switches", [0, 1, 2, 5])
def test_k_switches_make_3k_plus_1_parameters(n_switches):
    space = Switching.space(("SR1", "HR"), n_switches, (-0.5, 5.5), (0.0, 0.2))
    assert len(space.parameters) == 3 * n_switches + 1
    assert len(space.reals) == 2 * n_switches
    assert len(space.choices) == n_switches + 1


def test_the_search_space_lists_thresholds_stage_by_stage_and_then_the_interventions():
    space = Switching.space(("SR1", "SR2", "HR"), 2, (-0.5, 5.5), (0.0, 0.2))
    assert space.parameters == (
        Real(name="return_1", low=-0.5, high=5.5),
        Real(name="violation_1", low=0.0, high=0.2),
        Real(name="return_2", low=-0.5, high=5.5),
        Real(name="violation_2", low=0.0, high=0.2),
        *(Choice(name=f"intervention_{k}", options=("SR1", "SR2", "HR")) for k in (1, 2, 3)),
    )


def test_a_point_of_the_space_becomes_the_policy_that_it_describes():
    point = {
        "intervention_3": "HR",
        "return_1": 2.1027,
        "violation_1": 0.05295,
        "return_2": -0.0582,
        "violation_2": 0.1597,
        "intervention_1": "SR1",
        "intervention_2": "SR2",
    }
    assert Switching.from_parameters(point) == FL_A


# Fixed and scheduled


def test_fixed_never_changes():
    assert curriculum(Fixed("SR1"), [Observation(6.0, -0.1)] * 3) == ["SR1"] * 4
    assert Fixed("SR1").interventions_used == ("SR1",)


def test_a_schedule_goes_through_its_list_and_repeats_the_last():
    assert curriculum(Schedule(("SR1", "SR2", "HR")), [Observation()] * 4) == ["SR1", "SR2", "HR", "HR", "HR"]


def test_a_schedule_looks_at_nobody():
    policy = Schedule(("SR1", "SR2", "HR"))
    assert curriculum(policy, [Observation(6.0, -0.1)] * 2) == curriculum(policy, [Observation(-6.0, 0.9)] * 2)


def test_incremental_rewinds_x_more_steps_in_every_unit():
    policy = named_policy("Incremental-2", 3)
    assert curriculum(policy, [Observation()] * 2) == ["Back-2", "Back-4", "Back-6"]


@pytest.mark.parametrize("policy", [Schedule, Bandit])
def test_a_policy_without_interventions_is_refused(policy):
    with pytest.raises(ConfigError, match="names no interventions"):
        policy(())


# Bandit


def progress_of(policy, observations, chosen):
    """The progress values after units under the interventions `chosen`, whatever the policy would have picked."""
    stage = policy.next_stage(policy.first_stage, Observation(), RNG)
    for observed, name in zip(observations, chosen, strict=True):
        stage = policy.next_stage({**stage, "chosen": name}, Observation(mean_return=observed), RNG)
    return stage["progress"]


def test_progress_is_the_change_of_the_return_between_one_use_and_the_next():
    # a: 1.0 (first visit, no value), then 1.5 (+0.5), then 0.5 (−1.0). b is visited in between: 9.0, no value.
    progress = progress_of(Bandit(("a", "b")), [1.0, 9.0, 1.5, 0.5], ["a", "b", "a", "a"])
    assert progress == {"a": [0.5, -1.0], "b": []}


def test_the_first_visit_gives_no_progress_value_not_even_against_the_zero_observed_before():
    assert progress_of(Bandit(("a", "b")), [3.0], ["a"]) == {"a": [], "b": []}


def test_only_the_last_ten_values_are_kept():
    returns = [float(k * k) for k in range(13)]  # changes 1, 3, 5, …, 23
    progress = progress_of(Bandit(("a",)), returns, ["a"] * 13)
    assert progress["a"] == [float(2 * k + 1) for k in range(2, 12)]


def test_it_picks_at_random_among_interventions_without_a_value():
    stage = {"chosen": "b", "returns": {"b": 1.0}, "progress": {"a": [], "b": [99.0], "c": []}}
    policy = Bandit(("a", "b", "c"))
    picked = [policy.next_stage(stage, Observation(2.0), np.random.default_rng(k))["chosen"] for k in range(60)]
    assert set(picked) == {"a", "c"}
    assert 15 < picked.count("a") < 45


def test_then_it_takes_the_largest_magnitude_be_it_a_gain_or_a_loss():
    stage = {"chosen": "a", "returns": {"a": 1.0}, "progress": {"a": [], "b": [-3.0], "c": [2.0]}}
    policy = Bandit(("a", "b", "c"))
    assert policy.next_stage(stage, Observation(2.0), RNG)["chosen"] == "b"
    assert policy.next_stage(stage, Observation(5.0), RNG)["chosen"] == "a"


def test_it_draws_one_value_of_each_buffer():
    # a gives 0 or 2 with equal chance, b always 1: each is chosen half of the time.
    stage = {"chosen": "b", "returns": {"b": 0.0}, "progress": {"a": [0.0, 2.0], "b": []}}
    policy = Bandit(("a", "b"))
    picked = [policy.next_stage(stage, Observation(1.0), np.random.default_rng(k))["chosen"] for k in range(200)]
    assert 70 < picked.count("a") < 130


def test_no_intervention_is_judged_before_it_was_used_twice():
    policy, stage, visits = Bandit(("a", "b", "c")), None, {"a": 0, "b": 0, "c": 0}
    for unit in range(12):
        stage = policy.next_stage(stage, Observation(float(unit)), np.random.default_rng(unit))
        waiting = {name for name, count in visits.items() if count < 2}
        assert not waiting or stage["chosen"] in waiting
        visits[stage["chosen"]] += 1


def test_a_stage_given_to_the_bandit_is_left_as_it_was():
    policy = Bandit(("a", "b"))
    stage = {"chosen": "a", "returns": {"a": 1.0}, "progress": {"a": [], "b": []}}
    kept = json.dumps(stage)
    policy.next_stage(stage, Observation(2.0), RNG)
    assert json.dumps(stage) == kept


def test_the_same_generator_gives_the_same_curriculum():
    seen = [Observation(float(r)) for r in np.random.default_rng(5).normal(size=20)]
    policy = Bandit(("SR1", "SR2", "HR"))
    assert curriculum(policy, seen, seed=1) == curriculum(policy, seen, seed=1) != curriculum(policy, seen, seed=2)
