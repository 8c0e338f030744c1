"""Who finished, and what to say of those who did not."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cisr.core.errors import NobodyFinished
from cisr.training.records import Transcript

log = logging.getLogger(__name__)


AGAIN = "Mend it and run the same again: students that broke down are tried again."


def nobody_finished(transcripts: Sequence[Transcript], mend: str = AGAIN) -> str:
    """Why there is no result, in the words of the first error."""
    first = next((t.error for t in transcripts if t.error is not None), "no student was trained")
    return f"None of {len(transcripts)} students finished. The first error: {first.rstrip('.')}. {mend}"


def check_finished(transcripts: Sequence[Transcript]) -> None:
    """Where nobody finished there is no result; where some did not, say how many and why."""
    if all(t.deployment is None for t in transcripts):
        raise NobodyFinished(nobody_finished(transcripts))
    errors = [t.error for t in transcripts if t.error is not None]
    if errors:
        log.warning(
            "%d of %d students did not finish, and are tried again when the same is run again. The first error: %s",
            len(errors),
            len(transcripts),
            errors[0],
        )
