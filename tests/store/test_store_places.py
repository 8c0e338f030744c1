"""Where a store lies, what lies beside it, and what it must never touch."""

import os
import pickle
import shutil
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import old_stores
import pytest
import tiny

from cisr.cli import main
from cisr.core.errors import ConfigError, StoreError
from cisr.curricula import Fixed
from cisr.store import Store
from cisr.store.weights import Weights, file_name
from cisr.training import Batch, Checkpoint, StudentSpec, UnitLog, UnitRecord

UNIT = UnitLog(
    unit=1,
    intervention="SR1",
    steps=1,
    episodes=1,
    mean_return=0.0,
    success=0.0,
    violation=0.0,
    rescues=0,
    failures=0,
    multipliers=(0.5,),
)


def one_batch(students):
    return [Batch(name="a", students=tuple(students))] if students else []


def train(store):
    """A student with a unit and weights."""
    student = StudentSpec(name="a", policy=Fixed("SR1"), config=tiny.student, seed=1)
    (batch,) = store.register([student], one_batch)
    store.keep_checkpoint(batch, Checkpoint(1, {"w": np.ones((1, 2))}, (UnitRecord(UNIT, None),), (None,)))


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_link_to_a_store_is_that_store(tmp_path):
    (tmp_path / "far").mkdir()
    path, link = tmp_path / "far" / "s.sqlite", tmp_path / "link"
    link.symlink_to(path)
    with Store(link) as store:
        train(store)
        for same in (link, path):
            with pytest.raises(StoreError, match="in use by another process"):
                Store(same)
    with Store(path) as store:
        assert store.weights("a")["w"].tolist() == [1, 1]
        with pytest.raises(StoreError, match="in use by another process"):
            Store(link)
    assert names(tmp_path) == ["far", "link"] and names(tmp_path / "far") == ["s.sqlite", "s.sqlite.weights"]


def test_a_store_made_for_what_is_refused_is_not_left_behind(tmp_path):
    (tmp_path / "link").symlink_to("s")
    for path in (tmp_path / "s", tmp_path / "link"):
        with pytest.raises(ConfigError), Store(path) as store:
            store.record({"task": "lake"})
            raise ConfigError("refused")
        assert names(tmp_path) == ["link"]


@pytest.mark.parametrize("why", ["was there", "results", "no refusal"])
def test_a_store_that_was_there_or_holds_something_stays(tmp_path, why):
    if why == "was there":
        Store(tmp_path / "s").close()
    with suppress(ConfigError, KeyboardInterrupt), Store(tmp_path / "s") as store:
        if why == "results":
            train(store)
        raise KeyboardInterrupt if why == "no refusal" else ConfigError("refused")
    assert "s" in names(tmp_path)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "name", [":memory:", "", "file:s", "file:s?mode=memory", "folder", "/dev/null", "s\0t", "new/"]
)
def test_what_cannot_be_a_store_is_refused_with_one_line(tmp_path, monkeypatch, name, read_only):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(StoreError) as refused:
        Store(name, read_only=read_only)
    assert len(str(refused.value).splitlines()) == 1 and repr(name) in str(refused.value)
    assert names(tmp_path) == ["folder"]


def test_pipes_and_circles_of_links_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("pipe", "circle"):
        with pytest.raises(StoreError, match="there can be none"):
            Store(tmp_path / name)


def test_the_command_line_refuses_special_names_too(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["compare", "frozen-lake", "SR1", "--store"], ["report"], ["check"]):
        with pytest.raises(SystemExit) as stop:
            main([*words, ":memory:"])
        assert stop.value.code == 2
        assert len(capfd.readouterr().err.strip().splitlines()) == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize("replaced", [True, False])
def test_a_store_that_is_gone_is_noticed_at_the_next_write(tmp_path, replaced):
    path = tmp_path / "s"
    with Store(path) as store:
        train(store)
        path.rename(tmp_path / "elsewhere")
        if replaced:
            path.write_bytes(b"another file")
        for write in (lambda: store.record({"a": 1}), lambda: train(store)):
            with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
                write()
    assert path.exists() is replaced
    assert not replaced or path.read_bytes() == b"another file"


