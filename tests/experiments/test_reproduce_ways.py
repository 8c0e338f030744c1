"""`cisr reproduce` with the paper's students and teacher, with ours, and with both."""

import dataclasses
import json

import pytest
import tiny

from cisr import Store, explorer, get_task
from cisr.cli import main
from cisr.cli.options import Scale
from cisr.cli.reproducing import Way, _parts
from cisr.core.publication import MainRow, PublishedRow
from cisr.experiments.publications import publication
from cisr.experiments.reproduce import n_students_in_all, random_studies, teacher_studies
from cisr.tasks import entry_of
from cisr.training import BatchProgress, Graduation
from cisr.view.page import write_page

COUNTS = {"teachers": 2, "students": 1}


def smallest(name, scale="paper", student=None):
    """As little as can be of a task at the paper's scale, with the students and the teacher that it has."""
    task = get_task(name, scale, student)
    brief = tiny.student
    return dataclasses.replace(
        task,
        jax_env=None,
        success=lambda move: move.state[..., 0] % 2 == 0,  # where such students may end up
        horizon=40,
        training=dataclasses.replace(
            task.training,
            n_units=1,
            deployment_steps=50,
            student=explorer(brief) if student == "explorer" else brief,
            teaching=dataclasses.replace(task.training.teaching, n_initial=4, n_rounds=1 if student == "cnn" else 2),
        ),
    )


def reproduce(monkeypatch, folder, *words, code=0):
    """Call the command on a store of that folder; returns its JSON."""
    monkeypatch.setattr("cisr.cli.reproducing.get_task", smallest)
    counts = [f"--{name}={number}" for name, number in COUNTS.items()]
    paths = ["--store", str(folder / "store.sqlite"), "--json", str(folder / "told.json")]
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "frozen-lake", *counts, *paths, "--workers=0", *words])
    assert stop.value.code == code
    return json.loads((folder / "told.json").read_text())


