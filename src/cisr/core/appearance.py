"""What a task looks like to people: its description, and what its pictures are drawn on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cisr.core.checks import check_text, shown
from cisr.core.errors import ConfigError
from cisr.core.shapes import Check, anything, fields, is_point, listing, mapping, pair, text

_lines = mapping(listing(listing(is_point)))

is_floor_plan = fields({"rows": listing(text), "zones": mapping(anything)})
is_state_plot = fields(
    {
        "axes": pair(text),
        "limits": pair(is_point),
        "lines": _lines,
        "interventions": mapping(_lines),
    }
)


@dataclass(frozen=True, kw_only=True)
class Appearance:
    """What tables and pictures show of a task."""

    description: str = ""
    floor_plan: Mapping[str, Any] | None = None
    """For reports on grid worlds, as JSON: `rows` of letters and `zones`, the trigger tiles of each intervention."""
    state_plot: Mapping[str, Any] | None = None
    """For pictures of where students went, as JSON: `axes` names the first two numbers of a state and `limits` are what
    to show of them; `lines` (by name, each some lists of points) lie behind, `interventions` has such for each."""

    def __post_init__(self) -> None:
        check_text("The description of a task", self.description)
        for what, is_one in (("floor_plan", is_floor_plan), ("state_plot", is_state_plot)):
            if not _written_as(is_one, getattr(self, what)):
                raise ConfigError(
                    f"The {what} of a task is {shown(getattr(self, what))}: give what cisr.Appearance says of it, as "
                    f"JSON, or None."
                )


def _written_as(is_one: Check, given: Any) -> bool:
    try:
        return given is None or is_one(json.loads(json.dumps(given)))
    except (TypeError, ValueError):
        return False
