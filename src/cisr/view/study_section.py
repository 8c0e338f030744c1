"""A study on the page: how the teacher searched, what it found, and what its students went through."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from cisr.teachers import Belief
from cisr.training import Transcript
from cisr.view.belief_figure import BelievedPolicy, belief_figure
from cisr.view.charts import legend, timeline
from cisr.view.contents import StudyRecord
from cisr.view.summary import Cell, Column, figure, table, with_unknown, word
from cisr.view.svg import COLOURS, DANGER, Frame, cross, dot, esc, padded, segment, svg, text
from cisr.view.words import belief_in_words, in_words, where_deployed

CHOSEN, BEST, FAILED = COLOURS[0], "#555555", DANGER


def study_section(study: StudyRecord, colours: Mapping[str, str], n_units: int) -> str:
    told = [past for past in study.rounds if past.told]
    students = study.students
    errors = sum(t.error is not None for t in students)
    state = "finished" if study.found else "not finished when this page was made"
    parts = [
        f"<p>{len(told)} of {len(study.rounds)} proposed curriculum policies have a result; {len(students)} students"
        f"{f', of whom {errors} failed with an error' if errors else ''}; the study is {state}. Final policies are "
        f"scored {esc(where_deployed(study.run['deployed under']))}.</p>",
        "<p><strong>Failures in training</strong>, all students of the search together: "
        f"<strong>{_failures(students).html}</strong> {esc(_steps(students))}.</p>",
    ]
    if study.found is not None and study.best is not None:
        parts += ["<h3>The best curriculum found</h3>", f'<p class="words">{esc(in_words(study.best))}</p>']
        if "belief" in study.found:
            parts.append(f"<p>{esc(belief_in_words(Belief(**study.found['belief'])))}</p>")
    parts += ["<h3>The search</h3>", search_figure(study), slices(study), beliefs(study), "<h3>All policies tried</h3>"]
    different = {json.dumps(past.parameters, sort_keys=True) for past in study.rounds}
    n = len(different if believed(study) else study.rounds)
    parts += [f"<details><summary>Table of {n} policies</summary>{policies(study)}</details>"]
    if any(student.units for student in students):
        classes = [(f"policy {number}", members) for number, members in enumerate(study.classes, 1)]
        met = {unit.intervention for t in students for unit in t.units}
        key = legend({name: colour for name, colour in colours.items() if name in met})
        parts.append(
            f"<details><summary>The curriculum of each of {len(students)} students</summary>{key}"
            f'<figure class="wide">{timeline(classes, colours, n_units)}</figure></details>'
        )
    return "".join(parts)


def _steps(students: Sequence[Transcript]) -> str:
    """Where failures in training are counted: in units, and in the trials of policies that come before graduation."""
    units = [unit for t in students for unit in t.units]
    trials = [unit.evaluation for unit in units if unit.evaluation is not None]
    said = f"in {sum(unit.steps for unit in units):,} steps of training"
    if trials:
        under = ", ".join(dict.fromkeys(trial.under for trial in trials))
        said += f" and {sum(trial.steps for trial in trials):,} steps of trials of their last policies under {under}"
    if any(t.error is not None for t in students):
        said += "; steps of units that an error ended are not counted"
    return said


def search_figure(study: StudyRecord) -> str:
    """Scores by policy, with standard errors; the best so far as steps."""
    rounds = study.rounds
    scored = [(k, r.score, r.sem or 0.0) for k, r in enumerate(rounds, 1) if r.score is not None]
    failed = [k for k, r in enumerate(rounds, 1) if r.told and r.score is None]
    if not scored and not failed:
        return '<p class="note">No policy has a result yet.</p>'
    modelled = range(study.n_initial + 1, len(rounds) + 1)
    y = padded([score + side * sem for _, score, sem in scored for side in (-1, 1)])
    frame = Frame(x=(0.5, len(rounds) + 0.5), y=y, width=960, height=320)
    title = "Score of each curriculum policy"
    parts = [frame.axes(title, "curriculum policy, in the order tried", "score of its class", whole_x=True)]
    if modelled and modelled[0] > 1:
        x = frame.across(modelled[0] - 0.5)
        parts.append(segment(x, frame.top, x, frame.height - frame.bottom, "#999", dash="3 3"))
        parts.append(text(x + 5, frame.top + 10, "chosen by the model →", fill="#555"))
    xs: list[float] = []
    ys: list[float] = []
    best = -math.inf
    for k, score, _ in scored:
        xs += [k, k]
        ys += [best, max(best, score)]
        best = max(best, score)
    if scored:
        parts.append(frame.line([*xs, len(rounds)], [*ys, best], BEST, width=1.5, dash="6 3"))
    for k, score, sem in scored:
        x, initial = frame.across(k), bool(modelled) and k not in modelled
        if sem:
            parts.append(segment(x, frame.down(score - sem), x, frame.down(score + sem), CHOSEN, width=1.5))
        hover = f"policy {k}: {score:.4g}" + (f" ± {sem:.2g}" if sem else "")
        parts.append(dot(x, frame.down(score), CHOSEN, hollow=initial, radius=4, hover=hover))
    for k in failed:
        hover = f"policy {k}: all of its students failed"
        parts.append(cross(frame.across(k), frame.height - frame.bottom - 8, FAILED, hover=hover))
    keys = [(dot(8, 8, CHOSEN, radius=4), "policy" if not modelled else "chosen by the model")]
    keys += [(dot(8, 8, CHOSEN, radius=4, hollow=True), "initial design")] if modelled else []
    keys += [(segment(8, 1, 8, 15, CHOSEN, width=1.5), "± one standard error over the class")]
    keys += [(segment(0, 8, 16, 8, BEST, width=1.5, dash="6 3"), "best observed so far")]
    keys += [(cross(8, 8, FAILED), "all students failed")] if failed else []
    shown = "".join(f'<span class="key">{svg(16, 16, [mark], "")}{name}</span>' for mark, name in keys)
    return f'<figure>{svg(frame.width, frame.height, parts, title)}<p class="legend">{shown}</p></figure>'


def slices(study: StudyRecord) -> str:
    """The teacher's model along each threshold; "" if there is no such model."""
    found: Mapping[str, Mapping[str, list[float]]] = study.model.get("slices", {})
    if not found or study.found is None:
        return ""
    ends = [
        m + 2 * side * s
        for cut in found.values()
        for m, s in zip(cut["mean"], cut["sd"], strict=True)
        for side in (-1, 1)
    ]
    drawn = []
    for name, cut in found.items():
        at, mean, sd = cut["at"], cut["mean"], cut["sd"]
        frame = Frame(x=(at[0], at[-1]), y=padded(ends), width=236, height=200, left=52, top=10)
        lows, highs = ([m + 2 * side * s for m, s in zip(mean, sd, strict=True)] for side in (-1, 1))
        best = float(study.found["best"][name])
        x = frame.across(best)
        marked = segment(x, frame.top, x, frame.height - frame.bottom, COLOURS[1], width=1.5, dash="4 3")
        body = [
            frame.axes("", name.replace("_", " threshold "), "score"),
            frame.band(at, lows, highs, CHOSEN),
            frame.line(at, mean, CHOSEN),
            marked,
        ]
        drawn.append(svg(frame.width, frame.height, body, f"The model along {name}"))
    return (
        "<h3>What the teacher's model believes</h3>"
        f'<figure><div class="figures">{"".join(drawn)}</div><figcaption>Mean and ±2 standard deviations of the '
        "Gaussian process along each threshold, all else as in the best curriculum (dashed line: its value)."
        "</figcaption></figure>"
    )


