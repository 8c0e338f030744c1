"""What the cells of a store may say. Checksums are against accidents: whoever makes a store can write anything into it,
and what makes no sense is told when it is opened, before values are made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, get_args

from cisr.core.appearance import is_floor_plan, is_state_plot
from cisr.core.checks import MOST_STUDENTS
from cisr.core.errors import CisrError, StoreError
from cisr.core.seeding import MAX_SEED
from cisr.core.shapes import (
    Check,
    anything,
    either,
    fields,
    finite,
    is_point,
    listing,
    mapping,
    number,
    one_of,
    optional,
    text,
    whole,
)
from cisr.core.training import MOST_UNITS
from cisr.curricula import fresh_starts
from cisr.students.kinds import student_from_json
from cisr.training import Batching, Deployment
from cisr.training.records import BackendName

NONSENSE = (
    CisrError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What code may raise that makes a value of something else."""


def made_by(make: Callable[[Any], Any]) -> Check:
    """Something of which a value can be made."""

    def check(value: Any) -> bool:
        try:
            make(value)
        except NONSENSE:
            return False
        return True

    return check


def said_in_json(check: Check) -> Check:
    @cache  # students of a class say the same
    def sound(value: str) -> bool:
        try:
            return check(json.loads(value))
        except NONSENSE:
            return False

    return lambda value: isinstance(value, str) and sound(value)


_deployment = fields(
    {
        "under": text,
        "steps": optional(whole(1)),
        "episodes": optional(whole(1)),
        "mean_return": finite,
        "score": finite,
        "failures": optional(whole()),
        "rescues": optional(whole()),
        "outcomes": mapping(finite),
    },
    {"visits": optional(listing(whole())), "driven": whole()},
)


def _is_deployment(value: Any) -> bool:
    return _deployment(value) and made_by(lambda known: Deployment(**known))(value)


def _is_batching(value: Any) -> bool:
    return mapping(whole(1))(value) and made_by(lambda known: Batching(**known))(value)


is_parameters: Check = mapping(either(text, finite))
_verdict = fields(
    {"name": text},
    {"counts": one_of(True, False), "status": text, "reason": text, "eventual": mapping(anything)},
)
_published = either(lambda value: value is None, mapping(anything))

SETTINGS: Mapping[str, Check] = {
    "task": text,
    "scale": text,
    "student": optional(text),
    "backend": one_of(*get_args(BackendName)),
    "batching": _is_batching,
    "definition": fields(
        {},
        {
            "interventions": listing(either(text, lambda value: isinstance(value, list) and text(value[0]))),
            "constraints": listing(text),
            "n_units": whole(1, MOST_UNITS),
        },
    ),
    "student settings": mapping(anything),
    "code": mapping(anything),
    "packages": mapping(anything),
    "made with": mapping(text),
    "planned students": mapping(whole(0)),
    "floor plan": optional(is_floor_plan),
    "state plot": optional(is_state_plot),
}
"""Those that are read; a setting of any other name may be anything."""

COLUMNS: Mapping[str, Mapping[str, Check]] = {
    "settings": {"name": text, "value": said_in_json(anything)},
    "runs": {
        "name": text,
        "settings": said_in_json(
            fields(
                {},
                {
                    "seed": whole(0, MAX_SEED),
                    "deployed under": text,
                    "safe evaluation": text,
                    "deployed each unit": one_of(True, False),
                    "class size": whole(1, MOST_STUDENTS),
                    "initial policies": whole(0, MOST_STUDENTS),
                    "policies at once": whole(1, MOST_STUDENTS),
                    "patience": whole(1),
                    "teacher": mapping(anything),
                },
            )
        ),
    },
    "batches": {
        "name": text,
        "roster": said_in_json(listing(text)),
        "units": whole(),
        "weights_checksum": optional(text),
        "done": whole(0, 1),
        "abandoned": optional(text),
    },
    "students": {
        "name": text,
        "batch": text,
        "place": whole(),
        "curriculum": said_in_json(mapping(anything)),  # users have policies of their own
        "config": said_in_json(made_by(student_from_json)),
        "seed": whole(0, MAX_SEED),
        "deployment": optional(said_in_json(_is_deployment)),
        "error": optional(text),
        "failures_when_broken": optional(whole()),
    },
    "units": {
        "student": text,
        "unit": whole(1),
        "intervention": text,
        **dict.fromkeys(("steps", "episodes", "rescues", "failures"), optional(whole())),
        **dict.fromkeys(("mean_return", "violation", "seconds"), finite),
        "success": optional(finite),
        "multipliers": said_in_json(listing(finite)),
        "deployment": optional(said_in_json(_is_deployment)),
        "evaluation": optional(said_in_json(_is_deployment)),
        "stage": said_in_json(made_by(fresh_starts)),
    },
    "drives": {"student": text, "unit": whole(1), "steps": whole(1)},
    "rounds": {
        "study": text,
        "round": whole(),
        "parameters": said_in_json(is_parameters),
        "told": whole(0, 1),
        "score": optional(finite),
        "sem": optional(number),
        "model": said_in_json(mapping(anything)),
    },
    "findings": {
        "study": text,
        "found": said_in_json(
            fields(
                {"best": is_parameters},
                {"model": mapping(anything), "policy": mapping(anything), "belief": mapping(number)},
            )
        ),
    },
    "comparisons": {"name": text, "curricula": said_in_json(listing(text))},
    "trajectories": {
        "student": text,
        "episodes": said_in_json(
            listing(
                fields(
                    {
                        "flights": listing(lambda line: listing(is_point)(line) and bool(line)),
                        "outcome": text,
                        "failed": one_of(True, False),
                        "total": finite,
                        "steps": whole(),
                    }
                )
            )
        ),
    },
    "audits": {
        "kind": text,
        "found": said_in_json(
            fields(
                {"interventions": listing(_verdict)},
                {"promises_checked": one_of(True, False), "broken_promises": listing(text)},
            )
        ),
    },
    "reproductions": {
        "title": text,
        "found": said_in_json(
            fields(
                {
                    "title": text,
                    "repetitions": lambda value: listing(text)(value) and bool(value),
                    "searches": listing(text),
                    "students": whole(1, MOST_STUDENTS),
                    "rows": listing(
                        lambda row: isinstance(row, list) and len(row) == 2 and text(row[0]) and _published(row[1])
                    ),
                }
            )
        ),
    },
}


@contextmanager
def making_sense_of(store: object) -> Iterator[None]:
    """Around code that makes a whole of what a store holds: cells that do not go together are one line."""
    try:
        yield
    except CisrError:
        raise
    except NONSENSE as error:
        said = f"{type(error).__name__}: {error}".rstrip(".")
        raise StoreError(f"{store} holds what does not make sense ({said}): no program of ours wrote that.") from error
