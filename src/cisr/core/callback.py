"""How long work says what it is doing: to one callback, an event at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cisr.core.checks import check_function


class ProgressEvent:
    """Something that has just happened. A callback asks which event it is, and leaves alone what it does not know.

    Studies, comparisons and reproductions tell `BatchProgress`, studies `TrialProgress` too, audits `AuditProgress`.
    """


Callback = Callable[[ProgressEvent], None]


def ignore(event: ProgressEvent) -> None:
    """The callback of those who do not want to know."""


def told_to(*callbacks: Callback) -> Callback:
    """One callback for several, who hear of everything in this order."""

    def tell(event: ProgressEvent) -> None:
        for callback in callbacks:
            callback(event)

    return tell


def check_callback(callback: Any) -> None:
    check_function("The callback", callback, "of a progress event")