def test_who_leaves_last_leaves_nothing_behind(tmp_path):
    path = tmp_path / "s"
    alone = ["s", "s.weights"]
    with Store(path) as writer:
        train(writer)
        with Store(path, read_only=True) as during:
            assert during.transcripts()
        assert "s.lock" in names(tmp_path) and "s-wal" in names(tmp_path)  # the writer is still there
    assert names(tmp_path) == alone
    with Store(path, read_only=True):
        pass
    assert names(tmp_path) == alone
    writer, first, second = Store(path), Store(path, read_only=True), Store(path, read_only=True)
    for leaving in (writer, first):
        leaving.close()
        assert second.transcripts()
    second.close()
    assert names(tmp_path) == alone


def test_a_reader_tidies_up_after_a_kill_and_loses_nothing(tmp_path):
    (tmp_path / "alive").mkdir()
    with Store(tmp_path / "alive" / "s") as store:
        train(store)
        shutil.copytree(tmp_path / "alive", tmp_path / "dead")
        found = store.transcripts()
    assert names(tmp_path / "dead") == ["s", "s-shm", "s-wal", "s.lock", "s.weights"]
    with Store(tmp_path / "dead" / "s", read_only=True) as store:
        assert store.transcripts() == found
    assert names(tmp_path / "dead") == ["s", "s.weights"]
    with Store(tmp_path / "dead" / "s") as store:
        assert store.transcripts() == found


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_store_that_another_program_lets_nobody_read_is_told_and_not_waited_for(strange, monkeypatch, mode):
    monkeypatch.setattr("cisr.store.database.LONGEST_WAIT", 0.1)
    with closing(sqlite3.connect(strange, isolation_level=None)) as other:
        for said in (f"journal_mode={mode}", "locking_mode=EXCLUSIVE", "user_version=1"):
            other.execute(f"PRAGMA {said}")
        strange.with_name("s-journal").unlink(missing_ok=True)
        with pytest.raises(StoreError, match="is locked by another program"):
            Store(strange, read_only=True)


