"""The commands that make a store again, as far as it tells."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from cisr.core.rewinds import read_rewind
from cisr.experiments.publications import published_teachers
from cisr.tasks import SB3
from cisr.tasks.entry import EXPLORER
from cisr.view.contents import ComparisonRecord, Contents, Group, ReproductionRecord, StudyRecord

TEACHERS = {"TopTwo": "top-two", "GPUCB": "gp-ucb", "RandomSearch": "random"}
"""What the command line calls them."""


def commands(contents: Contents) -> str:
    reproduced = contents.reproduction
    lines = [_reproduce(contents, reproduced)] if reproduced else []
    search = _ask if contents.settings.get("backend") == "elsewhere" else _train
    lines += [search(contents, s) for s in contents.studies if not (reproduced and s.name in reproduced.searches)]
    elsewhere = contents.settings.get("backend") == "elsewhere"
    lines += [(_ask_compared if elsewhere else _compare)(contents, record) for record in contents.comparisons]
    return "\n".join(lines)


def _reproduce(contents: Contents, record: ReproductionRecord) -> str:
    words: list[object] = ["cisr", "reproduce", *_task(contents)]
    if not record.searches:  # with the teachers of other students, whose store lies beside this one
        words = ["cisr", "reproduce", contents.settings.get("task"), "--scale", contents.settings.get("scale")]
        words += ["--way", "paper"]
    words += ["--teachers", record.repetitions, "--students", record.students]
    return _line(contents if record.searches else _of_the_teachers(contents), words, record.pooled.run)


def _of_the_teachers(contents: Contents) -> Contents:
    """Named as the store beside it, of the students whose teachers these are."""
    path, kind = PurePath(contents.source), contents.settings.get("student")
    return replace(contents, source=f"{path.stem.removesuffix(f'-{kind}')}{path.suffix}")


def _ask(contents: Contents, study: StudyRecord) -> str:
    """The rest is what rigs say of it."""
    words: list[object] = ["cisr", "ask", contents.source, "--task", contents.settings.get("task")]
    if contents.settings.get("scale") == "own":
        words += ["--interventions", ",".join(contents.own_interventions)]
    words += ["--units", contents.n_units, *_search(study), "--seed", study.run["seed"]]
    return " ".join(shlex.quote(str(word)) for word in words)


def _ask_compared(contents: Contents, record: ComparisonRecord) -> str:
    labels = ",".join(g.label if by_name(contents, g) else f"{g.label}.json" for g in record.groups)
    words: list[object] = ["cisr", "ask", contents.source, "--compare", labels, "--seed", record.run["seed"]]
    words += ["--students", max(len(group.students) for group in record.groups)]
    return " ".join(shlex.quote(str(word)) for word in words)


def _search(study: StudyRecord) -> list[object]:
    initial = min(int(study.run.get("initial policies", study.n_initial)), len(study.rounds))
    counts = ["--initial", initial, "--rounds", len(study.rounds) - initial]
    return [*counts, "--students", max(map(len, study.classes), default=1)]


def _train(contents: Contents, study: StudyRecord) -> str:
    words: list[object] = ["cisr", "train", *_task(contents), *_search(study)]
    words += ["--at-once", study.run.get("policies at once", 1)]
    if "patience" in study.run:
        words += ["--patience", study.run["patience"]]
    notes = _named(study.name, "study")
    if study.teacher in TEACHERS:
        words += ["--teacher", TEACHERS[study.teacher]]
    elif study.teacher:
        notes += [f"The teacher, {study.teacher}, was given in Python"]
    return _line(contents, words, study.run, notes)


def _compare(contents: Contents, record: ComparisonRecord) -> str:
    words: list[object] = ["cisr", "compare", *_task(contents)]
    files = [f"{group.label.removesuffix('.json')}.json" for group in record.groups]
    words += [g.label if by_name(contents, g) else file for g, file in zip(record.groups, files, strict=True)]
    words += ["--students", max(len(group.students) for group in record.groups)]
    if record.run["deployed each unit"]:
        words += ["--deploy-each-unit"]
    return _line(contents, words, record.run, _named(record.name, "compare"))


def _task(contents: Contents) -> tuple[str, ...]:
    task, scale = str(contents.settings.get("task")), str(contents.settings.get("scale"))
    student = contents.settings.get("student")
    if scale == "own":
        named = student == EXPLORER or str(student).startswith(SB3)
        return ("package.module:task", *(["--student", str(student)] if named else []))
    return (task, "--scale", scale, *(["--student", student] if student else []))


def by_name(contents: Contents, group: Group) -> bool:
    """Whether a curriculum can be named on the command line; others are files."""
    known = published_teachers(str(contents.settings.get("task"))).get(group.label)
    rewind = read_rewind(group.label)
    return (
        group.label == group.curriculum.get("intervention", group.curriculum.get("kind"))  # fixed, none, bandit
        or (rewind is not None and rewind.grows)
        or (known is not None and known.to_json() == group.curriculum)
    )


def _named(name: str, usual: str) -> list[str]:
    return [] if name == usual else [f"'{name}' was named in Python; the command line calls it '{usual}'"]


def _line(contents: Contents, words: list[object], run: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    words += ["--backend", contents.settings.get("backend", "auto")]
    words += [] if run["deployed under"] == "none" else ["--evaluate-safely"]
    words += ["--seed", run["seed"]]
    words += ["--batch", contents.settings["batching"]["largest"], "--store", contents.source]
    said = list(notes)
    if contents.settings.get("scale") == "own":
        said += [f"package.module:task stands for the task '{contents.settings.get('task')}'"]
    comments = "".join(f"# {' '.join(note.split())}\n" for note in said)
    return comments + " ".join(shlex.quote(str(word)) for word in words)
