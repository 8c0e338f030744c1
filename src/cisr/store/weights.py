"""The weights of a store: one safetensors file for each batch of students, in a folder beside the database.

Names of files follow from names of batches and are never read from the database, links are not followed, and what a
file holds is believed only if it has the checksum that the database keeps: a store may come from anywhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load, save

from cisr.core.errors import StoreError
from cisr.store.place import PLAINLY, beside


def file_name(batch: str, units: int) -> str:
    """That of a batch's weights after so many units."""
    return f"{hashlib.blake2b(batch.encode(), digest_size=8).hexdigest()}-{units}.safetensors"


class Weights:
    """Files of arrays by name; without a path they live in memory."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._folder = None if store is None else self.folder_of(store.absolute())
        self._in_memory: dict[str, dict[str, Any]] = {}
        if self._folder is not None and self._folder.is_symlink():
            raise StoreError(f"The folder of weights {self._folder} is a link: put the folder itself beside its store.")

    @staticmethod
    def folder_of(store: Path) -> Path:
        return beside(store, ".weights")

    def save(self, name: str, arrays: Mapping[str, Any]) -> str | None:
        """Written aside and renamed: under its name a file is whole. Returns its checksum."""
        if self._folder is None:
            self._in_memory[name] = dict(arrays)
            return None
        self._folder.mkdir(exist_ok=True)
        aside = self._folder / (name + ".new")
        aside.unlink(missing_ok=True)
        content = save(dict(arrays))
        with open(aside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._folder / name)
        _synchronise(self._folder)
        return _checksum(content)

    def load(self, name: str, checksum: str | None) -> dict[str, Any]:
        """The arrays of a file; without a checksum, as stores of earlier formats have them, they are taken on trust."""
        if self._folder is None:
            return self._in_memory[name]
        content = self._read(name)
        if content is None:
            raise StoreError(self._wrong(name, "are missing"))
        if checksum not in (None, _checksum(content)):
            raise StoreError(self._wrong(name, "are damaged"))
        try:
            return dict(load(content))
        except (SafetensorError, ValueError, KeyError) as error:
            raise StoreError(self._wrong(name, f"are damaged ({error})")) from error

    def holds(self, name: str, checksum: str | None) -> bool:
        """Whether a file is there and can be believed."""
        try:
            self.load(name, checksum)
        except StoreError:
            return False
        return True

    def checksum(self, name: str) -> str | None:
        """None where there is no such file."""
        content = None if self._folder is None else self._read(name)
        return None if content is None else _checksum(content)

    def copy_to(self, store: Path, names: Collection[str]) -> None:
        """These files for another store of this disk; nothing is written twice where the system can link files."""
        if self._folder is None or not self._folder.exists():
            return
        folder = self.folder_of(store)
        folder.mkdir()
        for file in self._folder.iterdir():
            if file.name in names and not file.is_symlink():
                try:
                    os.link(file, folder / file.name)
                except OSError:
                    shutil.copy2(file, folder / file.name)

    def drop(self, name: str) -> None:
        if self._folder is None:
            del self._in_memory[name]
        else:
            (self._folder / name).unlink(missing_ok=True)

    def drop_all_but(self, names: Collection[str]) -> None:
        """Tidy up what a crash left between writing a file and naming it in the database."""
        if self._folder is not None and self._folder.exists():
            for file in self._folder.iterdir():
                ours = file.name.endswith((".safetensors", ".safetensors.new"))
                if ours and file.name not in names and not file.is_dir():
                    file.unlink()

    def _read(self, name: str) -> bytes | None:
        """What a plain file holds; None where there is none."""
        assert self._folder is not None
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | PLAINLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(self._wrong(name, f"cannot be read ({error.strerror})")) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StoreError(self._wrong(name, "are no plain file"))
        with open(descriptor, "rb") as file:
            return file.read()

    def _wrong(self, name: str, what: str) -> str:
        assert self._folder is not None
        return (
            f"The weights {self._folder / name} {what}: bring the file back from a copy, or have its students trained "
            f"again: `cisr check {self._store} --mend`."
        )


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _synchronise(folder: Path) -> None:
    """Have a renamed file survive a power failure under its new name."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
