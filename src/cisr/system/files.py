"""Files that a user names: what is read is read with care, what is written is there as a whole or not at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cisr.core.errors import ConfigError
from cisr.system.store_parts import BESIDE_A_STORE, check_no_store

MOST_BYTES = 2**26
"""Of a file that is read as text; more is none of ours."""


def read_text(path: Path | str, what: str = "the file") -> str:
    """A UTF-8 file; complaints call it `what`."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"Cannot read {what} {path}: {reason(error)}.") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"Cannot read {what} {path}: it is larger than {MOST_BYTES // 2**20} MiB.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"Cannot read {what} {path}: byte {error.start} is not UTF-8; give a text file.") from error


def read_json(path: Path | str, what: str) -> Any:
    text = read_text(path, what)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        said = f"{Path(path).name} is not JSON (line {error.lineno}: {error.msg})"
        raise ConfigError(f"Cannot read {what} {path}: {said}.") from error
    except RecursionError as error:
        raise ConfigError(f"Cannot read {what} {path}: it is nested too deeply.") from error
    except ValueError as error:  # Python reads no whole numbers of thousands of digits
        raise ConfigError(f"Cannot read {what} {path}: a number has too many digits.") from error


def check_folder() -> None:
    """Names of files are looked up from the current folder, which may have been removed."""
    try:
        os.getcwd()
    except OSError as error:
        raise ConfigError(
            f"The current folder cannot be used: {reason(error)}; change to one that is there."
        ) from error


def check_targets(targets: Mapping[str, Path | None], sources: Sequence[Path] = ()) -> None:
    """Complain before any work about files that could not be written after it. Their folders are made.

    `targets` go by the names of their options; no two may be one file, and none may be one of the `sources`, a store,
    or a part of one: of those that are there, and of those that the options name.
    """
    taken: dict[Path, str] = {}
    given = {_resolved(source) for source in sources}
    stores = {
        option: _resolved(path) for option, path in targets.items() if path is not None and _names_a_store(option)
    }
    new = [store for store in stores.values() if store.name]
    beside = {store.with_name(store.name + suffix) for store in new for suffix in BESIDE_A_STORE}
    for option, path in targets.items():
        if path is None:
            continue
        if option not in stores:
            check_no_store(path, option)
        real = _resolved(path)
        if real in taken:
            raise ConfigError(f"{taken[real]} and {option} are both {path}: give each a file of its own.")
        if real in given:
            raise ConfigError(f"{option} would replace {path}, which is to be read: give another file.")
        if beside & {real, real.parent}:
            raise ConfigError(f"{option} is {path}, where the store keeps what belongs to it: give another file.")
        taken[real] = option
        _check_target(path)


def _names_a_store(option: str) -> bool:
    return option.lstrip("-").lower().startswith("store")


def check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    if path.suffix.lower() not in suffixes:
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError(f"Cannot write {path}: give a name that ends in {known}.")


def _check_target(path: Path) -> None:
    try:
        if path.is_dir():
            raise ConfigError(f"Cannot write {path}: it is a folder; give the name of a file.")
        if _is_special(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = _aside(path)
        aside.touch(exist_ok=False)
        aside.unlink()
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


@contextmanager
def writing(path: Path | str) -> Iterator[Path]:
    """Where to write what is to become the file: beside it, renamed into place when all has been written."""
    try:
        target = Path(path)
    except TypeError as error:
        raise ConfigError(f"Cannot write {path}: {reason(error)}.") from error
    check_no_store(target)
    try:
        if _is_special(target):
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = _aside(target)
        try:
            yield aside
            os.replace(aside, target.resolve())
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise _cannot_write(target, error) from error


@contextmanager
def writing_together(folder: Path) -> Iterator[Path]:
    """Where to write files that belong together: in a folder within theirs, renamed into place when all are written.

    If one cannot be, all that were there before are there again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".cisr-", dir=folder))
        try:
            yield aside
            _replace_all({file: folder / file.name for file in sorted(aside.iterdir())}, aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise _cannot_write(folder, error) from error


def _replace_all(targets: Mapping[Path, Path], aside: Path) -> None:
    for target in targets.values():
        check_no_store(target)
        if target.is_dir():
            raise ConfigError(f"Cannot write {target}: it is a folder; remove it, or give another one to write into.")
    before = aside / "before"
    before.mkdir()
    for target in targets.values():
        if os.path.lexists(target):
            shutil.copy2(target, before / target.name, follow_symlinks=False)
    replaced: list[Path] = []
    try:
        for file, target in targets.items():
            os.replace(file, target)
            replaced.append(target)
    except BaseException:
        for target in replaced:
            was = before / target.name
            if os.path.lexists(was):
                os.replace(was, target)
            else:
                target.unlink()
        raise


def write_text(path: Path | str, text: str) -> None:
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8", errors="replace")


def plain(name: str) -> str:
    """A name that can be part of a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def reason(error: BaseException) -> str:
    """What is wrong with a file, without its name."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return said[0].lower() + said[1:]


def _cannot_write(path: Path, error: BaseException) -> ConfigError:
    return ConfigError(f"Cannot write {path}: {reason(error)}; give another file, or make room for this one.")


def _is_special(path: Path) -> bool:
    """Is it a device or a pipe, which must not be replaced by a file? Raises where the name can be no file's."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _aside(path: Path) -> Path:
    """In the same folder, so that renaming is one step; with the same ending, by which libraries choose a format."""
    real = path.resolve()
    return real.with_name(f".cisr-{secrets.token_hex(6)}{real.suffix}")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # the check of the file itself says what is wrong
        return path
