"""The weights of a store: one safetensors file for each batch of students, in a folder beside the database."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cisr.errors import StoreError


class Weights:
    """Files of arrays by name; without a path they live in memory."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._folder = None if store is None else self.folder_of(store)
        self._in_memory: dict[str, dict[str, Any]] = {}

    @staticmethod
    def folder_of(store: Path) -> Path:
        return store.with_name(store.name + ".weights")

    def save(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Written aside and renamed: under its name a file is whole."""
        from safetensors.numpy import save

        if self._folder is None:
            self._in_memory[name] = dict(arrays)
            return
        self._folder.mkdir(exist_ok=True)
        aside = self._folder / (name + ".new")
        with open(aside, "wb") as file:
            file.write(save(dict(arrays)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, self._folder / name)

    def load(self, name: str) -> dict[str, Any]:
        from safetensors.numpy import load_file

        if self._folder is None:
            return self._in_memory[name]
        try:
            return dict(load_file(self._folder / name))
        except OSError as error:
            raise StoreError(f"The store {self._store} lacks its weights {self._folder / name}: {error}.") from error

    def copy_to(self, store: Path) -> None:
        """All files for another store of this disk; nothing is written twice where the system can link files."""
        if self._folder is None or not self._folder.exists():
            return
        folder = self.folder_of(store)
        folder.mkdir()
        for file in self._folder.iterdir():
            try:
                os.link(file, folder / file.name)
            except OSError:
                shutil.copy2(file, folder / file.name)

    def drop(self, name: str) -> None:
        if self._folder is None:
            del self._in_memory[name]
        else:
            (self._folder / name).unlink(missing_ok=True)

    def drop_all_but(self, names: set[str]) -> None:
        """Tidy up what a crash left between writing a file and naming it in the database."""
        if self._folder is not None and self._folder.exists():
            for file in self._folder.iterdir():
                if file.name not in names:
                    file.unlink()
