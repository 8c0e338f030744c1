"""A comparison on the page, or the students of all repetitions of a reproduction beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from cisr.experiments import guidance
from cisr.experiments.comparison import measure_groups
from cisr.experiments.differences import Difference, Sample, against_the_others
from cisr.experiments.reproduced import told_apart
from cisr.experiments.trajectories import Trajectory
from cisr.view import grids, svg
from cisr.view.charts import Bar, bars, legend, lines, timeline
from cisr.view.contents import ComparisonRecord, Contents, ReproductionRecord
from cisr.view.plots import Groups, learning_curves, training_curves
from cisr.view.rendering import render
from cisr.view.replay import kept_players
from cisr.view.state_plot import episodes_plot, lines_in_words
from cisr.view.tables import Table, comparison_table, differences_table, reproduction_table
from cisr.view.words import deployed_in_words, in_words


def comparison_section(contents: Contents, record: ComparisonRecord) -> Markup:
    groups = {group.label: group.students for group in record.groups}
    tables = {
        "summary": comparison_table([group.row for group in record.groups], record.name),
        "differences": _differences(contents, record, lambda: _against_the_others(_frozen(measure_groups(groups)))),
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
        "differences": _differences(contents, record.pooled, lambda: told_apart(record.rows)),
        "pooled": comparison_table(pooled, "pooled"),
    }
    return _section(contents, record.pooled, paper=record, **tables)


def _differences(
    contents: Contents, record: ComparisonRecord, test: Callable[[], Sequence[Difference]]
) -> Table | str | None:
    """A live page does not test while students are in training."""
    if contents.live and any(t.deployment is None and t.error is None for g in record.groups for t in g.students):
        return "later"
    return differences_table(found, f"{record.name}-differences") if (found := test()) else None


Frozen = tuple[tuple[str, tuple[tuple[str, Sample], ...]], ...]


def _frozen(measured: Mapping[str, Mapping[str, Sample]]) -> Frozen:
    return tuple((what, tuple(groups.items())) for what, groups in measured.items())


@lru_cache(maxsize=8)
def _against_the_others(measured: Frozen) -> tuple[Difference, ...]:
    """With 1,000 students it takes seconds: not again for the same numbers."""
    return against_the_others({what: dict(groups) for what, groups in measured})


def _section(contents: Contents, record: ComparisonRecord, **tables: Any) -> Markup:
    """What students met and how they did, by curriculum."""
    colours = contents.colours()
    groups: Groups = {group.label: group.students for group in record.groups}
    students = [t for group in groups.values() for t in group]
    met = {unit.intervention for t in students for unit in t.units}
    learning, where = learning_curves(groups, colours)
    shown = lines(groups, contents.most_lines)
    training = [Bar(g.label, colours[g.label], g.row.training_failures, g.row.unknown_failures) for g in record.groups]
    deployed = [Bar(g.label, colours[g.label], g.row.deployment_failures) for g in record.groups]
    return render(
        "comparison.html",
        **tables,
        **_whereabouts(contents, groups),
        players=[one for g in record.groups for one in kept_players(contents, g, record.run["deployed under"])],
        groups=groups,
        guidance=guidance.of_comparison(groups, contents.definition),
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
        n_lines=shown.shown,
        whose=str(shown),
        timeline=timeline(shown.groups, colours, contents.n_units),
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
