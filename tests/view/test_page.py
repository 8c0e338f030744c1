"""The HTML report: what it says is what the store holds, and nothing on it comes from elsewhere."""

import csv
import dataclasses
import html
import re
import subprocess
import sys

import pytest
import tiny
from markupsafe import escape

from cisr import (
    Appearance,
    Fixed,
    NobodyFinished,
    Store,
    StoreError,
    Study,
    Switching,
    Threshold,
    compare,
    random_teacher,
)
from cisr.cli import main
from cisr.experiments.comparison import measure_groups
from cisr.experiments.differences import against_the_others
from cisr.training import Checkpoint
from cisr.view.contents import contents_of
from cisr.view.page import page, write_page
from cisr.view.plots import padded
from cisr.view.svg import ticks
from cisr.view.tables import latex
from cisr.view.words import in_words

TAUGHT = Switching(interventions=("SR1", "HR"), thresholds=(Threshold(min_return=-9, max_violation=1.0),))
AWKWARD = "<b>&\"'_x"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store with a study and a comparison."""
    path = tmp_path_factory.mktemp("report") / "store.sqlite"
    with Store(path) as store:
        Study(tiny.task, store=store, seed=3, execution=tiny.HERE).run()
        curricula = {AWKWARD: TAUGHT, "HR": Fixed("HR"), "none": Fixed("none")}
        compare(tiny.task, curricula, n_students=2, store=store, seed=3, deploy_each_unit=True, execution=tiny.HERE)
    return path


@pytest.fixture(scope="module")
def written(path):
    return write_page(path).read_text(encoding="utf-8")


def said(text: str) -> str:
    """The page's words, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def headings(text: str) -> list[str]:
    return [html.unescape(words) for words in re.findall(r"<h2>(.*?)</h2>", text)]


def lines_of(text: str, form: str) -> list[str]:
    return [html.unescape(line) for line in re.findall(rf'data-{form}="([^"]*)"', text)]


def rows_of_policies(text: str) -> list[str]:
    return [line for line in lines_of(text, "csv") if "in every unit." in line or "Begin with" in line]


def test_the_table_has_the_numbers_of_the_comparison(path, written):
    with Store(path, read_only=True) as store:
        rows = compare_rows(store)
    lines = {line.split(",")[0]: line.split(",") for line in lines_of(written, "csv")}
    head = next(line for line in lines_of(written, "csv-before") if "success_mean" in line).split(",")
    for label in ("HR", "none"):
        row = rows[label]
        found = dict(zip(head, lines[label], strict=True))
        assert float(found["training_failures_mean"]) == row.training_failures.mean
        assert [float(found[f"success_{part}"]) for part in ("mean", "low", "high")] == [
            *(row.success.mean, row.success.low, row.success.high)
        ]
        assert float(found["mean_return_sem"]) == row.mean_return.sem and found["mean_return_low"] == ""
        assert int(found["failed_to_learn"] or 0) == (row.failed_to_learn.count if row.failed_to_learn else 0)
        assert f"{row.success.mean:.3f} ± {row.success.sem:.3f}" in said(written)


def compare_rows(store):
    return {group.label: group.row for group in contents_of(store, "").comparisons[0].groups}


def test_the_table_equals_what_compare_said(path):
    with Store(path, read_only=True) as store:
        found = compare_rows(store)
    with Store(None) as other:
        (row,) = compare(tiny.task, {"HR": Fixed("HR")}, n_students=2, store=other, seed=3, execution=tiny.HERE).rows
    assert found["HR"].training_failures.to_json() == row.training_failures.to_json()  # NaN is not equal to itself
    assert found["HR"].rescues.to_json() == row.rescues.to_json()


def test_the_first_curriculum_is_tested_against_the_others(path, written):
    with Store(path, read_only=True) as store:
        groups = contents_of(store, "").comparisons[0].groups
    found = against_the_others(measure_groups({group.label: group.students for group in groups}))
    assert [d.others for d in found] == ["HR", "none"] * 3
    assert "Can they be told apart?" in written
    assert all(
        any(line.endswith(d.told_apart) and f",{d.others}," in line for line in lines_of(written, "csv")) for d in found
    )


