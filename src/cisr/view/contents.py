"""What a store holds, sorted for the report: its studies, its comparisons, and the reproduction that it may be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cisr.core.publication import PublishedRow
from cisr.curricula import Parameters, Switching
from cisr.experiments.comparison import Row, summarise_groups
from cisr.experiments.reproduced import ReproducedRow, entitled, reproduced_row
from cisr.experiments.withdrawal import held_against
from cisr.store import Store, StoredTrial, owner_of
from cisr.store.meaning import making_sense_of
from cisr.tasks.entry import EXPLORER
from cisr.training import Transcript
from cisr.view.plots import palette

KINDS = ("switching", "patient", "schedule", "bandit", "fixed", "none")
"""The order in which curricula are listed that the last call of a comparison did not name."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The students of one curriculum of a comparison, or of what each teacher of a reproduction found."""

    label: str
    students: tuple[Transcript, ...]
    row: Row

    @property
    def curriculum(self) -> Mapping[str, Any]:
        return self.students[0].curriculum

    @property
    def curricula(self) -> dict[str, Mapping[str, Any]]:
        """By label, numbered where there is more than one."""
        different = {json.dumps(t.curriculum, sort_keys=True): t.curriculum for t in self.students}.values()
        return {self.label if len(different) == 1 else f"{self.label} {k}": c for k, c in enumerate(different, 1)}


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord:
    name: str
    run: Mapping[str, Any]
    """Its `seed`, what policies were `deployed under`, and whether they were `deployed each unit`."""
    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True)
class ReproductionRecord:
    """Repetitions of one comparison, to be set beside a paper's numbers."""

    title: str
    ours: bool
    """Whether it is of our students and teacher."""
    repetitions: int
    students: int
    """In the class of each curriculum of each repetition."""
    searches: tuple[str, ...]
    """Its studies."""
    rows: tuple[ReproducedRow, ...]
    pooled: ComparisonRecord
    """All students, whatever their repetition; no groups before the first has been enrolled."""


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    name: str
    run: Mapping[str, Any]
    rounds: tuple[StoredTrial, ...]
    classes: tuple[tuple[Transcript, ...], ...]
    """The students of each round."""
    found: Mapping[str, Any] | None
    """What the study found; None before it is over, unless its teacher was asked what it believes by now."""
    over: bool

    @property
    def students(self) -> tuple[Transcript, ...]:
        return tuple(t for students in self.classes for t in students)

    @property
    def model(self) -> Mapping[str, Any]:
        return self.found["model"] if self.found else {}

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The policy found, as JSON."""
        if self.found is None:
            return None
        kept: Mapping[str, Any] | None = self.found.get("policy")  # earlier stores have its parameters alone
        return kept or self.policy(self.found["best"])

    @property
    def teacher(self) -> str:
        """Its class; "" in stores that do not tell."""
        return str(self.run.get("teacher", {}).get("kind", ""))

    @property
    def n_initial(self) -> int:
        """Policies tried before a model chose; all of them where there was no model."""
        modelled = [k for k, past in enumerate(self.rounds) if past.model]
        if modelled or self.teacher in ("", "RandomSearch"):
            return modelled[0] if modelled else len(self.rounds)
        return min(int(self.run.get("initial policies", 0)), len(self.rounds))

    def policy(self, parameters: Parameters) -> Mapping[str, Any]:
        """The policy at a point of the search, as JSON."""
        switching = Switching.from_parameters(parameters).to_json()
        patience = self.run.get("patience")
        return switching if patience is None else switching | {"kind": "patient", "patience": patience}


@dataclass(frozen=True, kw_only=True)
class Contents:
    source: str
    """The store's file name."""
    settings: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]
    """What defines each study and comparison."""
    studies: tuple[StudyRecord, ...]
    comparisons: tuple[ComparisonRecord, ...]
    """Those that are not repetitions of the reproduction."""
    reproduction: ReproductionRecord | None
    audit: Mapping[str, Any]
    """The quick audit as the store keeps it, but for certificates that students contradict; empty where there was
    none."""
    trajectories: Mapping[str, Sequence[Mapping[str, Any]]]
    """By student: episodes as JSON, see `cisr.experiments.trajectories.Trajectory`."""
    live: bool = False
    """Whether it is shown again and again while students are in training: what would take long is cut or left for
    later."""

    @property
    def groups(self) -> tuple[Group, ...]:
        pooled = [self.reproduction.pooled] if self.reproduction else []
        return tuple(group for c in (*pooled, *self.comparisons) for group in c.groups)

    @property
    def students(self) -> tuple[Transcript, ...]:
        compared = [t for group in self.groups for t in group.students]
        return (*(t for study in self.studies for t in study.students), *compared)

    @property
    def most_lines(self) -> int | None:
        """Students that a timeline shows at most."""
        return 60 if self.live else None

    @property
    def definition(self) -> Mapping[str, Any]:
        """The numbers of the task."""
        definition: Mapping[str, Any] = self.settings.get("definition", {})
        return definition

    @property
    def n_units(self) -> int:
        return int(self.definition.get("n_units", 0))

    @property
    def constraints(self) -> Sequence[str]:
        constraints: Sequence[str] = self.definition.get("constraints", ("failures", "rescues"))
        return constraints

    @property
    def own_interventions(self) -> tuple[str, ...]:
        return interventions_of(self.settings)

    @property
    def interventions(self) -> tuple[str, ...]:
        """The task's own first, then others that students met, `none` last."""
        own = self.own_interventions
        met = {unit.intervention for t in self.students for unit in t.units}
        others = sorted(met - {*own, "none"}, key=lambda name: (len(name), name))
        return (*own, *others, *(["none"] if "none" in met else []))

    def colours(self) -> dict[str, str]:
        """One colour for each intervention and curriculum; a fixed curriculum has that of its intervention."""
        labels = [group.label for group in self.groups]
        first = [name for name in self.interventions if name in self.own_interventions]
        return palette((*first, *labels, *self.interventions))