def contents(path):
    with Store(path) as store:
        return store.transcripts(), store.findings(), store.runs(), store.settings()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder with both stores, and the JSON."""
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        return folder, reproduce(patch, folder)


def test_the_papers_way_is_the_same_whether_ours_is_beside_it_or_not(both, tmp_path, monkeypatch):
    folder, told = both
    alone = reproduce(monkeypatch, tmp_path, "--way", "paper")
    assert {name: value for name, value in told.items() if name != "ours"} == alone
    assert contents(folder / "store.sqlite") == contents(tmp_path / "store.sqlite")
    assert sorted(p.name for p in tmp_path.glob("*.sqlite")) == ["store.sqlite"]


def test_ours_has_the_same_shape_with_our_intervention_besides_and_a_store_and_a_figure_of_its_own(both):
    folder, told = both
    ours = told["ours"]
    assert set(ours) == set(told) - {"ours"}
    published = {row["curriculum"]: row["paper"] for row in told["rows"]}
    beside = {row["curriculum"]: row["paper"] for row in ours["rows"]}
    assert list(beside) == [*list(published)[:4], "HA", *list(published)[4:]]
    assert beside == published | {"HA": None}
    students = {name: contents(folder / name)[3]["student"] for name in ("store.sqlite", "store-explorer.sqlite")}
    assert students == {"store.sqlite": "cnn", "store-explorer.sqlite": "explorer"}
    for name in ("store.png", "store.pdf", "store-explorer.png", "store-explorer.pdf"):
        assert (folder / name).stat().st_size > 0


def test_our_teachers_say_how_sure_they_are_and_the_papers_cannot(both):
    _, told = both
    assert told["beliefs"] == [None, None]
    for belief in told["ours"]["beliefs"]:
        assert belief["bound"] <= belief["score"] and 0 < belief["confidence"] < 1


def test_random_search_has_the_teachers_budget_with_the_students_that_find_the_ranges(both):
    folder, _ = both
    for name, student, each in (("store.sqlite", "cnn", 5), ("store-explorer.sqlite", "explorer", 6)):
        task = smallest("frozen-lake", student=student)
        transcripts = contents(folder / name)[0]
        for study in (*teacher_studies(task, 2, 0), *random_studies(task, 2, 0)):
            taught = [t for t in transcripts if t.name.startswith(f"{study.name}/")]
            assert len(taught) == study.n_students == each
            if student == "explorer":
                alone = [dict.fromkeys(t.curriculum["interventions"]) for t in taught[:3]]
                assert [list(names) for names in alone] == [["SR1"], ["SR2"], ["HR"]]
        assert len(transcripts) == n_students_in_all(task, COUNTS["teachers"], COUNTS["students"])


def test_it_is_resumed_and_says_both_tables_and_one_beside_the_other(both, monkeypatch, capfd):
    folder, told = both

    def refuse(meter, heard, part=""):
        assert not isinstance(heard, BatchProgress), "a student is trained twice"

    monkeypatch.setattr("cisr.view.progress.Meter.__call__", refuse)
    assert reproduce(monkeypatch, folder) == told
    printed = capfd.readouterr().out
    order = ("Table 6 of the paper)", "ours: our students and teacher", "The paper's way and ours")
    places = [" ".join(printed.split()).index(words) for words in order]  # lines may be broken anywhere
    assert places == sorted(places)
    beside = [
        line
        for line in printed[printed.index(order[-1]) :].splitlines()
        if line.split()[:1] in (["Optimized"], ["FL-A"])
    ]
    assert len(beside) == 2 and all(line.count(" of 2") == 2 for line in beside)
    assert printed.count("The teacher expects a score of") == 2
    assert reproduce(monkeypatch, folder, "--way", "ours") == {"ours": told["ours"]}


def test_an_interrupted_run_goes_on_with_our_way(both, tmp_path, monkeypatch):
    from cisr.experiments.reproduce import reproduce as real

    graduated = []

    def stop_in_the_search(heard):
        graduated.extend([heard] if isinstance(heard, BatchProgress) and isinstance(heard.event, Graduation) else [])
        if len(graduated) == 2:
            raise KeyboardInterrupt

    def interrupted(task, store, **options):
        ours = {"callback": stop_in_the_search} if task.training.student_kind == "explorer" else {}
        return real(task, store, **options | ours)

    with monkeypatch.context() as patch:
        patch.setattr("cisr.experiments.reproduce.reproduce", interrupted)
        papers = reproduce(patch, tmp_path, code=130)
    assert papers == {name: value for name, value in both[1].items() if name != "ours"}
    begun = [t for t in contents(tmp_path / "store-explorer.sqlite")[0] if t.deployment]
    assert 0 < len(begun) < len(contents(both[0] / "store-explorer.sqlite")[0])
    assert reproduce(monkeypatch, tmp_path) == both[1]


def test_the_page_on_our_store_says_whose_students_the_papers_numbers_are_of(both):
    folder, _ = both
    ours, papers = (write_page(folder / f"{name}.sqlite").read_text() for name in ("store-explorer", "store"))
    assert "Table 6 of the paper), ours: our students and teacher" in ours
    assert "are of the paper&#39;s students and teachers" in ours and "0.960 ± 0.004" in ours
    assert "our students and teacher" not in papers and "are of the paper&#39;s students" not in papers
    assert "--student explorer" in ours and "--store store-explorer.sqlite" in ours


@pytest.mark.parametrize("way", [None, *Way])
def test_each_way_has_its_own_students_and_names(tmp_path, way):
    parts = _parts("lunar-lander", Scale.paper, None, way, tmp_path / "s.db", tmp_path / "drawn.png", 0)
    found = {part.name: (part.task.training.student_kind, part.store.name, part.figure.name) for part in parts}
    papers = {
        "paper": ("two-layer", "s.db", "drawn.png"),
        "noisy": ("noisy", "s-noisy.db", "drawn-noisy.png"),
        "one-layer": ("one-layer", "s-one-layer.db", "drawn-one-layer.png"),
    }
    ours = {"ours": ("explorer", "s-explorer.db", "drawn-explorer.png")}
    assert found == {None: papers | ours, Way.both: papers | ours, Way.paper: papers, Way.ours: ours}[way]
    assert {part.task.training.teaching.teacher for part in parts if part.way is Way.ours} <= {"top-two"}
    assert all(publication(part.task).title.startswith("Lunar Lander") for part in parts)


@pytest.fixture(scope="module")
def with_transfer(tmp_path_factory):
    """A paper that applies its teachers' curricula to another kind of students: a folder with the stores, the JSON."""
    lake = entry_of("frozen-lake").published
    row = PublishedRow(success=(0.5, 0.1), training_failures=(2.0, 0.5), mean_return=(3.0, 0.2))
    main = {"SR1": MainRow(mean_return=4.0, success=0.75, test_failures=0.125, training_failures=7.0)}
    others = dataclasses.replace(lake, title="Other students", rows={"Optimized": row}, students=("mlp",), main=main)
    published = dataclasses.replace(lake, students=("cnn", "explorer"), transfers=(others,))
    folder = tmp_path_factory.mktemp("transfer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cisr.experiments.publications._published", lambda name: published)
        told = reproduce(patch, folder, "--way", "paper")
        assert reproduce(patch, folder, "--way", "paper") == told
        yield folder, told, patch