def test_curricula_are_listed_in_the_order_in_which_they_were_given(tmp_path):
    curricula = {"none": Fixed("none"), "SR2": Fixed("SR2"), "SR1": Fixed("SR1")}
    compare(tiny.task, curricula, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    with Store(tmp_path / "s", read_only=True) as store:
        assert [group.label for group in contents_of(store, "").comparisons[0].groups] == list(curricula)


def test_the_latex_is_a_booktabs_table_with_escaped_names(written):
    before = next(line for line in lines_of(written, "latex-before"))
    assert before.startswith("\\begin{tabular}{lrrrrrrrrr}\n\\toprule") and before.endswith("\\\\\n\\midrule")
    line = next(line for line in lines_of(written, "latex") if "textless" in line)
    assert line.startswith(r"\textless{}b\textgreater{}\&") and line.endswith(r" \\") and line.count(" & ") == 9


def test_the_search_shows_every_round_and_the_best_curriculum_in_words(path, written):
    with Store(path, read_only=True) as store:
        rounds, found = store.trials("study"), store.findings()["study"]
    for number, past in enumerate(rounds, 1):
        assert f"policy {number}: {past.score:.4g}" in written
    assert in_words(Switching.from_parameters(found["best"]).to_json()) in said(written)
    assert "initial design" in written and "chosen by the model" in written


def test_what_the_teacher_believes_is_said_drawn_and_in_the_table(path, written):
    with Store(path, read_only=True) as store:
        found = store.findings()["study"]
    words, belief = said(written), found["belief"]
    assert (
        f"expects a score of {belief['score']:.3g} of new students under it, and at least {belief['bound']:.3g}"
        in words
    )
    assert f"with 90 % confidence by its model; tried by {belief['students']} students." in words
    rows = found["model"]["policies"]
    for row in rows:
        assert f"expected {row['expected']:.4g}, at least {row['bound']:.4g}; {row['students']} students." in written
    assert f"Table of {len(rows)} policies" in words
    head = next(line for line in lines_of(written, "csv-before") if line.startswith("policy,")).split(",")
    assert head[2:6] == ["students", "score", "expected", "bound"]
    table = list(csv.DictReader([",".join(head), *rows_of_policies(written)]))
    assert [float(row["bound"]) for row in table] == sorted((row["bound"] for row in rows), reverse=True)
    assert sum(int(row["students"]) for row in table) == 10


def test_the_papers_teacher_shows_its_model_along_each_threshold_and_every_round(tmp_path):
    papers = tiny.teaching(teacher="gp-ucb", class_size=1, n_rounds=1)
    Study(tiny.task, teaching=papers, store=tmp_path / "s", execution=tiny.HERE).run()
    written = write_page(tmp_path / "s").read_text()
    assert written.count("The model along") == 4
    assert "What the teacher believes of each policy" not in written and "Table of 4 policies" in said(written)
    assert "--initial 3 --rounds 1 --students 1 --at-once 6 --teacher gp-ucb" in said(written)


def test_a_search_at_random_has_no_model_to_show(tmp_path):
    teaching = tiny.teaching(class_size=1, n_rounds=0)
    Study(tiny.task, teacher=random_teacher, teaching=teaching, store=tmp_path / "s", execution=tiny.HERE).run()
    words = said(write_page(tmp_path / "s").read_text())
    assert "The teacher expects" not in words and "chosen by the model" not in words
    assert "--initial 3 --rounds 0 --students 1 --at-once 6 --teacher random" in words


def test_patient_curricula_are_worded_as_such(tmp_path):
    patient = tiny.teaching(patience=2, class_size=1, n_initial=6, n_rounds=0)
    Study(tiny.task, teaching=patient, store=tmp_path / "s", execution=tiny.HERE).run()
    written = write_page(tmp_path / "s").read_text()
    with Store(tmp_path / "s", read_only=True) as store:
        found = store.findings()["study"]
    assert found["policy"]["kind"] == "patient" and in_words(found["policy"]) in said(written)
    after = "After 2 units in one stage but the last the student starts over, with new weights."
    rows = rows_of_policies(written)
    assert len(rows) == 6 and sum(after in row for row in rows) == sum("go on to" in row for row in rows) == 3
    assert "--at-once 6 --patience 2 --teacher top-two" in said(written)


def test_findings_of_earlier_stores_have_the_parameters_of_the_best_policy_alone(tmp_path):
    with Store(tmp_path / "s") as store:
        Study(tiny.task, teaching=tiny.teaching(class_size=1, n_rounds=0), store=store, execution=tiny.HERE).run()
        found = store.findings()["study"]
        store.keep_findings("study", {"best": found["best"], "model": {}})
    assert in_words(found["policy"]) in said(write_page(tmp_path / "s").read_text())


def test_trials_of_candidates_are_told_apart_from_training(tmp_path, written):
    several = tiny.task.with_training(student=dataclasses.replace(tiny.student, n_candidates=2))
    teaching = tiny.teaching(class_size=1, n_rounds=0)
    result = Study(several, teaching=teaching, store=tmp_path / "s", execution=tiny.HERE).run()
    units = [unit for t in result.transcripts for unit in t.units]
    trained, tried = sum(u.steps for u in units), sum(u.evaluation.steps for u in units if u.evaluation)
    words = (
        f"in {trained:,} steps of training; 0 more in {tried:,} steps of trials of their last policies under HR (M_0)."
    )
    assert tried > 0 and words in said(write_page(tmp_path / "s").read_text())
    assert "steps of training." in said(written)


def test_each_unit_of_each_student_is_a_cell(path, written):
    with Store(path, read_only=True) as store:
        students = store.transcripts()
    for student in students:
        for unit in student.units:
            assert escape(f"{student.name}, unit {unit.unit}: {unit.intervention};") in written


def test_names_are_escaped_everywhere(written):
    assert "<b>" not in written
    assert escape(AWKWARD) in written


def test_nothing_is_loaded_from_elsewhere(written):
    assert not re.search(r"https?://|url\(|@import|<link|<img|<iframe|\bsrc=", written)


def test_failures_in_training_and_in_deployment_are_told_apart(written):
    words = said(written)
    assert "In training, under the teacher" in words and "Deployed, after training" in words
    assert "guarantee" not in words.lower()


def test_the_commands_to_run_it_again_have_the_seed_and_sizes(written):
    words = "--initial 3 --rounds 2 --students 2 --at-once 6 --teacher top-two --backend gymnasium --seed 3"
    assert f"{words} --batch 2 --store" in said(written)
    assert "HR none --students 2 --deploy-each-unit --backend gymnasium --seed 3" in said(written)


def test_curricula_that_must_share_a_colour_are_told_apart_by_dashes(tmp_path):
    curricula = {name: Fixed(name) for name in ("SR1", "Back-1", "Back-2", "Back-3", "Back-4", "Back-5")}
    compare(tiny.task, curricula, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    assert 'stroke-dasharray="6 3"' in write_page(tmp_path / "s").read_text()


def test_a_store_with_only_a_comparison_has_no_search(tmp_path):
    compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    assert headings(write_page(tmp_path / "s").read_text()) == [
        "Comparison",
        "Map and trigger zones",
        "To run it again",
    ]


def test_a_store_with_only_a_study_has_no_comparison(tmp_path):
    Study(tiny.task, teaching=tiny.teaching(n_initial=1, n_rounds=0), store=tmp_path / "s", execution=tiny.HERE).run()
    written = write_page(tmp_path / "s").read_text()
    assert headings(written) == ["The teacher's search", "Map and trigger zones", "To run it again"]


def test_a_task_without_a_floor_plan_has_no_map(tmp_path):
    task = dataclasses.replace(tiny.task, appearance=Appearance())
    compare(task, {"SR1": Fixed("SR1")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    assert headings(write_page(tmp_path / "s").read_text()) == ["Comparison", "To run it again"]


def test_students_that_failed_are_listed_with_their_error(tmp_path):
    with pytest.raises(NobodyFinished):
        compare(tiny.explosive, {"SR1": Fixed("SR1")}, n_students=2, store=tmp_path / "s", execution=tiny.HERE)
    written = write_page(tmp_path / "s").read_text()
    words = said(written)
    assert "Students that failed" in headings(written)
    assert "2 failed with an error" in words and "0 of 2 finished" in words
    assert "at a step: RuntimeError: the simulator lost its licence" in words
    assert "no student finished" in words


def stop_after_a_unit(heard):
    if isinstance(heard.event, Checkpoint) and heard.event.unit == 2:
        raise KeyboardInterrupt


def test_a_study_that_has_just_begun_is_reported_while_it_runs(tmp_path):
    with Store(tmp_path / "s") as store:
        with pytest.raises(KeyboardInterrupt):
            Study(tiny.task, store=store, execution=tiny.HERE).run(stop_after_a_unit)
        words = said(write_page(tmp_path / "s").read_text())  # the store is still open for writing
    assert "No policy has a result yet" in words and "not finished when this page was made" in words


def test_an_empty_store_gives_a_page_that_says_so(tmp_path):
    Store(tmp_path / "s").close()
    assert "holds no students yet" in said(write_page(tmp_path / "s").read_text())


def test_reading_changes_nothing(path):
    before = path.read_bytes()
    weights = sorted(file.name for file in path.with_name(path.name + ".weights").iterdir())
    with Store(path, read_only=True) as store:
        page(contents_of(store, "s"))
        with pytest.raises(StoreError, match="Cannot read"):
            store.tell("study", 0, 1.0, None)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.with_name(path.name + ".weights").iterdir()) == weights


def test_a_store_in_a_folder_that_cannot_be_written_is_read_without_files_beside_it(path, tmp_path, monkeypatch):
    (tmp_path / "archive").mkdir()
    kept = tmp_path / "archive" / "a store?.sqlite"
    kept.write_bytes(path.read_bytes())
    monkeypatch.setattr("cisr.store.database.os.access", lambda *_: False)
    assert write_page(kept, tmp_path / "page.html").exists()
    assert [file.name for file in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "There is no store"),
        (lambda path: path.mkdir(), "There is no store"),
        (lambda path: path.write_text("a diary"), "is not a store of cisr"),
        (lambda path: path.write_bytes(b""), "is not a store of cisr"),
    ],
)
def test_what_is_no_store_gets_one_line(capfd, tmp_path, make, says):
    make(tmp_path / "s.sqlite")
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path / "s.sqlite")])
    assert stop.value.code == 2
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert line.startswith("cisr: ") and says in line
    assert not (tmp_path / "s.html").exists()


