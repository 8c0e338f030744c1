"""What a store holds, sorted for the report: its studies and its comparisons."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cisr.classroom import Transcript
from cisr.compare import Row, summarise_group
from cisr.errors import StoreError
from cisr.lesson import RUN
from cisr.report.svg import COLOURS
from cisr.store import Round, Store

KINDS = ("switching", "schedule", "bandit", "fixed", "none")
"""The order in which curricula are listed; the store keeps none."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The students of one curriculum of a comparison."""

    label: str
    students: tuple[Transcript, ...]
    row: Row

    @property
    def curriculum(self) -> Mapping[str, Any]:
        return self.students[0].curriculum


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    name: str
    run: Mapping[str, Any]
    """Its `seed`, what policies were `deployed under`, and whether they were `deployed each unit`."""
    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    name: str
    run: Mapping[str, Any]
    rounds: tuple[Round, ...]
    classes: tuple[tuple[Transcript, ...], ...]
    """The students of each round."""
    found: Mapping[str, Any] | None
    """What the study found, once it is over."""

    @property
    def students(self) -> tuple[Transcript, ...]:
        return tuple(t for students in self.classes for t in students)

    @property
    def model(self) -> Mapping[str, Any]:
        return self.found["model"] if self.found else {}


@dataclass(frozen=True, kw_only=True)
class Contents:
    source: str
    """The store's file name."""
    settings: Mapping[str, Any]
    studies: tuple[StudyRecord, ...]
    comparisons: tuple[ComparisonRecord, ...]

    @property
    def students(self) -> tuple[Transcript, ...]:
        compared = [t for c in self.comparisons for group in c.groups for t in group.students]
        return (*(t for study in self.studies for t in study.students), *compared)

    @property
    def own_interventions(self) -> tuple[str, ...]:
        return _own(self.settings)

    @property
    def interventions(self) -> tuple[str, ...]:
        """The task's own first, then others that students met, `none` last."""
        own = self.own_interventions
        met = {unit.intervention for t in self.students for unit in t.units}
        others = sorted(met - {*own, "none"}, key=lambda name: (len(name), name))
        return (*own, *others, *(["none"] if "none" in met else []))

    def colours(self) -> dict[str, str]:
        """One colour for each intervention and curriculum; a fixed curriculum has that of its intervention."""
        labels = [group.label for c in self.comparisons for group in c.groups]
        first = [name for name in self.interventions if name in self.own_interventions]
        names = [name for name in dict.fromkeys((*first, *labels, *self.interventions)) if name != "none"]
        cycle = COLOURS[:-1]
        return {**{name: cycle[k % len(cycle)] for k, name in enumerate(names)}, "none": COLOURS[-1]}


def read(path: Path) -> Contents:
    """Read a store without touching it; a study may be running on it."""
    with Store(path, read_only=True) as store:
        try:
            return contents_of(store, path.name)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"Cannot read {path}: {error}.") from error


def contents_of(store: Store, source: str) -> Contents:
    settings = store.settings()
    runs = {key.removeprefix(RUN): value for key, value in settings.items() if key.startswith(RUN)}
    rounds = {name: tuple(past) for name in runs if (past := store.rounds(name))}
    owned: dict[str, dict[str, list[Transcript]]] = {}
    for transcript in store.transcripts():
        owner = max((name for name in runs if transcript.name.startswith(name + "/")), key=len)
        label = transcript.name.removeprefix(owner + "/").rpartition("/")[0]
        owned.setdefault(owner, {}).setdefault(label, []).append(transcript)
    found = store.findings()
    studies = [
        StudyRecord(
            name=name,
            run=runs[name],
            rounds=tried,
            classes=tuple(tuple(owned.get(name, {}).get(f"{k:03d}", ())) for k in range(len(tried))),
            found=found.get(name),
        )
        for name, tried in rounds.items()
    ]
    comparisons = [
        _comparison(name, runs[name], groups, _own(settings)) for name, groups in owned.items() if name not in rounds
    ]
    return Contents(source=source, settings=settings, studies=tuple(studies), comparisons=tuple(comparisons))


def _own(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The interventions that the task itself lists."""
    return tuple(name for name, *_ in settings.get("definition", {}).get("interventions", []))


def _comparison(
    name: str, run: Mapping[str, Any], groups: Mapping[str, list[Transcript]], own: Sequence[str]
) -> ComparisonRecord:
    def place(label: str) -> tuple[int, int, int, str]:
        kind = groups[label][0].curriculum.get("kind")
        size = int(re.sub(r"\D", "", label)[:9] or 0)
        first = KINDS.index(kind) if kind in KINDS else len(KINDS)
        return (first, own.index(label) if label in own else len(own), size, label)

    return ComparisonRecord(
        name=name,
        run=run,
        groups=tuple(
            Group(
                label=label,
                students=tuple(groups[label]),
                row=summarise_group(label, groups[label], run["seed"]),
            )
            for label in sorted(groups, key=place)
        ),
    )
