"""A study on the page: how the teacher searched, what it found, and what its students went through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from cisr.experiments import guidance
from cisr.teachers import Belief
from cisr.training import Transcript
from cisr.training.records import total
from cisr.view.charts import MOST_POLICIES, BelievedPolicy, beliefs, key, legend, lines, timeline
from cisr.view.contents import Contents, StudyRecord
from cisr.view.plots import COLOURS, DANGER, DASHED, Band, Dot, Line, Plot, around, padded
from cisr.view.rendering import render
from cisr.view.svg import cross, dot, drawn, segment
from cisr.view.tables import Cell, Column, Table, column, number, with_unknown, word
from cisr.view.words import belief_in_words, deployed_in_words, failures_in_training, fixed, in_words, missing

CHOSEN, BEST = COLOURS[0], "#555555"


def study_section(contents: Contents, study: StudyRecord) -> Markup:
    students, colours, found = study.students, contents.colours(), believed(study)
    failures, unknown = failures_in_training(students)
    different = {json.dumps(past.parameters, sort_keys=True) for past in study.rounds}
    classes = lines({f"policy {k}": members for k, members in enumerate(study.classes, 1)}, contents.most_lines)
    met = {unit.intervention for t in students for unit in t.units}
    search = search_plot(study)
    return render(
        "study.html",
        n_told=sum(past.told for past in study.rounds),
        n_rounds=len(study.rounds),
        n_students=len(students),
        errors=sum(t.error is not None for t in students),
        finished=study.over,
        guidance=guidance.of_study(students, contents.definition) if study.over else (),
        scored=deployed_in_words(study.run["deployed under"]),
        failures=missing(fixed(failures, 0), unknown),
        steps=_steps(students),
        best=study.best and in_words(study.best),
        belief=belief_in_words(Belief(**study.found["belief"])) if study.found and "belief" in study.found else "",
        search=search and drawn(search, width=960, height=320),
        search_legend=_search_legend(study),
        slices=[drawn(plot, width=236, height=200, left=52, top=10) for plot in slices(study)],
        beliefs=beliefs(found) if found else "",
        confidence=f"{100 * study.model.get('confidence', 0):.0f}",
        left_out=MOST_POLICIES if len(found) > MOST_POLICIES else 0,
        n_policies=len(different if found else study.rounds),
        policies=policies(study, found),
        legend=legend({name: colour for name, colour in colours.items() if name in met}),
        whose=classes,
        timeline=timeline(classes.groups, colours, contents.n_units) if met else "",
    )


def _steps(students: Sequence[Transcript]) -> str:
    """Where failures in training are counted, and apart from them those in the trials of policies before graduation."""
    units = [unit for t in students for unit in t.units]
    trials = [unit.evaluation for unit in units if unit.evaluation is not None]
    said = f"in {fixed(total([unit.steps for unit in units]), 0)} steps of training"
    if trials:
        under = ", ".join(dict.fromkeys(trial.under for trial in trials))
        steps, failures = (fixed(total([getattr(t, what) for t in trials]), 0) for what in ("steps", "failures"))
        said += f"; {failures} more in {steps} steps of trials of their last policies under {under} (M_0)"
    if any(t.error is not None for t in students):
        said += "; steps of units that an error ended are not counted"
    return said


def search_plot(study: StudyRecord) -> Plot | None:
    """Scores by policy, with standard errors; the best so far as steps. None before there is a result."""
    rounds = study.rounds
    scored = [(k, past.score, past.sem) for k, past in enumerate(rounds, 1) if past.score is not None]
    failed = [k for k, past in enumerate(rounds, 1) if past.told and past.score is None]
    if not scored and not failed:
        return None
    y = padded([score + side * (sem or 0.0) for _, score, sem in scored for side in (-1, 1)])
    marks: list[Line | Band | Dot] = []
    if scored:
        steps = [(float(scored[0][0]), scored[0][1])]
        for k, score, _ in scored:
            best = steps[-1][1]
            steps += [(k, best), (k, max(best, score))]
        marks.append(Line(points=[*steps, (len(rounds), steps[-1][1])], colour=BEST, width=1.5, dash=DASHED))
    for k, score, sem in scored:
        if sem is not None:
            marks.append(Line(points=[(k, score - sem), (k, score + sem)], colour=CHOSEN, width=1.5))
        hover = f"policy {k}: {score:.4g}" + ("" if sem is None else f" ± {sem:.2g}")
        initial = k <= study.n_initial < len(rounds)
        marks.append(Dot(at=(k, score), colour=CHOSEN, radius=4, hollow=initial, hover=hover))
    floor = y[0] + 0.03 * (y[1] - y[0])
    marks += [
        Dot(at=(k, floor), colour=DANGER, crossed=True, hover=f"policy {k}: all of its students failed") for k in failed
    ]
    return Plot(
        title="Score of each curriculum policy",
        x_label="curriculum policy, in the order tried",
        y_label="score of its class",
        x=(0.5, len(rounds) + 0.5),
        y=y,
        marks=marks,
        whole_x=True,
    )


def _search_legend(study: StudyRecord) -> list[Markup]:
    modelled = study.n_initial < len(study.rounds)
    failed = any(past.told and past.score is None for past in study.rounds)
    keys = [(dot(8, 8, CHOSEN, radius=4), "chosen by the model" if modelled else "policy")]
    keys += [(dot(8, 8, CHOSEN, radius=4, hollow=True), "initial design")] if modelled else []
    keys += [(segment(8, 1, 8, 15, CHOSEN, width=1.5), "± one standard error over the class")]
    keys += [(segment(0, 8, 16, 8, BEST, width=1.5, dash=DASHED), "best observed so far")]
    keys += [(cross(8, 8, DANGER), "all students failed")] if failed else []
    return [key(mark, name) for mark, name in keys]


def slices(study: StudyRecord) -> list[Plot]:
    """The teacher's model along each threshold, where it has such a model."""
    found: Mapping[str, Mapping[str, list[float]]] = study.model.get("slices", {})
    if not found or study.found is None:
        return []
    bands = {}
    for name, cut in found.items():
        means = list(zip(cut["at"], cut["mean"], strict=True))
        bands[name] = around([(at, 2 * sd) for at, sd in zip(means, cut["sd"], strict=True)], CHOSEN)
    y = padded([end for band in bands.values() for _, end in (*band.lows, *band.highs)])
    plots = []
    for name, cut in found.items():
        best = float(study.found["best"][name])
        curve = Line(points=list(zip(cut["at"], cut["mean"], strict=True)), colour=CHOSEN)
        value = Line(points=[(best, y[0]), (best, y[1])], colour=COLOURS[1], width=1.5, dash="4 3")
        plots.append(
            Plot(
                title="",
                described=f"The model along {name}",
                x_label=name.replace("_", " threshold "),
                y_label="score",
                x=(cut["at"][0], cut["at"][-1]),
                y=y,
                marks=[bands[name], curve, value],
            )
        )
    return plots


