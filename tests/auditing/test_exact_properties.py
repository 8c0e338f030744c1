"""What must be true of every finite task and intervention, on hundreds of random ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cmdps import (
    evaluate,
    finite_tasks,
    highest_failure,
    random_intervention,
    random_policy,
    random_task,
    starts_in_danger,
    steps_of,
)

from cisr import NONE, Place, Rewind
from cisr.auditing.exact import exact_audit
from cisr.auditing.numbers import best_return, first_trigger_bound
from cisr.auditing.reachability import explore
from cisr.auditing.verdict import eventual_safety, learning_safety
from cisr.cmdp.finite import NOWHERE, induce, judge
from cisr.cmdp.gymnasium import InducedCMDPs

SEEDS = range(120)
ANY_SEED = st.integers(0, 2**32)


def drawn(seed, **options):
    rng = np.random.default_rng(seed)
    return random_task(rng, **options), rng


def induced_by(task):
    return induce(judge(task, task.model()), task.interventions[0])


def eventual(task, one):
    return eventual_safety(one, task.constraint_form, task.kappa, steps_of(task, one), steps_of(task, NONE))


def test_certified_exactly_when_no_policy_can_fail():
    seen = set()
    for seed in SEEDS:
        task, _ = drawn(seed, n_triggers=1 + seed % 3)
        audit = exact_audit(task)
        for one in audit.interventions:
            worst = one.numbers.highest_failure_probability
            assert worst == pytest.approx(highest_failure(task, task.intervention(one.name)), abs=1e-12), seed
            assert (one.learning.status == "certified") == (worst == 0.0), seed
            seen.add((one.name, one.learning.status))
    assert len(seen) == 4


@given(finite_tasks())
@settings(max_examples=200)
def test_certified_exactly_when_the_highest_failure_probability_is_zero(task):
    for one in exact_audit(task).interventions:
        assert (one.learning.status == "certified") == (highest_failure(task, task.intervention(one.name)) == 0.0)


def test_certified_exactly_when_no_policy_can_fail_within_the_horizon_of_the_intervention():
    seen = set()
    for seed in SEEDS:
        task, _ = drawn(seed, own_horizons=True, starts_in_danger=seed % 4 == 0)
        for one in exact_audit(task).interventions:
            intervention = task.intervention(one.name)
            lasts, alone = steps_of(task, intervention), steps_of(task, NONE)
            certified = one.learning.status == "certified"
            assert certified == (highest_failure(task, intervention) == 0.0), seed
            assert not certified or f"within {lasts} steps" in one.learning.reason
            assert one.numbers is None or lasts == alone
            seen.add((one.learning.status, (lasts > alone) - (lasts < alone)))
    assert len(seen) == 6


def test_a_start_in_danger_refutes_and_is_named():
    found = 0
    for seed in SEEDS:
        task, _ = drawn(seed, starts_in_danger=True)
        model = task.model()
        doomed = [s for s in np.flatnonzero(model.start) if starts_in_danger(task, s)]
        for one in exact_audit(task).interventions if doomed else ():
            assert one.learning.status == "refuted"
            assert f"Episodes start in danger: in state [{doomed[0]}]" in one.learning.reason
            named = {v.state for v in one.learning.violations if v.kind == "starts in danger"}
            assert named == {(s,) for s in doomed}
            assert one.numbers is None and "start in danger" in one.numbers_note
            found += 1
    assert found > 50


def test_where_proposition_2_holds_danger_is_out_of_reach():
    verdicts = [learning_safety(induced_by(drawn(seed, share=0.7)[0])) for seed in range(600)]
    assert all(v.status == "certified" for v in verdicts if v.by_proposition_2)
    assert sum(bool(v.by_proposition_2) for v in verdicts) > 30
    assert sum(v.status == "certified" and not v.by_proposition_2 for v in verdicts) > 30  # sufficient, not necessary
    assert all(bool(v.violations) != v.by_proposition_2 for v in verdicts)


@given(finite_tasks())
def test_the_path_leads_to_the_offence_step_by_step(task):
    induced = induced_by(task)
    verdict, model = learning_safety(induced), induced.model
    assert len(verdict.path) < task.horizon
    if not verdict.offences:
        assert not verdict.path
        return
    here = verdict.path[0].state if verdict.path else verdict.offences[0].state
    assert model.start[model.numbers[here]] > 0
    for step in verdict.path:
        assert step.state == here
        moves = (model.source == model.numbers[here]) & (model.action == step.action)
        moves &= (induced.lands == model.numbers[step.landed]) & (induced.rescued == step.rescued)
        assert moves.any()
        here = step.landed
    assert verdict.offences[0].state == here


@pytest.mark.parametrize("form", ["sum", "mean"])
def test_proposition_1_holds_for_sampled_feasible_policies(form):
    """With horizons of their own: where M_i ends before M, it is not given."""
    feasible = 0
    for seed in SEEDS:
        n_triggers = 1 + seed % 2
        task, rng = drawn(seed, form=form, own_horizons=True, starts_in_danger=seed % 5 == 0, n_triggers=n_triggers)
        one = task.interventions[0]
        lasts = steps_of(task, one)
        task = replace(task, kappa=(one.kappa + n_triggers * one.tau) * (1 if form == "sum" else lasts))
        verdict = eventual(task, one)
        assert verdict == exact_audit(task)["random"].eventual
        assert verdict.given == (lasts >= steps_of(task, NONE))
        for _ in range(4):
            policy = random_policy(rng, task.model(), max(lasts, steps_of(task, NONE)))
            if verdict.given and evaluate(task, one, policy).keeps(one, form):
                fails = evaluate(task, NONE, policy).sums[0]
                assert fails <= min(task.kappa, verdict.failure_bound) + 1e-12, seed
                feasible += 1
    assert feasible > 100


@pytest.mark.parametrize("form", ["sum", "mean"])
def test_the_bounds_on_failures_without_a_teacher_hold(form):
    """For policies that keep the tolerances as students are held to them: each trigger, and true per-episode means."""
    feasible = telling = 0
    for seed in range(300):
        task, rng = drawn(seed, form=form, n_triggers=1 + seed % 3)
        one, induced = task.interventions[0], induced_by(task)
        bound = first_trigger_bound(induced, form)
        optimum = best_return(induced, form)
        assert (bound is None) == (optimum is None)
        assert bound is None or bound <= eventual(task, one).failure_bound + 1e-6, seed
        for _ in range(4):
            policy = random_policy(rng, task.model(), task.horizon)
            kept = evaluate(task, one, policy)
            if kept.keeps(one, form):
                assert evaluate(task, NONE, policy).sums[0] <= bound + 1e-6, seed
                assert kept.gained <= optimum.value + 1e-6, seed
                feasible += 1
                telling += bound < 1
    assert feasible > 100 and telling > 50


def test_a_mean_within_the_tolerance_may_hide_failures_without_the_teacher():
    one = replace(NONE, name="one", tau=0.01)
    assert eventual_safety(one, "sum", 0.01, 200, 200).given
    assert not eventual_safety(one, "mean", 0.01, 200, 200).given
    assert eventual_safety(one, "mean", 0.01, 200, 200).failure_bound == 1.0
    assert eventual_safety(replace(one, tau=0.0), "mean", 0.0, 200, 200).given


def test_where_the_intervention_ends_before_the_task_eventual_safety_is_not_given():
    one = replace(NONE, name="one")
    assert eventual_safety(one, "sum", 0.0, 2_000, 500).given
    shorter = eventual_safety(one, "sum", 0.0, 500, 2_000)
    assert not shorter.given and shorter.failure_bound is None
    assert "last 500 steps here and 2,000 in the task" in shorter.reason


def certified_by_proposition_2(kinds, n):
    """Tasks with a rescue that can happen, whose intervention meets Proposition 2's conditions."""
    for seed in itertools.count():
        task, rng = drawn(seed, kinds=kinds, share=0.6)
        induced = induced_by(task)
        if learning_safety(induced).by_proposition_2 and (induced.put != NOWHERE).any():
            n -= 1
            yield task, induced, rng
        if n == 0:
            return


