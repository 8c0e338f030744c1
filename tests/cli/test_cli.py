"""The command line as a user meets it. Bad input: one line that says what to do, exit code 2, nothing lost."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
import typer

from cisr import ConfigError, Population, Store, Threshold, explorer, get_task, load_policy, save_policy
from cisr.cli import main
from cisr.cli.commands import COMMANDS, app
from cisr.cli.naming import parse_curricula
from cisr.curricula import Bandit, Fixed, Schedule
from cisr.tasks import BUILT_IN, papers_kind, usual_kind

SUPPORT = Path(__file__).parents[1] / "support"


def refused(capfd, *words) -> str:
    """The one line that a wrong call gets."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 2
    lines = capfd.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("cisr: "), lines
    return lines[0]


def run(*words) -> None:
    """A call that succeeds."""
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 0


def test_tasks_lists_interventions_and_scales(capfd, tmp_path):
    run("tasks", "--json", tmp_path / "tasks.json")
    printed = capfd.readouterr().out
    assert all(word in printed for word in ("frozen-lake", "quick", "SR1", "SR2", "HR"))
    records = json.loads((tmp_path / "tasks.json").read_text())["tasks"]
    assert [(record["task"], record["scale"]) for record in records] == [
        (task, scale) for task in BUILT_IN for scale in ("paper", "quick")
    ]
    assert records[0]["student"]["network"]["filters"] == [32, 64]
    assert [record["student_kind"] for record in records] == ["explorer"] * len(records)
    assert records[1]["student_kinds"] == ["cnn", "mlp", "explorer"]
    assert "explorer (default)" in " ".join(printed.split())


def test_train_then_compare_ends_with_a_table_a_figure_and_json(capfd, tmp_path):
    store, curriculum = tmp_path / "store.sqlite", tmp_path / "optimized.json"
    run(
        "train",
        "tiny:task",
        "--store",
        store,
        "--curriculum",
        curriculum,
        "--workers",
        0,
        "--json",
        tmp_path / "t.json",
    )
    printed = capfd.readouterr().out
    assert "Failures in training, all students together: 0" in printed
    trained = json.loads((tmp_path / "t.json").read_text())
    assert load_policy(curriculum).to_json() == trained["policy"]
    assert len(trained["rounds"]) == 5
    assert trained["belief"]["bound"] <= trained["belief"]["score"] and trained["belief"]["confidence"] == 0.9
    assert f"at least {trained['belief']['bound']:.3g} with 90 % confidence by its model" in " ".join(printed.split())
    words = ("tiny:task", curriculum, "HR", "none", "--students", 2, "--store", store, "--workers", 0)
    run("compare", *words, "--figure", tmp_path / "c.png", "--json", tmp_path / "c.json")
    printed = capfd.readouterr().out
    assert "optimized" in printed and "students" in printed
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert [row["curriculum"] for row in rows] == ["optimized", "HR", "none"]
    assert (tmp_path / "c.png").exists()


@pytest.mark.parametrize(("teacher", "charged"), [("gp-ucb", 0.0), ("top-two", tiny.task.max_reward)])
def test_a_teacher_that_is_asked_for_wants_what_it_always_wants(teacher, charged, tmp_path):
    path = tmp_path / "store.sqlite"
    run("train", "tiny:task", "--teacher", teacher, "--initial", 3, "--rounds", 0, "--store", path, "--workers", 0)
    with Store(path) as store:
        students = [t.deployment for t in store.transcripts("study/")]
        scores = [past.score for past in store.trials("study")]
    assert any(student.failures for student in students)
    wanted = [student.mean_return - charged * student.failures / student.episodes for student in students]
    size = len(wanted) // len(scores)
    assert scores == pytest.approx([np.mean(wanted[k * size : (k + 1) * size]) for k in range(len(scores))])


def test_compare_films_and_draws_its_students(capfd, tmp_path, flown):
    words = ("compare", "tiny:lander", "LL-A", "none", "--students", 2, "--store", flown, "--workers", 0)
    run(*words, "--video", tmp_path / "film.gif", "--trajectories", tmp_path / "under.png")
    printed = capfd.readouterr().out
    assert "Film: " in printed and "Student compare/LL-A/00" in printed
    assert (tmp_path / "film.gif").read_bytes()[:3] == b"GIF" and (tmp_path / "under.png").stat().st_size > 10_000


