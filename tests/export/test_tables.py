"""Tables for other programs: every row of a store, with types, and nulls where nobody knows."""

import csv
import io

import pytest
from calls import refused

from cisr import Store
from cisr.export.table_files import csv_of, export_tables, parquet_of
from cisr.export.tables import DataTable, tables_of
from cisr.view.contents import read
from cisr.view.tables import csv_line

NAMES = ("units", "students", "trials", "comparisons")


def from_csv(path, kinds):
    """As somebody reads it who knows the types: nothing between two commas is null, "" is an empty text."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    types = {"text": pyarrow.string(), "whole": pyarrow.int64(), "number": pyarrow.float64(), "truth": pyarrow.bool_()}
    options = arrow_csv.ConvertOptions(
        column_types={name: types[kind] for name, kind in kinds.items()},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return arrow_csv.read_csv(path, convert_options=options).to_pylist()


@pytest.mark.parametrize("store", ["trained_once", "broken", "elsewhere"])
def test_csv_and_parquet_hold_the_same_rows_and_nulls(store, request, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = request.getfixturevalue(store)
    export_tables(path, tmp_path / "csv", "csv")
    export_tables(path, tmp_path / "parquet", "parquet")
    for table in tables_of(read(path)):
        wanted = [{name: row.get(name) for name in table.columns} for row in table.rows]
        assert all(set(row) <= set(table.columns) for row in table.rows)
        assert parquet.read_table(tmp_path / "parquet" / f"{table.name}.parquet").to_pylist() == wanted
        assert from_csv(tmp_path / "csv" / f"{table.name}.csv", table.columns) == wanted


def tables(path):
    return {table.name: list(table.rows) for table in tables_of(read(path))}


def test_tables_say_what_the_store_says(trained_once):
    found = tables(trained_once)
    assert {name: len(rows) for name, rows in found.items()} == dict(zip(NAMES, (30, 10, 3, 2), strict=True))
    with Store(trained_once, read_only=True) as store:
        student = store.transcript("compare/SR1/001")
        trials = store.trials("study")
    (row,) = [row for row in found["students"] if row["student"] == student.name]
    assert (row["run"], row["group"], row["learner"], row["status"]) == ("compare", "SR1", "cisr", "finished")
    assert row["deployed_return"] == student.deployment.mean_return
    assert row["training_failures"] == 0 and row["error"] is None
    units = [row for row in found["units"] if row["student"] == student.name]
    assert [row["return"] for row in units] == [unit.mean_return for unit in student.units]
    assert [(row["multiplier_failures"], row["multiplier_rescues"]) for row in units] == [
        unit.multipliers for unit in student.units
    ]
    assert [row["score"] for row in found["trials"]] == [trial.score for trial in trials]
    assert [row["parameter_intervention_1"] for row in found["trials"]] == [
        trial.parameters["intervention_1"] for trial in trials
    ]
    assert any(row["chosen"] for row in found["trials"])
    assert [row["curriculum"] for row in found["comparisons"]] == ["SR1", "none"]
    assert found["comparisons"][0]["training_failures_mean"] == 0


def test_an_error_is_never_a_zero(broken):
    found = tables(broken)
    for row in found["students"]:
        assert row["status"] == "failed" and "the simulator lost its licence" in row["error"]
        assert row.get("deployed_return") is None and row.get("deployed_success") is None
    (row,) = found["comparisons"]
    assert (row["students"], row["finished"]) == (2, 0)
    assert row.get("return_mean") is None and row.get("success_mean") is None


def test_what_a_rig_did_not_tell_is_null(elsewhere):
    found = tables(elsewhere)
    assert {row["learner"] for row in found["students"]} == {"elsewhere"}
    assert [row["status"] for row in found["students"]] == ["finished", "failed", "finished", "unfinished"]
    assert all(row["failures"] is None and row["steps"] is None for row in found["units"])
    assert [row["training_failures"] for row in found["students"]][:3] == [None] * 3
    assert [(row["status"], row["score"]) for row in found["trials"]] == [
        ("scored", 1.0),
        ("failed", None),
        ("scored", 3.0),
        ("open", None),
    ]


def test_numbers_are_exact_and_texts_are_what_they_were():
    rows = [
        {"a": 'says "no", \n and =1+1', "b": 2**53, "c": 0.1 + 0.2, "d": True},
        {"a": "", "b": None, "c": float("nan"), "d": None},
    ]
    table = DataTable(name="t", columns={"a": "text", "b": "whole", "c": "number", "d": "truth"}, rows=rows)
    first, second = list(csv.DictReader(io.StringIO(csv_of(table).decode(), newline="")))
    assert first == {"a": rows[0]["a"], "b": str(2**53), "c": repr(0.1 + 0.2), "d": "true"}
    assert second == dict.fromkeys("abcd", "")
    assert csv_of(table).decode().splitlines()[-1] == '"",,,'
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(io.BytesIO(parquet_of(table)))
    assert found.to_pylist() == [rows[0], {"a": "", "b": None, "c": None, "d": None}]


def test_exporting_again_replaces_the_tables_and_nothing_else(trained, tmp_path):
    folder = tmp_path / "tables"
    export_tables(trained, folder, "csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {f"{name}.csv" for name in NAMES}
    (folder / "notes.txt").write_text("mine")
    (folder / "units.csv").write_text("old")
    export_tables(trained, folder, "csv")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before | {"notes.txt": b"mine"}


def test_nothing_is_written_where_one_file_cannot_be(trained, tmp_path, monkeypatch):
    import cisr.export.table_files as writer

    real, calls = writer.csv_of, []

    def full(table):
        calls.append(table)
        return real(table) if len(calls) < 3 else "no bytes, as if the disk were full"

    folder = tmp_path / "tables"
    monkeypatch.setattr(writer, "csv_of", full)
    with pytest.raises(TypeError):
        export_tables(trained, folder, "csv")
    assert list(folder.iterdir()) == []


def test_the_store_is_never_written_over(trained):
    weights = trained.with_name(trained.name + ".weights")
    for out in (trained, weights, weights / "x"):
        before = sorted(trained.parent.rglob("*"))
        assert "give another path" in refused("export", trained, "csv", "--out", out)
        assert sorted(trained.parent.rglob("*")) == before


def test_no_name_is_a_formula_for_a_spreadsheet():
    names = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", "a=1", "'=1"]
    table = DataTable(name="t", columns={"a": "text", "b": "number"}, rows=[{"a": name, "b": -1.5} for name in names])
    found = list(csv.DictReader(io.StringIO(csv_of(table).decode(), newline="")))
    assert [row["a"] for row in found] == [*("'" + name for name in names[:6]), *names[6:]]
    assert {row["b"] for row in found} == {"-1.5"}
    assert [csv_line([name, -1]) for name in names[:2]] == ["'=1+1,-1", "'+1,-1"]
