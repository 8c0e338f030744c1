"""Students as files that act without cisr: for numpy alone, or for any runtime of ONNX."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cisr.core.checks import check_kind, shown
from cisr.core.errors import ConfigError
from cisr.core.libraries import installed, needed
from cisr.core.task import Task
from cisr.export import numpy_policy
from cisr.export.policy import PolicyDescription, describe
from cisr.store import Store
from cisr.store.load_student import StoredStudent, stored_student
from cisr.store.meaning import making_sense_of
from cisr.students.student import Student
from cisr.system.files import check_suffix, check_targets, writing
from cisr.tasks import task_of
from cisr.training import STEP_TIMEOUT
from cisr.training.apart import play_apart
from cisr.training.spaces import spaces_of

if installed("onnx"):
    from cisr.export.onnx_policy import onnx_model
if TYPE_CHECKING:
    import gymnasium

    from cisr.training.sb3 import SB3Actor

LOADER = Path(numpy_policy.__file__)
"""The program that numpy policies are run by; it is written beside them as it is."""
ENDINGS = (".npz", ".onnx")
SOME = 3
"""Names that a complaint gives as examples."""


def export_student(
    student: Student | SB3Actor, path: Path | str, observation_space: gymnasium.Space[Any] | None = None
) -> Path:
    """Write a student as a policy that needs no cisr: `student.npz` for numpy alone, with the program that runs it
    beside it (`numpy_policy.py`), or `student.onnx` for any runtime of ONNX.

    Where the environment shows observations of several parts, the numpy policy takes them as they are if it is given
    the `observation_space`.

    >>> export_student(comparison.student("SR1"), "student.npz")  # doctest: +SKIP
    """
    check_kind("The path of an exported student", path, (str, Path), "a text or a Path")
    target = Path(path)
    check_suffix(target, ENDINGS)
    _check_place(target)
    return _written(_described(student, observation_space), target)


def export_stored_student(
    store: Path, name: str, path: Path, task_name: str | None, step_timeout: float = STEP_TIMEOUT
) -> Path:
    """A finished student of a store; its task must be given where it is not built in. What the student sees and does is
    asked of the task's environment in a process of its own, where it may block or crash."""
    check_suffix(path, ENDINGS)
    _check_place(path)
    with Store(store, read_only=True) as opened, making_sense_of(opened):
        kept = _finished(opened, name)
        task = task_of(opened.settings(), task_name)
    return _written(play_apart(_describe_stored, task, kept, step_timeout=step_timeout), path)


def _describe_stored(task: Task, kept: StoredStudent, tell: Callable[..., None]) -> PolicyDescription:
    return _described(kept.ready(task), spaces_of(task)[0])


def _written(policy: PolicyDescription, target: Path) -> Path:
    if target.suffix.lower() == ".onnx":
        needed("onnx", "ONNX", "export")
        content = onnx_model(policy, target.stem).SerializeToString()
        with writing(target) as aside:
            aside.write_bytes(content)
        return target
    with writing(target.with_name(LOADER.name)) as aside:
        aside.write_bytes(LOADER.read_bytes())
    with writing(target) as aside, aside.open("wb") as file:
        arrays: dict[str, Any] = {"about": np.array(json.dumps(policy.about)), **policy.arrays}
        np.savez(file, **arrays)
    return target


def _finished(store: Store, name: str) -> StoredStudent:
    known = {transcript.name: transcript for transcript in store.transcripts()}
    if name not in known:
        done = [each for each, transcript in known.items() if transcript.deployment is not None]
        some = ", ".join(done[:SOME]) + (", …" if len(done) > SOME else "")
        raise ConfigError(f"{store} has no student '{name}': give one that has finished ({some or 'none has yet'}).")
    transcript = known[name]
    if transcript.error is not None:
        raise ConfigError(f"Student '{name}' was ended by an error: {transcript.error}. Give one that has finished.")
    if transcript.deployment is None:
        raise ConfigError(f"Student '{name}' has not finished: run the same command again that began it.")
    return stored_student(store, name)


def _described(student: Any, space: gymnasium.Space[Any] | None) -> PolicyDescription:
    if isinstance(student, Student):
        return describe(student, space)
    sb3 = sys.modules.get("cisr.training.sb3")  # brought in, with torch, where there is one of its students
    if sb3 is None or not isinstance(student, sb3.SB3Actor):
        raise ConfigError(
            f"The student to be exported is {shown(student)}: give a cisr.Student, or what cisr.load_student gave."
        )
    from cisr.export.sb3_policy import describe_sb3  # brings in torch

    return describe_sb3(student, space)


def _check_place(target: Path) -> None:
    """Before any work. A program of the user's own is not replaced."""
    if target.suffix.lower() != ".npz":
        check_targets({"--out": target})
        return
    loader = target.with_name(LOADER.name)
    check_targets({"--out": target, "The program beside it": loader})
    first = LOADER.read_bytes().splitlines()[0]
    if loader.is_file() and not loader.read_bytes().startswith(first):
        raise ConfigError(f"{loader} is there and is not ours, and would be replaced: give another folder.")
