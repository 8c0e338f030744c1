"""Exact audits of rescues that act, drives and overrides, against M_i written out a second time on random tasks."""

import numpy as np
import pytest
from random_cmdps import evaluate, evaluate_when_acting, highest_failure_when_acting, random_policy, random_task

from cisr import NONE
from cisr.auditing.exact import exact_audit
from cisr.auditing.numbers import best_return, first_trigger_bound
from cisr.auditing.verdict import learning_safety
from cisr.cmdp.finite import induce, judge

KINDS = ["drive", "override"]


def drawn(seed, kind, **options):
    rng = np.random.default_rng(seed)
    return random_task(rng, kinds=(kind,), **options), rng


@pytest.mark.parametrize("kind", KINDS)
def test_certified_exactly_when_no_policy_can_fail(kind):
    seen = []
    for seed in range(200):
        task, _ = drawn(seed, kind)
        one = exact_audit(task)["random"]
        worst = highest_failure_when_acting(task, task.interventions[0])
        assert one.numbers.highest_failure_probability == pytest.approx(worst, abs=1e-12), seed
        assert (one.learning.status == "certified") == (worst == 0.0), seed
        seen.append(one.learning.status)
    assert 20 < seen.count("certified") < 180


@pytest.mark.parametrize("kind", KINDS)
def test_certified_exactly_when_no_policy_can_fail_within_a_horizon_of_its_own(kind):
    for seed in range(200):
        task, _ = drawn(seed, kind, own_horizons=True, starts_in_danger=seed % 4 == 0)
        certified = exact_audit(task)["random"].learning.status == "certified"
        assert certified == (highest_failure_when_acting(task, task.interventions[0]) == 0.0), seed


@pytest.mark.parametrize("kind", KINDS)
def test_where_proposition_2_holds_danger_is_out_of_reach(kind):
    verdicts = []
    for seed in range(400):
        task, _ = drawn(seed, kind)
        verdicts.append(learning_safety(induce(judge(task, task.model()), task.interventions[0])))
    assert all(v.status == "certified" for v in verdicts if v.by_proposition_2)
    assert sum(bool(v.by_proposition_2) for v in verdicts) > 20
    assert all(bool(v.violations) != v.by_proposition_2 for v in verdicts)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_hold_for_sampled_feasible_policies(kind):
    feasible = 0
    for seed in range(200):
        task, rng = drawn(seed, kind)
        one = task.interventions[0]
        induced = induce(judge(task, task.model()), one)
        bound, optimum = first_trigger_bound(induced, "sum"), best_return(induced, "sum")
        for _ in range(4):
            policy = random_policy(rng, task.model(), task.horizon)
            failures, rescues, gained = evaluate_when_acting(task, one, policy)
            if failures <= one.kappa and rescues <= one.tau:
                assert evaluate(task, NONE, policy).sums[0] <= bound + 1e-6, seed
                assert gained <= optimum.value + 1e-6, seed
                feasible += 1
    assert feasible > 100


def test_a_drive_that_crashes_is_named_with_the_controllers_action():
    found = 0
    for seed in range(200):
        task, _ = drawn(seed, "drive")
        safety = exact_audit(task)["random"].learning
        for offence in safety.offences[:1]:
            if offence.driven:
                found += 1
                steered = task.interventions[0].reset.controller(np.array(offence.state))
                assert offence.action == steered and "the controller's action" in safety.reason
                assert any(v.kind == "fails on the drive" for v in safety.violations)
    assert found > 5