def test_compare_tests_its_students_against_those_of_a_table_and_of_another_store(capfd, tmp_path):
    table = tmp_path / "theirs.csv"
    table.write_text("curriculum,success,lab\nSR1,0.9,x\nSR1,0.8,x\nHR,0,y\n")
    words = ("compare", "tiny:task", "SR1", "none", "--students", 2, "--workers", 0)
    run(*words, "--store", tmp_path / "a", "--against", table, "--json", tmp_path / "a.json")
    printed = capfd.readouterr().out
    assert "SR1 against the others" in printed and "Ours against theirs.csv" in printed
    assert "No students in theirs.csv under: none (there: SR1, HR)" in printed
    record = json.loads((tmp_path / "a.json").read_text())
    assert [(d["measure"], d["group"], d["others"]) for d in record["differences"]] == [
        (measure, "SR1", "none") for measure in ("success", "return", "training_failures")
    ]
    assert [(d["group"], d["others"], d["sizes"]) for d in record["against"]] == [("SR1", "elsewhere", [2, 2])]
    run(*words, "--store", tmp_path / "b", "--seed", 1, "--against", tmp_path / "a", "--json", tmp_path / "b.json")
    there = json.loads((tmp_path / "b.json").read_text())["against"]
    assert [d["means"][1] for d in there] == [
        row[measure]["mean"] for measure in ("success", "return", "training_failures") for row in record["rows"]
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("curriculum,score\nSR1,3\n", "has the columns curriculum, score: give a CSV file with a header, the column"),
        ("name,success\nSR1,1\n", "has the columns name, success: give a CSV file"),
        ("curriculum,success\nSR1,often\n", "a success of 'often' is not a share between 0 and 1; give a CSV file"),
        ("curriculum,success\nSR1,90\n", "a success of '90' is not a share between 0 and 1"),
        ("curriculum,return\nSR1,nan\n", "a return of 'nan' is not a number"),
        ("curriculum,success\nSR1\n", "a success of '' is not a share"),
        ("curriculum,success\nNarrow,1\nSR9,1\n", "has students under Narrow, SR9, none under SR1: the curricula must"),
        ("curriculum,success\n", "holds no students that have finished"),
    ],
)
def test_a_table_of_students_that_cannot_be_read_is_refused_before_any_training(capfd, tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text)
    words = ("compare", "tiny:task", "SR1", "--store", tmp_path / "s", "--against", tmp_path / "t.csv")
    assert says in refused(capfd, *words)
    assert not (tmp_path / "s").exists()


def test_a_store_of_another_task_is_nothing_to_test_against(capfd, tmp_path, flown):
    words = ("compare", "tiny:task", "none", "--store", tmp_path / "s", "--against", flown)
    assert "is a store of 'lunar-lander': give one of 'tiny-lake'" in refused(capfd, *words)


@pytest.mark.usefixtures("box2d")
def test_a_curriculum_found_for_one_kind_of_student_is_applied_to_another(capfd, tmp_path):
    found = tmp_path / "found.json"
    save_policy(parse_curricula(["LL-A"], get_task("lunar-lander"))["LL-A"], found)
    run("compare", "tiny:small_lander", found, "--students", 1, "--store", tmp_path / "s", "--workers", 0)
    assert "one-layer students" in capfd.readouterr().out
    with Store(tmp_path / "s", read_only=True) as store:
        (student,) = store.transcripts()
    assert student.deployment is not None and student.curriculum["interventions"] == ["Narrow", "Wide"]


def test_compare_takes_names_files_and_families(tmp_path):
    import tiny

    assert parse_curricula(["none", "bandit", "Back-6", "Incremental-2"], tiny.task) == {
        "none": Fixed("none"),
        "bandit": Bandit(("SR1", "SR2", "HR")),
        "Back-6": Fixed("Back-6"),
        "Incremental-2": Schedule(("Back-2", "Back-4", "Back-6")),
    }


def test_compare_knows_the_published_teachers_of_a_task_by_name():
    ((label, policy),) = parse_curricula(["LL-A"], get_task("lunar-lander", student="one-layer")).items()
    assert label == "LL-A" and policy.interventions == ("Narrow", "Wide")
    assert policy.thresholds == (Threshold(min_return=22.84, max_violation=3.434),)
    assert parse_curricula(["FL-B"], get_task("frozen-lake"))["FL-B"].interventions == ("SR1", "HR", "HR")
    with pytest.raises(
        ConfigError, match=r"no curriculum 'FL-A': give a JSON file or one of Narrow, Wide, Chimney, .*, LL-A, LL-B"
    ):
        parse_curricula(["FL-A"], get_task("lunar-lander"))


