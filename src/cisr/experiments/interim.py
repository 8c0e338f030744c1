"""What the teacher of a study that is not over believes by now, from what its store tells.

The study itself is not asked: its teacher is made again and told the same trials, and is believed only if it is the
very same, by its code and settings. So a study costs no more when somebody wants to know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import takewhile
from typing import Any

from cisr.core.errors import ConfigError
from cisr.core.seeding import derive_seed
from cisr.curricula import SearchSpace, Switching
from cisr.experiments.search import MakeTeacher, covering, default_teacher
from cisr.experiments.trials import Score
from cisr.store import StoredTrial
from cisr.store.fingerprint import fingerprint
from cisr.store.provenance import describe_teacher
from cisr.tasks import BUILT_IN, get_task
from cisr.teachers import GPUCB, Teacher, TopTwo
from cisr.training import Transcript, charged_score, default_observe, default_score


def interim_finding(
    name: str,
    run: Mapping[str, Any],
    settings: Mapping[str, Any],
    rounds: Sequence[StoredTrial],
    classes: Sequence[Sequence[Transcript]],
) -> dict[str, Any] | None:
    """What the study would say it has found if it ended now, as its store would keep it; None where nothing has a score
    yet, or its teacher cannot be made again from what the store tells."""
    told = list(takewhile(lambda trial: trial.told, rounds))
    if all(trial.score is None for trial in told):
        return None
    teacher = _same_teacher(name, run, settings, classes)
    if teacher is None:
        return None
    score = _score(run, settings)
    for trial, members in zip(told, classes, strict=False):
        whole = [t for t in members if t.deployment is not None]
        each = [score(t) for t in whole] if score is not None and len(whole) == run["class size"] else []
        teacher.tell(trial.parameters, trial.score, trial.sem, each)
    belief = teacher.belief()
    found = {"best": teacher.best(), "model": teacher.describe()}
    return found | ({} if belief is None else {"belief": asdict(belief)})


def _same_teacher(
    name: str, run: Mapping[str, Any], settings: Mapping[str, Any], classes: Sequence[Sequence[Transcript]]
) -> Teacher | None:
    blank = _space(run["teacher"]["searches"], {})
    seed = derive_seed(run["seed"], name)
    for make in _teachers(run, settings):
        with suppress(ConfigError):
            if json.loads(json.dumps(describe_teacher(make(blank, seed)))) == run["teacher"]:
                found = _ranges_found(run, blank, classes)
                return None if found is None else make(_space(run["teacher"]["searches"], found), seed)
    return None


def _teachers(run: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[MakeTeacher]:
    """Those that a study has unless it was given one in Python."""
    n_initial = run["initial policies"]
    yield lambda space, seed: TopTwo(space, seed=seed, n_initial=n_initial)
    yield lambda space, seed: GPUCB(space, seed=seed, n_initial=n_initial)
    if settings.get("task") in BUILT_IN:
        with suppress(ConfigError):  # a name that is ours, and settings that are not
            task = get_task(settings["task"], settings["scale"], settings.get("student"))
            teaching = replace(task.training.teaching, n_initial=n_initial, teacher="gp-ucb")
            yield default_teacher(task.with_training(teaching=teaching))


def _space(searches: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]) -> SearchSpace:
    """That of switching curricula with the ranges that a store tells, unless the study has found others."""
    said = {what: (searches[f"{what}_1"]["low"], searches[f"{what}_1"]["high"]) for what in ("return", "violation")}
    n_switches = sum(name.startswith("return_") for name in searches)
    options = tuple(searches["intervention_1"]["options"])
    return Switching.space(options, n_switches, *({**said, **ranges}[what] for what in ("return", "violation")))


def _ranges_found(
    run: Mapping[str, Any], space: SearchSpace, classes: Sequence[Sequence[Transcript]]
) -> dict[str, tuple[float, float]] | None:
    """The ranges of thresholds that the first students showed, each intervention alone; None where what a teacher
    observes is not the usual."""
    wanted = run.get("ranges found", [])
    if wanted and run.get("observe") != fingerprint(default_observe).content:
        return None
    first = classes[: len(space.choices[0].options)]
    seen = [default_observe(unit) for members in first for t in members for unit in t.units]
    numbers = {"return": [o.mean_return for o in seen], "violation": [o.violation for o in seen]}
    return {what: covering(numbers[what]) for what in wanted}


def _score(run: Mapping[str, Any], settings: Mapping[str, Any]) -> Score | None:
    """What the teacher wants of a student; None where it is none of the usual."""
    usual: list[Callable[[Transcript], float]] = [default_score]
    if "max_reward" in (definition := settings.get("definition", {})):
        usual.append(charged_score(definition["max_reward"]))
    return next((score for score in usual if fingerprint(score).content == run.get("score")), None)
