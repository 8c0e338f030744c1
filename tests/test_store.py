import sqlite3
from unittest.mock import Mock

import numpy as np
import pytest
import tiny

from cisr.classroom import Batch, Checkpoint, Deployment, Enrolment, Graduation, UnitLog, UnitRecord
from cisr.curricula import Bandit, Fixed
from cisr.errors import StoreError
from cisr.store import Store
from cisr.store.database import FORMAT


def one_batch(enrolments):
    return [Batch(name=enrolments[0].name, enrolments=tuple(enrolments))] if enrolments else []


def students(*names, seed=1):
    return [Enrolment(name=name, policy=Fixed("SR1"), config=tiny.student, seed=seed) for name in names]


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


def test_what_was_kept_comes_back_to_the_last_bit(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.enrol(students("a", "b"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(), {"chosen": "SR1"}), UnitRecord(unit(), None)))
        store.keep_graduation(batch, Graduation((DEPLOYED, None), (None, "it broke")))
    with Store(tmp_path / "store") as store:
        good, bad = store.transcripts()
        assert good.units == (unit(),)
        assert (good.deployment, good.error) == (DEPLOYED, None)
        assert (bad.deployment, bad.error) == (None, "it broke")
        assert store.weights("b")["log_weights"].tolist() == [1, 1, 1]


def test_a_batch_goes_on_from_its_last_checkpoint_with_its_stages(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.enrol(students("a", "b"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0), UnitRecord(unit(1), 0)))
        store.keep_checkpoint(batch, checkpoint(2, UnitRecord(unit(2), 1), None, errors=(None, "it broke")))
    with Store(tmp_path / "store") as store:
        (again,) = store.enrol(students("a", "b"), one_batch)
        found = store.checkpoint(again)
        assert again == batch
        assert (found.unit, found.errors) == (2, (None, "it broke"))
        assert found.records == (UnitRecord(unit(2), 1), None)
        assert found.weights["log_weights"][0].tolist() == [2, 2, 2]


def test_only_the_last_weights_of_a_batch_stay_on_disk(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.enrol(students("a"), one_batch)
        for number in (1, 2, 3):
            store.keep_checkpoint(batch, checkpoint(number, UnitRecord(unit(number), 0)))
        assert len(list((tmp_path / "store.weights").iterdir())) == 1


def test_weights_that_a_crash_left_unnamed_are_swept_away(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.enrol(students("a"), one_batch)
        store.keep_checkpoint(batch, checkpoint(1, UnitRecord(unit(1), 0)))
    orphan = tmp_path / "store.weights" / "orphan.safetensors.new"
    orphan.write_bytes(b"half a file")
    with Store(tmp_path / "store") as store:
        assert not orphan.exists()
        assert store.weights("a")


def test_finished_batches_are_not_taught_again(tmp_path):
    with Store(tmp_path / "store") as store:
        (batch,) = store.enrol(students("a"), one_batch)
        store.keep_graduation(batch, Graduation((DEPLOYED,), (None,)))
        (rest,) = store.enrol(students("a", "b"), one_batch)
        assert [student.name for student in rest.enrolments] == ["b"]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (students("a", seed=2)[0], "seed"),
        (Enrolment(name="a", policy=Bandit(("SR1", "HR")), config=tiny.student, seed=1), "curriculum"),
    ],
)
def test_a_student_cannot_become_another(tmp_path, other, what):
    with Store(tmp_path / "store") as store:
        store.enrol(students("a"), one_batch)
        with pytest.raises(StoreError, match=f"another {what}"):
            store.enrol([other], one_batch)


def test_settings_are_fixed_when_first_recorded(tmp_path):
    with Store(tmp_path / "store") as store:
        assert store.settle({"task": "lake"})["task"] == "lake"
        with pytest.raises(StoreError, match=r"made with task \"lake\", this run has \"sea\""):
            store.settle({"task": "sea"})


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
        first, second = store.rounds("study")
        assert (first.told, first.score, first.sem, first.model) == (True, 5.5, None, {})
        assert (second.told, second.score, second.model) == (False, None, {"noise": 0.1})
