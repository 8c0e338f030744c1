"""Does it matter where a student's multipliers begin that learns to land without an intervention?

    python benchmarks/lander_multipliers.py [--students N] [--backend compiled|gymnasium] [--store FILE] [--json FILE]

Here a task has the same constraints under all of its interventions, so m = 3 on the lander (danger and two triggers),
and multipliers begin at B/4 without an intervention, too. In the authors' program there is then but one constraint
beside danger, which never fires, and they begin at B/3. The second group has that: its task has an intervention with a
single trigger, under which nobody learns. Both stores are kept and gone on with.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cisr import Execution, Fixed, compare, get_task
from cisr.core.task import Task
from cisr.experiments.comparison import measure_groups, summarise_group
from cisr.experiments.differences import against_the_others
from cisr.students.kinds import student_of

SHOWN = ("success", "return", "training_failures", "outcomes")


def with_one_trigger(task: Task) -> Task:
    """The same CMDP without an intervention, and one constraint less."""
    first = task.interventions[0]
    trigger = next(iter(first.triggers.values()))
    alone = (replace(first, trigger=trigger),)
    return replace(task.with_teaching(interventions=(), initial=()), interventions=alone, safe_evaluation=first.name)


def tried(students: int, backend: str, store: Path, seed: int) -> dict[str, Any]:
    task = get_task("lunar-lander", student="two-layer")
    groups = {}
    for each in (task, with_one_trigger(task)):
        label = f"B/{len(each.constraints) + 1}"
        found = compare(
            each,
            {label: Fixed("none")},
            n_students=students,
            seed=seed,
            store=store.with_stem(f"{store.stem}-{len(each.constraints) + 1}"),
            execution=Execution(backend=backend),
        )
        groups[label] = found.transcripts[label]
    rows = {label: summarise_group(label, each).to_json() for label, each in groups.items()}
    return {
        "bound": student_of(task).multiplier_bound,
        "students": students,
        "rows": {label: {name: row[name] for name in SHOWN} for label, row in rows.items()},
        "differences": [difference.to_json() for difference in against_the_others(measure_groups(groups))],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--backend", choices=("compiled", "gymnasium"), default="compiled")
    parser.add_argument("--store", type=Path, default=Path("runs/lander-multipliers.sqlite"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    text = json.dumps(tried(chosen.students, chosen.backend, chosen.store, chosen.seed), indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
