"""What is watched: one store, or the stores of a folder."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from cisr.core.errors import CisrError, ConfigError
from cisr.store import Store
from cisr.store.database import SQLITE_HEADER, Database
from cisr.store.meaning import making_sense_of
from cisr.store.place import beside, in_use
from cisr.training import Transcript
from cisr.view.contents import contents_of
from cisr.view.live.beliefs import Beliefs
from cisr.view.live.feed import Feed, View
from cisr.view.live.now_section import HEADING, now_section
from cisr.view.live.pace import Pace
from cisr.view.page import Section, lead, sections, title
from cisr.view.rendering import render
from cisr.view.words import several

MOST_STORES = 1000


class Known(NamedTuple):
    mark: tuple[Any, ...]
    transcript: Transcript


class StoreFeed(Feed):
    """The page of one store. Students are read again when they have changed, and rows are checked at the first look
    and whenever nobody writes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._known: dict[str, Known] = {}
        self._checked = False
        self._pace = Pace()
        self._beliefs = Beliefs()

    def mark(self) -> object:
        return (in_use(self.path), *_stamps(self.path), self._beliefs.found)

    def draw(self) -> View:
        running = in_use(self.path)
        with Store(self.path, read_only=True, trusting=running and self._checked) as store, making_sense_of(store):
            self._checked = True
            self._known = {
                name: known
                if (known := self._known.get(name)) is not None and known.mark == mark
                else Known(mark, store.transcript(name))
                for name, mark in store.marks().items()
            }
            students = {name: known.transcript for name, known in self._known.items()}
            read = contents_of(store, self.path.name, list(students.values()))
        self._pace.look(students, running)
        with making_sense_of(f"The store {self.path}"):
            contents = self._beliefs.added_to(replace(read, live=True))
            now = Section(HEADING, now_section(contents, self._pace, running))
            parts = [now, *sections(contents)]
            return View(title(contents), lead(contents), running, parts, at=time.time())


def _stamps(path: Path) -> tuple[object, ...]:
    """What changes with a store's file and its log."""
    found: list[object] = []
    for part in (path, beside(path, "-wal")):
        try:
            seen = os.stat(part)
            found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)


class Folder:
    """The stores that lie in a folder, by name. A name is looked up among them and never made into a path, and links
    that lead elsewhere are left out: there is no way out of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def stores(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if len(found) < MOST_STORES and self._is_store(entry):
                        found[entry.name] = Path(entry.path)
        except OSError as error:
            raise ConfigError(f"Cannot read the folder {self.path}: {error.strerror}.") from error
        return dict(sorted(found.items()))

    def _is_store(self, entry: os.DirEntry[str]) -> bool:
        try:
            if not entry.is_file() or Path(entry.path).resolve().parent != self.path:
                return False
            with open(entry.path, "rb") as file:
                return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
        except OSError:
            return False


class Row(NamedTuple):
    """What the list says of a store."""

    name: str
    link: str
    what: str
    students: str
    state: str
    changed: str


class FolderFeed(Feed):
    """The list of a folder's stores."""

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        self._folder = folder
        self._counted: dict[str, tuple[object, tuple[str, str]]] = {}

    def mark(self) -> object:
        return tuple((name, in_use(path), *_stamps(path)) for name, path in self._folder.stores().items())

    def draw(self) -> View:
        rows = [self._row(name, path) for name, path in self._folder.stores().items()]
        text = render("stores.html", rows=rows)
        told = f"{several(len(rows), 'store')} in the folder {self._folder.path}."
        running = any(row.state == "running" for row in rows)
        return View("Stores", told, running, [Section("Stores", text)], at=time.time())

    def _row(self, name: str, path: Path) -> Row:
        stamps = _stamps(path)
        if name not in self._counted or self._counted[name][0] != stamps:
            self._counted[name] = (stamps, _counted(path))
        what, students = self._counted[name][1]
        try:
            changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
        except OSError:
            changed = ""
        return Row(name, store_link(name), what, students, "running" if in_use(path) else "", changed)


def store_link(name: str) -> str:
    return f"/store/{quote(name, safe='', errors='surrogateescape')}/"


def _counted(path: Path) -> tuple[str, str]:
    """The task of a store and how far its students are, from a quick look."""
    try:
        database = Database(path, read_only=True, trusting=True)
        try:
            with making_sense_of(f"The store {path}"):
                ((n, finished, failed),) = database.rows(
                    "SELECT count(*), count(deployment), count(error) FROM students"
                )
                tasks = database.rows("SELECT value FROM settings WHERE name = 'task'")
                task = str(json.loads(tasks[0][0])) if tasks else ""
        finally:
            database.close()
    except CisrError as error:
        return "", str(error)
    told = f"{finished:,} of {n:,} finished" + (f", {failed:,} failed with an error" if failed else "")
    return task, told
