"""`cisr tasks`."""

from __future__ import annotations

from cisr.cli import options
from cisr.cli.console import out, write_json
from cisr.system.files import check_targets
from cisr.tasks import BUILT_IN, entry_of, get_task
from cisr.training.new_students import student_config
from cisr.view.terminal import plain_table


def tasks(json_path: options.JsonOption = None) -> None:
    """List tasks, their interventions, their kinds of students and these students' defaults."""
    check_targets({"--json": json_path})
    table = plain_table("Tasks", ("task", "scale", "interventions (τ)", "students", "what it is"))
    records = []
    for name in BUILT_IN:
        entry = entry_of(name)
        for scale in entry.scales:
            task = get_task(name, scale)
            shown = ", ".join(f"{i.name} ({i.tau:g})" for i in task.interventions)
            student = student_config(task, 0, "example")
            usual, n_units = task.training.student_kind, task.training.n_units
            others = [kind for kind in entry.students if kind != usual]
            kinds = "; or ".join(filter(None, (f"{usual} (default), {n_units} units", ", ".join(others))))
            table.add_row(name, scale, shown, kinds, task.appearance.description)
            records.append(
                {
                    "task": name,
                    "scale": scale,
                    "interventions": [{"name": i.name, "tau": i.tau, "kappa": i.kappa} for i in task.interventions],
                    "student": student.to_json(),
                    "student_kind": usual,
                    "student_kinds": list(entry.students),
                    "n_units": n_units,
                }
            )
    out.print(table)
    write_json(json_path, {"tasks": records})
