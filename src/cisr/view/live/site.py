"""What there is to see, and the pages of it that somebody has asked for."""

from __future__ import annotations

import threading
from pathlib import Path

from cisr.view.live.feed import Feed
from cisr.view.live.replays import Replays
from cisr.view.live.stores import Folder, FolderFeed, StoreFeed, store_link


class Site:
    """What there is to see: the stores of a folder, or one store alone."""

    def __init__(self, path: Path, replays: Replays) -> None:
        self.replays = replays
        self._folder = Folder(path) if path.is_dir() else None
        self._only = None if path.is_dir() else path
        self._list = FolderFeed(self._folder) if self._folder else None
        self._feeds: dict[str, StoreFeed] = {}
        self._lock = threading.Lock()

    @property
    def front(self) -> Feed | str:
        """The list of stores, or where to go instead."""
        if self._list is not None:
            return self._list
        assert self._only is not None
        return store_link(self._only.name)

    def store(self, name: str) -> StoreFeed | None:
        if self._only is not None:
            path = self._only if name == self._only.name else None
        else:
            assert self._folder is not None
            path = self._folder.stores().get(name)
        if path is None:
            return None
        with self._lock:
            return self._feeds.setdefault(name, StoreFeed(path))

    def close(self) -> None:
        for feed in (*self._feeds.values(), *([self._list] if self._list else [])):
            feed.close()