def believed(study: StudyRecord) -> list[BelievedPolicy]:
    """What the teacher believes of each different policy, the surest first; empty for teachers that do not say."""
    found = [
        BelievedPolicy(
            parameters=row["parameters"],
            policy=study.policy(row["parameters"]),
            numbers=tuple(k for k, past in enumerate(study.rounds, 1) if past.parameters == row["parameters"]),
            students=row["students"],
            expected=row["expected"],
            bound=row["bound"],
            best=study.found is not None and row["parameters"] == study.found["best"],
        )
        for row in study.model.get("policies", ())
    ]
    return sorted(found, key=lambda policy: -policy.bound)


def beliefs(study: StudyRecord) -> str:
    """What the teacher believes, as a figure; "" for teachers that do not say."""
    found = believed(study)
    return f"<h3>What the teacher believes</h3>{belief_figure(found, study.model['confidence'])}" if found else ""


def policies(study: StudyRecord) -> str:
    """A row for each policy tried; where the teacher tries some of them again, one for each different policy."""
    found = believed(study)
    scored = {number for policy in found for number in policy.numbers}
    numbers = [policy.numbers for policy in found]
    numbers += [(k,) for k in range(1, len(study.rounds) + 1) if k not in scored]
    said = [in_words(study.policy(study.rounds[ks[0] - 1].parameters)) for ks in numbers]
    classes = [[t for k in ks for t in study.classes[k - 1]] for ks in numbers]
    tried = [[past for k in ks if (past := study.rounds[k - 1]).score is not None] for ks in numbers]
    scores = [math.nan if not rounds else fmean(past.score or 0.0 for past in rounds) for rounds in tried]
    columns = [
        Column(head="policy", csv=("policy",), cells=tuple(_listed(ks) for ks in numbers)),
        Column(head="curriculum", csv=("curriculum",), cells=tuple(word(words) for words in said)),
        Column(head="students", csv=("students",), cells=tuple(figure(len(members), 0) for members in classes)),
        Column(head="score", csv=("score",), cells=tuple(figure(score, 3) for score in scores)),
    ]
    if found:
        unknown = [math.nan] * (len(numbers) - len(found))
        expected = [*(policy.expected for policy in found), *unknown]
        bounds = [*(policy.bound for policy in found), *unknown]
        columns += [
            Column(head="expected", csv=("expected",), cells=tuple(figure(value, 3) for value in expected)),
            Column(head="at least", csv=("bound",), cells=tuple(figure(value, 3) for value in bounds)),
        ]
    else:
        sems = [math.nan if (past := study.rounds[ks[0] - 1]).sem is None else past.sem for ks in numbers]
        columns.append(Column(head="standard error", csv=("sem",), cells=tuple(figure(sem, 3) for sem in sems)))
    columns.append(
        Column(
            head="failures in training",
            csv=("training_failures", "training_failures_unknown"),
            cells=tuple(_failures(members) for members in classes),
        )
    )
    return table(columns, name=study.name)


def _listed(numbers: Sequence[int]) -> Cell:
    """Sorted by the first."""
    shown = ", ".join(map(str, numbers))
    return Cell(html=shown, value=numbers[0], latex=shown, csv=(shown,))


def _failures(students: Sequence[Transcript]) -> Cell:
    """Those that are known, and of how many students they are not."""
    known = [n for t in students if (n := t.training_failures) is not None]
    return with_unknown(figure(sum(known) if known or not students else math.nan, 0), len(students) - len(known))