def test_the_command_prints_where_the_page_is(capfd, path, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["report", str(path), "--out", str(tmp_path / "new" / "[page].html")])
    assert stop.value.code == 0
    assert capfd.readouterr().out.strip() == str(tmp_path / "new" / "[page].html")
    assert (tmp_path / "new" / "[page].html").exists()


def test_the_page_never_replaces_its_store(capfd, path):
    with pytest.raises(SystemExit):
        main(["report", str(path), "--out", str(path)])
    assert "would replace the store" in capfd.readouterr().err


@pytest.mark.parametrize("store", ["path", "reproduced"])
def test_the_report_needs_neither_jax_nor_scikit_learn_nor_gymnasium(request, store, tmp_path):
    path = request.getfixturevalue(store)
    code = (
        "import sys; sys.modules['gymnasium'] = None  # as if it were not installed\n"
        "from pathlib import Path; from cisr.view.page import write_page\n"
        "write_page(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print([m for m in ('jax', 'sklearn', 'torch', 'matplotlib') if m in sys.modules])"
    )
    words = [sys.executable, "-c", code, str(path), str(tmp_path / "page.html")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_ticks_are_round_numbers_inside_the_range():
    assert ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(1, 3, whole=True) == [1, 2, 3]
    assert ticks(2.0, 2.0) == [2.0]


def test_a_range_around_one_value_is_not_empty():
    for value in (0.0, 5.0, -5.0):
        low, high = padded([value, float("nan")])
        assert low < value < high


def test_latex_and_sentences():
    assert latex("50 % of {a_b}\\") == r"50 \% of \{a\_b\}\textbackslash{}"
    assert in_words({"kind": "schedule", "interventions": ["SR1", "SR1", "HR"]}) == "SR1 for 2 units, then HR."
    assert in_words({"kind": "own", "x": 1}) == '{"kind": "own", "x": 1}'


def test_a_curriculum_under_a_label_of_ones_own_is_a_file_of_the_commands(tmp_path):
    curricula = {"my baseline": Fixed("SR1"), "SR1": Fixed("SR1")}
    compare(tiny.task, curricula, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    assert "cisr compare package.module:task 'my baseline.json' SR1" in said(write_page(tmp_path / "s").read_text())
