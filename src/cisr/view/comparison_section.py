"""A comparison on the page, or the students of all repetitions of a reproduction beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from cisr.experiments.comparison import measure_groups
from cisr.experiments.differences import Difference, against_the_others
from cisr.experiments.reproduced import told_apart
from cisr.experiments.trajectories import Trajectory
from cisr.view import grids, svg
from cisr.view.charts import Bar, bars, legend, timeline
from cisr.view.contents import ComparisonRecord, Contents, ReproductionRecord
from cisr.view.plots import Groups, learning_curves, training_curves
from cisr.view.rendering import render
from cisr.view.state_plot import episodes_plot, lines_in_words
from cisr.view.tables import Table, comparison_table, differences_table, reproduction_table
from cisr.view.words import deployed_in_words, in_words


def comparison_section(contents: Contents, record: ComparisonRecord) -> Markup:
    groups = {group.label: group.students for group in record.groups}
    tables = {
        "summary": comparison_table([group.row for group in record.groups], record.name),
        "differences": _differences(against_the_others(measure_groups(groups)), record.name),
        "pooled": None,
    }
    return _section(contents, record, paper=None, **tables)


def reproduction_section(contents: Contents, record: ReproductionRecord) -> Markup:
    if not record.rows:
        return render("comparison.html", paper=record, groups=())
    pooled = [group.row for group in record.pooled.groups]
    tables = {
        "summary": reproduction_table(
            record.rows, pooled, repetitions=record.repetitions, students=record.students, ours=record.ours
        ),
        "differences": _differences(told_apart(record.rows), "reproduction"),
        "pooled": comparison_table(pooled, "pooled"),
    }
    return _section(contents, record.pooled, paper=record, **tables)


def _differences(found: Sequence[Difference], name: str) -> Table | None:
    return differences_table(found, f"{name}-differences") if found else None


def _section(contents: Contents, record: ComparisonRecord, **tables: Any) -> Markup:
    """What students met and how they did, by curriculum."""
    colours = contents.colours()
    groups: Groups = {group.label: group.students for group in record.groups}
    students = [t for group in groups.values() for t in group]
    met = {unit.intervention for t in students for unit in t.units}
    learning, where = learning_curves(groups, colours)
    training = [Bar(g.label, colours[g.label], g.row.training_failures, g.row.unknown_failures) for g in record.groups]
    deployed = [Bar(g.label, colours[g.label], g.row.deployment_failures) for g in record.groups]
    return render(
        "comparison.html",
        **tables,
        **_whereabouts(contents, groups),
        groups=groups,
        deployed=deployed_in_words(record.run["deployed under"]),
        unfinished=sum(t.deployment is None and t.error is None for t in students),
        curricula=[(label, in_words(one)) for group in record.groups for label, one in group.curricula.items()],
        failures=[
            bars(training, "In training, under the teacher", "failures per student, all units", without="unknown"),
            bars(deployed, "Deployed, after training", "failures per episode", without="no student finished"),
        ],
        curriculum_legend=legend({label: colours[label] for label in groups}),
        intervention_legend=legend({name: colour for name, colour in colours.items() if name in met}),
        learning=[svg.drawn(plot) for plot in learning],
        where=where,
        training=[svg.drawn(plot) for plot in training_curves(groups, colours, contents.constraints)],
        n_students=len(students),
        timeline=timeline(groups, colours, contents.n_units),
        fresh_starts=any(t.fresh_starts for t in students),
    )


def _whereabouts(contents: Contents, groups: Groups) -> dict[str, Any]:
    """Where deployed students went, on the map or the state plot that the task may have."""
    plan, state_plot = contents.settings.get("floor plan"), contents.settings.get("state plot")
    visits, most = grids.visit_grids(groups, plan["rows"]) if plan else ([], 0.0)
    found: dict[str, Any] = {"visits": [grids.drawn(grid, 17) for grid in visits], "scale": grids.scale(most)}
    if not state_plot:
        return found | {"episodes": ()}
    colours, panels, behind = contents.colours(), [], set()
    for label, students in groups.items():
        kept = [(t.name, colours[label], e) for t in students for e in contents.trajectories.get(t.name, ())]
        episodes = [(name, colour, Trajectory.from_json(episode)) for name, colour, episode in kept]
        if episodes:
            met = {unit.intervention for t in students for unit in t.units} & set(state_plot["interventions"])
            behind |= met
            shown = {name: colours[name] for name in colours if name in met}
            panels.append(svg.drawn(episodes_plot(label, state_plot, shown, episodes), height=320))
    met_colours = {name: colours[name] for name in state_plot["interventions"] if name in behind}
    return found | {"episodes": panels, "met_legend": legend(met_colours), "lines": lines_in_words(state_plot)}
