"""Shapes of JSON, to be checked before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

LARGEST = 2**53
"""A number of steps or episodes beyond this is no longer exact where it is averaged."""


def text(value: Any) -> bool:
    return isinstance(value, str)


def number(value: Any) -> bool:
    """Infinite ones and NaN too: models may hold them."""
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
    )


def finite(value: Any) -> bool:
    return number(value) and math.isfinite(value)


def whole(least: int = 0, most: int = LARGEST) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def one_of(*values: Any) -> Check:
    return lambda value: any(value is known or (type(value) is type(known) and value == known) for known in values)


def optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def listing(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def mapping(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def fields(required: Mapping[str, Check], others: Mapping[str, Check] | None = None) -> Check:
    """A mapping that has these; others may be missing, and what is not named may be anything."""
    known = {**required, **(others or {})}
    return lambda value: (
        isinstance(value, dict)
        and all(name in value for name in required)
        and all(check(value[name]) for name, check in known.items() if name in value)
    )


def anything(value: Any) -> bool:
    return True


def pair(check: Check) -> Check:
    return lambda value: listing(check)(value) and len(value) == 2


is_point = pair(finite)