def test_curricula_of_the_papers_teachers_are_applied_to_other_students(with_transfer):
    folder, told, _ = with_transfer
    other = told["transfers"]["mlp"]
    assert list(told["transfers"]) == ["mlp"] and other["policies"] == {"Optimized": told["policies"]["Optimized"]}
    labels = [row["curriculum"] for row in told["rows"] if row["curriculum"] not in ("Bandit", "Random search")]
    assert [row["curriculum"] for row in other["rows"]] == labels
    assert {row["curriculum"]: row["paper"] and row["paper"]["success"] for row in other["rows"]} == {
        label: [0.5, 0.1] if label == "Optimized" else None for label in labels
    }
    transcripts, _, runs, settings = contents(folder / "store-mlp.sqlite")
    assert settings["student"] == "mlp" and set(runs) == {"evaluation-1", "evaluation-2"}
    assert len(transcripts) == COUNTS["teachers"] * COUNTS["students"] * len(labels)
    met = {t.name: t.curriculum for t in transcripts}
    for k, policy in enumerate(told["policies"]["Optimized"], 1):
        assert met[f"evaluation-{k}/Optimized/000"] == policy
    for name in ("store-mlp.png", "store-mlp.pdf"):
        assert (folder / name).stat().st_size > 0


def test_the_main_table_sets_each_kind_of_students_beside_the_papers(with_transfer, capfd):
    folder, told, patch = with_transfer
    reproduce(patch, folder, "--way", "paper")
    printed = capfd.readouterr().out
    lines = printed[printed.index("The paper's main table") :].splitlines()
    (ours,) = [k for k, line in enumerate(lines) if "SR1" in line]
    sr1 = next(row for row in told["transfers"]["mlp"]["rows"] if row["curriculum"] == "SR1")["ours"]
    assert "mlp" in lines[ours]
    assert f"{sr1['success']['mean']:.3f}" in lines[ours] and f"{sr1['deployment_failures']['mean']:.3f}" in lines[ours]
    assert lines[ours + 1].split() == ["4.0", "0.750", "0.125", "7.0"]


def test_the_page_of_other_students_names_the_command_that_has_their_teachers(with_transfer):
    folder, _, _ = with_transfer
    written = write_page(folder / "store-mlp.sqlite").read_text()
    assert "Other students" in written
    (line,) = [line for line in written.splitlines() if "cisr reproduce frozen-lake" in line]
    assert "cisr reproduce frozen-lake --scale paper --way paper --teachers 2 --students 1" in line
    assert "--store store.sqlite" in line


def test_students_without_teachers_of_their_own_are_not_reproduced_alone(with_transfer, tmp_path, capfd):
    reproduce_alone = ["reproduce", "frozen-lake", "--student", "mlp", "--store", str(tmp_path / "s"), "--fresh"]
    with pytest.raises(SystemExit) as stop:
        main(reproduce_alone)
    assert stop.value.code == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "trains no teachers for mlp students" in said and "--way paper` does both" in said
    assert not (tmp_path / "s").exists()


def test_a_kind_of_students_that_is_named_is_the_only_one(tmp_path):
    (only,) = _parts("frozen-lake", Scale.paper, "explorer", None, tmp_path / "s", None, 0)
    assert only.task.training.student_kind == "explorer"
    assert (only.store, only.figure) == (tmp_path / "s", tmp_path / "s.png")
