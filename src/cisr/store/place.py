"""Where a store lies: its file, found through links, and the lock beside it that one process holds at a time."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from cisr.core.errors import StoreError
from cisr.system.loading import check_not_loading
from cisr.system.store_parts import store_of

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what lies beside a store: byte by byte, following no links, waiting for no pipes."""
PATIENCE, TRIES = 0.01, 20
"""Seconds between attempts at a lock, and how many: who only tidies up holds it for a moment."""


def real_path(path: Path | str) -> Path:
    """The file that a store is kept in, wherever links lead; one line for what cannot be one."""
    if not isinstance(path, str | os.PathLike):
        raise StoreError(f"A store cannot be {path!r}: give the path of a file, or a cisr.Store.")
    given = os.fspath(path)
    if given in ("", ".", ":memory:") or given.startswith("file:") or "\0" in given:
        raise StoreError(f"A store cannot be {given!r}: give the path of a file; in Python, Store(None) is in memory.")
    try:
        found = Path(given)
        os.fsencode(found)  # a name that the system can have
        found = found.resolve() if found.is_symlink() else found
        ends_in_a_circle = found.is_symlink()  # from Python 3.13 on, `resolve` does not raise
        usable = not given.endswith(os.sep) and not ends_in_a_circle and (found.is_file() or not found.exists())
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"There is no store {given!r}, and there can be none: {error}.") from error
    if not usable:
        raise StoreError(f"There is no store {given!r}, and there can be none: it is no plain file.")
    return found


def check_may_write(path: Path) -> None:
    """Refuse what another store keeps beside it, and modules that write a store when a worker imports them."""
    check_not_loading()
    owner = store_of(path)
    if owner not in (None, path.resolve()):
        raise StoreError(f"A store cannot be {path}: it would be a part of the store {owner}; give another path.")


def beside(path: Path, suffix: str) -> Path:
    """A file or folder that goes with a store."""
    return path.with_name(path.name + suffix)


def check_no_journal(path: Path) -> None:
    """Refuse a store with a rollback journal. Stores write none; SQLite would play it back at the first look, and a
    forged one names a file, anywhere, that is then removed."""
    journal = beside(path, "-journal")
    if os.path.lexists(journal):
        raise StoreError(
            f"The store {path} is not opened, since {journal} lies beside it and no store of cisr has a journal: "
            f"if another program is at work in the store wait for it, else remove that file."
        )


def in_use(path: Path) -> bool:
    """Whether some process may be writing this store, from one look that changes nothing and waits for nobody."""
    if fcntl is None:
        return False
    try:
        lock = os.open(beside(path, ".lock"), os.O_RDONLY | PLAINLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(lock)


class Lock:
    """The right to write a store. Where the system has no such locks, anybody's."""

    def __init__(self, path: Path) -> None:
        self._path = beside(path, ".lock")
        self._descriptor: int | None = None

    def take(self, tries: int = TRIES) -> bool:
        """False if another process has it."""
        if fcntl is None:
            return True
        for attempt in range(tries):
            if attempt:
                time.sleep(PATIENCE)
            lock = os.open(self._path, os.O_RDWR | os.O_CREAT | PLAINLY, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_here(lock):  # and not one that its last holder has just removed
                    self._descriptor, lock = lock, -1
                    return True
            except BlockingIOError:
                pass
            finally:
                if lock >= 0:
                    os.close(lock)
        return False

    def release(self) -> None:
        """Let go, and leave no file behind."""
        lock, self._descriptor = self._descriptor, None
        if lock is not None:
            try:
                if self._is_here(lock):
                    self._path.unlink()
            except OSError:  # the folder cannot be written any more
                pass
            os.close(lock)

    def _is_here(self, lock: int) -> bool:
        try:
            return os.path.samestat(os.fstat(lock), os.lstat(self._path))
        except FileNotFoundError:
            return False


def tidy_up(path: Path) -> None:
    """What SQLite leaves behind when a reader goes last; one that may write takes it away as it goes."""
    if not any(beside(path, left).exists() for left in ("-wal", "-shm", ".lock")):
        return
    lock = Lock(path)
    try:
        check_no_journal(path)
        if lock.take(tries=1):
            with closing(sqlite3.connect(path)) as last:
                last.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (StoreError, sqlite3.Error, OSError, UnicodeDecodeError):  # then it stays, and does no harm
        pass
    finally:
        lock.release()
