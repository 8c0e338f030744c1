"""Numbers, curricula, verdicts and episodes in words: said here once, for the terminal, the page, figures and films.

What is unknown is None and shown as a dash, never as a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from cisr.experiments.comparison import Row
from cisr.experiments.differences import Difference
from cisr.experiments.reproduced import ReproducedRow
from cisr.experiments.statistics import Share
from cisr.teachers import Belief
from cisr.training import Transcript

NOTHING = "–"


def fixed(value: float | None, digits: int, *, sign: str = "") -> str:
    """A number with so many digits; `sign` is "+" where a plus is shown too."""
    return NOTHING if value is None else f"{value:{sign},.{digits}f}".replace("-", "−")


def uncertain(mean: float | None, sem: float | None, digits: int) -> str:
    """A mean ± its standard error, where that is known."""
    return fixed(mean, digits) + ("" if mean is None or sem is None else f" ± {fixed(sem, digits)}")


def interval(low: float | None, high: float | None, *, sign: str = "") -> str:
    """Two digits, rounded outwards: intervals are wide, and must not shrink on paper. "" where there is none."""
    if low is None or high is None:
        return ""
    return f"[{fixed(math.floor(100 * low) / 100, 2, sign=sign)}, {fixed(math.ceil(100 * high) / 100, 2, sign=sign)}]"


def counted(share: Share | None) -> str:
    return NOTHING if share is None else f"{share.count} of {share.of}"


def p_value(p: float | None) -> str:
    return "< 0.001" if p is not None and p < 0.001 else fixed(p, 3)


def missing(shown: str, unknown: int) -> str:
    """What is known, and of how many students it is not: an unknown number of failures must not pass for none."""
    if not unknown:
        return shown
    return "unknown" if shown == NOTHING else f"{shown} + {unknown} unknown"


def several(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def finished_in_words(row: Row | ReproducedRow) -> str:
    return f"{row.finished} of {row.students} finished"


def told_apart_in_words(difference: Difference) -> str:
    """The answer, and how many students of both groups it does without."""
    unfinished, students = sum(difference.unfinished), sum(difference.students)
    return difference.told_apart + (f": {unfinished} of {students} unfinished" if unfinished else "")


def students_in_words(row: Row) -> str:
    said = str(row.students) if row.finished == row.students else finished_in_words(row)
    return said + (f", {row.policies} teachers" if row.policies > 1 else "")


def failures_in_training(students: Sequence[Transcript]) -> tuple[int | None, int]:
    """Of all students together, as far as it is known, and of how many it is not."""
    known = [n for t in students if (n := t.training_failures) is not None]
    return sum(known) if known or not students else None, len(students) - len(known)


def in_words(curriculum: Mapping[str, Any]) -> str:
    """A curriculum policy, given as JSON, as a sentence."""
    kind = curriculum.get("kind")
    if kind == "none":
        return "No intervention: the student learns on its own."
    if kind == "fixed":
        return f"{curriculum['intervention']} in every unit."
    if kind in ("switching", "patient"):
        first, *others = curriculum["interventions"]
        while others and others[-1] == [first, *others][-2]:
            others.pop()  # whoever has come to the last intervention stays there, whatever thresholds follow
        if not others:
            return f"{first} in every unit."
        said = f"Begin with {first}"
        for name, threshold in zip(others, curriculum["thresholds"][: len(others)], strict=True):
            said += (
                f"; go on to {name} once the last unit's mean return is at least {threshold['min_return']:.2f} "
                f"and its violation at most {threshold['max_violation']:.3f}"
            )
        return f"{said}." if kind == "switching" else f"{said}. {patience_in_words(curriculum)}"
    if kind == "schedule":
        runs = [(name, len(list(run))) for name, run in groupby(curriculum["interventions"])]
        said = ", then ".join(f"{name} for {several(n, 'unit')}" for name, n in runs[:-1])
        return f"{said}, then {runs[-1][0]}." if said else f"{runs[-1][0]} in every unit."
    if kind == "bandit":
        return f"A bandit over {', '.join(curriculum['interventions'])}: it picks where the return changes fastest."
    return json.dumps(curriculum)


def patience_in_words(curriculum: Mapping[str, Any]) -> str:
    """What becomes of a student that stays too long in one stage of a patient curriculum, as a sentence."""
    units = several(curriculum["patience"], "unit")
    return f"After {units} in one stage but the last the student starts over, with new weights."


def belief_in_words(belief: Belief) -> str:
    return (
        f"The teacher expects a score of {belief.score:.3g} of new students under it, and at least {belief.bound:.3g} "
        f"with {100 * belief.confidence:.0f} % confidence by its model; tried by {several(belief.students, 'student')}."
    )


def deployed_in_words(under: str) -> str:
    if under == "none":
        return "in the task itself, without any intervention"
    return f"under {under}, the task's safe evaluation; an episode with a rescue or a failure is scored −2·T_0·R_max"


def end_in_words(outcome: str | None, steps: int, total: float) -> str:
    """How an episode has ended, or how far it has come."""
    so_far = f"step {steps:,}" if outcome is None else f"{outcome} after {several(steps, 'step')}"
    return f"{so_far}, return {fixed(total, 1)}"


def verdict_in_words(verdict: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What an audit says of an intervention, given as JSON: see `VERDICT`."""
    name, status, reason, eventual = (verdict[part] for part in ("name", "status", "reason", "eventual"))
    if not verdict["counts"]:  # without an intervention the propositions have nothing to say
        return name, f"{status} (for information)", reason, "–"
    return name, status, reason, f"{'given' if eventual['given'] else 'not given'}: {eventual['reason']}"


VERDICT = ("intervention", "safe while learning", "because", "eventual safety")


def promises(kept: Mapping[str, Any]) -> str:
    """What is to be said of the promises of a task's code, beside the verdicts that rely on them."""
    if not kept.get("promises_checked"):
        return " The promises of the task's code were not checked."
    return "".join(f" Broken promise: {promise}." for promise in kept["broken_promises"])
