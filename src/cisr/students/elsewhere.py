"""Students that learn where cisr is not: on a robot, on a test bench, in a program in another language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cisr.core.checks import check_text
from cisr.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """All that is known of such a student: who trains it."""

    rig: str | None = None
    """What its rig calls itself, so that it is given its own student again after it was stopped."""

    def __post_init__(self) -> None:
        if self.rig is not None:
            check_text("The name of a rig", self.rig)
            if not self.rig.strip():
                raise ConfigError(f"The name of a rig is {self.rig!r}: give it a name, or none at all.")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "elsewhere", "rig": self.rig}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Elsewhere:
        return Elsewhere(rig=fields["rig"])
