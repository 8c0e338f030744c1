"""Disks that fill up under a store, its weights or the files that a command writes.

A disk is a small file system of its own where the system lets us mount one; elsewhere a limit on the size of files
stands in for it, which fails in the same way. When it is full there is one line, and everything that was finished is
still there; once there is room, the same commands have the result of commands that nobody disturbed. A file that a
command writes is the old one or the new one, never a part of one.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import damage
from stores import units_on_disk

from cisr.cli import main as command_line
from cisr.core.errors import CisrError
from cisr.store.check import check

LARGEST = 400 * 1024
"""Bytes: a little more than a whole store takes, with its weights."""
OLD = b"of before"
COMPARE = ("compare", "{task}", "SR1", "none", "--students", "2", "--workers", "0", "--store", "{store}")
OUTPUTS = {
    "compare --json": (*COMPARE, "--json", "{out}.json"),
    "compare --figure": (*COMPARE, "--figure", "{out}.png"),
    "compare --video": (*COMPARE, "--video", "{out}.gif"),
    "report --out": ("report", "{store}", "--out", "{out}.html"),
    "tasks --json": ("tasks", "--json", "{out}.json"),
    "audit --json": ("audit", "{task}", "--out", "{scratch}", "--json", "{out}.json"),
    "audit --out": ("audit", "{task}", "--out", "{out}"),
}
"""Commands on a finished store, with the file or the folder that they write on the disk."""


@dataclass(frozen=True)
class Case:
    of: str
    """The store, or one of the outputs."""
    limit: str
    """Of the bytes of the disk, of the number of its files, or of the bytes of each file."""
    size: int
    begun: str
    """What is there before: a store that is unfinished, or nothing."""

    def __str__(self) -> str:
        return f"{self.of} ({self.begun}), {self.limit} {self.size}"


def can_mount(folder: Path) -> bool:
    """Whether this process may have a file system of its own."""
    disk = folder / "tried"
    disk.mkdir()
    try:
        with _mounted(disk, "size=64k"):
            return True
    except OSError:
        return False


def drawn(seed: int, mountable: bool) -> Case:
    chance = random.Random(f"{seed} full")
    of = chance.choice(["store", "store", "store", *OUTPUTS])
    limit = chance.choice(["bytes", "bytes", "files"] if mountable else ["bytes of a file"])
    limit = chance.choice([limit, limit, "bytes of a file"])
    largest = LARGEST if of == "store" else 120 * 1024
    size = chance.randint(1, 16) if limit == "files" else chance.randrange(0, largest, 512)
    return Case(
        of, limit, size, chance.choice(["from nothing", "unfinished"] if of == "store" else ["new", "over an old one"])
    )


def suffer(case: Case, patient: damage.Patient, folder: Path) -> tuple[bool, list[str]]:
    """Whether the disk was full, and what was wrong."""
    disk = folder / "disk"
    disk.mkdir()
    if case.limit == "bytes of a file":
        return _suffer(case, patient, disk, None)
    options = f"size={max(case.size, 4096)}" if case.limit == "bytes" else f"size=16m,nr_inodes={case.size + 1}"
    with _mounted(disk, options):
        return _suffer(case, patient, disk, disk)


def _suffer(case: Case, patient: damage.Patient, disk: Path, mounted: Path | None) -> tuple[bool, list[str]]:
    limited = contextlib.nullcontext() if mounted else _largest_file(case.size)
    try:
        if case.of != "store":
            return _write(case, patient, disk, mounted, limited)
        return _train(case, patient, disk / damage.NAME, mounted, limited)
    except BaseException as error:
        return True, [f"{type(error).__name__}: {error}"]


def _train(
    case: Case,
    patient: damage.Patient,
    store: Path,
    mounted: Path | None,
    limited: contextlib.AbstractContextManager[None],
) -> tuple[bool, list[str]]:
    if case.begun == "unfinished":
        try:
            shutil.copytree(patient.stores["killed"].parent, store.parent, dirs_exist_ok=True)
        except (OSError, shutil.Error):  # that much does not fit, so nobody has had such a store there
            for file in store.parent.iterdir():
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    before, wrong, full = units_on_disk(store), [], False
    with limited:
        try:
            if damage.run(store) != patient.result:
                wrong.append("another result")
        except CisrError as error:
            full = True
            if "\n" in str(error) or not str(error).startswith("Cannot write"):
                wrong.append(f"it says: {error}")
        if not full:
            wrong += _condition(store, "at once")
        else:  # where there is no room for what SQLite keeps beside a log, it cannot even be read
            wrong += [what for what in _condition(store, "on the full disk") if "Cannot read" not in what]
    kept = units_on_disk(store)
    if kept < before:
        wrong.append(f"{before - kept} units lost")
    _make_room(mounted)
    if damage.run(store) != patient.result:
        wrong.append("another result once there is room")
    wrong += _condition(store, "once there is room")
    left = sorted(path.name for path in store.parent.iterdir())
    if left != [store.name, store.name + ".weights"]:
        wrong.append(f"left behind: {left}")
    if strange := [path.name for path in store.with_name(store.name + ".weights").iterdir() if path.suffix == ".new"]:
        wrong.append(f"left behind: {strange}")
    return full, wrong


def _condition(store: Path, when: str) -> list[str]:
    if not store.exists() or store.stat().st_size == 0:
        return []
    try:
        found = check(store)
    except CisrError as error:
        return [] if "is not a store" in str(error) else [f"{when}: {error}"]
    return [] if found.whole else [f"{when}: {' '.join(found.in_words())}"]


def _write(
    case: Case,
    patient: damage.Patient,
    disk: Path,
    mounted: Path | None,
    limited: contextlib.AbstractContextManager[None],
) -> tuple[bool, list[str]]:
    store = disk.parent / "own" / damage.NAME
    shutil.copytree(patient.stores["finished"].parent, store.parent)
    fields = {"task": "damage:TASK", "store": str(store), "out": str(disk / "out"), "scratch": str(disk.parent / "a")}
    words = [word.format(**fields) for word in OUTPUTS[case.of]]
    target = next(Path(word) for word in words if word.startswith(fields["out"]))
    old = OLD if case.begun == "over an old one" and target.suffix else None
    if old is not None:
        try:
            target.write_bytes(old)
        except OSError:
            target.unlink(missing_ok=True)
            old = None
    wrong: list[str] = []
    with limited:
        code, said = _ended(words)
    full = code == 2
    if code not in (0, 2) or (full and (len(said) != 1 or "Cannot write" not in said[0])):
        wrong.append(f"exit code {code}: {said[-1:]}")
    if full and target.suffix and (target.read_bytes() if target.exists() else None) != old:
        wrong.append("a part of a file has taken the place of the old one")
    if full and [path for path in disk.rglob(".cisr-*")]:
        wrong.append("something is left aside")
    _make_room(mounted)
    code, said = _ended(words)
    if code != 0:
        wrong.append(f"once there is room: exit code {code}: {said[-1:]}")
    if target.suffix and target.read_bytes()[:9] == OLD:
        wrong.append("once there is room: the old file")
    return full, wrong


def _ended(words: list[str]) -> tuple[object, list[str]]:
    """A command's exit code and what it said on standard error."""
    said, code = io.StringIO(), None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            command_line(words)
        except SystemExit as end:
            code = end.code
    return code, [line for line in said.getvalue().splitlines() if line.startswith("cisr: ")]


@contextlib.contextmanager
def _largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def _mounted(folder: Path, options: str) -> Iterator[None]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise OSError("only root mounts")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        raise OSError(done.stderr.decode())
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _make_room(mounted: Path | None) -> None:
    if mounted is not None:
        subprocess.run(
            ["mount", "-o", "remount,size=64m,nr_inodes=9999", str(mounted)], check=True, capture_output=True
        )
