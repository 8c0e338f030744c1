"""The report: one HTML page that says what a store holds. It loads nothing from elsewhere and needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from cisr.experiments.comparison import titled
from cisr.store.meaning import making_sense_of
from cisr.store.place import real_path
from cisr.store.runs import PLANNED
from cisr.system.files import check_targets, write_text
from cisr.training.records import total
from cisr.view import grids, svg
from cisr.view.commands import by_name, commands
from cisr.view.comparison_section import comparison_section, reproduction_section
from cisr.view.contents import Contents, read
from cisr.view.plots import UNTAUGHT
from cisr.view.rendering import render
from cisr.view.replay import replay_section
from cisr.view.state_plot import episodes_plot, lines_in_words
from cisr.view.study_section import study_section
from cisr.view.words import VERDICT, fixed, promises, verdict_in_words

MARKS = {"certified": "✓", "refuted": "✗", "withdrawn": "✗"}
ELSEWHERE = ("floor plan", "state plot", "student settings", "code", PLANNED)
"""Settings that the page shows in another form, or that are too long to read."""


def write_page(store: Path, out: Path | None = None, *, replay: bool = False, task: str | None = None) -> Path:
    """Write the report on a store, by default beside it; returns where.

    With `replay`, students of its comparisons are played once more, to be stepped through; `task` is the user's own,
    where it is not built in.
    """
    real_path(store)  # complains about what can be no store
    target = out or store.with_suffix(".html")
    check_targets({"--out": target})
    contents = read(store)
    more = [Section("Replay", replay_section(store, contents, task))] if replay else []
    with making_sense_of(f"The store {store}"):
        text = page(contents, more)
    write_text(target, text)
    return target


def page(contents: Contents, more: Sequence[Section] = ()) -> str:
    parts = [*sections(contents), *more]
    return render("page.html", title=title(contents), lead=lead(contents), sections=parts) + "\n"


def title(contents: Contents) -> str:
    settings = contents.settings
    task = settings.get("task")
    return titled(task, settings["scale"], settings.get("student")) if task else contents.source


class Section(NamedTuple):
    heading: str
    text: Markup

    @property
    def key(self) -> str:
        """The same wherever it stands on the page, and whatever it says."""
        return f"part-{blake2s(self.heading.encode(errors='replace'), digest_size=4).hexdigest()}"


def sections(contents: Contents) -> list[Section]:
    """Those that have something to say."""
    settings = contents.settings
    sections: list[tuple[str, Markup]] = []
    if lost := contents.audit.get("withdrawn"):
        sections.append(("Certificates withdrawn", render("withdrawn.html", said=[one["said"] for one in lost])))
    if contents.reproduction:
        sections.append(("Reproduction", reproduction_section(contents, contents.reproduction)))
    for record in contents.comparisons:
        title = "Comparison" if record.name == "compare" else f"Comparison: {record.name}"
        sections.append((title, comparison_section(contents, record)))
    for study in contents.studies:
        title = "The teacher's search" if study.name == "study" else f"The teacher's search: {study.name}"
        sections.append((title, study_section(contents, study)))
    if contents.audit:
        sections.append(("Safety of the interventions", safety_section(contents.audit)))
    if "floor plan" in settings:
        sections.append(("Map and trigger zones", _zones(settings["floor plan"], contents.colours())))
    if "state plot" in settings:
        sections.append(("Where interventions act", _lines(settings["state plot"], contents.colours())))
    if failed := [(t.name, len(t.units), t.error) for t in contents.students if t.error]:
        sections.append(("Students that failed", render("failed.html", failed=failed)))
    if contents.students:
        sections.append(("To run it again", _again(contents)))
    return [Section(*section) for section in sections]


def safety_section(audit: Mapping[str, Any]) -> Markup:
    """What the audit said of each intervention before training began."""
    verdicts = []
    for verdict in audit["interventions"]:
        name, status, *reasons = verdict_in_words(verdict)
        verdicts.append((name, f"{MARKS.get(verdict['status'], '?')} {status}", *reasons))
    return render("safety.html", heads=VERDICT, verdicts=verdicts, promises=promises(audit))


def _zones(plan: Mapping[str, Any], colours: Mapping[str, str]) -> Markup:
    """Where each intervention triggers."""
    zones: Mapping[str, Sequence[int]] = plan["zones"]
    order = {name: k for k, name in enumerate(colours)}
    drawn = []
    for name in sorted(zones, key=lambda name: order.get(name, len(order))):
        title, shade = f"{name}: {len(set(zones[name]))} trigger tiles", colours.get(name, UNTAUGHT) + "80"
        drawn.append(grids.drawn(grids.zone_grid(title, plan["rows"], set(zones[name]), name, shade)))
    return render("where.html", drawn=drawn, grids=True)


def _lines(state_plot: Mapping[str, Any], colours: Mapping[str, str]) -> Markup:
    """Where each intervention triggers and where it puts students."""
    shown = {name: colours.get(name, UNTAUGHT) for name in state_plot["interventions"]}
    plots = [episodes_plot(name, state_plot, {name: colour}) for name, colour in shown.items()]
    drawn = [svg.drawn(plot, height=320) for plot in plots]
    return render("where.html", drawn=drawn, grids=False, lines=lines_in_words(state_plot))


def lead(contents: Contents) -> str:
    """How many students, and how often they failed."""
    students = contents.students
    if not students:
        return f"The store {contents.source} holds no students yet: there is nothing to report."
    done = sum(t.deployment is not None for t in students)
    failed = sum(t.error is not None for t in students)
    units = [unit for t in students for unit in t.units]
    trained = [(unit.intervention, unit.failures, unit.steps) for unit in units]
    said = f"{len(students)} students: {done} finished, {failed} failed with an error, "
    said += f"{len(students) - done - failed} not finished."
    for where, alone in (("under interventions", False), ("without any", True)):
        there = [(failures, steps) for under, failures, steps in trained if (under == "none") == alone]
        if there:
            failures, steps = (total(column) for column in zip(*there, strict=True))
            said += f" {fixed(failures, 0)} failures in training in {fixed(steps, 0)} steps {where}."
    if tried := [unit.evaluation for unit in units if unit.evaluation]:
        failures, steps = total([one.failures for one in tried]), total([one.steps for one in tried])
        said += f" {fixed(failures, 0)} failures in {fixed(steps, 0)} steps of trials of last policies in M_0."
    broken = [t.failures_when_broken for t in students if t.error is not None]
    if broken:
        known, unknown = sum(n for n in broken if n is not None), broken.count(None)
        said += f" In units that an error ended: {known:,} failures"
        said += f", and those of {unknown} students that nobody knows." if unknown else "."
    if contents.settings.get("backend") == "compiled":
        said += " Trained and deployed on the task's compiled environment, not on Gymnasium's."
    return f"{said} From the store {contents.source}."


def _again(contents: Contents) -> Markup:
    settings = {**contents.settings, **{f"run {name}": run for name, run in contents.runs.items()}}
    made = settings.pop("made with", {})
    configs = list({repr(t.config): t.config for t in contents.students}.values())
    population = "" if len(configs) == 1 else f" (first of {len(configs)}, drawn from a population)"
    groups = [group for record in contents.comparisons for group in record.groups if not by_name(contents, group)]
    return render(
        "again.html",
        commands=commands(contents),
        files=[(group.label, json.dumps(dict(group.curriculum), indent=2)) for group in groups],
        made=made.items(),
        settings=[(name, _plain(value)) for name, value in sorted(settings.items()) if name not in ELSEWHERE],
        whose=f"Settings of a student{population}",
        student=json.dumps(configs[0].to_json(), indent=2),
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