def read(path: Path) -> Contents:
    """Read a store without touching it; a study may be running on it."""
    with Store(path, read_only=True) as store, making_sense_of(store):
        return contents_of(store, path.name)


def contents_of(store: Store, source: str, transcripts: Sequence[Transcript] | None = None) -> Contents:
    """`transcripts` are those of the store, where they are known already."""
    settings, runs = store.settings(), store.runs()
    rounds = {name: tuple(past) for name in runs if (past := store.trials(name))}
    owned: dict[str, dict[str, list[Transcript]]] = {}
    everyone = store.transcripts() if transcripts is None else transcripts
    for transcript in everyone:
        owner = owner_of(transcript.name)
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
            over=name in found,
        )
        for name, tried in rounds.items()
    ]
    reproduced = store.reproduction()
    repetitions, searches = (reproduced["repetitions"], reproduced["searches"]) if reproduced else ([], [])
    studies.sort(key=lambda study: searches.index(study.name) if study.name in searches else len(searches))
    comparisons = [
        _comparison(name, runs[name], groups, interventions_of(settings), store.curricula(name))
        for name, groups in owned.items()
        if name not in rounds and name not in repetitions
    ]
    return Contents(
        source=source,
        settings=settings,
        runs=runs,
        studies=tuple(studies),
        comparisons=tuple(comparisons),
        reproduction=_reproduction(reproduced, settings.get("student"), runs, owned) if reproduced else None,
        audit=held_against(store.audit(), everyone),
        trajectories=store.trajectories(),
    )


def interventions_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The interventions that the task itself lists."""
    listed = settings.get("definition", {}).get("interventions", [])
    return tuple(one if isinstance(one, str) else one[0] for one in listed)  # earlier stores list their numbers too


def _comparison(
    name: str, run: Mapping[str, Any], groups: Mapping[str, list[Transcript]], own: Sequence[str], order: Sequence[str]
) -> ComparisonRecord:
    def place(label: str) -> tuple[int, int, int, int, str]:
        kind = groups[label][0].curriculum.get("kind")
        size = int(re.sub(r"\D", "", label)[:9] or 0)
        first = KINDS.index(kind) if kind in KINDS else len(KINDS)
        asked = order.index(label) if label in order else len(order)
        return (asked, first, own.index(label) if label in own else len(own), size, label)

    ordered = {label: groups[label] for label in sorted(groups, key=place)}
    return ComparisonRecord(name=name, run=run, groups=_groups(ordered))


def _groups(students: Mapping[str, Sequence[Transcript]]) -> tuple[Group, ...]:
    rows = summarise_groups(students)
    return tuple(Group(label=row.curriculum, students=tuple(students[row.curriculum]), row=row) for row in rows)


def _reproduction(
    found: Mapping[str, Any],
    student: str | None,
    runs: Mapping[str, Mapping[str, Any]],
    owned: Mapping[str, Mapping[str, list[Transcript]]],
) -> ReproductionRecord:
    """What `reproduce` recorded and what has been trained of it; see `cisr.experiments.reproduce.finding`."""
    run = runs[found["repetitions"][0]]
    pooled: dict[str, list[Transcript]] = {}
    rows = []
    for label, paper in found["rows"]:
        enrolled = [owned[name][label] for name in found["repetitions"] if label in owned.get(name, {})]
        classes = [each[: found["students"]] for each in enrolled]
        if any(classes):
            pooled[label] = [t for each in classes for t in each]
            rows.append(reproduced_row(label, classes, paper and PublishedRow.from_json(paper)))
    return ReproductionRecord(
        title=entitled(found["title"], student),
        ours=student == EXPLORER,
        repetitions=len(found["repetitions"]),
        students=found["students"],
        searches=tuple(found["searches"]),
        rows=tuple(rows),
        pooled=ComparisonRecord(name="reproduction", run=run, groups=_groups(pooled)),
    )
