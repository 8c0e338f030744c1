"""M_0, in which policies are tried out: one that an audit refutes is not used, and what happens there is told apart."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import tiny

from cisr import ConfigError, Execution, Fixed, Intervention, Rewind, Store, StoreError, Study, compare, explorer
from cisr.auditing.exact import exact_audit
from cisr.auditing.report import keep_quick_audit
from cisr.experiments.deploying import deploy
from cisr.tasks.frozen_lake import hard_on_actions, lake_task
from cisr.tasks.frozen_lake.lake import Lake

HERE = Execution(n_workers=0, backend="gymnasium")
STUDENT = explorer(tiny.student, n_candidates=2, learning_rate=1e-2)
BROKEN = Intervention(name="broken", trigger=lambda s: s[..., 0] < 0, reset=Rewind(), tau=0.0)


def lake(*rows, horizon=30, **changes):
    """A small lake with explorers, and HA beside the paper's interventions."""
    drawn = Lake(rows)
    task = lake_task(drawn, horizon)
    task = replace(task, interventions=(*task.interventions, hard_on_actions(drawn)), jax_env=None, **changes)
    return task.with_training(student=STUDENT, n_units=3, deployment_steps=100)


WET = lake("SFFF", "HFFF", "FFFF", "FFFG")
"""A start that touches water: SR1, SR2 and HR, which is M_0, are refuted, and HA is certified."""
DRY = lake("SFFF", "FFFF", "FFHF", "FFFG")
"""All are certified. Its goal touches water, so that HR sends everybody back who comes near."""


def learn(task, store=None, name="HA", **how):
    return compare(task, {name: Fixed(name)}, n_students=1, store=store, execution=HERE, **how)


def tried(found):
    return [unit.evaluation for t in found.transcripts["HA"] for unit in t.units if unit.evaluation]


@pytest.fixture(scope="module")
def wet():
    """A comparison on the wet lake, the store it left, and what was said."""
    said = []

    class Heard(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    logger = logging.getLogger("cisr.experiments.guidance")
    logger.addHandler(heard := Heard())
    with Store(None) as store:
        found = learn(WET, store)
        logger.removeHandler(heard)
        yield found, store, said


def test_an_m0_that_is_refuted_is_replaced_by_one_that_is_certified_and_it_is_said(wet):
    found, store, said = wet
    assert [evaluation.under for evaluation in tried(found)] == ["HA", "HA"]
    assert sum(evaluation.failures for evaluation in tried(found)) == 0
    line = (
        "Safe evaluation: the audit refutes HR, the M_0 of 'frozen-lake': students can fail there; HA stands in for it"
    )
    assert [one for one in said if one.startswith(line)] == [f"{line}, which is certified."]
    assert {v["name"]: v["status"] for v in store.audit()["interventions"]}["HR"] == "refuted"


def test_results_belong_to_the_m0_that_was_used(wet):
    found, store, _ = wet
    assert store.runs()["compare"]["safe evaluation"] == "HA"
    assert learn(WET, store).transcripts == found.transcripts  # goes on, and trains nobody again
    settings = {key: value for key, value in store.runs()["compare"].items() if key != "safe evaluation"}
    with pytest.raises(StoreError, match="safe evaluation"):
        store.bind_run("compare", settings)  # as a run in HR would


def test_policies_are_deployed_in_the_m0_that_stands_in_for_it_and_again_later():
    with Store(None) as store:
        found = learn(WET, store, evaluate_safely=True)
        assert found.deployed_under == "HA"
        (row,) = deploy(store, WET, execution=HERE).rows
    assert row.under == "HA" and row.measures["return"].now.mean is not None


def test_a_study_does_the_same(caplog):
    teaching = replace(
        WET.training.teaching, n_switches=0, n_initial=1, n_rounds=0, class_size=1, interventions=("HA",)
    )
    teaching = replace(teaching, return_range=(0.0, 1.0), violation_range=(0.0, 1.0))
    with Store(None) as store:
        found = Study(WET, teaching=teaching, store=store, execution=HERE).run()
        assert store.runs()["study"]["safe evaluation"] == "HA"
    assert {unit.evaluation.under for t in found.transcripts for unit in t.units if unit.evaluation} == {"HA"}
    assert sum("HA stands in for it" in message for message in caplog.messages) == 1


def test_where_nothing_can_stand_in_no_policy_is_tried_out_and_none_can_be_evaluated_safely(caplog):
    unsafe = replace(WET, interventions=WET.interventions[:3])
    found = compare(unsafe, {"HR": Fixed("HR")}, n_students=1, execution=HERE)
    assert all(unit.evaluation is None for t in found.transcripts["HR"] for unit in t.units)
    assert "and under every other intervention; no policies are tried out" in "".join(caplog.messages)
    with pytest.raises(
        ConfigError, match=r"the audit refutes HR, the M_0 of 'frozen-lake'.*evaluate in the task itself"
    ):
        compare(unsafe, {"HR": Fixed("HR")}, n_students=1, evaluate_safely=True, execution=HERE)


def test_an_m0_that_is_not_refuted_stays_whatever_it_is_good_for(caplog):
    with Store(None) as store:
        found = learn(DRY, store)
        assert "safe evaluation" not in store.runs()["compare"]
    assert [evaluation.under for evaluation in tried(found)] == ["HR", "HR"]
    told = [message for message in caplog.messages if message.startswith("Safe evaluation:")]
    assert told == [
        "Safe evaluation: no policy whatsoever succeeds under HR, M_0, not even one that ignores its tolerances: it "
        "cannot choose among policies."
    ]


def test_which_interventions_let_anybody_reach_the_goal_is_known_from_the_model():
    reached = {one.name: one.reaches_goal for one in exact_audit(DRY).interventions}
    assert reached == {"SR1": False, "SR2": False, "HR": False, "HA": True, "none": True}
    short = replace(DRY, horizon=5, make_env=lambda **options: None)  # six steps lead to the goal
    assert not any(one.reaches_goal for one in exact_audit(short).interventions)
    lasting = replace(short, success=lambda move: ~move.terminated)  # getting to the horizon is a success
    assert exact_audit(lasting)["HA"].reaches_goal and exact_audit(lasting)["HR"].reaches_goal is not False


def test_students_that_need_no_m0_are_not_audited_for_it():
    with Store(None) as store:
        learn(replace(WET, training=replace(WET.training, student=tiny.student)), store)
        assert store.audit() is None and "safe evaluation" not in store.runs()["compare"]


def test_an_audit_of_another_task_is_left_alone_by_a_run_that_is_refused(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        learn(DRY, store)
        kept = store.audit()
        with pytest.raises(StoreError):
            learn(WET, store)
        assert store.audit() == kept


def test_failures_in_m0_have_a_key_of_their_own():
    task = replace(DRY, interventions=(*DRY.interventions, BROKEN), safe_evaluation="broken")
    with Store(None) as store:
        kept = keep_quick_audit(task, store)
        for verdict in kept["interventions"]:
            verdict["status"] = "not refuted"  # as a few episodes of random play may leave it
        store.keep_audit(kept)
        found = learn(task, store)
    (row,) = found.rows
    in_m0 = sum(evaluation.failures for evaluation in tried(found))
    assert in_m0 > 0 and row.safe_evaluation_failures.mean == in_m0
    assert row.training_failures.mean == 0 and row.to_json()["safe_evaluation_failures"]["mean"] == in_m0
    assert np.isfinite(row.mean_return.mean)
