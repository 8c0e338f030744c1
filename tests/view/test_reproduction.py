"""A reproduction on the page: what `reproduce` said, beside what the paper says."""

import html
import re
import shutil

import pytest
import tiny

from cisr import ConfigError, Store
from cisr.experiments.reproduce import reproduce
from cisr.store.database import Database
from cisr.view.external_students import students_in
from cisr.view.page import write_page

ORDER = [
    *("Optimized", "SR1", "SR2", "HR", "Bandit", "No-interv."),
    *("FL-A", "FL-B", "Back-6", "Incremental-2", "Random search"),
]


@pytest.fixture(scope="module")
def written(reproduced):
    return write_page(reproduced).read_text(encoding="utf-8")


def headings(text: str) -> list[str]:
    return [html.unescape(words) for words in re.findall(r"<h2>(.*?)</h2>", text)]


def table(text: str, form: str) -> list[str]:
    """The lines of the first table, as it is copied."""
    found = re.search(r'<table class="sortable" data-name="reproduction".*?</table>', text, re.DOTALL)
    return [html.unescape(line) for line in re.findall(rf'<tr[^>]* data-{form}="([^"]*)"', found[0])]


def test_it_comes_first_and_its_repetitions_are_no_comparisons_of_their_own(written):
    searches = [f"The teacher's search: {name}" for name in ("teacher-1", "teacher-2", "random-1", "random-2")]
    assert headings(written)[:5] == ["Reproduction", *searches]
    assert not any("Comparison" in words for words in headings(written))
    assert "Frozen Lake (Table 6 of the paper)" in written


def test_the_table_has_our_numbers_and_the_papers_in_the_order_of_the_reproduction(reproduction, written):
    lines = [line.split(",") for line in table(written, "csv")]
    assert [line[0] for line in lines] == ORDER
    for line, row in zip(lines, reproduction[1].rows, strict=True):
        assert line[1:3] == [str(row.students), str(row.finished)]
        ours = [(e.mean, e.sem) for e in (row.success, row.training_failures, row.mean_return)]
        ours[1] = (*ours[1], row.unknown_failures)
        paper = row.published
        theirs = [paper.success, paper.training_failures, paper.mean_return] if paper else [(None,) * 2] * 3
        expected = [number for pair in zip(ours, theirs, strict=True) for numbers in pair for number in numbers]
        assert [float(number) if number else None for number in line[3:]] == pytest.approx(expected)


def test_the_latex_has_ours_beside_the_papers(written):
    line = table(written, "latex")[ORDER.index("No-interv.")]
    assert line.split(" & ")[2] == r"0.768 $\pm$ 0.028" and r"3,075.6 $\pm$ 492.1" in line
    assert table(written, "latex")[ORDER.index("FL-A")].split(" & ")[2] == "--"


def test_the_page_tests_repetitions_and_says_so(reproduction, written):
    found = re.search(r'<table class="[^"]*" data-name="reproduction-differences".*?</table>', written, re.DOTALL)
    lines = [html.unescape(line).split(",") for line in re.findall(r'<tr[^>]* data-csv="([^"]*)"', found[0])]
    assert [(line[0].replace(" ", "_"), line[2], line[-1]) for line in lines] == [
        (d.measure, d.others, d.told_apart) for d in reproduction[1].differences
    ]
    assert "Each repetition is one value" in written and "4, 2 teachers" in written


def test_students_elsewhere_under_several_teachers_are_not_set_against_single_ones(reproduced):
    there = students_in(reproduced, tiny.published.name, ["Optimized", "SR1"])
    for groups in there.values():
        assert "Optimized" not in groups and groups["SR1"].students == 4
    assert students_in(reproduced, tiny.published.name, ["SR1"], under="none") == there
    with pytest.raises(ConfigError, match="holds no students that have finished"):
        students_in(reproduced, tiny.published.name, ["SR1"], under="HR")


def test_figures_pool_the_students_of_all_repetitions(written):
    for label in ORDER:
        assert re.search(rf"<title>{re.escape(label)}, unit 1: [^<]* \(4 students\)</title>", written), label


def test_what_each_teacher_found_is_said(reproduction, written):
    assert len({str(policy) for policy in reproduction[1].policies["Optimized"]}) == 2
    assert "<td>Optimized 1</td>" in written and "<td>Optimized 2</td>" in written and "<td>FL-A</td>" in written


def test_the_command_to_run_it_again_is_the_one_that_made_it(written):
    words = "cisr reproduce frozen-lake --scale quick --student mlp --teachers 2 --students 2 --backend gymnasium"
    assert words in written
    assert "cisr compare" not in written and "cisr train" not in written


def test_a_store_that_does_not_say_it_is_a_reproduction_is_taken_for_none(reproduced, tmp_path):
    """Names prove nothing: stores made before reproductions were recorded show what they hold."""
    shutil.copy(reproduced, tmp_path / "s")
    database = Database(tmp_path / "s", read_only=False)
    with database.transaction():
        database.remove("reproductions", {})
    database.close()
    written = write_page(tmp_path / "s").read_text()
    assert headings(written)[:2] == ["Comparison: evaluation-1", "Comparison: evaluation-2"]
    assert "cisr compare" in written and "cisr reproduce" not in written


def stop(event):
    raise KeyboardInterrupt


def test_while_the_teachers_search_the_page_says_so(tmp_path):
    with Store(tmp_path / "s") as store, pytest.raises(KeyboardInterrupt):
        reproduce(tiny.published, store, n_teachers=1, n_students=1, callback=stop, execution=tiny.HERE)
    written = write_page(tmp_path / "s").read_text()
    assert headings(written)[0] == "Reproduction" and "no student is evaluated yet" in written
    assert "--teachers 1 --students 1" in written
