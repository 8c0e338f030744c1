"""TensorBoard's log: what it reads is what the store says, each unit once, live or afterwards."""

import pytest
import tiny
from calls import call

from cisr import Fixed, Store, Study, TensorBoard, compare
from cisr.export.places import file_part
from cisr.export.tensorboard_log import export_tensorboard
from cisr.training import BatchProgress, Checkpoint

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

QUICKLY = tiny.dataclasses.replace(tiny.HERE, batch=2)


def scalars(folder, run):
    """By tag, the steps and values of a run."""
    board = EventAccumulator(str(folder / run))
    board.Reload()
    return {tag: [(e.step, e.value) for e in board.Scalars(tag)] for tag in board.Tags()["scalars"]}


def texts(folder, run):
    board = EventAccumulator(str(folder / run))
    board.Reload()
    return {
        tag: [(e.step, e.tensor_proto.string_val[0].decode()) for e in board.Tensors(tag)]
        for tag in board.Tags()["tensors"]
    }


def runs(folder):
    return sorted({path.parent.relative_to(folder).as_posix() for path in folder.rglob("*tfevents*")})


def agrees(folder, path):
    """The log says of every student what the store says, once."""
    with Store(path, read_only=True) as store:
        students = store.transcripts()
        studies = [name for name in store.runs() if store.trials(name)]
        trials = {name: store.trials(name) for name in studies}
    assert runs(folder) == sorted([*(t.name for t in students), *studies])
    for t in students:
        shown = scalars(folder, t.name)
        returns = [(unit.unit, pytest.approx(unit.mean_return, rel=1e-6)) for unit in t.units]
        assert shown.get("training/return", []) == returns
        said = texts(folder, t.name)
        assert said.get("intervention", []) == [(unit.unit, unit.intervention) for unit in t.units]
        final = [] if t.deployment is None else [(len(t.units), pytest.approx(t.deployment.score, rel=1e-6))]
        assert shown.get("final/score", []) == final
        assert said.get("final/error", []) == ([(len(t.units), t.error)] if t.error else [])
    for name in studies:
        told = enumerate(trials[name])
        scores = [(k, pytest.approx(trial.score, rel=1e-6)) for k, trial in told if trial.score is not None]
        assert scalars(folder, name).get("trial/score", []) == scores


@pytest.mark.parametrize("store", ["trained_once", "broken", "elsewhere"])
def test_tensorboard_reads_what_the_store_says(store, request, tmp_path):
    path = request.getfixturevalue(store)
    for _ in range(2):  # nothing is there twice
        export_tensorboard(path, tmp_path / "log")
        agrees(tmp_path / "log", path)


def test_the_log_has_multipliers_deployments_and_beliefs(trained_once, tmp_path):
    export_tensorboard(trained_once, tmp_path)
    assert {
        "training/failures",
        "training/rescues",
        "multipliers/failures",
        "multipliers/rescues",
        "final/success",
    } <= (set(scalars(tmp_path, "compare/SR1/000")))
    with Store(trained_once, read_only=True) as store:
        belief = store.findings()["study"]["belief"]
    assert scalars(tmp_path, "study")["belief/bound"] == [(2, pytest.approx(belief["bound"], rel=1e-6))]
    assert texts(tmp_path, "study")["trial/curriculum"][0][1] == "SR1 in every unit."


def test_what_nobody_knows_is_not_shown(elsewhere, tmp_path):
    export_tensorboard(elsewhere, tmp_path)
    assert set(scalars(tmp_path, "study/000/00")) >= {"training/return", "training/violation"}
    assert not {"training/failures", "training/success", "training/steps"} & set(scalars(tmp_path, "study/000/00"))
    assert "trial/score" in scalars(tmp_path, "study") and len(scalars(tmp_path, "study")["trial/score"]) == 2
    assert texts(tmp_path, "study")["trial/error"] == [(1, "No student of this trial has finished.")]


def test_files_of_others_are_left_alone(trained_once, tmp_path):
    own = tmp_path / "study" / "events.out.tfevents.1.mine"
    own.parent.mkdir()
    own.write_bytes(b"")
    notes = [tmp_path / "notes.cisr", own.parent / "events.out.tfevents.1.mine.cisr"]
    for note in notes:
        note.touch()
    export_tensorboard(trained_once, tmp_path)
    export_tensorboard(trained_once, tmp_path)
    assert all(note.exists() for note in notes)
    assert own.exists() and len(list(own.parent.glob("events*"))) == 3


