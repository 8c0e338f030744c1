"""Curricula, numbers and commands in words, for people and for LaTeX."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from cisr.teachers import Belief

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
}


def latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def fixed(value: float, digits: int) -> str:
    """A number with so many digits; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:,.{digits}f}".replace("-", "−")


def missing(shown: str, unknown: int, before: str = " ") -> str:
    """What is known, and of how many students it is not: an unknown number of failures must not pass for none."""
    if not unknown:
        return shown
    return "unknown" if shown == "–" else f"{shown}{before}+ {unknown} unknown"


def in_words(curriculum: Mapping[str, Any]) -> str:
    """A curriculum policy, given as JSON, as a sentence."""
    kind = curriculum.get("kind")
    if kind == "none":
        return "No intervention: the student learns on its own."
    if kind == "fixed":
        return f"{curriculum['intervention']} in every unit."
    if kind in ("switching", "patient"):
        first, *others = curriculum["interventions"]
        said = f"Begin with {first}"
        for name, threshold in zip(others, curriculum["thresholds"], strict=True):
            said += (
                f"; go on to {name} once the last unit's mean return is at least {threshold['min_return']:.2f} "
                f"and its violation at most {threshold['max_violation']:.3f}"
            )
        return f"{said}." if kind == "switching" else f"{said}. {patience_in_words(curriculum)}"
    if kind == "schedule":
        runs = [(name, len(list(run))) for name, run in groupby(curriculum["interventions"])]
        said = ", then ".join(f"{name} for {n} unit{'s' * (n > 1)}" for name, n in runs[:-1])
        return f"{said}, then {runs[-1][0]}." if said else f"{runs[-1][0]} in every unit."
    if kind == "bandit":
        return f"A bandit over {', '.join(curriculum['interventions'])}: it picks where the return changes fastest."
    return json.dumps(curriculum)


def patience_in_words(curriculum: Mapping[str, Any]) -> str:
    """What becomes of a student that stays too long in one stage of a patient curriculum, as a sentence."""
    n = curriculum["patience"]
    return f"After {n} unit{'s' * (n > 1)} in one stage but the last the student starts over, with new weights."


def belief_in_words(belief: Belief) -> str:
    return (
        f"The teacher expects a score of {belief.score:.3g} of new students under it, and at least {belief.bound:.3g} "
        f"with {100 * belief.confidence:.0f} % confidence by its model; tried by {belief.students} "
        f"student{'s' * (belief.students != 1)}."
    )


def where_deployed(under: str) -> str:
    if under == "none":
        return "in the task itself, without any intervention"
    return f"under {under}, the task's safe evaluation; an episode with a rescue or a failure is scored −2·T_0·R_max"
