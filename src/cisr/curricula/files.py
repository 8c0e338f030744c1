"""Curriculum policies as JSON, in and out. Errors name the field that is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cisr.core.errors import ConfigError
from cisr.curricula.base import CurriculumPolicy, check_policy
from cisr.curricula.patient import Patient
from cisr.curricula.policies import Bandit, Fixed, Schedule, Switching, Threshold
from cisr.system.files import read_json, write_text


def policy_from_json(fields: Any) -> CurriculumPolicy:
    if not isinstance(fields, Mapping):
        raise ConfigError(f"A curriculum is {_shown(fields)}: give a JSON object with a 'kind'.")
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _READERS:
        raise ConfigError(f"A curriculum's 'kind' is {_shown(kind)}: give one of {', '.join(_READERS)}.")
    known, read = _READERS[kind]
    for name in fields:
        if name != "kind" and name not in known:
            raise ConfigError(f"A {kind} curriculum has a field '{name}': it takes {', '.join(known) or 'no fields'}.")
    for name in known:
        if name not in fields:
            raise ConfigError(f"A {kind} curriculum lacks the field '{name}'.")
    return read(fields)


def load_policy(path: Path | str) -> CurriculumPolicy:
    fields = read_json(path, "the curriculum file")
    try:
        return policy_from_json(fields)
    except ConfigError as error:
        raise ConfigError(f"In the curriculum file {path}: {error}") from error


def save_policy(policy: CurriculumPolicy, path: Path | str) -> None:
    check_policy(str(path), policy)
    write_text(path, json.dumps(policy.to_json(), indent=2) + "\n")


def _switching(fields: Mapping[str, Any]) -> Switching:
    thresholds = fields["thresholds"]
    if not isinstance(thresholds, list):
        raise ConfigError(f"'thresholds' is {_shown(thresholds)}: give a list with one object for each switch.")
    return Switching(
        interventions=_names(fields, "interventions"),
        thresholds=tuple(_threshold(f"thresholds[{k}]", entry) for k, entry in enumerate(thresholds)),
    )


def _patient(fields: Mapping[str, Any]) -> Patient:
    switching = _switching(fields)
    return Patient(
        interventions=switching.interventions,
        thresholds=switching.thresholds,
        patience=fields["patience"],
    )


def _threshold(where: str, entry: Any) -> Threshold:
    if not isinstance(entry, Mapping) or set(entry) != {"min_return", "max_violation"}:
        raise ConfigError(f"'{where}' is {_shown(entry)}: give an object with min_return and max_violation.")
    for name, number in entry.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) <= sys.float_info.max:
            raise ConfigError(f"'{where}.{name}' is {_shown(number)}: give a finite number.")
    return Threshold(min_return=float(entry["min_return"]), max_violation=float(entry["max_violation"]))


def _names(fields: Mapping[str, Any], field: str) -> tuple[str, ...]:
    names = fields[field]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"'{field}' is {_shown(names)}: give a list of names of interventions.")
    return tuple(names)


def _name(fields: Mapping[str, Any], field: str) -> str:
    if not isinstance(fields[field], str):
        raise ConfigError(f"'{field}' is {_shown(fields[field])}: give the name of an intervention.")
    return str(fields[field])


def _shown(value: Any) -> str:
    text = "missing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


_READERS: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], CurriculumPolicy]]] = {
    "switching": (("interventions", "thresholds"), _switching),
    "patient": (("interventions", "thresholds", "patience"), _patient),
    "fixed": (("intervention",), lambda fields: Fixed(_name(fields, "intervention"))),
    "schedule": (("interventions",), lambda fields: Schedule(_names(fields, "interventions"))),
    "bandit": (("interventions",), lambda fields: Bandit(_names(fields, "interventions"))),
    "none": ((), lambda fields: Fixed("none")),
}
