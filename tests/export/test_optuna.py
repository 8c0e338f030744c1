"""A store's studies as Optuna opens them."""

import math

import pytest
from calls import refused

from cisr import Store
from cisr.core.errors import ConfigError

optuna = pytest.importorskip("optuna")
from optuna.trial import TrialState  # noqa: E402
from sqlalchemy.pool import NullPool  # noqa: E402

from cisr.export.optuna_study import export_optuna  # noqa: E402


def opened(path, name="study"):
    """A study that asks its storage again later; no connection outlives a question."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"poolclass": NullPool})
    study = optuna.load_study(study_name=name, storage=storage)
    return study, study.get_trials()


def test_optuna_opens_the_study_with_all_that_is_known_of_it(trained_once, tmp_path):
    export_optuna(trained_once, tmp_path / "optuna.db")
    study, trials = opened(tmp_path / "optuna.db")
    with Store(trained_once, read_only=True) as store:
        kept, found, students = store.trials("study"), store.findings()["study"], store.transcripts("study/")
    assert [trial.params for trial in trials] == [trial.parameters for trial in kept]
    assert [trial.value for trial in trials] == [trial.score for trial in kept]
    assert all(trial.state is TrialState.COMPLETE for trial in trials)
    assert study.best_value == max(trial.score for trial in kept)
    assert study.user_attrs["task"] == "tiny-lake"
    assert study.user_attrs["interventions"] == ["SR1", "SR2", "HR"]
    assert study.user_attrs["belief: bound"] == found["belief"]["bound"]
    assert study.user_attrs["best policy"] == found["policy"]
    first, *_ = trials
    choices = first.distributions["intervention_1"]
    assert choices == optuna.distributions.CategoricalDistribution(("SR1", "SR2", "HR"))
    assert isinstance(first.distributions["return_1"], optuna.distributions.FloatDistribution)
    assert first.user_attrs["students"] == ["study/000/00", "study/000/01"]
    assert first.user_attrs["failures in training"] == 0
    pairs = zip(students[0].units, students[1].units, strict=True)
    means = [(one.mean_return + other.mean_return) / 2 for one, other in pairs]
    assert first.intermediate_values == dict(enumerate(means, 1))
    assert sum(trial.user_attrs.get("the teacher's choice", False) for trial in trials) >= 1
    seconds = sum(unit.seconds for t in students[:2] for unit in t.units)
    assert math.isclose(first.duration.total_seconds(), seconds, abs_tol=1.0)


def test_optunas_samplers_go_on_from_there(trained_once, tmp_path):
    """What they are given makes sense to them: parameters lie within what was searched."""
    export_optuna(trained_once, tmp_path / "optuna.db")
    _, trials = opened(tmp_path / "optuna.db")
    going_on = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    going_on.add_trials(trials)
    asked = going_on.ask(trials[0].distributions)
    assert set(asked.params) == set(trials[0].params)


def test_a_policy_whose_students_failed_has_no_value_and_one_in_progress_is_running(elsewhere, tmp_path):
    export_optuna(elsewhere, tmp_path / "optuna.db")
    study, trials = opened(tmp_path / "optuna.db")
    states = [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.RUNNING]
    assert [trial.state for trial in trials] == states
    assert [trial.value for trial in trials] == [1.0, None, 3.0, None]
    assert list(trials[1].user_attrs["errors"]) == ["study/001/00"]
    assert "failures in training" not in trials[0].user_attrs  # nobody told
    assert trials[0].user_attrs["students whose failures nobody knows"] == 1
    assert study.best_trial.number == 2
    assert "belief: score" not in study.user_attrs  # the search is not over


def test_exporting_again_replaces_what_was_exported(trained_once, elsewhere, tmp_path):
    target = tmp_path / "optuna.db"
    for store in (elsewhere, trained_once, trained_once):
        export_optuna(store, target)
    _, trials = opened(target)
    assert len(trials) == 3
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_was_not_exported_is_left_alone(trained, elsewhere, tmp_path):
    own, text = tmp_path / "own.db", tmp_path / "notes.txt"
    study = optuna.create_study(storage=f"sqlite:///{own}", study_name="mine")
    study._storage._backend.engine.dispose()
    text.write_text("mine")
    for path in (own, text, elsewhere):
        before = path.read_bytes()
        said = "would replace the store" if path is elsewhere else "was not exported by cisr"
        with pytest.raises(ConfigError, match=said):
            export_optuna(trained, path)
        assert path.read_bytes() == before
    assert "would replace the store" in refused("export", trained, "optuna", "--out", trained)


def test_any_name_of_a_file_will_do(elsewhere, tmp_path):
    target = tmp_path / "what? 100 % {SCHEMA_VERSION} #1" / "a'b.db"
    export_optuna(elsewhere, target)
    assert target.read_bytes().startswith(b"SQLite format 3")


def test_a_store_without_a_study_is_refused(broken, tmp_path):
    with pytest.raises(ConfigError, match="holds no study"):
        export_optuna(broken, tmp_path / "optuna.db")
    assert list(tmp_path.iterdir()) == []
