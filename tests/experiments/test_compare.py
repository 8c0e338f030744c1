import io

import numpy as np
import pytest
import tiny
from rich.console import Console

from cisr import (
    ConfigError,
    Fixed,
    NobodyFinished,
    Store,
    StoreError,
    StudentConfig,
    Study,
    Switching,
    Threshold,
    Transcript,
    compare,
    load_student,
)
from cisr.experiments.comparison import measure_groups, summarise_group, summarise_groups
from cisr.experiments.differences import against_the_others
from cisr.training import Deployment, charged_score
from cisr.view.figures import learning_figure
from cisr.view.tables import comparison_table, csv_row, differences_table, latex_row
from cisr.view.terminal import on_terminal

TAUGHT = Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-9, max_violation=1.0),))


def student(success, *, policy="SR1", failures=0, broke=False):
    """One that ended up so, under a curriculum of that name; `failures` None: nobody knows."""
    deployment = Deployment(
        under="none",
        steps=10,
        episodes=10,
        mean_return=6 * success,
        score=6 * success,
        failures=0,
        rescues=0,
        outcomes={"success": success, "other": 1 - success},
    )

    class Known(Transcript):
        training_failures = failures

    return Known(
        name="s",
        curriculum=Fixed(policy).to_json(),
        config=StudentConfig(),
        seed=0,
        units=(),
        deployment=None if broke else deployment,
        error="it broke" if broke else None,
    )


def printed(rows):
    console = Console(width=130, file=io.StringIO())
    console.print(on_terminal(comparison_table(rows), "t"))
    return console.file.getvalue()


def cells(rows):
    return [cell.text for row in comparison_table(rows).rows for cell in row]


def test_beside_the_mean_stand_those_that_failed_to_learn_and_the_mean_of_the_others():
    row = summarise_group("SR1", [*(student(0.9) for _ in range(18)), student(0.0), student(0.29)])
    assert row.success.mean == pytest.approx((18 * 0.9 + 0.29) / 20)
    assert (row.failed_to_learn.count, row.failed_to_learn.of) == (2, 20)
    assert (row.failed_to_learn.low, row.failed_to_learn.high) == pytest.approx((0.0123, 0.3170), abs=1e-4)
    assert row.learned.mean == pytest.approx(0.9)
    assert row.mean_return.low is row.to_json()["return"]["high"] is None  # nothing holds for a return
    assert "2 of 20" in printed([row]) and "0.900 ± 0.000" in printed([row])


def test_none_of_twenty_failing_in_training_leaves_a_share_of_a_sixth_possible():
    row = summarise_group("SR1", [student(0.9) for _ in range(20)])
    assert (row.students_with_failures.count, row.students_with_failures.low) == (0, 0.0)
    assert row.students_with_failures.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert row.to_json()["students_with_failures"] == {
        "count": 0,
        "of": 20,
        "share": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.1684, abs=1e-4),
    }


def test_nobody_fails_to_learn_where_nobody_ever_succeeds():
    """CartPole has no success; but where others succeed, a curriculum whose students never do has failed."""
    never = [student(0.0, policy="HR") for _ in range(3)]
    (row,) = summarise_groups({"HR": never})
    assert row.failed_to_learn is row.learned is None
    assert row.to_json()["failed_to_learn"] is row.to_json()["learned"] is None
    row, _ = summarise_groups({"HR": never, "SR1": [student(0.9)]})
    assert row.failed_to_learn.count == 3 and row.to_json()["learned"] is None


def test_unknown_failures_are_said_and_never_counted_as_none():
    (row,) = rows = summarise_groups(
        {"SR1": [student(0.9, failures=4), student(0.9), student(0.9, failures=None, broke=True)]}
    )
    assert row.training_failures.mean == 2 and row.unknown_failures == 1 and row.finished == 2
    assert row.to_json()["unknown_failures"] == 1 and row.students_with_failures.of == 2
    assert "+ 1 unknown" in printed(rows) and "2 of 3" in printed(rows)
    assert "2.0 ± 2.0 + 1 unknown" in cells(rows)
    (row,) = rows = summarise_groups({"SR1": [student(0.0, failures=None, broke=True)]})
    assert row.to_json()["training_failures"] is None
    assert "unknown" in printed(rows) and "unknown" in cells(rows)
    measured = measure_groups({"SR1": [student(0.9, failures=None, broke=True)]})["training_failures"]["SR1"]
    assert measured.values == [] and measured.unfinished == 1


def test_no_curriculum_is_better_because_its_bad_students_broke():
    """Half of all succeed; under B the others broke. The line says how many are missing, wherever it is shown."""
    groups = {
        "A": [student(float(k < 10)) for k in range(20)],
        "B": [student(1.0, policy="SR2", failures=0, broke=k >= 10) for k in range(20)],
    }
    found = against_the_others(measure_groups(groups))
    assert [d.told_apart for d in found] == ["unknown"] * 3
    table = differences_table(found)
    assert csv_row(table.rows[0]).endswith(",0,10,unknown")
    assert "unknown: 10 of 40 unfinished" in latex_row(table.rows[0])
    console = Console(width=130, file=io.StringIO())
    console.print(on_terminal(table, "t"))
    assert "unknown: 10 of 40 unfinished" in console.file.getvalue()
    assert "10 of 20 finished" in cells(summarise_groups(groups))