def believed(study: StudyRecord) -> list[BelievedPolicy]:
    """What the teacher believes of each different policy, the surest first; empty for teachers that do not say."""
    found = [
        BelievedPolicy(
            parameters=told["parameters"],
            policy=study.policy(told["parameters"]),
            numbers=tuple(k for k, past in enumerate(study.rounds, 1) if past.parameters == told["parameters"]),
            students=told["students"],
            expected=told["expected"],
            bound=told["bound"],
            best=study.found is not None and told["parameters"] == study.found["best"],
        )
        for told in study.model.get("policies", ())
    ]
    return sorted(found, key=lambda policy: -policy.bound)


def policies(study: StudyRecord, found: Sequence[BelievedPolicy]) -> Table:
    """A row for each policy tried; where the teacher tries some of them again, one for each different policy."""
    believed = {policy.numbers: policy for policy in found}
    scored = {k for numbers in believed for k in numbers}
    tried = [*believed, *((k,) for k in range(1, len(study.rounds) + 1) if k not in scored)]

    def listed(numbers: tuple[int, ...]) -> Cell:
        shown = ", ".join(map(str, numbers))
        return Cell(text=shown, value=numbers[0], csv=(shown,))

    def members(numbers: tuple[int, ...]) -> list[Transcript]:
        return [t for k in numbers for t in study.classes[k - 1]]

    def score(numbers: tuple[int, ...]) -> float | None:
        scores = [score for k in numbers if (score := study.rounds[k - 1].score) is not None]
        return fmean(scores) if scores else None

    def failures(numbers: tuple[int, ...]) -> Cell:
        known, unknown = failures_in_training(members(numbers))
        return with_unknown(number(known, 0), unknown)

    def belief(numbers: tuple[int, ...], what: str) -> Cell:
        return number(getattr(believed[numbers], what) if numbers in believed else None, 3)

    columns: list[Column] = [
        column(tried, "policy", listed),
        column(tried, "curriculum", lambda ks: word(in_words(study.policy(study.rounds[ks[0] - 1].parameters)))),
        column(tried, "students", lambda ks: number(len(members(ks)), 0)),
        column(tried, "score", lambda ks: number(score(ks), 3)),
    ]
    if found:
        columns.append(column(tried, "expected", lambda ks: belief(ks, "expected")))
        columns.append(column(tried, "at least", lambda ks: belief(ks, "bound"), "bound"))
    else:
        columns.append(column(tried, "standard error", lambda ks: number(study.rounds[ks[0] - 1].sem, 3), "sem"))
    known = ("training_failures", "training_failures_unknown")
    columns.append(column(tried, "failures in training", failures, *known))
    return Table(name=study.name, columns=tuple(columns))
