"""Records a landscape of curricula: students of many random curriculum policies, one line each, as CSV.

    python benchmarks/landscape.py frozen-lake --student cnn --policies 240 --students 16 --out landscape.csv

`benchmarks/teachers.py --landscape landscape.csv` then lets teachers search it: a student is a line of the table
instead of minutes of training. Policies are drawn uniformly from the task's search space. `met` is what the student
went through, unit by unit (`SR1*3 HR*8`). The compiled backend trains all students of a batch together; on one H200 the
command above takes five minutes.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cisr.core.errors import CisrError
from cisr.core.task import Task
from cisr.curricula import Switching
from cisr.experiments.search import search_space
from cisr.tasks import get_task
from cisr.teachers import RandomSearch
from cisr.training import Batch, Checkpoint, Graduation, StudentSpec
from cisr.training.new_students import new_student
from cisr.training.setup import make_setup
from cisr.training.worker import Job, events_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--student", help="the kind of students (default: the task's)")
    parser.add_argument("--policies", type=int, default=240)
    parser.add_argument("--students", type=int, default=16, help="of each policy")
    parser.add_argument("--batch", type=int, default=960, help="students trained together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    task = get_task(given.task, student=given.student)
    points = RandomSearch(search_space(task), seed=given.seed).ask(given.policies)
    names = [f"{number:03d}/{k:02d}" for number in range(given.policies) for k in range(given.students)]
    students = [new_student(task, Switching.from_parameters(points[int(name[:3])]), given.seed, name) for name in names]
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer: Any = None
        for first in range(0, len(students), given.batch):
            for name, record in students_of(task, students[first : first + given.batch]):
                number, k = name.split("/")
                line = {"policy": number, **points[int(number)], "student": int(k), **record}
                if writer is None:
                    writer = csv.DictWriter(file, list(line))
                    writer.writeheader()
                writer.writerow(line)
            file.flush()
            print(f"{min(first + given.batch, len(students))} of {len(students)} students", file=sys.stderr)


def students_of(task: Task, students: list[StudentSpec]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train one batch in this process; what became of each student, by name."""
    met: list[list[str]] = [[] for _ in students]
    rescues = [0] * len(students)
    batch = Batch(name="landscape", students=tuple(students))
    for event in events_of(Job(make_setup(task), batch, None)):
        if isinstance(event, Checkpoint):
            for k, unit in enumerate(event.records):
                assert unit is not None, event.errors[k]
                met[k].append(unit.log.intervention)
                rescues[k] += unit.log.total_rescues or 0
        elif isinstance(event, Graduation):
            for k, (student, deployment) in enumerate(zip(students, event.deployments, strict=True)):
                assert deployment is not None and deployment.success is not None, event.errors[k]
                stages = " ".join(f"{name}*{len(list(run))}" for name, run in itertools.groupby(met[k]))
                yield (
                    student.name,
                    {
                        "success": round(deployment.success, 5),
                        "return": round(deployment.mean_return, 4),
                        "rescues": rescues[k],
                        "met": stages,
                    },
                )


if __name__ == "__main__":
    try:
        main()
    except (CisrError, OSError) as error:
        sys.exit(str(error))
