"""Tables as files: CSV for everything, Parquet for programs that want types."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

from cisr.core.libraries import installed, needed
from cisr.export.places import check_folder_target
from cisr.export.tables import Cell, DataTable, known, tables_of
from cisr.store.meaning import making_sense_of
from cisr.store.place import real_path
from cisr.system.files import writing_together
from cisr.view.contents import read
from cisr.view.tables import no_formula

if installed("pyarrow"):
    import pyarrow.parquet

TableFormat = Literal["csv", "parquet"]


def export_tables(store: Path, folder: Path, kind: TableFormat) -> Path:
    """Write `units`, `students`, `trials` and `comparisons` of a store into a folder, all of them or none."""
    real_path(store)  # complains about what can be no store
    if kind == "parquet":
        needed("pyarrow", "PyArrow", "export")
    contents = read(store)
    check_folder_target(folder)
    with making_sense_of(f"The store {store}"):
        files = {f"{t.name}.{kind}": csv_of(t) if kind == "csv" else parquet_of(t) for t in tables_of(contents)}
    with writing_together(folder) as aside:
        for name, content in files.items():
            (aside / name).write_bytes(content)
    return folder


def csv_of(table: DataTable) -> bytes:
    """Texts are in quotation marks, so that an empty one is told from null, which is nothing between commas."""
    lines = [table.columns, *(known(row.get(name) for name in table.columns) for row in table.rows)]
    return "".join(",".join(map(_csv_cell, line)) + "\r\n" for line in lines).encode(errors="replace")


def _csv_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return '"' + no_formula(cell).replace('"', '""') + '"'
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "" if cell is None else repr(cell)


def parquet_of(table: DataTable) -> bytes:
    types = {"text": pyarrow.string(), "whole": pyarrow.int64(), "number": pyarrow.float64(), "truth": pyarrow.bool_()}
    columns: dict[str, Any] = {
        name: pyarrow.array(known(row.get(name) for row in table.rows), types[kind])
        for name, kind in table.columns.items()
    }
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()