def test_a_run_is_shown_while_it_goes_on_and_a_resumed_one_has_no_unit_twice_and_none_missing(tmp_path):
    path, folder = tmp_path / "store.sqlite", tmp_path / "log"
    task, units = tiny.task, []

    def run(after):
        """A study that is killed after some units, as far as the log knows."""
        with Store(path) as store, TensorBoard(folder, store) as board:

            def hear(event):
                board(event)
                if isinstance(event, BatchProgress) and isinstance(event.event, Checkpoint):
                    units.append(event)
                    agrees_so_far(store)
                    if len(units) == after:
                        raise KeyboardInterrupt

            Study(task, teaching=tiny.teaching(n_initial=2, n_rounds=0), store=store, execution=QUICKLY).run(hear)

    def agrees_so_far(store):
        for t in store.transcripts():
            shown = scalars(folder, t.name).get("training/return", [])
            assert [step for step, _ in shown] == [unit.unit for unit in t.units], t.name

    with pytest.raises(KeyboardInterrupt):
        run(after=4)
    run(after=None)
    agrees(folder, path)
    assert "belief/bound" in scalars(folder, "study")
    run(after=None)  # nothing is left to do
    agrees(folder, path)


def test_students_that_broke_and_are_taught_again_begin_again_in_the_log(tmp_path, monkeypatch):
    path, folder = tmp_path / "store.sqlite", tmp_path / "log"
    for held in (False, True):
        if held:
            monkeypatch.setenv("HOLD", "1")
        with Store(path) as store, TensorBoard(folder, store) as board:
            curricula = {"SR1": Fixed("SR1"), "HR": Fixed("HR")}
            compare(tiny.fragile, curricula, n_students=2, store=store, execution=QUICKLY, callback=board)
            errors = [t.error for t in store.transcripts() if t.error]
        assert bool(errors) != held
        agrees(folder, path)


def test_a_log_that_cannot_be_written_does_not_stop_the_run(trained, tmp_path, caplog):
    folder = tmp_path / "log"
    with Store(trained) as store, TensorBoard(folder, store) as board:
        board(object())  # anything that happens
        for path in folder.rglob("*tfevents*"):
            path.unlink()
            path.mkdir()  # nothing can be written to it
        curricula = {"SR1": Fixed("SR1"), "none": Fixed("none")}
        compare(tiny.task, curricula, n_students=3, store=store, execution=QUICKLY, callback=board)
        with_study = Study(tiny.task, teaching=tiny.teaching(n_initial=2, n_rounds=2), store=store, execution=QUICKLY)
        assert len(with_study.run(board).trials) == 4
    assert sum("TensorBoard's log ends here" in record.message for record in caplog.records) == 1


def test_train_and_compare_have_tensorboard_show_them(tmp_path):
    path, folder = tmp_path / "store.sqlite", tmp_path / "log"
    shown = ("--store", path, "--workers", 0, "--tensorboard", folder, "--batch", 2)
    assert call("train", "tiny:task", "--initial", 2, "--rounds", 0, *shown)[0] == 0
    agrees(folder, path)
    assert call("compare", "tiny:task", "SR1", "--students", 2, *shown)[0] == 0
    agrees(folder, path)
    code, _, err = call("compare", "tiny:task", "SR1", "--store", path, "--tensorboard", f"{path}.weights")
    assert code == 2 and "keeps what belongs to it" in err


def test_names_of_students_lead_to_no_other_folder():
    names = [
        "..",
        ".",
        "",
        "a/b",
        "/etc/passwd",
        "..\\x",
        ".hidden",
        "SR1",
        "é",
        "x" * 300,
        "con\x00trol",
        "a b",
        "a-b",
    ]
    parts = [file_part(name) for name in names]
    assert len(set(parts)) == len(parts)
    for part in parts:
        assert part and "/" not in part and "\\" not in part and "\x00" not in part
        assert not part.startswith(".") and len(part) < 120
    assert file_part("SR1") == "SR1"
