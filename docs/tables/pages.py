"""Pages whose measured numbers come from JSON: tables between markers, and sentences that a page must say.

A page marks where a table stands:

    <!-- table: lake_quick -->
    | … |
    <!-- /table -->

and a function of that name, decorated by `table`, yields its rows. Numbers within prose stand there without markers:
a function decorated by `says` yields sentences, or parts of them, that the page must contain as they are, but for
line breaks.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)

Row = Iterable[str]

_tables: dict[str, Callable[[], str]] = {}
_sayings: list[tuple[str, Callable[[], Iterable[str]]]] = []


@cache
def load(name: str) -> Any:
    """What a file of `docs/results` holds, by its name without the suffix."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def by(key: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows by what they have under a key."""
    return {row[key]: row for row in rows}


def table(*heads: str) -> Callable[[Callable[[], Iterable[Row]]], Callable[[], Iterable[Row]]]:
    """The decorated function's rows, under these heads, are the table that is marked with the function's name."""

    def keep(rows: Callable[[], Iterable[Row]]) -> Callable[[], Iterable[Row]]:
        def text() -> str:
            lines = [heads, *(tuple(row) for row in rows())]
            if uneven := [line for line in lines if len(line) != len(heads)]:
                raise ValueError(f"{rows.__name__}: {uneven[0]} has other columns than {heads}")
            first, *others = (f"| {' | '.join(line)} |\n" for line in lines)
            return f"{first}|{'---|' * len(heads)}\n{''.join(others)}"

        _tables[rows.__name__] = text
        return rows

    return keep


def says(page: str) -> Callable[[Callable[[], Iterable[str]]], Callable[[], Iterable[str]]]:
    """The page, named from the root of the repository, contains each text that the decorated function yields."""

    def keep(texts: Callable[[], Iterable[str]]) -> Callable[[], Iterable[str]]:
        _sayings.append((page, texts))
        return texts

    return keep


def made(text: str) -> str:
    """A page's text with its tables made anew."""

    def filled(found: re.Match[str]) -> str:
        if found[2] not in _tables:
            raise ValueError(f"no function makes the table {found[2]}")
        return found[1] + _tables[found[2]]() + found[3]

    return MARKED.sub(filled, text)


def unmarked() -> list[str]:
    """Tables that are made and stand on no page."""
    marked = {name for page in PAGES for _, name, _ in MARKED.findall(page.read_text(encoding="utf-8"))}
    return sorted(_tables.keys() - marked)


def unsaid() -> Iterator[str]:
    """What pages do not say although JSON does."""
    for page, texts in _sayings:
        text = _flowing((ROOT / page).read_text(encoding="utf-8"))
        yield from (f"{page} does not say: {said}" for said in texts() if _flowing(said) not in text)


def _flowing(text: str) -> str:
    return " ".join(text.split())