def test_students_of_another_kind_have_another_store_and_are_refused_by_the_first(capfd, flown):
    from cisr.cli.console import default_store

    tasks = {kind: get_task("lunar-lander", student=kind) for kind in (None, "explorer", "two-layer")}
    usual = {kind: default_store(task, usual_kind("lunar-lander"), 0).name for kind, task in tasks.items()}
    assert usual[None] == usual["explorer"] == "lunar-lander-paper-0.sqlite"
    assert usual["two-layer"] == "lunar-lander-two-layer-paper-0.sqlite"
    papers = {kind: default_store(task, papers_kind("lunar-lander", "paper"), 0).name for kind, task in tasks.items()}
    assert papers["two-layer"] == "lunar-lander-paper-0.sqlite"
    assert papers["explorer"] == "lunar-lander-explorer-paper-0.sqlite"
    line = refused(capfd, "compare", "tiny:small_lander", "none", "--store", flown)
    assert "made with student = two-layer, this run has one-layer" in line


def test_a_users_own_task_is_taught_to_explorers_of_its_students_where_asked_for(capfd, tmp_path, monkeypatch):
    import tiny

    monkeypatch.chdir(tmp_path)
    run("compare", "tiny:task", "SR1", "--students", 1, "--student", "explorer", "--workers", 0)
    assert "explorer students" in capfd.readouterr().out
    with Store(tmp_path / "runs" / "tiny-lake-explorer-own-0.sqlite", read_only=True) as store:
        (student,) = store.transcripts()
    assert student.config == explorer(tiny.student)
    assert all(unit.evaluation is not None for unit in student.units)


def test_of_a_population_the_base_explores(monkeypatch):
    import tiny

    population = Population(base=tiny.student, vary={"ent_coef": (0.2, 0.3)})
    monkeypatch.setattr(tiny, "varied", tiny.task.with_training(student=population), raising=False)
    students = get_task("tiny:varied", student="explorer").training.student
    assert (students.base, students.vary) == (explorer(tiny.student), population.vary)


@pytest.mark.parametrize(("task", "kind"), [("frozen-lake", "cnn"), ("lunar-lander", "two-layer")])
def test_reproductions_benchmarks_and_audits_are_of_the_papers_students_unless_told_otherwise(monkeypatch, task, kind):
    def ask(name, scale="paper", student=None):
        raise ConfigError(f"asked for {student}")

    for module in ("reproducing", "measuring", "auditing"):
        monkeypatch.setattr(f"cisr.cli.{module}.get_task", ask)
    for command in ("reproduce", "bench", "audit"):
        with pytest.raises(ConfigError, match=f"asked for {kind}"):
            main(["--debug", command, task])
        with pytest.raises(ConfigError, match="asked for explorer"):
            main(["--debug", command, task, "--student", "explorer"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train", "lava-lake"), "There is no task 'lava-lake': choose one of frozen-lake"),
        (("train", "nowhere:task"), "Cannot import 'nowhere'"),
        (("train", "tiny:nothing"), "has no 'nothing'"),
        (("train", "tiny:student"), "is a StudentConfig"),
        (("train", "tiny:task", "--rounds", "-3"), "n_rounds is -3"),
        (("train", "tiny:task", "--initial", "0"), "n_initial is 0"),
        (("train", "tiny:task", "--seed", "-1"), "The seed is -1"),
        (("train", "tiny:task", "--workers", "-1"), "The number of workers is -1"),
        (("compare", "tiny:task", "SR9"), "There is no curriculum 'SR9': give a JSON file or one of SR1, SR2, HR"),
        (("compare", "tiny:task", "gone.json"), "Cannot read the curriculum file gone.json"),
        (("compare", "tiny:task", "SR1", "--students", "0"), "number of students is 0"),
        (("compare", "tiny:task", "Back-0"), "Rewind(0)"),
        (("train", "lunar-lander", "--student", "tall"), "no student 'tall': choose one of two-layer, one-layer"),
        (("compare", "tiny:task", "SR1", "--video", "film.avi"), "ends in .gif or .mp4"),
        (("compare", "tiny:task", "SR1", "--trajectories", "t.png"), "has no state plot to draw episodes on"),
        (
            ("train", "tiny:task", "--student", "tall"),
            "set its student there, or choose explorer or sb3:ALGORITHM; kinds such as 'tall'",
        ),
        (("reproduce", "frozen-lake", "--student", "cnn", "--way", "ours"), "give one of them"),
        (("reproduce", "lunar-lander", "--student", "noisy"), "cisr reproduce lunar-lander --way paper"),
    ],
)
def test_wrong_names_and_numbers_get_one_line(capfd, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    assert says in refused(capfd, *words)


@pytest.mark.parametrize("command", ["train", "compare", "reproduce", "audit", "bench"])
def test_with_a_box2d_that_cannot_be_imported_the_lander_says_so_and_what_to_do(tmp_path, command):
    (tmp_path / "Box2D.py").write_text("raise ImportError")  # found before one that is installed, by workers as well
    words = [sys.executable, "-m", "cisr", command, "lunar-lander", *(["Wide"] if command == "compare" else [])]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    line = (
        "Gymnasium's Lunar Lander needs Box2D, which cannot be imported (ImportError): mend that, or fly on cisr's own "
        "physics with `--backend compiled`."
    )
    if command == "audit":  # what is not checked is not claimed
        assert line in " ".join(done.stdout.split()) and "not audited" in done.stdout and "certified" not in done.stdout
    else:
        assert (done.returncode, done.stderr) == (2, f"cisr: {line}\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json {", "is not JSON (line 1"),
        ('["SR1"]', "give a JSON object with a 'kind'"),
        ('{"kind": "magic"}', "'kind' is \"magic\": give one of switching, patient, fixed"),
        ('{"kind": "fixed"}', "lacks the field 'intervention'"),
        ('{"kind": "fixed", "intervention": "SR9"}', "has no intervention 'SR9'"),
        (
            '{"kind": "switching", "interventions": ["SR1", "HR"], "thresholds": []}',
            "2 interventions with 0 thresholds",
        ),
        (
            '{"kind": "switching", "interventions": ["SR1", "HR"], '
            '"thresholds": [{"min_return": NaN, "max_violation": 0}]}',
            "'thresholds[0].min_return' is NaN: give a finite number",
        ),
    ],
)
def test_wrong_curriculum_files_get_one_line(capfd, tmp_path, text, says):
    path = tmp_path / "wrong.json"
    path.write_text(text)
    assert says in refused(capfd, "compare", "tiny:task", path, "--store", tmp_path / "store")


