"""How numbers are written in the tables and sentences of the documentation."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, sqrt
from statistics import mean, stdev
from typing import Any

NONE = "–"


def number(value: float, digits: int = 0) -> str:
    """With a minus sign, commas between thousands, and no sign before a rounded zero."""
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.removeprefix("-")


def signed(value: float, digits: int) -> str:
    return ("+" if value >= 0 else "") + number(value, digits)


def pm(estimate: Mapping[str, Any], digits: int) -> str:
    """Mean ± standard error of an estimate as our JSON has it."""
    return f"{number(estimate['mean'], digits)} ± {number(estimate['sem'], digits)}"


def published(pair: Sequence[float] | None, digits: int) -> str:
    """Mean ± standard error as a paper's table has them."""
    return NONE if pair is None else f"{number(pair[0], digits)} ± {number(pair[1], digits)}"


def over(values: Sequence[float]) -> dict[str, float]:
    """The estimate of the mean of some values."""
    return {"mean": mean(values), "sem": stdev(values) / sqrt(len(values))}


def at_least(value: float, digits: int) -> float:
    """A lower bound, rounded so that it stays one."""
    return float(floor(value * 10.0**digits + 1e-9) / 10.0**digits)


def at_most(value: float, digits: int) -> float:
    """An upper bound, rounded so that it stays one."""
    return float(ceil(value * 10.0**digits - 1e-9) / 10.0**digits)


def interval(low: float, high: float, digits: int = 2) -> str:
    return f"[{number(at_least(low, digits), digits)}, {number(at_most(high, digits), digits)}]"


def shift(low: float, high: float, digits: int = 2) -> str:
    """The interval of a difference."""
    return f"[{signed(at_least(low, digits), digits)}, {signed(at_most(high, digits), digits)}]"


def share(count: Mapping[str, Any]) -> str:
    return f"{count['count']} of {count['of']}"


def chance(p: float | None) -> str:
    """A p-value with two digits that count."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}" if p < 0.995 else "1"
