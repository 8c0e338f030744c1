import dataclasses

import numpy as np
import pytest
import tiny

from cisr import (
    ConfigError,
    Fixed,
    NobodyFinished,
    Store,
    StoreError,
    Study,
    Switching,
    Threshold,
    compare,
    load_student,
)
from cisr.compare import estimate
from cisr.report.figures import learning_curves
from cisr.report.tables import shown

TAUGHT = Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-9, max_violation=1.0),))


def test_an_estimate_is_mean_standard_error_and_an_interval_around_it():
    e = estimate([1.0, 2.0, 3.0, 4.0])
    assert e.mean == 2.5
    assert e.sem == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)
    assert 1.0 <= e.low < 2.5 < e.high <= 4.0


def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    estimates = [estimate(rng.normal(size=30)) for _ in range(200)]
    assert 0.88 <= np.mean([e.low <= 0 <= e.high for e in estimates]) <= 0.99


def test_a_single_student_has_no_standard_error():
    assert np.isnan(estimate([1.0]).sem)
    assert estimate([1.0]).to_json()["sem"] is None
    assert shown(estimate([1.0]), 1) == "1.0\n[1.0, 1.0]"


@pytest.fixture(scope="module")
def comparison():
    curricula = {"taught": TAUGHT, "HR": Fixed("HR"), "none": Fixed("none")}
    return compare(tiny.task, curricula, n_students=2, n_workers=0, deploy_each_unit=True)


def test_no_student_under_an_intervention_fails_in_training_and_those_without_do(comparison):
    failures = {row.curriculum: row.training_failures.mean for row in comparison.rows}
    assert failures["taught"] == failures["HR"] == 0
    assert failures["none"] > 0


def test_students_follow_their_curricula(comparison):
    for transcript in comparison.transcripts["taught"]:
        assert [unit.intervention for unit in transcript.units] == ["HR"] * 3  # (0, 0) passes the first threshold
    for transcript in comparison.transcripts["none"]:
        assert transcript.rescues == 0


def test_the_json_has_the_documented_form(comparison):
    record = comparison.to_json()
    assert record["task"] == "tiny-lake"
    row = record["rows"][0]
    assert {"curriculum", "students", "finished", "success", "return", "training_failures", "rescues"} <= set(row)
    assert {"mean", "sem", "low", "high", "median"} == set(row["success"])
    assert sum(row["outcomes"].values()) == pytest.approx(1.0)


def test_the_learning_curves_are_drawn(comparison, tmp_path):
    learning_curves(comparison, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_where_nobody_finishes_there_is_no_result_but_the_first_error():
    with pytest.raises(NobodyFinished, match=r"None of 2 .* RuntimeError: the simulator lost its licence \(tiny.py:"):
        compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=2, n_workers=0)


def test_students_that_break_are_counted_with_their_failures_and_tried_again(tmp_path, monkeypatch, caplog):
    groups = {"none": Fixed("none")}  # without a teacher students fail
    (row,) = (broken := compare(tiny.fragile, groups, n_students=6, store=tmp_path / "s", n_workers=0)).rows
    assert row.students == 6 and 0 < row.finished < 6
    assert f"{6 - row.finished} of 6 students did not finish" in caplog.text
    unrecorded = [t.failures_when_broken for t in broken.transcripts["none"] if t.error]
    assert None not in unrecorded and sum(unrecorded) > 0
    monkeypatch.setenv("HOLD", "yes")
    (row,) = (mended := compare(tiny.fragile, groups, n_students=6, store=tmp_path / "s", n_workers=0)).rows
    assert (row.students, row.finished) == (6, 6)
    for before, after in zip(broken.transcripts["none"], mended.transcripts["none"], strict=True):
        assert after == before or before.error


def test_a_study_tries_broken_students_again_and_scores_their_classes_anew(tmp_path, monkeypatch):
    def study():
        return Study(tiny.fragile, n_rounds=1, store=tmp_path / "s", n_workers=0).run()

    broken = study()
    assert 0 < len(broken.unfinished) < 8
    monkeypatch.setenv("HOLD", "yes")
    mended = study()
    assert not mended.unfinished
    for before, after, k in zip(broken.rounds, mended.rounds, range(4), strict=True):
        assert after.parameters == before.parameters
        scores = [t.deployment.score for t in mended.transcripts[2 * k : 2 * k + 2]]
        assert after.score == np.mean(scores)


def test_more_students_join_those_already_in_the_store():
    with Store(None) as store:
        first = compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, n_workers=0)
        both = compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=2, store=store, n_workers=0)
        assert both.transcripts["SR1"][0] == first.transcripts["SR1"][0]


def test_a_store_of_another_task_is_refused():
    with Store(None) as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, n_workers=0)
        with pytest.raises(StoreError, match="task"):
            compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=1, store=store)
        with pytest.raises(StoreError, match="definition"):
            compare(dataclasses.replace(tiny.task, n_units=2), {"SR1": Fixed("SR1")}, n_students=1, store=store)


def test_a_trained_student_can_be_taken_out_of_the_store():
    with Store(None) as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, n_workers=0)
        student = load_student(store, tiny.task, "compare/SR1/000")
        observation, _ = tiny.task.make_env().reset(seed=0)
        assert student.predict(observation) in range(4)
        with pytest.raises(StoreError, match="no weights"):
            load_student(store, tiny.task, "compare/SR1/007")


def test_nonsense_is_refused():
    with pytest.raises(ConfigError, match="has no intervention 'SR9'"):
        compare(tiny.task, {"SR9": Fixed("SR9")}, n_workers=0)
    with pytest.raises(ConfigError, match="number of students is 0"):
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=0)
    with pytest.raises(ConfigError, match="no curriculum"):
        compare(tiny.task, {})
