"""Stores that come to harm, and whether anybody could be misled by them.

`Patient.make(folder)` trains a small study and comparison and keeps two copies of its store: one that is finished and
one that was killed in the middle, with SQLite's log beside it. `suffer(patient, seed, scratch)` harms a copy of one of
them, in a way that follows from the seed, uses it in every way there is, and returns what came of it. It is all right
if everything has the same result as before or ends in one clear line.
"""

import dataclasses
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny

from cisr import Fixed, Store, Study, compare
from cisr.core.callback import Callback, ignore
from cisr.core.errors import CisrError, described
from cisr.experiments.search import random_teacher
from cisr.store.check import check
from cisr.store.checksums import LARGEST_SUM, checksum
from cisr.store.schema import TABLES, columns_of
from cisr.training import BatchProgress, Checkpoint
from cisr.view.contents import read
from cisr.view.page import write_page

TASK = tiny.task.with_training(n_units=2)
CURRICULA = {"SR1": Fixed("SR1"), "none": Fixed("none")}
NAME = "store.sqlite"


@dataclass(frozen=True)
class Patient:
    """A finished and an unfinished store, with what can be got out of them."""

    stores: dict[str, Path]
    views: dict[str, dict[str, Any]]
    """By store, then by what was looked at."""
    result: Any
    """What both end with when their commands are run again."""

    @staticmethod
    def make(folder: Path) -> "Patient":
        stores = {name: folder / name / NAME for name in ("finished", "killed")}
        n_units = 0

        def kill_once(heard: Any) -> None:
            nonlocal n_units
            n_units += isinstance(heard, BatchProgress) and isinstance(heard.event, Checkpoint)
            if n_units == 5 and not stores["killed"].exists():
                shutil.copytree(stores["finished"].parent, stores["killed"].parent)

        result = run(stores["finished"], kill_once)
        assert stores["killed"].with_name(NAME + "-wal").stat().st_size > 0
        copies = {name: _copy(path, folder / "read" / name) for name, path in stores.items()}
        views = {name: {what: view(path) for what, view in VIEWS.items()} for name, path in copies.items()}
        return Patient(stores, views, result)


@dataclass(frozen=True)
class Outcome:
    harm: str
    wrong: tuple[str, ...]
    """What must not be: other results, other errors than one clear line, damage that a check overlooks."""
    lines: tuple[str, ...]
    """What was said of the damage."""


def suffer(patient: Patient, seed: int, scratch: Path) -> Outcome:
    """Harm a copy of a store and use it."""
    chance = random.Random(seed)
    which = chance.choice(sorted(patient.stores))
    path = _copy(patient.stores[which], scratch / f"{seed:06d}")
    done = f"{which} store: {harm(path, chance)}"
    wrong, lines = [], []
    uses = {**VIEWS, "run again": run}
    before = {**patient.views[which], "run again": patient.result}
    try:
        whole = check(path).whole
    except CisrError:
        whole = False
    except Exception as error:
        whole = False
        wrong.append(f"check: {type(error).__name__}: {error}")
    for what, use in uses.items():
        try:
            if use(path) != before[what]:
                wrong.append(f"{what}: another result")
        except CisrError as error:
            lines.append(str(error))
            if "\n" in str(error):
                wrong.append(f"{what}: more than one line: {error}")
            if whole:
                wrong.append(f"{what}: {error}, where a check has found nothing")
        except Exception as error:
            wrong.append(f"{what}: {type(error).__name__}: {error}")
    shutil.rmtree(path.parent)
    return Outcome(done, tuple(wrong), tuple(dict.fromkeys(lines)))


NONSENSE: tuple[Any, ...] = (
    None, 0, 1, -1, 2**62, 1.5, 1e308, -1e-300, float("inf"), "", "x", "é\u202e\0<b>", b"\xff\0", "null", "[]", "{}",
    "0", "-1", "1e999", "NaN", "true", '"x"', "[1]", '["x"]', '{"x": 1}', "[" * 5000, "9" * 5000, '"\\ud800"', "{",
    "[[], {}]", '{"seed": "x"}', '{"kind": "switching"}', '{"kind": "fixed", "intervention": 3}',
)  # fmt: skip


FLIGHT = {
    "flights": [[[0.0, 0.0], [0.5, 1.0]], [[0.0, 0.0]]],
    "outcome": "success",
    "failed": False,
    "total": 1.0,
    "steps": 3,
}
REPRODUCTION = {
    "title": "Table 9",
    "repetitions": ["compare"],
    "searches": ["study"],
    "students": 2,
    "rows": [
        ["SR1", {"success": [0.5, 0.1], "training_failures": [1.0, 0.1], "mean_return": [2.0, 0.1]}],
        ["none", None],
    ],
}


