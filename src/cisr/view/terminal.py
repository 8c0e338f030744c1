"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from cisr.view.tables import Cell, Column, Table


def plain_table(title: str, words: Sequence[str], numbers: Sequence[str] = ()) -> RichTable:
    """A table without rows yet: columns of words, then columns of numbers."""
    drawn = RichTable(title=title, title_justify="left")
    for column in words:
        drawn.add_column(column, overflow="fold")
    for column in numbers:
        drawn.add_column(column, justify="right")
    return drawn


def on_terminal(table: Table, title: str, note: str = "") -> RichTable:
    """A table with its caption, and a note below that."""
    drawn = RichTable(
        title=title,
        title_justify="left",
        caption=f"{table.caption}\n{note}".strip() or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    stacks: list[list[Column]] = []
    for column in table.columns:
        if column.beneath:
            stacks[-1].append(column)
        else:
            stacks.append([column])
    for stack in stacks:
        head = "\n".join(filter(None, [stack[0].over, *(column.head for column in stack)]))
        words = any(isinstance(cell.value, str) for cell in stack[0].cells)
        # A narrow terminal wraps numbers: cut off they would be others.
        drawn.add_column(head, justify="left" if words else "right", no_wrap=words, overflow="fold")
    for k in range(len(table.rows)):
        drawn.add_row(*("\n".join(_shown(column.cells[k]) for column in stack) for stack in stacks))
    return drawn


def _shown(cell: Cell) -> str:
    return f"{cell.text}\n{cell.below}" if cell.below else cell.text
