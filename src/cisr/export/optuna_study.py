"""A store's studies as Optuna has them, in an SQLite storage of their own, as Optuna Dashboard reads it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cisr.core.errors import ConfigError
from cisr.core.libraries import installed, needed
from cisr.core.version import __version__
from cisr.store import StoredTrial
from cisr.store.meaning import making_sense_of
from cisr.system.files import check_targets, writing
from cisr.training import Transcript
from cisr.view.contents import Contents, StudyRecord, read
from cisr.view.words import failures_in_training, in_words

if installed("optuna"):
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.trial import TrialState, create_trial

MADE_BY = "made by"
"""The attribute of studies that were exported, by which they are told from a user's own."""


def export_optuna(store: Path, target: Path) -> Path:
    """All studies of a store. What was exported to the file before is replaced, anything else is not."""
    needed("optuna", "Optuna", "export")
    check_targets({"--out": target}, [store])
    _check_replaceable(target)
    contents = read(store)
    if not contents.studies:
        raise ConfigError(f"{store} holds no study, and Optuna shows nothing else: give the store of `cisr train`.")
    with making_sense_of(f"The store {store}"):
        studies = [(study.name, _about(contents, study), list(_trials(study))) for study in contents.studies]
        with writing(target) as aside, TemporaryDirectory() as scratch:
            made = Path(scratch) / "optuna.db"  # a plain name: Optuna would read a meaning into some
            with _storage(made) as storage:
                for study in studies:
                    _add(storage, *study)
            aside.write_bytes(made.read_bytes())
    return target


@contextmanager
def _storage(path: Path) -> Iterator[Any]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it announces every study
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        try:
            yield storage
        finally:
            storage.remove_session()  # gives its connection back, or the engine would not close it
            storage.engine.dispose()
    except optuna.exceptions.OptunaError as error:
        raise OSError(f"Optuna says: {error}") from error
    finally:
        optuna.logging.set_verbosity(before)


def _add(storage: Any, name: str, about: Mapping[str, Any], trials: Sequence[optuna.trial.FrozenTrial]) -> None:
    made = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    for attribute, value in about.items():
        made.set_user_attr(attribute, value)
    made.add_trials(trials)


def _about(contents: Contents, study: StudyRecord) -> dict[str, Any]:
    """What is known of a study as a whole; what is not known is left out."""
    settings, found = contents.settings, study.found or {}
    known = {
        MADE_BY: f"cisr {__version__}",
        "store": contents.source,
        "task": settings.get("task"),
        "scale": settings.get("scale"),
        "student": settings.get("student"),
        "interventions": list(contents.own_interventions),
        "teacher": study.teacher or None,
        "seed": study.run.get("seed"),
        "best curriculum": study.best and in_words(study.best),
        "best policy": study.best,
        **{f"belief: {name}": value for name, value in found.get("belief", {}).items()},
    }
    return {name: value for name, value in known.items() if value is not None}


def _trials(study: StudyRecord) -> Iterator[optuna.trial.FrozenTrial]:
    distributions = _distributions(study)
    for trial, students in zip(study.rounds, study.classes, strict=True):
        state = (
            TrialState.RUNNING if not trial.told else TrialState.FAIL if trial.score is None else TrialState.COMPLETE
        )
        made = create_trial(
            state=state,
            value=trial.score if state is TrialState.COMPLETE else None,
            params=dict(trial.parameters),
            distributions={name: distributions[name] for name in trial.parameters},
            user_attrs=_attributes(study, trial, students),
            intermediate_values=_returns(students),
        )
        if made.datetime_start is not None:  # stores keep durations and no dates
            made.datetime_start -= timedelta(seconds=sum(unit.seconds for t in students for unit in t.units))
        yield made


def _attributes(study: StudyRecord, trial: StoredTrial, students: Sequence[Transcript]) -> dict[str, Any]:
    policy = study.policy(trial.parameters)
    failures, unknown = failures_in_training(students)
    finished = [t.deployment for t in students if t.deployment is not None]
    successes = [deployment.success for deployment in finished if deployment.success is not None]
    known = {
        "curriculum": in_words(policy),
        "interventions": policy["interventions"],
        "standard error": trial.sem,
        "students": [t.name for t in students],
        "returns once deployed": [deployment.mean_return for deployment in finished] or None,
        "successes": successes or None,
        "failures in training": failures,
        "students whose failures nobody knows": unknown or None,
        "errors": {t.name: t.error for t in students if t.error is not None} or None,
        "the teacher's choice": (study.found is not None and study.found["best"] == trial.parameters) or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _returns(students: Sequence[Transcript]) -> dict[int, float]:
    """By unit the mean return of a class in training, as far as all of it has come."""
    units = zip(*(t.units for t in students), strict=False)
    return {unit[0].unit: sum(each.mean_return for each in unit) / len(unit) for unit in units}


def _distributions(study: StudyRecord) -> dict[str, Any]:
    """What the teacher searched; ranges that it found by itself, or that nobody kept, are those of what it tried."""
    searched: Mapping[str, Any] = study.run.get("teacher", {}).get("searches", {})
    tried: dict[str, list[float | str]] = {}
    for trial in study.rounds:
        for name, value in trial.parameters.items():
            tried.setdefault(name, []).append(value)
    found: dict[str, Any] = {}
    for name, values in tried.items():
        space = searched.get(name, {})
        if isinstance(values[0], str):
            found[name] = CategoricalDistribution(list(dict.fromkeys([*space.get("options", []), *values])))
        else:
            known = [] if name.partition("_")[0] in study.run.get("ranges found", ()) else _ends(space)
            numbers = [float(value) for value in (*known, *values)]
            found[name] = FloatDistribution(min(numbers), max(numbers))
    return found


def _ends(space: Mapping[str, Any]) -> list[float]:
    return [space[end] for end in ("low", "high") if end in space]


def _check_replaceable(target: Path) -> None:
    """A file is replaced if all studies in it were exported by cisr: a user's own, or a store, is not."""
    if not target.is_file() or not target.stat().st_size:
        return
    ours = "SELECT count(*) FROM study_user_attributes WHERE key = ? AND value_json LIKE '\"cisr %'"
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{target.resolve().as_uri()}?mode=ro", uri=True)) as db:
        ((n_studies,),) = db.execute("SELECT count(*) FROM studies")
        if n_studies == db.execute(ours, (MADE_BY,)).fetchone()[0]:
            return
    raise ConfigError(f"{target} is there and was not exported by cisr: it is left alone; give another file.")
