"""What audits and attacks may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cisr.core.checks import check_function, check_kind, check_number, check_whole, shown
from cisr.core.errors import ConfigError

MOST_BUDGET = 10**10
"""Steps of attacks on an intervention: days, where they are not compiled."""


def check_budget(budget: int) -> int:
    return check_whole("The budget of steps", budget, 1, MOST_BUDGET)


def check_attackers(attackers: Any) -> None:
    """Scripted attackers by name, or None."""
    if attackers is None:
        return
    check_kind("The attackers", attackers, Mapping, "a dictionary from names to functions of a state (d,)")
    for name, script in attackers.items():
        check_function(f"The attacker {shown(name)}", script, "of a state (d,) that returns an action")


def check_confidence(confidence: float) -> float:
    given = check_number("The confidence", confidence)
    if not 0 < given < 1:
        raise ConfigError(f"The confidence is {confidence}: give a number between 0 and 1, such as 0.95.")
    return given
