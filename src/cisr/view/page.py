"""The report: one HTML page that says what a store holds. It loads nothing from elsewhere and needs no network."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from cisr.core.errors import ConfigError
from cisr.experiments.comparison import titled
from cisr.store.meaning import making_sense_of
from cisr.store.place import real_path
from cisr.system.files import check_targets, write_text
from cisr.view.commands import by_name, commands
from cisr.view.comparison_section import comparison_section, curriculum_files, map_section, visits_section
from cisr.view.contents import ComparisonRecord, Contents, read
from cisr.view.reproduction_section import reproduction_section
from cisr.view.safety_section import safety_section
from cisr.view.study_section import study_section
from cisr.view.svg import esc
from cisr.view.trajectory_section import state_plot_section, trajectory_section


def write_page(store: Path, out: Path | None = None) -> Path:
    """Write the report on a store, by default beside it; returns where."""
    real_path(store)  # complains about what can be no store
    target = out or store.with_suffix(".html")
    if target.resolve() == store.resolve():
        raise ConfigError(f"The report would replace the store {store}: give another path with --out.")
    check_targets({"--out": target})
    contents = read(store)
    with making_sense_of(f"The store {store}"):
        text = page(contents)
    write_text(target, text)
    return target


def page(contents: Contents) -> str:
    settings = contents.settings
    task = settings.get("task")
    title = titled(task, settings["scale"], settings.get("student")) if task else contents.source
    sections = _sections(contents)
    links = "".join(f'<a href="#part-{k}">{esc(name)}</a>' for k, (name, _) in enumerate(sections))
    body = "".join(
        f'<section id="part-{k}"><h2>{esc(name)}</h2>{text}</section>' for k, (name, text) in enumerate(sections)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{esc(title)}: report</title><style>{_asset('page.css')}</style></head><body>"
        f'<h1>{esc(title)}</h1><p class="lead">{_lead(contents)}</p><nav>{links}</nav>{body}'
        f"<script>{_asset('page.js')}</script></body></html>\n"
    )


def _sections(contents: Contents) -> list[tuple[str, str]]:
    """Headings and texts, those that have something to say."""
    settings, colours = contents.settings, contents.colours()
    definition = settings.get("definition", {})
    n_units, constraints = definition.get("n_units", 0), definition.get("constraints", ("failures", "rescues"))
    plan = settings.get("floor plan")
    sections = []
    if contents.reproduction:
        text = reproduction_section(contents.reproduction, colours, n_units, constraints)
        text += _whereabouts(contents, contents.reproduction.pooled)
        sections.append(("Reproduction", text))
    for record in contents.comparisons:
        text = comparison_section(record, colours, n_units, constraints)
        text += _whereabouts(contents, record)
        sections.append(("Comparison" if record.name == "compare" else f"Comparison: {record.name}", text))
    for study in contents.studies:
        title = "The teacher's search" if study.name == "study" else f"The teacher's search: {study.name}"
        sections.append((title, study_section(study, colours, n_units)))
    if contents.audit:
        sections.append(("Safety of the interventions", safety_section(contents.audit)))
    if plan:
        sections.append(("Map and trigger zones", map_section(plan, colours)))
    if "state plot" in settings:
        sections.append(("Where interventions act", state_plot_section(settings["state plot"], colours)))
    if failed := [t for t in contents.students if t.error]:
        rows = "".join(f"<tr><td>{esc(t.name)}</td><td>{len(t.units)}</td><td>{esc(t.error)}</td></tr>" for t in failed)
        head = "<tr><th>student</th><th>units done</th><th>error</th></tr>"
        text = f'<table class="plain"><thead>{head}</thead><tbody>{rows}</tbody></table>'
        text += (
            '<p class="note">Counts elsewhere on this page are of finished units; the unit in which a student failed '
        )
        text += "is not in them.</p>"
        sections.append(("Students that failed", text))
    if contents.students:
        sections.append(("To run it again", _rerun(contents)))
    return sections


def _whereabouts(contents: Contents, record: ComparisonRecord) -> str:
    """Where students went, on the map or the state plot that the task may have."""
    plan, state_plot = contents.settings.get("floor plan"), contents.settings.get("state plot")
    text = visits_section(record, plan["rows"]) if plan else ""
    if state_plot:
        text += trajectory_section(record, contents.trajectories, state_plot, contents.colours())
    return text


def _lead(contents: Contents) -> str:
    students = contents.students
    if not students:
        return f"The store {esc(contents.source)} holds no students yet: there is nothing to report."
    done = sum(t.deployment is not None for t in students)
    failed = sum(t.error is not None for t in students)
    units = [unit for t in students for unit in t.units]
    trained = [(unit.intervention, unit.failures, unit.steps) for unit in units]
    trained += [(tried.under, tried.failures, tried.steps) for unit in units if (tried := unit.evaluation)]
    said = f"{len(students)} students: {done} finished, {failed} failed with an error, "
    said += f"{len(students) - done - failed} not finished."
    for where, alone in (("under interventions", False), ("without any", True)):
        there = [(failures, steps) for under, failures, steps in trained if (under == "none") == alone]
        if there:
            failures, steps = (sum(column) for column in zip(*there, strict=True))
            said += f" {failures:,} failures in training in {steps:,} steps {where}."
    broken = [t.failures_when_broken for t in students if t.error is not None]
    if broken:
        known, unknown = sum(n for n in broken if n is not None), broken.count(None)
        said += f" In units that an error ended: {known:,} failures"
        said += f", and those of {unknown} students that nobody knows." if unknown else "."
    return esc(f"{said} From the store {contents.source}.")


def _rerun(contents: Contents) -> str:
    settings = {**contents.settings, **{f"run {name}": run for name, run in contents.runs.items()}}
    made = settings.pop("made with", {})
    versions = "".join(f"<tr><td>{esc(name)}</td><td>{esc(version)}</td></tr>" for name, version in made.items())
    configs = {json.dumps(t.config.to_json(), sort_keys=True): t.config.to_json() for t in contents.students}
    rows = "".join(
        f"<tr><td>{esc(name)}</td><td>{esc(_plain(value))}</td></tr>"
        for name, value in sorted(settings.items())
        if name not in ("floor plan", "state plot", "student settings", "code")
    )
    drawn = "" if len(configs) == 1 else f" (first of {len(configs)}, drawn from a population)"
    student = json.dumps(next(iter(configs.values())), indent=2)
    groups = [group for record in contents.comparisons for group in record.groups]
    files = curriculum_files(group for group in groups if not by_name(contents, group))
    return (
        f"<p>Commands, as far as the store tells:</p><pre>{esc(commands(contents))}</pre>"
        '<p class="note">The same numbers come out on the same machine, backend and versions; others round differently.'
        "</p>"
        + (f"<details><summary>Curriculum files that the commands name</summary>{files}</details>" if files else "")
        + f'<h3>Made with</h3><table class="plain"><tbody>{versions}</tbody></table>'
        f'<h3>Settings</h3><table class="plain"><tbody>{rows}</tbody></table>'
        f"<details><summary>Settings of a student{drawn}</summary><pre>{esc(student)}</pre></details>"
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _asset(name: str) -> str:
    return (resources.files("cisr.view") / "assets" / name).read_text(encoding="utf-8")
