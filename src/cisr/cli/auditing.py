"""`cisr audit`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cisr.auditing.counterexample import KEPT, Candidate, Counterexample, load, play_candidates_apart, replay_apart
from cisr.auditing.report import AuditReport
from cisr.auditing.report import audit as run_audit
from cisr.cli import options
from cisr.cli.console import err, interruptible, out, write_json
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.system.files import check_targets, plain
from cisr.tasks import get_task, papers_kind
from cisr.training import STEP_TIMEOUT
from cisr.view import audit as show
from cisr.view.audit_picture import audit_map
from cisr.view.counterexamples import keep_candidates, keep_counterexamples, last_frames
from cisr.view.episode_picture import draw
from cisr.view.progress import counting

InterventionOption = Annotated[
    list[str] | None, typer.Option(help="Audit this one; may be given again. (default: all)", show_default=False)
]
BudgetOption = Annotated[
    int,
    typer.Option(
        help="Environment steps of attacks on each intervention that no proof covers. On the compiled backend up to "
        "100,000 on Gymnasium's environment come on top, a quarter as many at most."
    ),
]
ConfidenceOption = Annotated[float, typer.Option(help="Of the upper bounds on failures per episode.")]
ReplayOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Play this counterexample or candidate again instead, or all of a folder; may be given again.",
        show_default=False,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for pictures and counterexamples. (default: runs/audit-TASK)", show_default=False
    ),
]


def audit(
    task_name: options.TaskName,
    intervention: InterventionOption = None,
    budget: BudgetOption = 100_000,
    confidence: ConfidenceOption = 0.95,
    replay: ReplayOption = None,
    student: options.PapersStudentOption = None,
    scale: options.ScaleOption = options.Scale.paper,
    backend: options.BackendOption = options.Backend.auto,
    target: OutOption = None,
    workers: options.WorkersOption = None,
    step_timeout: options.StepTimeoutOption = STEP_TIMEOUT,
    seed: options.SeedOption = 0,
    json_path: options.JsonOption = None,
) -> None:
    """Say what safety each intervention really gives: proofs for finite tasks, attacks on all others.

    Exit code 0 when no intervention was refuted, 1 when one was or the task's code breaks a promise, 2 for bad input.
    """
    task = get_task(task_name, scale.value, student or papers_kind(task_name, scale.value))
    folder = target or Path("runs") / f"audit-{plain(task.name)}"
    check_targets({"--out": folder / "map.png", "--json": json_path}, replay or [])
    if replay:
        _replay(task, replay, folder, json_path, workers, step_timeout)
        return
    with counting(err, f"Auditing {task.name}") as callback, interruptible("Of an audit nothing is kept."):
        found = run_audit(
            task,
            intervention,
            budget=budget,
            confidence=confidence,
            seed=seed,
            backend=backend.value,
            n_workers=workers,
            step_timeout=step_timeout,
            callback=callback,
        )
    _show(found)
    if found.exact is not None and task.appearance.floor_plan is not None:
        picture = folder / "map.png"
        audit_map(task, found.exact, picture)
        out.print(f"Map: {shlex.quote(str(picture))}", soft_wrap=True)
    kept = keep_counterexamples(task, found, folder, step_timeout)
    if kept.missing is not None:
        out.print(f"Pictures do without the last frame: {kept.missing}", soft_wrap=True)
    for path in kept.paths:
        again = shlex.join(["cisr", "audit", task_name, "--replay", str(path)])
        out.print(f"Counterexample: {again}", soft_wrap=True)
    candidates = folder / "candidates"
    if n := keep_candidates(found, candidates):
        again = shlex.join(["cisr", "audit", task_name, "--replay", str(candidates)])
        out.print(f"{n:,} candidates, to be played where Gymnasium's environment is installed: {again}", soft_wrap=True)
    write_json(json_path, found.to_json())
    if found.refuted:
        raise SystemExit(1)


def _show(found: AuditReport) -> None:
    out.print(show.verdict_table(found))
    if found.exact is not None:
        if found.exact.numbers is not None:
            out.print(show.numbers_table(found.exact))
        out.print(show.task_line(found.exact), soft_wrap=True)
    for attacks in (show.search_table(found), show.attack_table(found)):
        if attacks is not None:
            out.print(attacks)
    notes = [f"{v.name}: {note}" for v in found.verdicts if v.falsification for note in v.falsification.notes]
    for line in (*(f"Broken promise: {promise}" for promise in found.broken), *found.notes, *notes):
        out.print(line, soft_wrap=True)


def _replay(
    task: Task, given: Sequence[Path], folder: Path, json_path: Path | None, workers: int | None, step_timeout: float
) -> None:
    """Play what audits have kept again, and say what came out."""
    loaded = {path: load(path) for path in _files(given)}
    differ = [
        _differs(task, example, path, folder, workers, step_timeout)
        for path, example in loaded.items()
        if isinstance(example, Counterexample)
    ]
    candidates = {path: example for path, example in loaded.items() if isinstance(example, Candidate)}
    confirmed = _confirmed(task, candidates, folder, workers, step_timeout) if candidates else 0
    counts = {"counterexamples": len(differ), "differ": sum(differ), "candidates": len(candidates)}
    write_json(json_path, counts | {"confirmed": confirmed})
    if any(differ) or confirmed:
        raise SystemExit(1)


def _files(given: Sequence[Path]) -> list[Path]:
    """Those given, and those of folders."""
    found = [file for path in given for file in (sorted(path.glob("*.json")) if os.path.isdir(path) else [path])]
    if not found:
        raise ConfigError(f"Cannot play {', '.join(map(str, given))}: there is no file that ends in .json.")
    return [*dict.fromkeys(found)]


def _differs(
    task: Task, example: Counterexample, path: Path, folder: Path, workers: int | None, step_timeout: float
) -> bool:
    """Play a counterexample again, say whether the same came out, and draw it."""
    again = replay_apart(task, example, n_workers=workers, step_timeout=step_timeout)
    out.print(str(example) + ".", soft_wrap=True)
    if not again:
        out.print(f"The replay differs: {again.difference}", soft_wrap=True)
        return True
    picture = folder / f"{path.stem}-replay.png"
    (frame,), missing = last_frames(task, [example], step_timeout)
    draw(task, example, picture, frame=frame)
    if missing is not None:
        out.print(f"The picture does without the last frame: {missing}", soft_wrap=True)
    out.print(f"The replay is the same, step by step. Picture: {shlex.quote(str(picture))}", soft_wrap=True)
    return False


def _confirmed(
    task: Task, candidates: Mapping[Path, Candidate], folder: Path, workers: int | None, step_timeout: float
) -> int:
    """Play what failed in a JAX environment on Gymnasium's; how many fail there, too. The first few are drawn."""
    how: dict[str, Any] = {"n_workers": workers, "step_timeout": step_timeout}
    with counting(err, f"Playing {len(candidates):,} candidates") as callback, interruptible("Nothing is kept."):
        played = play_candidates_apart(task, tuple(candidates.values()), callback=callback, **how)
    out.print(show.candidates_table(tuple(candidates.values()), played))
    failed: dict[Path, Counterexample] = {}
    for path, found in zip(candidates, played, strict=True):
        if found is not None:
            same = sum(other.name.startswith(f"{path.stem}-confirmed") for other in failed)  # of another folder
            failed[folder / f"{path.stem}-confirmed{f'-{same + 1}' if same else ''}.json"] = found
    for path, example in failed.items():
        example.save(path)
    few = [*failed.items()][:KEPT]
    frames = last_frames(task, [example for _, example in few], step_timeout).pictures
    for (path, example), frame in zip(few, frames, strict=True):
        draw(task, example, path.with_suffix(".png"), frame=frame)
        out.print(f"Counterexample: {shlex.quote(str(path))}", soft_wrap=True)
    if len(failed) > len(few):
        out.print(f"All {len(failed):,} counterexamples are in {shlex.quote(str(folder))}.", soft_wrap=True)
    return len(failed)