def madden(patient: Patient, seed: int, scratch: Path) -> Outcome:
    """Write nonsense into a cell, with checksums as they ought to be, and use the store: a line, or any result."""
    chance = random.Random(seed)
    path = _copy(patient.stores["finished"], scratch / f"mad-{seed:06d}")
    with Store(path) as store:
        store.keep_trajectories({"compare/SR1/000": [FLIGHT]})
        store.keep_reproduction(REPRODUCTION)
    done, wrong, lines = write_nonsense(path, chance), [], []
    for what, use in {**VIEWS, "page": write_page, "check": lambda p: check(p).in_words(), "run again": run}.items():
        try:
            use(path)
        except CisrError as error:
            lines.append(str(error))
            if "\n" in str(error):
                wrong.append(f"{what}: more than one line: {error}")
        except Exception as error:
            wrong.append(f"{what}: {described(error)}")
    shutil.rmtree(path.parent)
    return Outcome(done, tuple(wrong), tuple(dict.fromkeys(lines)))


def write_nonsense(path: Path, chance: random.Random) -> str:
    """In any cell of any table, or somewhere inside the JSON of one; returns what was done."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.create_function("checksum", -1, checksum, deterministic=True)
        tables = [name for name in TABLES if database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]]
        table = chance.choice(tables)
        columns = columns_of(table)
        column = chance.choice(columns.names)
        keys = database.execute(f"SELECT {', '.join(columns.key)} FROM {table}").fetchall()
        where = " AND ".join(f"{name} = ?" for name in columns.key)
        key = chance.choice(keys)
        ((before,),) = database.execute(f"SELECT {column} FROM {table} WHERE {where}", key)
        value = _inside(before, chance) or chance.choice(NONSENSE)
        try:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *key))
        except (sqlite3.IntegrityError, OverflowError):
            return "nothing: SQLite would not have it"
        row = ", ".join(f"typeof({name})" if name == "seconds" else name for name in columns.names)
        database.execute(f"UPDATE {table} SET checksum = checksum('{table}', {row})")
        sums = [found for (found,) in database.execute(f"SELECT checksum FROM {table}")]
        database.execute("UPDATE totals SET checksum = ? WHERE name = ?", (sum(sums) % LARGEST_SUM, table))
        return f"{table}.{column} of {key} = {value!r:.100}"


def _inside(cell: Any, chance: random.Random) -> str | None:
    """The JSON of a cell with nonsense at one place in it; None of other cells, and sometimes of these."""
    if not isinstance(cell, str) or cell[:1] not in "[{" or chance.random() < 0.3:
        return None
    whole = json.loads(cell)
    at, places = whole, []

    def walk(value: Any) -> None:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, name))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(at)
    if not places:
        return None
    holder, name = chance.choice(places)
    if isinstance(holder, dict) and chance.random() < 0.3:
        del holder[name]
    else:
        holder[name] = chance.choice([None, True, 0, -1, 1.5, 2**70, 1e999, "", "x", [], {}, [1], {"x": 1}, "\ud800"])
    return json.dumps(whole)


def harm(path: Path, chance: random.Random) -> str:
    """Flip a bit of one of a store's files, cut it short or take it away; returns what was done."""
    log = path.with_name(path.name + "-wal")
    weights = sorted(path.with_name(path.name + ".weights").iterdir())
    file = chance.choice([path, log if log.exists() else path, chance.choice(weights)])
    content = bytearray(file.read_bytes())
    how = chance.choices(["flip", "cut", "remove"], [8, 2, 1])[0]
    if how == "remove":
        file.unlink()
        return f"{file.name} removed"
    if how == "cut":
        length = chance.randrange(len(content))
        file.write_bytes(content[:length])
        return f"{file.name} cut to {length} of {len(content)} bytes"
    place, bit = chance.randrange(len(content)), chance.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"{file.name}: bit {bit} of byte {place} of {len(content)} flipped"


def run(path: Path, callback: Callback = ignore) -> Any:
    """The commands that made the store, once more."""
    with Store(path) as store:
        teaching = dataclasses.replace(TASK.training.teaching, n_initial=2, n_rounds=0, class_size=1)
        study = Study(TASK, teacher=random_teacher, teaching=teaching, store=store, execution=tiny.HERE).run(callback)
        comparison = compare(TASK, CURRICULA, n_students=2, store=store, execution=tiny.HERE, callback=callback)
        return study.best_policy, study.trials, study.transcripts, comparison.to_json(), comparison.transcripts


def weights(path: Path) -> Any:
    """Those of every student that has any."""
    with Store(path, read_only=True) as store:
        names = [transcript.name for transcript in store.transcripts() if transcript.units]
        return {name: {key: a.tobytes() for key, a in store.weights(name).items()} for name in names}


VIEWS: dict[str, Callable[[Path], Any]] = {"report": read, "weights": weights}


def _copy(store: Path, folder: Path) -> Path:
    shutil.copytree(store.parent, folder)
    return folder / store.name
