import dataclasses
import json
import sqlite3
from contextlib import closing
from unittest.mock import Mock

import numpy as np
import old_stores
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from cisr.core.errors import StoreError
from cisr.curricula import Bandit, Fixed
from cisr.store import Store, StoredTrial
from cisr.store.rows import as_json, from_unit, identity, to_unit
from cisr.store.schema import FORMAT
from cisr.store.weights import file_name
from cisr.training import (
    Abandonment,
    Batch,
    Breakdown,
    Checkpoint,
    Deployment,
    Graduation,
    StudentSpec,
    UnitLog,
    UnitRecord,
)


def one_batch(students):
    return [Batch(name=students[0].name, students=tuple(students))] if students else []


def students(*names, seed=1):
    return [StudentSpec(name=name, policy=Fixed("SR1"), config=tiny.student, seed=seed) for name in names]


def unit(number=1, **changes):
    fields = {
        "unit": number,
        "intervention": "SR1",
        "steps": 128,
        "episodes": 3,
        "mean_return": 0.1 + 0.2,
        "success": 1 / 3,
        "violation": -0.1,
        "rescues": 4,
        "failures": 0,
        "multipliers": (0.1, 1 / 7),
        "seconds": 1.5,
    }
    return UnitLog(**(fields | changes))


def checkpoint(number, *records, errors=None):
    weights = {"log_weights": np.full((len(records), 3), number, np.float32)}
    return Checkpoint(number, weights, records, errors or (None,) * len(records))


DEPLOYED = Deployment(
    under="none",
    steps=100,
    episodes=7,
    mean_return=1 / 3,
    score=1 / 3,
    failures=1,
    rescues=0,
    outcomes={"success": 1.0},
)


COUNTS, NUMBERS = st.integers(0, 2**53), st.floats(allow_nan=False, allow_infinity=False)
DEPLOYMENTS = st.builds(
    Deployment,
    **dict.fromkeys(("steps", "episodes", "failures", "rescues"), COUNTS),
    **dict.fromkeys(("mean_return", "score"), NUMBERS),
    under=st.text(),
    outcomes=st.dictionaries(st.text(), NUMBERS),
    visits=st.none() | st.lists(COUNTS).map(tuple),
)
UNITS = st.builds(
    UnitLog,
    **dict.fromkeys(("unit", "steps", "episodes", "rescues", "failures"), COUNTS),
    **dict.fromkeys(("mean_return", "success", "violation", "seconds"), NUMBERS),
    intervention=st.text(),
    multipliers=st.lists(NUMBERS).map(tuple),
    deployment=st.none() | DEPLOYMENTS,
    evaluation=st.none() | DEPLOYMENTS,
)


@given(UNITS, st.recursive(st.none() | st.booleans() | NUMBERS | st.text(), st.lists))
def test_any_unit_comes_back_from_its_row_as_it_was(log, stage):
    row = from_unit("a", UnitRecord(log, stage))
    assert to_unit(row, log.driven) == log and json.loads(row["stage"]) == stage


def test_what_was_kept_comes_back_to_the_last_bit(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a", "b"), one_batch)
        tried = unit(evaluation=dataclasses.replace(DEPLOYED, under="HR", visits=(1, 2)))
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(tried, {"chosen": "SR1"}), UnitRecord(unit(), None)))
        store.keep_graduation(batch, Graduation((DEPLOYED, None), (None, Breakdown("it broke", 3))))
    with Store(tmp_path / "store") as store:
        good, bad = store.transcripts()
        assert (good.units, bad.units) == ((tried,), (unit(),))
        assert (good.deployment, good.error) == (DEPLOYED, None)
        assert (bad.deployment, bad.error, bad.training_failures) == (None, "it broke", 3)
        assert store.weights("b")["log_weights"].tolist() == [1, 1, 1]