def test_students_of_several_curricula_count_once_for_each():
    """What three teachers found, with four students each: three values, whatever the number of students."""
    successes = {"SR1": 0.9, "SR2": 0.8, "HR": 0.1}
    students = [student(success, policy=policy) for policy, success in successes.items() for _ in range(4)]
    assert measure_groups({"Optimized": students})["success"]["Optimized"].values == pytest.approx([0.9, 0.8, 0.1])
    row = summarise_group("Optimized", students)
    assert (row.students, row.policies) == (12, 3)
    assert row.success.mean == pytest.approx(0.6)
    assert row.success.sem == pytest.approx(np.std([0.9, 0.8, 0.1], ddof=1) / np.sqrt(3))
    assert row.failed_to_learn.count == 4 and row.failed_to_learn.high is None
    assert "12, 3 teachers" in cells([row])


def test_the_table_fits_a_terminal():
    students = [student(1.0 - 0.04 * k, failures=10_000 * (k % 2)) for k in range(20)]
    rows = summarise_groups({"Incremental-2": students, "none": [student(0.9, failures=None, broke=True)] * 20})
    assert max(map(len, printed(rows).splitlines())) <= 130 and "…" not in printed(rows)
    assert "bootstrap" not in printed(rows)


@pytest.fixture(scope="module")
def comparison():
    curricula = {"taught": TAUGHT, "HR": Fixed("HR"), "none": Fixed("none")}
    return compare(tiny.task, curricula, n_students=2, deploy_each_unit=True, execution=tiny.HERE)


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
    learning_figure(comparison, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_where_nobody_finishes_there_is_no_result_but_the_first_error():
    with pytest.raises(NobodyFinished, match=r"None of 2 .* RuntimeError: the simulator lost its licence \(tiny.py:"):
        compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=2, execution=tiny.HERE)


def test_students_that_break_are_counted_with_their_failures_and_tried_again(tmp_path, monkeypatch, caplog):
    groups = {"none": Fixed("none")}  # without a teacher students fail
    (row,) = (broken := compare(tiny.fragile, groups, n_students=6, store=tmp_path / "s", execution=tiny.HERE)).rows
    assert row.students == 6 and 0 < row.finished < 6
    assert f"{6 - row.finished} of 6 students did not finish" in caplog.text
    unrecorded = [t.failures_when_broken for t in broken.transcripts["none"] if t.error]
    assert None not in unrecorded and sum(unrecorded) > 0
    monkeypatch.setenv("HOLD", "yes")
    (row,) = (mended := compare(tiny.fragile, groups, n_students=6, store=tmp_path / "s", execution=tiny.HERE)).rows
    assert (row.students, row.finished) == (6, 6)
    for before, after in zip(broken.transcripts["none"], mended.transcripts["none"], strict=True):
        assert after == before or before.error


def test_a_study_tries_broken_students_again_and_scores_their_classes_anew(tmp_path, monkeypatch):
    def study():
        return Study(tiny.fragile, teaching=tiny.teaching(n_rounds=1), store=tmp_path / "s", execution=tiny.HERE).run()

    score = charged_score(tiny.fragile.max_reward)
    broken = study()
    assert 0 < len(broken.unfinished) < 8
    monkeypatch.setenv("HOLD", "yes")
    mended = study()
    assert not mended.unfinished
    for before, after, k in zip(broken.trials, mended.trials, range(4), strict=True):
        assert after.parameters == before.parameters
        scores = [score(t) for t in mended.transcripts[2 * k : 2 * k + 2]]
        assert after.score == np.mean(scores)


def test_more_students_join_those_already_in_the_store():
    with Store(None) as store:
        first = compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        both = compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=2, store=store, execution=tiny.HERE)
        assert both.transcripts["SR1"][0] == first.transcripts["SR1"][0]


def test_a_store_of_another_task_is_refused():
    with Store(None) as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        with pytest.raises(StoreError, match="task"):
            compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=1, store=store)
        with pytest.raises(StoreError, match="definition"):
            compare(tiny.task.with_training(n_units=2), {"SR1": Fixed("SR1")}, n_students=1, store=store)


def test_a_trained_student_can_be_taken_out_of_the_store():
    with Store(None) as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        student = load_student(store, tiny.task, "compare/SR1/000")
        observation, _ = tiny.task.make_env().reset(seed=0)
        assert student.predict(observation) in range(4)
        with pytest.raises(StoreError, match="no weights"):
            load_student(store, tiny.task, "compare/SR1/007")


def test_a_comparison_gives_its_students_while_its_store_is_open_and_after(tmp_path):
    observation, _ = tiny.task.make_env().reset(seed=0)
    with Store(tmp_path / "s") as store:
        found = compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=2, store=store, execution=tiny.HERE)
        before = [found.student("SR1", k).predict(observation, deterministic=True) for k in range(2)]
        same = load_student(store, tiny.task, "compare/SR1/001")
    assert before == [found.student("SR1", k).predict(observation, deterministic=True) for k in range(2)]
    assert before[1] == same.predict(observation, deterministic=True)
    with pytest.raises(ConfigError, match="no curriculum 'HR': choose one of SR1"):
        found.student("HR")
    with pytest.raises(ConfigError, match="number of a student is 2"):
        found.student("SR1", 2)


def test_a_comparison_in_memory_has_no_students_to_give(comparison):
    with pytest.raises(ConfigError, match="kept in no file, and its students are gone: give `compare` a store"):
        comparison.student("HR", 0)


def test_nonsense_is_refused():
    with pytest.raises(ConfigError, match="has no intervention 'SR9'"):
        compare(tiny.task, {"SR9": Fixed("SR9")}, execution=tiny.HERE)
    with pytest.raises(ConfigError, match="number of students is 0"):
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=0)
    with pytest.raises(ConfigError, match="no curriculum"):
        compare(tiny.task, {})
