"""Replays for the live page: played when they are asked for, one at a time, in a process of their own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from cisr.core.errors import CisrError, ConfigError, StoreError
from cisr.store import Store
from cisr.store.meaning import making_sense_of
from cisr.tasks import task_of
from cisr.view.contents import contents_of, interventions_of
from cisr.view.rendering import render
from cisr.view.replay import MOST_EPISODES, played, player, wanted

PATIENCE = 60.0
"""Seconds that a replay waits for others."""
MOST_KEPT = 8
ATTEMPTS = 3
MOST_NAMES = 2_000


class Replays:
    """Of the students of stores; `task` is the user's own, where it is not built in."""

    def __init__(self, task: str | None = None) -> None:
        self._task = task
        self._turn = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], Markup] = OrderedDict()

    def form(self, path: Path) -> Markup:
        """What asks for a replay."""
        problem, names, interventions = "", [], []
        try:
            with Store(path, read_only=True, trusting=True) as store, making_sense_of(store):
                settings = store.settings()
                task_of(settings, self._task)
                interventions = list(interventions_of(settings))
                names = [name for name, (*_, n, _) in store.marks().items() if n][-MOST_NAMES:]
        except CisrError as error:
            problem = str(error)
        asked = {"problem": problem, "names": names, "interventions": interventions, "most": MOST_EPISODES}
        return render("ask_replay.html", **asked)

    def player(self, path: Path, student: str, under: str, episode: str) -> Markup:
        if not episode.isascii() or not episode.isdigit() or len(episode) > 6:
            raise ConfigError("An episode is a number from 1 on.")
        if not self._turn.acquire(timeout=PATIENCE):
            raise ConfigError("Other replays are being played: try again in a moment.")
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return self._player(path, student, under, int(episode) - 1)
                except StoreError:  # a run may just have replaced the weights
                    if attempt == ATTEMPTS:
                        raise
        finally:
            self._turn.release()
        raise AssertionError("the last attempt returns or raises")

    def _player(self, path: Path, student: str, under: str, number: int) -> Markup:
        with Store(path, read_only=True, trusting=True) as store, making_sense_of(store):
            mark = store.marks().get(student)
            if mark is None:
                raise ConfigError(f"There is no student '{student}' in this store: give one of its names.")
            key = (path, student, under, number, mark)
            if key not in self._kept:
                (shown,) = played(task_of(store.settings(), self._task), [wanted(store, student, under, number)])
                contents = replace(contents_of(store, path.name, [store.transcript(student)]), live=True)
                self._kept[key] = player(contents, shown)
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]
