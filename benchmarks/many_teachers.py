"""Many teachers of each kind, and what their curricula do for fresh students, beside the baselines.

    python benchmarks/many_teachers.py frozen-lake --kinds ours,random --teachers 9 --students 30 --fresh 30 \\
        --baselines SR1,SR2,HR,bandit,none --seed 40

Every teacher has the same number of students to learn from (`--students`); its curriculum is then tried on `--fresh`
new ones, and so is each baseline, once for each teacher. One value for each teacher, so tests count teachers. The
paper's teacher begins with 10 random policies, ours as in the task. `--patience N` is after how many units students
start anew in the curricula that ours searches, where it is not to be as the task has it. With `--store FILE` whatever
is stopped goes on by the same command; without it nothing is kept but `--json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from cisr.cli.naming import parse_curricula
from cisr.core.errors import CisrError, ConfigError
from cisr.core.task import Task
from cisr.experiments.compare import register
from cisr.experiments.comparison import LEARNED
from cisr.experiments.reproduced import reproduced_row, told_apart
from cisr.experiments.search import random_teacher
from cisr.experiments.study import Study, run_together
from cisr.store import Store
from cisr.store.runs import begin, deployed
from cisr.tasks import get_task
from cisr.training import Classroom
from cisr.training.setup import make_setup
from cisr.view.tables import differences_table
from cisr.view.terminal import on_terminal

PAPERS_RANDOM_POLICIES = 10


def studies_of(kind: str, task: Task, given: argparse.Namespace) -> list[Study]:
    if kind not in ("ours", "paper", "random"):
        raise ConfigError(f"A kind of teacher is '{kind}': give ours, paper or random.")
    usual = task.training.teaching
    teaching = replace(usual, teacher="top-two", at_once=given.at_once or usual.at_once)
    if kind == "ours" and given.patience is not None:
        teaching = replace(teaching, patience=given.patience)
    n_initial = {"ours": given.initial, "random": given.students, "paper": PAPERS_RANDOM_POLICIES}[kind]
    n_initial = min(n_initial, given.students)
    if kind == "paper":
        teaching = replace(teaching, teacher="gp-ucb", at_once=1)
    teaching = replace(teaching, class_size=1, n_initial=n_initial, n_rounds=given.students - n_initial)
    teacher = random_teacher if kind == "random" else None
    names = [f"{kind}-{k + 1}" for k in range(given.teachers)]
    return [Study(task, teacher=teacher, teaching=teaching, seed=given.seed, name=name) for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--student", help="the kind of students (default: the task's)")
    parser.add_argument("--scale", choices=("paper", "quick"), default="paper")
    parser.add_argument("--kinds", default="ours,random", help="ours, paper, random")
    parser.add_argument("--teachers", type=int, default=9, help="of each kind")
    parser.add_argument("--students", type=int, default=30, help="that each teacher learns from")
    parser.add_argument("--initial", type=int, default=5, help="of them for our teacher's first policies")
    parser.add_argument("--fresh", type=int, default=30, help="new students for each curriculum found")
    parser.add_argument("--baselines", default="", help="names as in `cisr compare`")
    parser.add_argument("--at-once", type=int, help="policies that our teacher chooses at once (default: the task's)")
    parser.add_argument("--patience", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()

    began = time.monotonic()
    out = Console(width=130)
    task = get_task(given.task, scale=given.scale, student=given.student)
    baselines = parse_curricula([name for name in given.baselines.split(",") if name], task)
    kinds = {kind: studies_of(kind, task, given) for kind in given.kinds.split(",")}
    with Store(given.store) as store:
        setup = make_setup(task)
        together = [study for studies in kinds.values() for study in studies]
        results = dict(zip([s.name for s in together], run_together(together, store), strict=True))
        out.print(f"{len(together)} teachers in {(time.monotonic() - began) / 60:.1f} minutes")
        repetitions = []
        for k in range(given.teachers):
            found = {kind: results[studies[k].name].best_policy for kind, studies in kinds.items()}
            name = f"evaluation-{k + 1}"
            batching = begin(store, name, setup, deployed(setup, given.seed))
            repetitions.append(register(task, {**found, **baselines}, given.fresh, given.seed, name))
        with Classroom(setup, store, batching=batching) as classroom:
            everyone = [s for groups in repetitions for group in groups.values() for s in group]
            taught = {transcript.name: transcript for transcript in classroom.teach(everyone)}
    groups = {label: [[taught[s.name] for s in r[label]] for r in repetitions] for label in repetitions[0]}
    rows = [reproduced_row(label, each, None) for label, each in groups.items()]
    record: dict[str, Any] = {"command": vars(given) | {"store": None, "json": None}, "rows": {}}
    for row in rows:
        label = row.curriculum
        students = [t for group in groups[label] for t in group]
        success = [s for t in students if t.deployment and (s := t.deployment.success) is not None]
        returns = [t.deployment.mean_return for t in students if t.deployment]
        record["rows"][label] = {
            "classes": list(row.classes["success"]),
            "class returns": list(row.classes["return"]),
            "students": len(students),
            "success": fmean(success),
            "lowest class": min(row.classes["success"]),
            "lowest student": min(success),
            "return": fmean(returns),
            "failed to learn": sum(s < LEARNED for s in success),
            "training failures": sum(t.training_failures or 0 for t in students),
            "search failures": sum(results[s.name].training_failures for s in kinds.get(label, [])),
        }
        told = {key: value for key, value in record["rows"][label].items() if not key.startswith("class")}
        out.print(label, " ".join(f"{key} {value:.4g}," for key, value in told.items()), highlight=False)
    differences = told_apart(rows)
    record["differences"] = [difference.to_json() for difference in differences]
    record["policies"] = {
        kind: [results[s.name].best_policy.to_json() for s in studies] for kind, studies in kinds.items()
    }
    record["beliefs"] = {
        kind: [b and asdict(b) for b in (results[s.name].belief for s in studies)] for kind, studies in kinds.items()
    }
    title = f"{rows[0].curriculum} against the others, one value for each teacher"
    out.print(on_terminal(differences_table(differences), title))
    out.print(f"In all {(time.monotonic() - began) / 60:.1f} minutes")
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (CisrError, OSError) as error:
        sys.exit(str(error))
