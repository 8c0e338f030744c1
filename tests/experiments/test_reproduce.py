import dataclasses
import json

import pytest
import tiny

from cisr import ConfigError, Store, Transcript, get_task
from cisr.core.publication import PublishedRow
from cisr.experiments.publications import publication
from cisr.experiments.reproduce import baselines, n_students_in_all, reproduce
from cisr.experiments.reproduced import reproduced_row
from cisr.tasks.frozen_lake import PAPER_TEACHING
from cisr.view.tables import reproduction_table

TASK = dataclasses.replace(tiny.compiled, name="frozen-lake").with_training(
    teaching=dataclasses.replace(PAPER_TEACHING, n_initial=2, n_rounds=1)
)


@pytest.fixture(scope="module")
def reproduction():
    with Store(None) as store:
        result = reproduce(TASK, store, n_teachers=2, n_students=2, execution=tiny.HERE)
        again = reproduce(TASK, store, n_teachers=2, n_students=2, execution=tiny.HERE)
        assert again.to_json() == result.to_json()  # nothing is trained twice
        assert len(store.transcripts()) == n_students_in_all(TASK, 2, 2)
        return result


def test_the_papers_rows_come_with_its_numbers_and_the_others_without(reproduction):
    paper = {row.curriculum: row.published for row in reproduction.rows}
    assert paper["Optimized"].success == (0.960, 0.004)
    assert set(publication(TASK).rows) == {label for label, published in paper.items() if published}
    assert {"FL-A", "FL-B", "Back-6", "Incremental-2", "Random search"} <= set(paper)


def test_each_repetition_is_one_value_of_the_estimate(reproduction):
    row = next(row for row in reproduction.rows if row.curriculum == "SR1")
    groups = [t for t in reproduction.comparison.transcripts["SR1"]]
    means = [sum(t.deployment.success for t in groups[k : k + 2]) / 2 for k in (0, 2)]
    assert row.success.mean == pytest.approx(sum(means) / 2)
    assert row.success.sem == pytest.approx(abs(means[0] - means[1]) / 2)


def test_tests_count_teachers_and_not_their_students(reproduction):
    found = [d for d in reproduction.differences if d.measure == "success"]
    assert [d.others for d in found] == [row.curriculum for row in reproduction.rows[1:]]
    assert {d.sizes for d in reproduction.differences} == {(2, 2)}
    assert {d.told_apart for d in reproduction.differences} == {"too few"}
    row = reproduction.rows[0]
    assert found[0].means[0] == pytest.approx(row.success.mean) == pytest.approx(sum(row.classes["success"]) / 2)
    record = reproduction.to_json()
    assert record["rows"][0]["classes"]["success"] == list(row.classes["success"])
    assert record["differences"] == [d.to_json() for d in reproduction.differences]


def test_pooled_students_of_several_teachers_claim_no_more_than_their_teachers(reproduction):
    pooled = {row.curriculum: row for row in reproduction.comparison.rows}
    assert (pooled["Optimized"].students, pooled["Optimized"].policies, pooled["SR1"].policies) == (4, 2, 1)
    assert pooled["Optimized"].success.sem == pytest.approx(reproduction.rows[0].success.sem)
    assert pooled["Optimized"].to_json()["students_with_failures"]["high"] is None
    assert pooled["SR1"].to_json()["students_with_failures"]["high"] is not None


def test_unknown_failures_of_a_class_are_told(reproduction):
    class Unknown(Transcript):
        training_failures = None

    broken, whole = reproduction.comparison.transcripts["SR1"][:2]
    broken = Unknown(**{**vars(broken), "deployment": None, "error": "it broke"})
    row = reproduced_row("SR1", [[broken, whole], [broken]], None)
    assert row.unknown_failures == 2 and row.classes["training_failures"] == (0.0,)
    assert row.to_json()["ours"]["unknown_failures"] == 2
    (columns,) = reproduction_table([row], [], repetitions=2, students=2, ours=False).rows
    assert "0.0 + 2 unknown" in [cell.text for cell in columns]


def test_nobody_under_an_intervention_fails_in_training(reproduction):
    for row in reproduction.rows:
        assert (row.training_failures.mean > 0) == (row.curriculum == "No-interv.")


def test_teachers_are_independent(reproduction):
    assert len({str(policy) for policy in reproduction.policies["Optimized"]}) == 2


def test_a_paper_that_tells_outcomes_has_them_beside_ours(reproduction):
    published = PublishedRow(
        success=(0.9, 0.1), training_failures=(1, 0), mean_return=(2, 1), outcomes={"rescue": (0.3, 0.2)}
    )
    assert PublishedRow.from_json(json.loads(json.dumps(dataclasses.asdict(published)))) == published
    rows = [dataclasses.replace(row, published=published if k else None) for k, row in enumerate(reproduction.rows)]
    table = reproduction_table(rows, [], repetitions=2, students=2, ours=False)
    assert table.over == [("", 1), ("success", 2), ("rescue", 2), ("training failures", 2), ("return", 2)]
    ours, paper = (column for column in table.columns if column.over == "rescue")
    assert [cell.csv for cell in paper.cells] == [(None, None)] + [(0.3, 0.2)] * (len(rows) - 1)
    assert [cell.value for cell in ours.cells] == [row.outcomes["rescue"].mean for row in rows]


def test_the_papers_lander_has_crashes_its_teachers_and_no_bandit():
    lander = get_task("lunar-lander", student="two-layer")
    paper = publication(lander)
    assert publication(get_task("lunar-lander", student="explorer")) == paper
    assert paper.rows["No-interv."].outcomes["out of map"] == (0.019, 0.014)
    assert {name for row in paper.rows.values() for name in row.outcomes} <= set(lander.outcomes)
    assert list(baselines(lander, paper)) == ["Narrow", "Wide", "No-interv.", "LL-A", "LL-B"]


def test_a_task_without_a_publication_is_refused():
    with Store(None) as store, pytest.raises(ConfigError, match="has no table for 'tiny-lake'"):
        reproduce(tiny.task, store)