def test_a_store_of_another_task_gets_one_line_and_stays_as_it_was(capfd, tmp_path):
    store = tmp_path / "store.sqlite"
    run("compare", "tiny:task", "SR1", "--students", 1, "--store", store, "--workers", 0)
    capfd.readouterr()
    assert "made with task" in refused(capfd, "compare", "tiny:explosive", "SR1", "--store", store)
    with Store(store) as opened:
        assert len(opened.transcripts()) == 1


@pytest.mark.parametrize("path", ["/proc/nowhere/store.sqlite", "/dev/null/store.sqlite"])
def test_a_disk_that_cannot_be_written_gets_one_line(capfd, path):
    assert "Cannot write" in refused(capfd, "train", "tiny:task", "--store", path)


def test_results_that_cannot_be_written_get_one_line_before_any_training(capfd, tmp_path):
    words = ("compare", "tiny:task", "SR1", "--students", 1, "--store", tmp_path / "s", "--workers", 0)
    assert "Cannot write /dev/null/x.json" in refused(capfd, *words, "--json", "/dev/null/x.json")
    assert not (tmp_path / "s").exists()


def cisr(*words, before=()):
    return subprocess.run(
        [*before, sys.executable, "-m", "cisr", *map(str, words)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
        capture_output=True,
        text=True,
    )


def test_a_disk_that_fills_up_loses_nothing_already_computed(tmp_path):
    """The limit on file sizes stands in for the end of the disk: writing beyond it fails in the same way."""
    store = tmp_path / "store.sqlite"
    words = ("compare", "tiny:task", "SR1", "HR", "--students", 6, "--store", store)
    nearly_full = ("sh", "-c", 'ulimit -f 120; exec "$@"', "sh")  # blocks of 512 bytes
    full = cisr(*words, before=nearly_full)
    assert full.returncode == 2
    lines = full.stderr.strip().splitlines()
    assert lines[-1].startswith("cisr: Cannot write"), full.stderr
    assert "Finished units are kept" in lines[-1]
    with Store(store) as opened:
        kept = {t.name: t.units for t in opened.transcripts()}
    assert cisr(*words).returncode == 0
    with Store(store) as opened:
        for name, units in kept.items():
            assert opened.transcript(name).units[: len(units)] == units


@pytest.mark.parametrize("command", [("compare", "tiny:explosive", "SR1"), ("train", "tiny:explosive")])
def test_where_no_student_finishes_the_first_error_is_the_answer(capfd, tmp_path, command):
    with pytest.raises(SystemExit) as end:
        main([*command, "--students", "2", "--store", str(tmp_path / "s"), "--workers", "0"])
    assert end.value.code == 1
    line = capfd.readouterr().err.strip().splitlines()[-1]
    assert "at a step: RuntimeError: the simulator lost its licence (tiny.py:" in line
    with Store(tmp_path / "s") as store:
        assert all(t.error for t in store.transcripts())


def test_a_worker_that_dies_is_replaced_once_and_then_its_batch_is_abandoned(capfd, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["compare", "tiny:suicidal", "SR1", "--students", "1", "--store", str(tmp_path / "s"), "--workers", "1"])
    assert end.value.code == 1
    assert "its worker process died (signal 6)" in capfd.readouterr().err
    with Store(tmp_path / "s") as store:
        assert [t.training_failures for t in store.transcripts()] == [None]


@pytest.mark.parametrize(("death", "number"), [("SIGKILL", 9), ("SIGTERM", 15)])
def test_a_worker_killed_from_outside_twice_stops_the_run_and_nobody_has_failed(
    capfd, tmp_path, monkeypatch, death, number
):
    """As a system does that is short of memory."""
    monkeypatch.setenv("DEATH", death)
    line = refused(
        capfd, "compare", "tiny:suicidal", "SR1", "--students", 4, "--batch", 2, "--store", tmp_path / "s",
        "--workers", 1,
    )  # fmt: skip
    assert f"a batch of 2 students was killed 2 times (signal {number}), as systems do when memory runs out" in line
    assert "fewer --workers" in line and "--store NEW --batch 1" in line
    with Store(tmp_path / "s") as store:
        assert [t.error for t in store.transcripts()] == [None] * 4


def test_a_run_out_of_memory_stops_with_one_line_and_goes_on_once_there_is_enough(tmp_path):
    words = ("compare", "tiny:hungry", "SR1", "--students", 4, "--batch", 2, "--store", tmp_path / "s")
    stopped = cisr(*words, before=("env", "HUNGRY=yes"))
    assert stopped.returncode == 2, stopped.stderr
    line = stopped.stderr.strip().splitlines()[-1]
    assert line.startswith(
        "cisr: Out of memory with 2 students in a batch (MLP networks, 2 environments × 32 steps each): "
        "RESOURCE_EXHAUSTED"
    )
    assert line.endswith("run the same command again, or make a new store with smaller batches: --store NEW --batch 1.")
    assert len(line) < 500 and "Traceback" not in stopped.stderr
    with Store(tmp_path / "s") as store:
        assert [t.error for t in store.transcripts()] == [None] * 4
    assert cisr(*words).returncode == 0
    with Store(tmp_path / "s") as store:
        assert all(t.deployment for t in store.transcripts())


def test_the_largest_batch_is_fixed_when_a_store_is_made(capfd, tmp_path):
    words = ("compare", "tiny:task", "SR1", "--students", 3, "--store", tmp_path / "s", "--workers", 0)
    run(*words, "--batch", 1)
    with Store(tmp_path / "s") as store:
        assert store.settings()["batching"]["largest"] == 1
    run(*words)
    assert "made with batches of at most 1 students, this run has 2" in refused(capfd, *words, "--batch", 2)
    assert "give a whole number from 1 to" in refused(capfd, *words, "--batch", 0)


def test_an_accelerator_that_is_not_there_gets_one_line(tmp_path):
    asked = ("env", "JAX_PLATFORMS=cuda")
    done = cisr("compare", "tiny:compiled", "SR1", "--store", tmp_path / "s", before=asked)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("cisr: JAX cannot use the device asked for"), done.stderr


def test_debug_shows_the_traceback():
    assert "Traceback" in cisr("--debug", "train", "lava-lake").stderr


@pytest.mark.parametrize("what", ["cisr", "cisr.cli"])
def test_importing_cisr_or_its_command_line_brings_in_no_heavy_library(what):
    heavy = ("jax", "sklearn", "torch", "scipy", "matplotlib")
    code = f"import sys, {what}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there_and_every_command_says_of_itself_what_the_list_says():
    package = importlib.import_module("cisr")
    assert all(getattr(package, name) is not None for name in package.__all__)
    listed = typer.main.get_command(app).commands
    assert all(command.help for command in listed.values()) and list(listed) == list(COMMANDS)


def test_every_command_can_be_loaded_without_gymnasium():
    code = (
        "import importlib, sys; sys.modules['gymnasium'] = None  # as on a machine for compiled students\n"
        "import pkgutil, cisr.cli\n"
        "for module in pkgutil.iter_modules(cisr.cli.__path__): importlib.import_module(f'cisr.cli.{module.name}')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