def test_a_batch_goes_on_from_its_last_checkpoint_with_its_stages(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a", "b"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0), UnitRecord(unit(1), 0)))
        store.keep_checkpoint(batch, checkpoint(2, UnitRecord(unit(2), 1), UnitRecord(unit(2), 0)))
    with Store(tmp_path / "store") as store:
        (again,) = store.register(students("a", "b"), one_batch)
        found = store.checkpoint(again)
        assert again == batch
        assert (found.unit, found.errors) == (2, (None, None))
        assert found.records == (UnitRecord(unit(2), 1), UnitRecord(unit(2), 0))
        assert found.weights["log_weights"][0].tolist() == [2, 2, 2]


def test_a_student_that_broke_down_is_taught_again_from_its_first_unit_in_a_batch_of_its_own(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a", "b"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0), UnitRecord(unit(1), 0)))
        broken = (Breakdown("it broke", 40), None)
        store.keep_checkpoint(batch, checkpoint(2, None, UnitRecord(unit(2), 1), errors=broken))
        assert store.transcript("a").training_failures == 40
    with Store(tmp_path / "store") as store:
        old, new = store.register(students("a", "b"), one_batch)
        assert [student.name for student in new.students] == ["a"]
        assert store.checkpoint(new) is None and store.transcript("a").units == ()
        found = store.checkpoint(old)  # the others keep their places
        assert found.records == (None, UnitRecord(unit(2), 1))
        assert found.errors[0] is not None and found.errors[1] is None
        store.keep_graduation(old, Graduation((None, DEPLOYED), found.errors))
        store.keep_checkpoint(new, checkpoint(1, UnitRecord(unit(1), 0)))
        store.keep_graduation(new, Graduation((DEPLOYED,), (None,)))
        assert [(t.error, t.deployment) for t in store.transcripts()] == [(None, DEPLOYED)] * 2
        assert store.weights("a")["log_weights"].tolist() == [1, 1, 1]
        assert store.register(students("a", "b"), one_batch) == []


def test_a_batch_that_was_abandoned_goes_on_from_its_last_checkpoint_and_its_failures_are_unknown(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a", "b"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0), UnitRecord(unit(1), 0)))
        store.keep_abandonment(batch, Abandonment("its worker process died (signal 6)"))
        for t in store.transcripts():
            assert t.error == f"Student '{t.name}': its worker process died (signal 6)"
            assert t.training_failures is None
    with Store(tmp_path / "store") as store:
        (again,) = store.register(students("a", "b"), one_batch)
        assert again == batch
        assert store.checkpoint(again).unit == 1
        assert [t.error for t in store.transcripts()] == [None, None]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_an_earlier_format_is_read_and_a_reader_leaves_it_as_it_was(tmp_path, read_only):
    path = tmp_path / "store"
    old = sqlite3.connect(path)
    old.executescript(old_stores.FORMAT_1)
    for place, student in enumerate(students("b", "a")):
        values = (student.name, place, *identity(student), "it broke" if place else None)
        old.execute("INSERT INTO students VALUES (?, 'b', ?, ?, ?, ?, NULL, ?)", values)
    old.commit()
    old.close()
    content = path.read_bytes()
    with Store(path, read_only=read_only) as store:
        a, b = store.transcripts()
        assert (a.error, a.training_failures, b.error) == ("it broke", None, None)
    assert (path.read_bytes() == content) is read_only
    if not read_only:
        with Store(path) as store:
            (unfinished, again) = store.register(students("a", "b"), one_batch)
            assert [student.name for student in unfinished.students] == ["b", "a"]
            assert [student.name for student in again.students] == ["a"]


def rows_of(student, batch, place=0, **more):
    curriculum, config, seed = identity(student)
    row = {"name": student.name, "batch": batch, "place": place}
    return ("students", row | {"curriculum": curriculum, "config": config, "seed": seed} | more)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("greedy", [True, False])
def test_a_store_from_before_candidates_is_read_with_the_deployment_that_its_task_had(tmp_path, read_only, greedy):
    path = tmp_path / "store"
    now = dataclasses.replace(tiny.student, deterministic=greedy)
    before = {k: v for k, v in now.to_json().items() if k not in ("deterministic", "n_candidates")}
    fields = from_unit("a", UnitRecord(unit(1, deployment=DEPLOYED), 0))
    old_stores.make(
        path,
        old_stores.FORMAT_3,
        2,
        ("settings", {"name": "definition", "value": {"horizon": 40, "deterministic_deployment": greedy}}),
        ("settings", {"name": "student settings", "value": before}),
        ("batches", {"name": "a", "units": 1, "weights": file_name("a", 1), "roster": ["a"]}),
        rows_of(students("a")[0], "a", config=before),
        ("units", fields),
        then="ALTER TABLE units DROP COLUMN evaluation",
    )
    content = path.read_bytes()
    with Store(path, read_only=read_only) as store:
        (found,) = store.transcripts()
        assert found.units == (unit(1, deployment=DEPLOYED),)
        assert found.config == now
        assert store.agrees({"definition": {"horizon": 40}, "student settings": now.to_json()})
    assert (path.read_bytes() == content) is read_only
    if not read_only:
        with Store(path) as store:
            (batch,) = store.register([dataclasses.replace(students("a")[0], config=now)], one_batch)
            store.keep_checkpoint(batch, checkpoint(2, UnitRecord(unit(2, evaluation=DEPLOYED), 0)))
            assert store.transcript("a").units[-1].evaluation == DEPLOYED


STUDY = {"best": {"return_1": 0.5}, "model": {"noise": 0.1}, "policy": {"kind": "none"}}
AUDIT = {"interventions": [{"name": "SR1"}], "promises_checked": True, "broken_promises": [], "of": {"cisr": "0"}}
EPISODES = [{"flights": [[[0.0, 1.0]]], "outcome": "success", "failed": False, "total": 1.5, "steps": 1}]
REPRODUCED = {"title": "Table 1", "repetitions": ["compare"], "searches": ["audit"], "students": 1, "rows": []}


def store_of_format_3(path):
    """One of each thing that such a store could hold, with a study called audit and one called reproduction."""
    a, b = students("audit/000/00", "compare/SR1/000")
    folder = path.with_name(path.name + ".weights")
    folder.mkdir()
    save_file({"log_weights": np.full((2, 3), 7, np.float32)}, folder / file_name(a.name, 1))
    old_stores.make(
        path,
        old_stores.FORMAT_3,
        3,
        ("settings", {"name": "task", "value": '"lake"'}),
        ("settings", {"name": "run audit", "value": {"seed": 1}}),
        ("settings", {"name": "run compare", "value": {"seed": 2}}),
        (
            "batches",
            {"name": a.name, "units": 1, "weights": file_name(a.name, 1), "done": 1, "roster": [a.name, b.name]},
        ),
        rows_of(a, a.name, 0, error="it broke", failures_when_broken=3),
        rows_of(b, a.name, 1, deployment=as_json(dataclasses.asdict(DEPLOYED))),
        ("units", from_unit(a.name, UnitRecord(unit(1, evaluation=DEPLOYED), {"fresh_starts": 1}))),
        ("units", from_unit(b.name, UnitRecord(unit(1), 0))),
        ("rounds", {"study": "audit", "round": 0, "parameters": {"r": 1}, "told": 1, "score": 2.5, "model": {}}),
        ("findings", {"study": "audit", "found": STUDY}),
        ("findings", {"study": "order compare", "found": {"order": ["SR1", "HR"]}}),
        ("findings", {"study": "trajectories compare", "found": {b.name: EPISODES}}),
        ("findings", {"study": "trajectories of students gone", "found": {"gone/SR1/000": EPISODES}}),
        ("findings", {"study": "reproduction", "found": REPRODUCED}),
    )
    return a, b


@pytest.mark.parametrize("read_only", [True, False])
def test_nothing_of_a_store_of_format_3_is_lost(tmp_path, read_only):
    path = tmp_path / "store"
    a, b = store_of_format_3(path)
    content = path.read_bytes()
    for _ in range(2):
        with Store(path, read_only=read_only) as store:
            assert store.settings() == {"format": FORMAT, "task": "lake"}
            assert store.runs() == {"audit": {"seed": 1}, "compare": {"seed": 2}}
            broken, finished = store.transcripts()
            assert (broken.name, broken.error, broken.training_failures) == (a.name, "it broke", 3)
            assert broken.safe_evaluation_failures == 1
            assert broken.units == (unit(1, evaluation=DEPLOYED),) and broken.fresh_starts == (1,)
            assert (finished.name, finished.deployment, finished.units) == (b.name, DEPLOYED, (unit(1),))
            assert store.weights(b.name)["log_weights"].tolist() == [7, 7, 7]
            assert store.trials("audit") == [StoredTrial({"r": 1}, True, 2.5, None, {})]
            assert store.findings() == {"audit": STUDY}
            assert store.curricula("compare") == ["SR1", "HR"]
            assert store.trajectories() == {b.name: EPISODES}
            assert store.reproduction() == REPRODUCED
            assert store.audit() is None
    assert (path.read_bytes() == content) is read_only


def store_of_format_4(path):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(old_stores.FORMAT_4)
    folder = path.with_name(path.name + ".weights")
    folder.mkdir()
    (student,) = students("compare/SR1/000")
    save_file({"log_weights": np.ones((1, 3), np.float32)}, folder / file_name(student.name, 1))
    return student


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_format_4_is_read_and_its_checksums_go_on(tmp_path, read_only):
    path = tmp_path / "s.sqlite"
    student = store_of_format_4(path)
    content = path.read_bytes()
    for _ in range(2):
        with Store(path, read_only=read_only) as store:
            assert store.settings()["format"] == FORMAT
            (found,) = store.transcripts()
            assert (found.name, found.config, found.driven) == (student.name, student.config, 0)
            assert found.units == (unit(1, evaluation=DEPLOYED),)
            assert store.weights(student.name)["log_weights"].tolist() == [1, 1, 1]
            assert store.trials("study") == [StoredTrial({"r": 1.0}, True, 2.5, None, {})]
            assert store.curricula("compare") == ["SR1"]
    assert (path.read_bytes() == content) is read_only
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE units SET failures = failures + 1")
    with pytest.raises(StoreError, match="a row of units has changed"):
        Store(path, read_only=read_only)


def test_a_student_of_format_4_goes_on_with_drives_and_numbers_that_nobody_told(tmp_path):
    path = tmp_path / "s.sqlite"
    student = store_of_format_4(path)
    driven, untold = unit(2, driven=9), unit(3, steps=None, success=None, failures=None)
    with Store(path) as store:
        (batch,) = store.register([student], one_batch)
        assert store.checkpoint(batch).unit == 1
        store.keep_checkpoint(batch, checkpoint(2, UnitRecord(driven, 0)))
        store.keep_checkpoint(batch, checkpoint(3, UnitRecord(untold, 0)))
    with Store(path, read_only=True) as store:
        assert store.transcript(student.name).units == (unit(1, evaluation=DEPLOYED), driven, untold)
        assert store.transcript(student.name).driven == 9
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM drives")
    with pytest.raises(StoreError, match="drives"):
        Store(path)


def test_a_store_of_format_4_without_one_of_its_tables_is_damaged_and_left_as_it_was(tmp_path):
    path = tmp_path / "s.sqlite"
    store_of_format_4(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE trajectories")
    with pytest.raises(StoreError, match="does not have the tables of its format"):
        Store(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT value FROM settings WHERE name = 'format'").fetchone() == ("4",)


def test_an_audit_of_format_3_stays_an_audit(tmp_path):
    old_stores.make(tmp_path / "s", old_stores.FORMAT_3, 3, ("findings", {"study": "audit", "found": AUDIT}))
    with Store(tmp_path / "s") as store:
        assert (store.audit(), store.findings()) == (AUDIT, {})


@pytest.mark.parametrize("name", ["audit", "reproduction", "order compare", "trajectories compare", "format"])
def test_a_study_may_have_any_name(name):
    with Store(None) as store:
        store.keep_audit(AUDIT)
        store.keep_reproduction(REPRODUCED)
        store.keep_curricula("compare", ["SR1"])
        store.bind_run(name, {"seed": 1})
        store.keep_findings(name, STUDY)
        assert store.findings() == {name: STUDY} and store.runs() == {name: {"seed": 1}}
        assert (store.audit(), store.reproduction(), store.curricula("compare")) == (AUDIT, REPRODUCED, ["SR1"])


def test_only_the_last_weights_of_a_batch_stay_on_disk(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a"), one_batch)
        for number in (1, 2, 3):
            store.keep_checkpoint(batch, checkpoint(number, UnitRecord(unit(number), 0)))
        assert len(list((tmp_path / "store.weights").iterdir())) == 1


def test_weights_that_a_crash_left_unnamed_are_swept_away(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0)))
    orphan = tmp_path / "store.weights" / "orphan.safetensors.new"
    orphan.write_bytes(b"half a file")
    with Store(tmp_path / "store") as store:
        assert not orphan.exists()
        assert store.weights("a")


def test_finished_batches_are_not_taught_again(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.register(students("a"), one_batch)
        store.keep_graduation(batch, Graduation((DEPLOYED,), (None,)))
        (rest,) = store.register(students("a", "b"), one_batch)
        assert [student.name for student in rest.students] == ["b"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (students("a", seed=2)[0], "seed"),
        (StudentSpec(name="a", policy=Bandit(("SR1", "HR")), config=tiny.student, seed=1), "curriculum"),
    ],
)
def test_a_student_cannot_become_another(tmp_path, other, what):
    with Store(tmp_path / "store") as store:
        store.register(students("a"), one_batch)
        with pytest.raises(StoreError, match=f"another {what}"):
            store.register([other], one_batch)


def test_settings_are_fixed_by_the_first_result(tmp_path):
    with Store(tmp_path / "store") as store:
        store.bind_settings({"task": "lake", "numbers": {"a": 1, "b": 2}})
        store.bind_settings({"task": "sea", "numbers": {"a": 1, "b": 3}})
        (batch,) = store.register(students("a"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0)))
        with pytest.raises(StoreError, match=r"store was made with numbers: b = 3, this run has 4: give another store"):
            store.bind_settings({"task": "sea", "numbers": {"a": 1, "b": 4}})
        assert store.settings()["numbers"] == {"a": 1, "b": 3}


def test_a_store_of_a_newer_version_is_left_alone(tmp_path):
    Store(tmp_path / "store").close()
    with sqlite3.connect(tmp_path / "store") as db:
        db.execute("UPDATE settings SET value = ? WHERE name = 'format'", (str(FORMAT + 1),))
    db.close()
    with pytest.raises(StoreError, match="newer version of cisr"):
        Store(tmp_path / "store")


def test_a_store_that_cannot_be_opened_is_not_left_locked(tmp_path, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(sqlite3, "connect", Mock(side_effect=sqlite3.OperationalError("unable to open")))
        with pytest.raises(StoreError, match="unable to open"):
            Store(tmp_path / "store")
    Store(tmp_path / "store").close()


@pytest.mark.parametrize("content", [b"this is no database at all, just text" * 50, b"x"])
def test_a_file_that_is_no_store_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"not a store|no store"):
        Store(path)
    assert path.read_bytes() == content


def test_two_processes_cannot_write_one_store(tmp_path):
    with Store(tmp_path / "store"), pytest.raises(StoreError, match="in use by another process"):
        Store(tmp_path / "store")


def test_rounds_keep_what_the_teacher_proposed_and_was_told():
    with Store(None) as store:
        store.propose("study", 0, {"return_1": 0.1, "intervention_1": "SR1"}, {})
        store.propose("study", 1, {"return_1": 0.2, "intervention_1": "HR"}, {"noise": 0.1})
        store.tell("study", 0, 5.5, None)
        first, second = store.trials("study")
        assert (first.told, first.score, first.sem, first.model) == (True, 5.5, None, {})
        assert (second.told, second.score, second.model) == (False, None, {"noise": 0.1})


def test_settings_of_earlier_stores_go_by_todays_names(tmp_path):
    with Store(tmp_path / "s") as store:
        store.record({"lane": "compiled", "student": "perceptron"})
        found = store.settings()
    assert (found["backend"], found["student"]) == ("compiled", "mlp") and "lane" not in found
