"""What is written is there as a whole or not at all."""

import os

import pytest

from cisr import ConfigError, Store, StoreError
from cisr.system.files import check_targets, write_text, writing, writing_together


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "new" / "a.json"
    write_text(path, "first")
    with writing(path) as aside:
        aside.write_text("second")
        assert path.read_text() == "first" and aside.suffix == ".json"
    assert path.read_text() == "second" and os.listdir(path.parent) == ["a.json"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no such format")])
def test_of_a_file_that_cannot_be_finished_nothing_remains(tmp_path, error):
    path = tmp_path / "a.png"
    path.write_text("old")
    with pytest.raises(ConfigError, match=r"Cannot write .*a.png: no s"), writing(path) as aside:
        aside.write_text("half")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.png"]


def test_an_interruption_leaves_nothing_half_written(tmp_path):
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a.png") as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real.json").read_text() == "new"
    check_targets({"--json": tmp_path / "pipe"})
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_targets_are_checked_without_touching_them(tmp_path):
    (tmp_path / "a.json").write_text("old")
    check_targets({"--json": tmp_path / "a.json", "--figure": tmp_path / "folder" / "b.png", "--video": None})
    assert (tmp_path / "a.json").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.json", "folder"] and not os.listdir(tmp_path / "folder")


def test_two_results_need_two_files_and_sources_are_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ConfigError, match="--json and --figure are both"):
        check_targets({"--json": tmp_path / "a", "--figure": tmp_path / "link"})
    with pytest.raises(ConfigError, match="--json would replace"):
        check_targets({"--json": tmp_path / "a"}, [tmp_path / "link"])


def write_three(folder):
    with writing_together(folder) as aside:
        for name in ("a", "b", "c"):
            (aside / name).write_text("new")


@pytest.mark.parametrize("in_the_way", ["a", "c"])
def test_of_files_that_belong_together_none_is_replaced_where_one_cannot_be(tmp_path, in_the_way):
    (tmp_path / "b").write_text("old")
    (tmp_path / in_the_way).mkdir()
    with pytest.raises(ConfigError, match=f"{in_the_way}: it is a folder"):
        write_three(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([in_the_way, "b"]) and (tmp_path / "b").read_text() == "old"


def test_files_that_belong_together_are_as_before_when_the_last_one_fails(tmp_path, monkeypatch):
    (tmp_path / "b").write_text("old")
    replace = os.replace

    def fails(source, target):
        if target == tmp_path / "c":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(ConfigError, match="permission denied"):
        write_three(tmp_path)
    assert os.listdir(tmp_path) == ["b"] and (tmp_path / "b").read_text() == "old"


def test_what_a_kill_has_left_is_in_nobodys_way(tmp_path):
    (tmp_path / f".cisr-{os.getpid()}").mkdir()
    (tmp_path / f".cisr-{os.getpid()}.json").touch()
    write_three(tmp_path)
    check_targets({"--json": tmp_path / "r.json"})
    write_text(tmp_path / "r.json", "{}")
    assert {"a", "b", "c", "r.json"} < set(os.listdir(tmp_path))


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    (tmp_path / "s.sqlite.weights").mkdir()
    (tmp_path / "s.sqlite.weights" / "w").write_text("weights")
    (tmp_path / "link").symlink_to("s.sqlite")
    (tmp_path / "folder").symlink_to("s.sqlite.weights")
    os.link(path, tmp_path / "hard")
    return path


PARTS = ["s.sqlite", "link", "hard", "s.sqlite-wal", "s.sqlite-SHM", "s.sqlite-journal", "s.sqlite.lock"]
PARTS += ["s.sqlite.weights/w", "s.sqlite.weights/deep/x", "folder/w", "folder/../s.sqlite"]


@pytest.mark.parametrize("part", PARTS)
def test_no_output_replaces_a_store_or_a_part_of_it(store, tmp_path, part):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    target = tmp_path / part
    for write in (lambda: write_text(target, "x"), lambda: check_targets({"--json": target})):
        with pytest.raises(ConfigError, match="the store"):
            write()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("part", ["s.sqlite-wal", "s.sqlite.lock", "folder/new.sqlite"])
def test_no_store_is_made_where_another_keeps_its_own(store, tmp_path, part):
    with pytest.raises(StoreError, match="would be a part of the store"):
        Store(tmp_path / part)


def test_files_that_belong_together_replace_no_store_either(store, tmp_path):
    store.rename(tmp_path / "a")
    with pytest.raises(ConfigError, match="would replace the store"):
        write_three(tmp_path)
    assert not (tmp_path / "b").exists()


def test_a_damaged_store_is_known_by_its_weights(store, tmp_path):
    store.write_bytes(b"damaged")
    with pytest.raises(ConfigError, match="would replace the store"):
        write_text(store, "x")


def test_files_that_only_look_like_parts_are_replaced(tmp_path):
    for name in ("a.lock", "a-wal", "b", "b.lock"):
        write_text(tmp_path / name, "old")
        write_text(tmp_path / name, "new")
        assert (tmp_path / name).read_text() == "new"
