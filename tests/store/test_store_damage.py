"""Whatever becomes of a store's files, nobody is misled: results are the same, or there is one clear line."""

import shutil
import sqlite3
from contextlib import closing

import damage
import old_stores
import pytest

from cisr.cli import main
from cisr.core.errors import StoreError
from cisr.store import Store
from cisr.store.check import check, mend
from cisr.store.database import Database
from cisr.store.schema import TABLES


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    return damage.Patient.make(tmp_path_factory.mktemp("patient"))


@pytest.fixture
def store(patient, tmp_path):
    """A finished store of one's own."""
    shutil.copytree(patient.stores["finished"].parent, tmp_path / "own")
    return tmp_path / "own" / damage.NAME


def weights_of(store):
    return sorted(store.with_name(store.name + ".weights").iterdir())


def flip(file, place, bit=0):
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)


@pytest.fixture(scope="module")
def outcomes(patient, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("scratch")
    return [damage.suffer(patient, seed, scratch) for seed in range(60)]


def test_damage_is_noticed_or_does_no_harm(outcomes):
    assert [(outcome.harm, outcome.wrong) for outcome in outcomes if outcome.wrong] == []


def test_some_damage_is_noticed_in_the_database_and_some_in_the_weights_and_some_does_no_harm(outcomes):
    """Else the test above would show nothing."""
    said = [" ".join(outcome.lines) for outcome in outcomes]
    assert any("`cisr check " in lines for lines in said) and any("--mend" in lines for lines in said)
    assert "" in said


def test_nonsense_with_valid_checksums_gets_one_line_or_any_result(patient, tmp_path):
    """Who makes a store can write anything into it."""
    outcomes = [damage.madden(patient, seed, tmp_path) for seed in range(60)]
    assert [(outcome.harm, outcome.wrong) for outcome in outcomes if outcome.wrong] == []
    assert sum("makes no sense" in " ".join(outcome.lines) for outcome in outcomes) > 15


def test_a_check_tells_nonsense_too(store, capsys):
    with closing(Database(store, read_only=False)) as database:
        database.change("settings", {"name": "batching"}, {"value": '{"largest": "many"}'})
    assert not check(store).whole
    with pytest.raises(StoreError, match=r"the value of a row of settings makes no sense .*`cisr check "):
        Store(store)
    with pytest.raises(StoreError, match="cannot be mended"):
        mend(store)


def test_more_units_than_a_task_may_have_make_no_sense(store):
    """Pages would be drawn with so many bars."""
    with closing(Database(store, read_only=False)) as database:
        database.change("settings", {"name": "definition"}, {"value": '{"n_units": 30000000}'})
    with pytest.raises(StoreError, match=r"the value of a row of settings makes no sense .*30000000"):
        Store(store, read_only=True)


CONTRADICTIONS = {
    "a place that is not its own": ("students", {"name": "compare/SR1/000"}, {"place": 1}),
    "not as many units": ("batches", {"name": "study/000/00"}, {"units": 7}),
    "nobody has enrolled": ("batches", {"name": "study/000/00"}, {"roster": '["study/000/00", "who"]'}),
    "without being deployed": ("students", {"name": "compare/SR1/000"}, {"deployment": None}),
}


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_cells_that_contradict_each_other_are_told(store, said):
    with closing(Database(store, read_only=False)) as database:
        database.change(*CONTRADICTIONS[said])
    with pytest.raises(StoreError, match=said.replace("a place that", "a place in batch .* that")):
        Store(store, read_only=True)


def test_broken_pages_get_one_line_too(store):
    whole, page = store.read_bytes(), 4096
    said = []
    for start in range(page, len(whole), page):
        store.write_bytes(whole)
        flip(store, start + 7, bit=5)  # how many bytes between the rows of a page are in no use
        said += check(store).damage
    assert any("Fragmentation" in line for line in said) and not any("\n" in line for line in said)


def test_names_of_tables_that_are_no_text_any_more_get_one_line_too(store):
    """SQLite quotes them in its complaint, and Python cannot read that."""
    whole = store.read_bytes()
    first = whole.index(b"CREATE TABLE rounds")
    for place in range(first, first + 40):
        flip(store, place, bit=7)
        assert not check(store).whole
        for read_only in (True, False):
            with pytest.raises(StoreError, match="is damaged"):
                Store(store, read_only=read_only)
        store.write_bytes(whole)


@pytest.mark.parametrize(
    ("table", "column"), [("units", "failures"), ("students", "deployment"), ("rounds", "score"), ("findings", "found")]
)
def test_a_changed_cell_is_noticed_before_anything_is_read(store, table, column):
    with closing(sqlite3.connect(store)) as database:
        database.execute(f"UPDATE {table} SET {column} = 7")
        database.commit()
    for read_only in (True, False):
        with pytest.raises(StoreError, match=rf"is damaged: a row of {table} has changed .* `cisr check "):
            Store(store, read_only=read_only)


@pytest.mark.parametrize("table", ["runs", "units", "rounds", "findings", "comparisons"])
def test_a_row_that_is_gone_is_noticed(store, table):
    with closing(sqlite3.connect(store)) as database:
        database.execute(f"DELETE FROM {table}")
        database.commit()
    with pytest.raises(StoreError, match=f"is damaged: table {table} has 0 rows, which do not add up"):
        Store(store, read_only=True)


def test_times_are_nobodys_result(store):
    with closing(sqlite3.connect(store)) as database:
        database.execute("UPDATE units SET seconds = 123.5")
        database.commit()
    assert check(store).whole


def told(capfd, *words):
    with pytest.raises(SystemExit) as stop:
        main(["check", *map(str, words)])
    return stop.value.code, capfd.readouterr()


def test_a_folder_in_the_place_of_weights_is_told_in_one_line(capfd, store):
    (first, *_) = weights_of(store)
    first.unlink()
    first.mkdir()
    (first / "x").write_text("somebody's")
    with Store(store, read_only=True) as opened, pytest.raises(StoreError, match="are no plain file"):
        for student in opened.transcripts():
            opened.weights(student.name)
    with pytest.raises(SystemExit) as end:
        main(["check", str(store)])
    assert end.value.code == 1 and "without these weights" in capfd.readouterr().out
    assert (first / "x").exists()


def test_a_whole_store_is_said_to_be_whole(capfd, patient, store):
    before = store.read_bytes()
    code, said = told(capfd, store)
    looked, verdict = said.out.strip().splitlines()
    assert code == 0 and verdict == f"The store {store} is whole."
    assert looked.startswith("Looked at ") and looked.endswith(f"{len(weights_of(store))} files of weights.")
    assert store.read_bytes() == before
    assert told(capfd, patient.stores["killed"])[0] == 0  # a kill does no damage


def test_a_check_says_whose_weights_are_lost_and_mending_has_them_trained_again_to_the_same_numbers(
    capfd, patient, store
):
    first, second, *_ = weights_of(store)
    flip(first, 5000)
    second.unlink()
    code, said = told(capfd, store)
    assert code == 1 and said.out.count("Damaged or missing: the weights of batch") == 2
    assert "Results are not affected" in said.out and f"cisr check {store} --mend" in said.out
    code, said = told(capfd, store, "--mend")
    assert code == 0 and "Mended: the next run" in said.out
    with Store(store, read_only=True) as kept:
        unfinished = [t.name for t in kept.transcripts() if t.deployment is None]
    assert unfinished and all(name in said.out for name in unfinished)
    assert told(capfd, store)[0] == 0
    assert damage.run(store) == patient.result
    assert damage.weights(store) == patient.views["finished"]["weights"]


def test_a_database_that_is_damaged_is_not_mended(capfd, store):
    with closing(sqlite3.connect(store)) as database:
        database.execute("UPDATE units SET failures = failures + 1")
        database.commit()
    code, said = told(capfd, store)
    assert code == 1 and "Damaged: a row of units has changed (" in said.out and "run the same commands" in said.out
    code, said = told(capfd, store, "--mend")
    assert code == 2 and "cannot be mended" in said.err


def test_a_file_whose_pages_are_broken_is_damaged_and_one_that_is_no_store_is_none(capfd, store, tmp_path):
    store.write_bytes(store.read_bytes()[:9000])
    code, said = told(capfd, store)
    assert code == 1 and said.out.startswith("Damaged: ") and "cisr check" not in said.out
    (tmp_path / "notes").write_text("a diary")
    for other in ("notes", "nothing"):
        code, said = told(capfd, tmp_path / other)
        assert code == 2 and len(said.err.strip().splitlines()) == 1


def test_a_store_in_use_is_checked_without_its_weights(capfd, store):
    with Store(store):
        code, said = told(capfd, store)
    assert code == 0 and "its weights not, it is in use" in said.out


def test_a_check_says_that_earlier_formats_have_no_checksums(capfd, tmp_path):
    old_stores.make(tmp_path / "s", old_stores.FORMAT_3, 3)
    code, said = told(capfd, tmp_path / "s")
    assert code == 0 and "It is of format 3, without checksums" in said.out


def test_mending_what_is_whole_changes_nothing(store):
    with closing(Database(store, read_only=True)) as database:
        before = {table: database.named_rows(table) for table in TABLES}
    assert mend(store).whole
    with closing(Database(store, read_only=True)) as database:
        assert {table: database.named_rows(table) for table in TABLES} == before
