"""Curricula as users name them on the command line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cisr.core.errors import ConfigError
from cisr.core.rewinds import read_rewind
from cisr.core.task import Task
from cisr.curricula import Bandit, CurriculumPolicy, load_policy, named_policy
from cisr.experiments.publications import published_teachers


def parse_curricula(texts: Sequence[str], task: Task) -> dict[str, CurriculumPolicy]:
    """Policies by label, from what a user may name on the command line; two that differ never share a label.

    A file goes by its name without the ending, or by all that was given where another curriculum has that name too.
    """
    files = {text: Path(text) for text in texts if _named(text, task) is None}
    stems = Counter(path.stem for path in files.values())
    found: dict[str, CurriculumPolicy] = {}
    for text in dict.fromkeys(texts):
        policy = _named(text, task)
        label = text
        if policy is None:
            path = files[text]
            policy = _of_file(text, path, task)
            if stems[path.stem] == 1 and _named(path.stem, task) is None:
                label = path.stem
        found[label] = policy
    return found


def _of_file(text: str, path: Path, task: Task) -> CurriculumPolicy:
    if path.suffix != ".json" and not os.path.exists(path):
        known = ", ".join((*task.intervention_names, *published_teachers(task.name), "none", "bandit"))
        raise ConfigError(f"There is no curriculum '{text}': give a JSON file or one of {known}.")
    return load_policy(path)


def _named(text: str, task: Task) -> CurriculumPolicy | None:
    """The curriculum that goes by this name; None where there is none."""
    if text == "bandit":
        return Bandit(task.choices)
    if text in (*task.intervention_names, "none") or read_rewind(text):
        return named_policy(text, task.training.n_units)
    return published_teachers(task.name).get(text)
