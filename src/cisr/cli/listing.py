"""`cisr tasks`."""

from __future__ import annotations

from rich.table import Table

from cisr.cli.console import JsonOption, out, write_json
from cisr.system.files import check_targets
from cisr.tasks import BUILT_IN, SCALES, get_task, student_kinds
from cisr.training.new_students import student_config


def tasks(json_path: JsonOption = None) -> None:
    """List tasks, their interventions, their kinds of students and these students' defaults."""
    check_targets({"--json": json_path})
    table = Table(title="Tasks", title_justify="left")
    for column in ("task", "scale", "interventions (τ)", "students", "what it is"):
        table.add_column(column)
    records = []
    for name in BUILT_IN:
        for scale in SCALES:
            task = get_task(name, scale)
            shown = ", ".join(f"{i.name} ({i.tau:g})" for i in task.interventions)
            student = student_config(task, 0, "example")
            others = [kind for kind in student_kinds(name) if kind != task.student_kind]
            kinds = f"{task.student_kind} (default), {task.n_units} units; or {', '.join(others)}"
            table.add_row(name, scale, shown, kinds, task.description)
            records.append(
                {
                    "task": name,
                    "scale": scale,
                    "interventions": [{"name": i.name, "tau": i.tau, "kappa": i.kappa} for i in task.interventions],
                    "student": student.to_json(),
                    "student_kind": task.student_kind,
                    "student_kinds": list(student_kinds(name)),
                    "n_units": task.n_units,
                }
            )
    out.print(table)
    write_json(json_path, {"tasks": records})