def test_another_programs_database_is_left_as_it_was(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.execute("CREATE TABLE settings (name, value)")
    content = (tmp_path / "other").read_bytes()
    for read_only in (True, False):
        with pytest.raises(StoreError, match="is not a store of cisr"):
            Store(tmp_path / "other", read_only=read_only)
    assert (tmp_path / "other").read_bytes() == content and names(tmp_path) == ["other"]


# A store from anywhere


@pytest.fixture
def treasure(tmp_path):
    """A file that is nobody's business."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "treasure.safetensors").write_bytes(b"gold")
    yield tmp_path / "home" / "treasure.safetensors"
    assert (tmp_path / "home" / "treasure.safetensors").read_bytes() == b"gold"
    assert names(tmp_path / "home") == ["treasure.safetensors"]


@pytest.fixture
def strange(tmp_path):
    """A store with a student, to be changed by hand."""
    (tmp_path / "strange").mkdir()
    with Store(tmp_path / "strange" / "s") as store:
        train(store)
    return tmp_path / "strange" / "s"


@pytest.mark.parametrize("absolute", [True, False])
def test_no_name_in_the_database_leads_out_of_the_folder_of_weights(tmp_path, treasure, absolute):
    (tmp_path / "strange").mkdir()
    path = tmp_path / "strange" / "s"
    name = str(treasure) if absolute else "../../home/treasure.safetensors"
    old_stores.make(
        path,
        old_stores.FORMAT_3,
        3,
        ("batches", {"name": "../../home/treasure", "units": 1, "weights": name, "roster": []}),
        ("batches", {"name": "a", "units": 1, "weights": name, "roster": []}),
    )
    path.with_name("s.weights").mkdir()
    with Store(path) as store:
        batch = Batch(name="a", students=())
        with pytest.raises(StoreError, match="are missing"):
            store.checkpoint(batch)
        store.keep_checkpoint(batch, Checkpoint(2, {"w": np.ones(1)}, (), ()))
        store.start_over(["a", "../../home/treasure"])


def test_a_folder_of_weights_that_leads_elsewhere_is_refused(strange, treasure):
    shutil.rmtree(Weights.folder_of(strange))
    Weights.folder_of(strange).symlink_to(treasure.parent)
    for read_only in (True, False):
        with pytest.raises(StoreError, match="is a link"):
            Store(strange, read_only=read_only)


def test_links_among_the_weights_are_neither_read_nor_written_through(strange, treasure):
    file = Weights.folder_of(strange) / file_name("a", 1)
    file.unlink()
    file.symlink_to(treasure)
    with Store(strange) as store:
        with pytest.raises(StoreError, match="cannot be read"):
            store.weights("a")
        (file.parent / (file_name("a", 2) + ".new")).symlink_to(treasure)
        batch = Batch(name="a", students=())
        store.keep_checkpoint(batch, Checkpoint(2, {"w": np.ones((1, 2))}, (), ()))
        assert names(file.parent) == [file_name("a", 2)]


def test_a_lock_that_is_a_link_is_not_followed(strange, treasure):
    strange.with_name("s.lock").symlink_to(treasure.parent / "new")
    with pytest.raises(StoreError, match="Cannot write"):
        Store(strange)


def test_setting_aside_writes_through_no_link(strange, treasure):
    strange.with_name("s-aside-1").symlink_to(treasure.parent / "new")
    with Store(strange) as store:
        assert store.set_aside(["a"]) == strange.with_name("s-aside-2")


@pytest.mark.parametrize(
    "planted",
    [
        "CREATE TRIGGER planted AFTER INSERT ON settings BEGIN DELETE FROM units; END",
        "CREATE VIEW planted AS SELECT * FROM units",
        "CREATE TABLE planted (a)",
    ],
)
def test_what_no_store_has_is_refused(strange, planted):
    with closing(sqlite3.connect(strange)) as database:
        database.execute(planted)
    with pytest.raises(StoreError, match=r"its tables are not those of a store \('planted'\)"):
        Store(strange)
    old_stores.make(strange.with_name("old"), old_stores.FORMAT_3, 3, then=planted)
    with pytest.raises(StoreError, match="does not have the tables of its format"):
        Store(strange.with_name("old"))


def forge_journal(path, victim):
    """What SQLite plays back at the first look that may write: one page, and a "super-journal" to be removed after."""
    file = bytearray(path.read_bytes())
    file[18:20] = b"\1\1"  # without a write-ahead log
    path.write_bytes(file)
    (size,) = struct.unpack(">H", file[16:18])
    magic, page, name = bytes.fromhex("d9d505f920a163d7"), bytes(file[:size]), os.fsencode(victim)
    header = (magic + struct.pack(">5I", 1, 0, len(file) // size, 512, size)).ljust(512, b"\0")
    record = struct.pack(">I", 1) + page + struct.pack(">I", sum(page[size - 200 : 0 : -200]))
    after = struct.pack(">I", 2**30 // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    path.with_name(f"{path.name}-journal").write_bytes(header + record + after)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("left", ["-wal", "-shm", ".lock"])
def test_a_forged_journal_removes_no_file(strange, treasure, read_only, left):
    forge_journal(strange, treasure)
    strange.with_name(f"s{left}").touch()
    with pytest.raises(StoreError, match=r"s-journal lies beside it .* remove that file"):
        Store(strange, read_only=read_only)
    assert strange.with_name("s-journal").exists()


def test_the_forged_journal_would_remove_a_file(strange, tmp_path):
    (tmp_path / "victim").write_bytes(b"gold")
    forge_journal(strange, tmp_path / "victim")
    with closing(sqlite3.connect(strange)) as database:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    assert not (tmp_path / "victim").exists()


class Trap:
    def __reduce__(self):
        return (os.mkdir, (os.environ["TRAP"],))


def test_weights_and_students_that_are_programs_are_not_run(strange, tmp_path, monkeypatch):
    from cisr import Student

    monkeypatch.setenv("TRAP", str(tmp_path / "sprung"))
    for file in (Weights.folder_of(strange) / file_name("a", 1), tmp_path / "student"):
        file.write_bytes(pickle.dumps(Trap()))
    with Store(strange) as store, pytest.raises(StoreError, match="are damaged"):
        store.weights("a")
    with pytest.raises(ConfigError, match="Cannot read a student"):
        Student.load(tmp_path / "student")
    assert not (tmp_path / "sprung").exists()