def test_one_mutated_reset_is_caught_where_it_happens():
    for task, induced, rng in certified_by_proposition_2(("place",), 40):
        one, model = task.interventions[0], induced.model
        k = rng.choice(np.flatnonzero(induced.put != NOWHERE))
        pair = (int(model.target[k]), int(model.source[k]))
        wrong = int(rng.choice(np.flatnonzero(induced.trigger)))

        def mutated(state, history, u, one=one, pair=pair, wrong=wrong):
            return np.array([wrong]) if (state[0], history[-1, 0]) == pair else one.reset.fn(state, history, u)

        verdict = learning_safety(induce(induced.judged, replace(one, reset=Place(mutated))))
        assert not verdict.by_proposition_2
        found = {(v.next_state, v.state, v.landed) for v in verdict.violations}
        assert ((pair[0],), (pair[1],), (wrong,)) in found


def test_one_state_missing_from_the_trigger_is_caught_by_its_name():
    caught = 0
    for task, induced, _ in certified_by_proposition_2(("rewind",), 60):
        one, model = task.interventions[0], induced.model
        reach = explore(induced)
        stood = (reach.depth >= 0)[model.source] & (induced.put != NOWHERE)
        for state in set(model.target[stood].tolist()) & set(model.source[induced.judged.failed].tolist()):
            zone = induced.trigger.copy()
            zone[state] = False
            verdict = learning_safety(
                induce(replace(induced.judged, horizon=99), replace(one, trigger=lambda s, zone=zone: zone[s[..., 0]]))
            )
            assert verdict.status == "refuted"
            assert {offence.state for offence in verdict.offences} == {(state,)}
            caught += 1
    assert caught > 10


