"""A page that is drawn anew when what it shows has changed, for as long as somebody watches it.

A browser hears over a stream of events which sections there are, with a digest of each, and asks for those that it does
not have. So nothing is sent twice, whoever comes back after a break misses nothing, and a slow reader waits for itself.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2s

from cisr.core.errors import CisrError, described
from cisr.view.page import Section

LOOK_EVERY = 0.5
"""Seconds between looks at whether something has changed."""
SHARE = 4
"""A page that took t seconds to draw is drawn again after SHARE · t: the machine has other work to do."""
GRACE = 20.0
"""Seconds that a page is kept up to date after its last reader has gone, who may just be loading it again."""


@dataclass(frozen=True)
class View:
    """A page as it was drawn last."""

    title: str
    lead: str
    running: bool
    sections: Sequence[Section]
    problem: str = ""
    """Why it could not be drawn anew; the rest is then as it was before."""
    at: float = 0.0
    """When, in seconds since 1970."""

    @cached_property
    def digests(self) -> dict[str, str]:
        return {s.key: blake2s(s.text.encode(errors="replace"), digest_size=8).hexdigest() for s in self.sections}

    @cached_property
    def message(self) -> str:
        """What browsers are told of it, as JSON."""
        parts = [{"key": s.key, "heading": s.heading, "digest": self.digests[s.key]} for s in self.sections]
        told = {"title": self.title, "lead": self.lead, "running": self.running, "problem": self.problem, "at": self.at}
        return json.dumps({**told, "sections": parts})


EMPTY = View("", "", False, ())


def in_one_line(error: Exception) -> str:
    return str(error) if isinstance(error, CisrError) else f"Nobody foresaw this error: {described(error)}."


class Feed(ABC):
    """One page. Anybody may ask for its view; while somebody is `subscribed`, a thread keeps it up to date."""

    def __init__(self) -> None:
        self._drawing = threading.Lock()
        self._changed = threading.Condition()
        self._view = EMPTY
        self._mark: object = None
        self._took = 0.0
        self._readers = 0
        self._left = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    @abstractmethod
    def mark(self) -> object:
        """What is another whenever the page should be drawn anew; quick to tell."""

    @abstractmethod
    def draw(self) -> View: ...

    def view(self) -> View:
        """The page as of now."""
        with self._drawing:
            began = time.monotonic()
            mark: object
            try:
                mark, problem = self.mark(), ""
            except Exception as error:
                mark = problem = in_one_line(error)
            if mark != self._mark or self._view is EMPTY:
                self._show(self._as_before(problem) if problem else self._drawn())
                self._mark, self._took = mark, time.monotonic() - began
        return self._view

    def _drawn(self) -> View:
        try:
            return self.draw()
        except Exception as error:
            return self._as_before(in_one_line(error))

    def _as_before(self, problem: str) -> View:
        last = self._view
        return View(last.title or "Nothing to show", last.lead, False, last.sections, problem, time.time())

    def _show(self, view: View) -> None:
        with self._changed:
            if view.message != self._view.message:
                self._view = view
                self._changed.notify_all()

    # For streams of events

    @contextmanager
    def subscribed(self) -> Iterator[None]:
        with self._changed:
            self._readers += 1
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._keep_up, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._left = time.monotonic()

    def wait(self, seen: View | None, seconds: float) -> View | None:
        """The view that follows the one seen, as soon as there is one; None after so many seconds or at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._view is not seen, seconds)
            return None if self._closed or self._view is seen else self._view

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End all streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _keep_up(self) -> None:
        try:
            self._look_again_and_again()
        except BaseException:
            with self._changed:
                self._thread = None  # so that the next reader has another one
            raise

    def _look_again_and_again(self) -> None:
        while True:
            self.view()
            end = time.monotonic() + max(LOOK_EVERY, SHARE * self._took)
            with self._changed:
                self._took = 0.0
                self._changed.wait_for(lambda: self._closed, end - time.monotonic())
                forgotten = not self._readers and time.monotonic() - self._left > GRACE
                if self._closed or forgotten:
                    self._thread = None
                    return
