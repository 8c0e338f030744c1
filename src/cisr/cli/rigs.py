"""`cisr ask`, `cisr next` and `cisr tell`: students elsewhere, in JSON.

Each prints one line of JSON; `next` and `tell` read one from standard input. Errors are one line on standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cisr.cli import options
from cisr.cli.naming import parse_curricula
from cisr.core.checks import check_text, shown
from cisr.core.errors import ConfigError
from cisr.core.task import Task
from cisr.curricula import policy_from_json
from cisr.experiments.compare_elsewhere import ComparisonElsewhere
from cisr.experiments.comparison import Comparison
from cisr.experiments.elsewhere import Trial, in_turn
from cisr.experiments.handing_out import KIND
from cisr.experiments.study import Study
from cisr.store import owner_of
from cisr.store.meaning import making_sense_of
from cisr.system.files import check_targets
from cisr.tasks import get_task
from cisr.tasks.elsewhere import task_elsewhere, task_of_store

Asked = Study | ComparisonElsewhere
STUDY = "study"
LONGEST = 1_000_000
"""Characters of what a rig says."""

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="SQLite file of the study; `ask` makes it.")]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="For a new store: a built-in task, your own as module:attribute or path/to/file.py:attribute, or any "
        "name, with the names of its --interventions.",
        show_default=False,
    ),
]
InterventionsOption = Annotated[
    str | None, typer.Option(help="For a task that is elsewhere altogether: what can be chosen, as NAME,NAME,…")
]
UnitsOption = Annotated[int | None, typer.Option(help="Units that a student learns for.", show_default=False)]
InitialOption = Annotated[int | None, typer.Option(help="Policies tried before the model takes over.")]
RoundsOption = Annotated[int | None, typer.Option(help="Policies that the teacher's model chooses.")]
StudentsOption = Annotated[
    int | None, typer.Option(help="Students that try each policy, or each curriculum of --compare.")
]
CompareOption = Annotated[
    str | None,
    typer.Option(
        metavar="CURRICULUM,…",
        help="Instead of the teacher's search, compare these on --students each: names of interventions, none, or "
        "JSON files.",
        show_default=False,
    ),
]
ScaleOption = Annotated[
    options.Scale | None, typer.Option(help="Of a built-in task. (default: paper)", show_default=False)
]
SeedOption = Annotated[int | None, typer.Option(help="Root of all randomness. (default: 0)", show_default=False)]
RigOption = Annotated[
    str | None,
    typer.Option(help="Who asks: a rig that was stopped is given its own trial again.", show_default=False),
]


def ask(
    store: StoreArgument,
    task: TaskOption = None,
    interventions: InterventionsOption = None,
    units: UnitsOption = None,
    initial: InitialOption = None,
    rounds: RoundsOption = None,
    students: StudentsOption = None,
    compare: CompareOption = None,
    scale: ScaleOption = None,
    seed: SeedOption = None,
    rig: RigOption = None,
) -> None:
    """Ask for a student to train elsewhere: {"trial", "unit", "units", "intervention", "anew"}.

    The first time, --task says what is taught. "trial" is null where there is nothing to do: "finished" says whether
    all is over, and "policy" or "rows" what came of it.
    """
    check_targets({"STORE": store})
    scaled = {"--scale": scale and scale.value}
    search = {"--initial": initial, "--rounds": rounds}
    if task is None:
        needless = {"--interventions": interventions, "--units": units, **scaled, **search}
        needless |= {} if compare is not None else {"--students": students, "--seed": seed}
        _check_needless(needless, "it goes with --task, as a new store needs both")
    if interventions is not None:
        _check_needless(scaled, "a task that is named by its --interventions has no scale, leave it out")
    if compare is not None:
        _check_needless(search, "--compare searches for nothing, leave it out")
    given = _task(store, task, interventions, scale or options.Scale.paper)
    if units is not None:
        given = given.with_training(n_units=units)
    if compare is not None:
        curricula = parse_curricula([text.strip() for text in compare.split(",")], given)
        each = 10 if students is None else students
        asked: Asked = ComparisonElsewhere(given, curricula, n_students=each, store=store, seed=seed or 0)
    elif task is None:
        asked = _kept(store, STUDY)
    else:
        counts = {"n_initial": initial, "n_rounds": rounds, "class_size": students}
        changes: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
        asked = Study(given.with_teaching(**changes), store=store, seed=seed or 0, name=STUDY)
    trial = asked.ask(rig)
    _say({"trial": None, **_state(asked)} if trial is None else trial.to_json())


def next(store: StoreArgument) -> None:
    """Say how a unit went and hear what comes next; reads {"trial", "unit", "observed": {"mean_return", "violation"}}.

    "observed" may also hold success, episodes, steps, rescues and failures. Without it the unit in progress is told
    once more. "intervention" is null when the student is done.
    """
    said = _heard(("trial",), ("unit", "observed"))
    trial = _trial(store, said)
    if said.get("observed") is not None:
        if "unit" not in said:
            raise ConfigError('Observed was a unit without its number: give {"trial", "unit", "observed"}.')
        trial.enter(said["unit"], said["observed"])
    _say(trial.to_json())


def tell(store: StoreArgument) -> None:
    """Tell how a student did that is done; reads {"trial", "score"}, with success, episodes, steps, rescues, failures
    where they are known. A score of null: it could not be trained to its end."""
    said = _heard(("trial", "score"), ("success", "episodes", "steps", "rescues", "failures"))
    name, score = said.pop("trial"), said.pop("score")
    asked = _kept(store, _owner(name))
    asked.tell(name, score, **said)
    _say({"trial": name, "score": score, **_state(asked)})


def _check_needless(given: Mapping[str, Any], why: str) -> None:
    """What would be ignored is refused."""
    for option, value in given.items():
        if value is not None:
            raise ConfigError(f"{option} is {shown(value)}: {why}.")


def _state(asked: Asked) -> dict[str, Any]:
    found = asked.result()
    if isinstance(found, Comparison):
        return {"finished": True, **found.to_json()}
    return {"finished": found is not None, "policy": None if found is None else found.best_policy.to_json()}


def _task(path: Path, name: str | None, interventions: str | None, scale: options.Scale) -> Task:
    if name is None:
        return _task_kept(path)
    if interventions is None:
        return get_task(name, scale.value)
    return task_elsewhere(name, [one.strip() for one in interventions.split(",")])


def _task_kept(path: Path, teaching: Mapping[str, Any] | None = None) -> Task:
    """The task of a store, from what it keeps."""
    if not os.path.exists(path):
        raise ConfigError(f"There is no store {path}: make it with `cisr ask {path} --task TASK`.")
    with in_turn(path) as store, making_sense_of(store):
        settings = store.settings()
        if not settings.get(KIND):
            raise ConfigError(f"{store} has no students elsewhere: `cisr ask STORE --task TASK` begins with such.")
        return task_of_store(settings, teaching or {"interventions": []})


def _kept(path: Path, name: str) -> Asked:
    """A study or comparison of a store, from what it keeps."""
    task = _task_kept(path)
    with in_turn(path) as store, making_sense_of(store):
        kept, seed = store.settings()[KIND].get(name), store.runs().get(name, {}).get("seed")
        if kept is None or seed is None:
            raise ConfigError(f"{store} has no '{name}' with students elsewhere: it has {', '.join(store.runs())}.")
        if "teaching" in kept:
            return Study(task_of_store(store.settings(), kept["teaching"]), store=path, seed=seed, name=name)
        curricula = {label: policy_from_json(policy) for label, policy in kept["curricula"].items()}
    return ComparisonElsewhere(task, curricula, n_students=kept["students"], store=path, name=name, seed=seed)


def _owner(trial: Any) -> str:
    return owner_of(check_text("The name of a trial", trial))


def _trial(path: Path, said: dict[str, Any]) -> Trial:
    if not os.path.exists(path):
        raise ConfigError(f"There is no store {path}: `cisr ask` makes it.")
    return Trial(path, said["trial"])


def _heard(needed: Collection[str], others: Collection[str]) -> dict[str, Any]:
    """What standard input says."""
    wanted = ", ".join(f'"{name}"' for name in (*needed, *others))
    try:
        text = sys.stdin.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ConfigError(f"Standard input has more than {LONGEST:,} characters: give {{{wanted}}}.")
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"Standard input is no JSON ({error}): give {{{wanted}}}.") from error
    if not isinstance(said, dict) or not set(needed) <= set(said) <= {*needed, *others}:
        raise ConfigError(f"Standard input says {shown(said)}: give {{{wanted}}}.")
    return said


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
