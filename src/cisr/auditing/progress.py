"""What a callback hears of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from cisr.core.callback import ProgressEvent


@dataclass(frozen=True)
class AuditProgress(ProgressEvent):
    """An attacker has played."""

    intervention: str
    attacker: str
    """Its name; `training` while one is trained."""
    steps: int
    """Since the last such event."""
