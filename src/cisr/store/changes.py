"""How the settings of a store differ from those of a run, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST_NAMED = 3
LONGEST = 60
NOTHING = "nothing"


def differences(kept: Any, given: Any) -> str:
    """`was made with A = 1, this run has 2; …`, of what differs alone; "" where nothing does."""
    before, now = dict(_leaves(kept)), dict(_leaves(json.loads(json.dumps(given))))
    named = [
        name for name in (*now, *(name for name in before if name not in now)) if before.get(name) != now.get(name)
    ]
    told = [
        f"was made with {name} = {_shown(before.get(name, NOTHING))}, this run has {_shown(now.get(name, NOTHING))}"
        for name in named[:MOST_NAMED]
    ]
    more = [f"{len(named) - MOST_NAMED} more differences"] if len(named) > MOST_NAMED else []
    return "; ".join([*told, *more])


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word in JSON, with where it stands; entries of a list that have a name stand under it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{at}: {key}" if at else str(key))
    elif isinstance(value, list) and value and all(isinstance(inner, Mapping) and "name" in inner for inner in value):
        for inner in value:
            yield from _leaves({k: v for k, v in inner.items() if k != "name"}, f"{at}: {inner['name']}")
    elif value is not None:
        yield at, value


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
