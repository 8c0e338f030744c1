"""Where exports go: names from a store as names of files, and folders that hold nothing of the store's own."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cisr.core.errors import ConfigError
from cisr.system.files import plain, reason
from cisr.system.store_parts import check_no_store

LONGEST = 80


def file_part(name: str) -> str:
    """A name from a store as that of a file or folder: itself where it can be, otherwise like it and unlike all others.

    None of them leads to another folder, is hidden, or is too long.
    """
    if name and name == plain(name) and not name.startswith(".") and len(name) <= LONGEST:
        return name
    told_apart = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=6).hexdigest()
    return f"{plain(name).lstrip('.')[:LONGEST]}-{told_apart}"


def check_folder_target(folder: Path, option: str = "--out") -> None:
    """Complain before any work about a folder that could not be written into, or is a store's; it is made."""
    check_no_store(folder, option)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".cisr-probe"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(f"Cannot write into the folder {folder}: {reason(error)}; give another one.") from error