def played_out(task, intervention):
    """Every sequence of actions through `InducedCMDPs`: where students stood, after how many steps, and who failed."""
    env = task.make_env()
    row = InducedCMDPs(task, intervention, [env])
    soonest, failed = {}, False
    for actions in itertools.product(range(env.action_space.n), repeat=task.horizon):
        row.seed([0])
        soonest[env.s] = 0
        for steps, action in enumerate(actions, 1):
            step = row.step(np.array([action]))
            failed |= bool(step.failed[0])
            if step.terminated[0] or step.truncated[0]:
                break
            soonest[env.s] = min(steps, soonest.get(env.s, steps))
    return soonest, failed


@given(ANY_SEED)
@settings(max_examples=60)
def test_the_graph_is_what_playing_every_sequence_of_actions_shows(seed):
    task, _ = drawn(seed, deterministic=True, kinds=("rewind", "far", "to start", "place"))
    task = replace(task, horizon=min(task.horizon, 5))
    induced = induced_by(task)
    soonest, failed = played_out(task, task.interventions[0])
    depth = explore(induced).depth
    assert {int(s): int(depth[s]) for s in np.flatnonzero(depth >= 0)} == soonest
    assert (learning_safety(induced).status == "refuted") == failed


def test_failures_of_a_random_student_are_as_often_as_worked_out():
    task, _ = drawn(5)
    task = replace(task, horizon=6, interventions=(random_intervention(np.random.default_rng(1), 6, ("place",)),))
    model, one, episodes = task.model(), task.interventions[0], 1500
    uniform = np.full((task.horizon, model.n_states, model.n_actions), 1 / model.n_actions)
    expected = evaluate(task, one, uniform).sums[0]
    row, rng, failures = InducedCMDPs(task, one, [task.make_env()]), np.random.default_rng(0), 0
    row.seed([0])
    for _ in range(episodes):
        row.restart(0)
        ended = False
        while not ended:
            step = row.step(rng.integers(model.n_actions, size=1))
            failures += int(step.failed[0])
            ended = bool(step.terminated[0] or step.truncated[0])
    assert 0.05 < expected < 0.95
    assert abs(failures / episodes - expected) < 4 * np.sqrt(expected * (1 - expected) / episodes)


def test_a_rewind_of_several_steps_is_judged_and_left_out_of_the_numbers():
    task, _ = drawn(3, kinds=("rewind",))
    far = replace(task, interventions=(replace(task.interventions[0], reset=Rewind(4)),))
    near, audit = exact_audit(task)["random"], exact_audit(far)["random"]
    assert audit.learning == near.learning
    assert audit.numbers is None and "rewind of 4 steps" in audit.numbers_note
