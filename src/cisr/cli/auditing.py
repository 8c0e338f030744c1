"""`cisr audit`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cisr.auditing.counterexample import Candidate, load, play_candidate_apart, replay_apart
from cisr.auditing.report import AuditReport
from cisr.auditing.report import audit as run_audit
from cisr.cli import options
from cisr.cli.console import err, interruptible, out, write_json
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
    int, typer.Option(help="Environment steps of attacks on each intervention that no proof covers.")
]
ConfidenceOption = Annotated[float, typer.Option(help="Of the upper bounds on failures per episode.")]
ReplayOption = Annotated[Path | None, typer.Option(help="Play this counterexample again instead.", show_default=False)]
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
    check_targets({"--out": folder / "map.png", "--json": json_path}, [] if replay is None else [replay])
    if replay is not None:
        _replay(task, replay, folder, workers, step_timeout)
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
    for path in keep_candidates(found, folder):
        again = shlex.join(["cisr", "audit", task_name, "--replay", str(path)])
        out.print(f"To be played where Gymnasium's environment is installed: {again}", soft_wrap=True)
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


def _replay(task: Task, path: Path, folder: Path, workers: int | None, step_timeout: float) -> None:
    """Play a counterexample again, say whether the same came out, and draw it."""
    example = load(path)
    if isinstance(example, Candidate):
        _confirm(task, example, folder / path.name, workers, step_timeout)
        return
    again = replay_apart(task, example, n_workers=workers, step_timeout=step_timeout)
    out.print(str(example) + ".", soft_wrap=True)
    if not again:
        out.print(f"The replay differs: {again.difference}", soft_wrap=True)
        raise SystemExit(1)
    picture = folder / f"{path.stem}-replay.png"
    (frame,), missing = last_frames(task, [example], step_timeout)
    draw(task, example, picture, frame=frame)
    if missing is not None:
        out.print(f"The picture does without the last frame: {missing}", soft_wrap=True)
    out.print(f"The replay is the same, step by step. Picture: {shlex.quote(str(picture))}", soft_wrap=True)


def _confirm(task: Task, candidate: Candidate, target: Path, workers: int | None, step_timeout: float) -> None:
    """Play what failed in a JAX environment on Gymnasium's; exit code 1 if it fails there, too."""
    out.print(str(candidate) + ".", soft_wrap=True)
    example = play_candidate_apart(task, candidate, n_workers=workers, step_timeout=step_timeout)
    if example is None:
        out.print("On Gymnasium's environment it does not fail.", soft_wrap=True)
        return
    kept = target.with_stem(f"{target.stem}-confirmed")
    example.save(kept)
    (frame,), _ = last_frames(task, [example], step_timeout)
    draw(task, example, kept.with_suffix(".png"), frame=frame)
    out.print(f"On Gymnasium's environment it fails, too: {shlex.quote(str(kept))}", soft_wrap=True)
    raise SystemExit(1)
