"""A run on a store: it begins where the store agrees with its settings, or sets old results aside."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cisr.core.checks import check_text
from cisr.core.errors import ConfigError, StoreError
from cisr.store import Store
from cisr.store.provenance import ENVIRONMENT, identity, versions
from cisr.training import Batching, Execution, TrainingSetup

log = logging.getLogger(__name__)


def begin(
    store: Store, name: str, setup: TrainingSetup, run: Mapping[str, Any], execution: Execution = Execution()
) -> Batching:
    """Make sure that the store is one of this setup; returns how its students are cut into batches.

    `name` is that of the study or comparison, and `run` are its own settings, which must agree ever after too.
    `execution` says how students of a new store are cut into batches.
    """
    if not check_text("The name of a study or comparison", name) or "/" in name:
        raise ConfigError(f"A study or comparison is named {name!r}: give it a name without a slash.")
    settings, unknown = identity(setup)
    kept = store.settings()
    if store.has_results() and "code" not in kept:
        raise StoreError(
            f"{store} was made before stores knew the code of their task: its results can be read, but not added to; "
            f"give another store, or set its old results aside with --fresh."
        )
    if not store.agrees(settings := _with_environment(store, settings)):
        store.bind_settings(settings)
        if "code" in kept:
            store.drop_audit()  # it was about another task
        if unknown and setup.task.version is None:
            log.warning(
                "%s: changes cannot be told of %s: give the task a `version`, and another one when they change.",
                setup.task.name,
                "; ".join(unknown),
            )
    store.bind_run(name, run)
    batch = execution.batch
    largest = kept.get("batching", {}).get("largest", batch)
    if batch not in (None, largest):
        raise StoreError(
            f"{store} was made with batches of at most {largest} students, this run has {batch}: "
            f"give another store, or the same batch."
        )
    if "batching" not in kept:
        batching = execution.batching(setup.backend)
        store.record({"batching": batching._asdict(), "made with": versions()})
    appearance = setup.task.appearance
    pictures = {"floor plan": appearance.floor_plan, "state plot": appearance.state_plot}
    store.record({what: drawn for what, drawn in pictures.items() if drawn is not None})
    return Batching(**store.settings()["batching"])


def may_hold(store: Store, setup: TrainingSetup) -> bool:
    """Whether results of this setup may go into the store: it has none of another task. `begin` says why not."""
    return not store.has_results() or store.agrees(_with_environment(store, identity(setup)[0]))


PLANNED = "planned students"
M0 = "safe evaluation"
"""What a run calls the M_0 that stands in for its task's."""


def plan_students(store: Store, name: str, n: int) -> None:
    """Note how many students a run is to have in all, for those who watch it: a study may grow, so nothing relies on
    it."""
    planned = store.settings().get(PLANNED, {})
    if planned.get(name) != n:
        store.record({PLANNED: {**planned, name: n}})


def _with_environment(store: Store, settings: dict[str, Any]) -> dict[str, Any]:
    """Where no environment could be made, now or when the store was, that is for its students to say: what is known of
    it at one time stands for both."""
    kept = store.settings()
    code, known = settings["code"], kept.get("code", {})
    if (ENVIRONMENT in code) == (ENVIRONMENT in known) or not known or settings["backend"] == "compiled":
        return settings
    if ENVIRONMENT in known:
        return {**settings, "packages": kept["packages"], "code": {**code, ENVIRONMENT: known[ENVIRONMENT]}}
    without = {**settings, "packages": kept["packages"], "code": {k: v for k, v in code.items() if k != ENVIRONMENT}}
    if store.agrees(without):
        store.record({"packages": settings["packages"], "code": code})
    return settings


def set_aside(store: Store, name: str, setup: TrainingSetup) -> None:
    """Begin a study or comparison afresh: what a store holds of it, or of another task, goes to a store of its own."""
    settings, _ = identity(setup)
    announce_aside(store.set_aside(store.runs_beside(name) if store.agrees(settings) else store.runs()))


def announce_aside(aside: Path | None) -> None:
    if aside is not None:
        log.warning("The old results are set aside in %s.", aside)


def deployed(setup: TrainingSetup, seed: int) -> dict[str, Any]:
    """What defines any run: its seed, and where its students are deployed; its M_0 where that is not the task's."""
    instead = {} if setup.safe_evaluation is None else {M0: setup.safe_evaluation}
    settings = {"seed": seed, "deployed under": setup.evaluate_under, "deployed each unit": setup.deploy_each_unit}
    return settings | instead
