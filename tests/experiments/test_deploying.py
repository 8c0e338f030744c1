"""Students of a store deployed once more: on any backend, in as many episodes as one likes, and the store as it was."""

import dataclasses
import json
from contextlib import closing

import pytest
import tiny
from calls import call, refused
from stores import cells

from cisr import Fixed, Observation, Store, Study, compare, task_elsewhere
from cisr.experiments import deploying
from cisr.experiments.deploying import deploy

MEASURES = ("success", "return", "failures")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Students that were trained compiled."""
    path = tmp_path_factory.mktemp("deploy") / "store.sqlite"
    compare(tiny.compiled, {"HR": Fixed("HR"), "none": Fixed("none")}, n_students=2, store=path, execution=tiny.HERE)
    return path


def deployed(path, task=tiny.compiled, **how):
    with Store(path, read_only=True) as store:
        return deploy(store, task, execution=tiny.HERE, **how)


def test_students_trained_compiled_are_deployed_in_gymnasium_and_the_store_stays_as_it_was(path, tmp_path):
    before = cells(path)
    code, out, err = call("deploy", path, "--task", "tiny:compiled", "--workers", 0, "--json", tmp_path / "found.json")
    assert code == 0, err
    assert "on gymnasium, in new episodes" in " ".join(out.split()) and "when training ended, on compiled" in out
    found = json.loads((tmp_path / "found.json").read_text())
    assert [(row["run"], row["curriculum"], row["deployed"]) for row in found["rows"]] == [
        ("compare", "HR", 2),
        ("compare", "none", 2),
    ]
    for row in found["rows"]:
        assert sum(row["outcomes"].values()) == pytest.approx(1)
        for measure in MEASURES:
            now, then, change = (row[measure][when]["mean"] for when in ("now", "before", "change"))
            assert now - then == pytest.approx(change)
        assert row["success"]["change"]["low"] <= row["success"]["change"]["mean"] <= row["success"]["change"]["high"]
    assert cells(path) == before


def test_repetitions_of_a_reproduction_are_one_row_for_each_curriculum(tmp_path):
    path, names = tmp_path / "store.sqlite", ["evaluation-1", "evaluation-2"]
    for name in names:
        compare(tiny.compiled, {"HR": Fixed("HR")}, n_students=2, name=name, store=path, seed=3, execution=tiny.HERE)
    with Store(path) as store:
        store.keep_reproduction({"title": "a table", "repetitions": names, "searches": [], "students": 2, "rows": []})
    (row,) = deployed(path, backend="compiled", episodes=2).rows
    assert (row.run, row.curriculum, row.deployed, row.episodes) == ("reproduction", "HR", 4, 8)


def test_a_number_of_episodes_is_that_number_on_every_backend_and_a_seed_gives_the_same_ones(path):
    few = {"episodes": 3, "students": "compare/none"}
    for backend in ("gymnasium", "compiled"):
        (row,) = deployed(path, backend=backend, **few).rows
        assert (row.deployed, row.episodes) == (2, 6)
    assert deployed(path, **few) == deployed(path, **few)
    assert deployed(path, **few).rows != deployed(path, seed=1, **few).rows


def test_students_of_a_study_are_one_row_and_with_the_seeds_of_training_do_as_they_did(tmp_path, monkeypatch):
    path = tmp_path / "store.sqlite"
    task = tiny.task.with_teaching(n_initial=2, n_rounds=0, class_size=1)
    Study(task, store=path, execution=tiny.HERE).run()
    with closing(Store(path, read_only=True)) as store:
        monkeypatch.setattr(deploying, "derive_seed", lambda seed, what, name: store.spec(name).seed)
        (row,) = deployed(path, task).rows
    assert (row.run, row.curriculum, row.deployed) == ("study", None, 2)
    assert all(measured.now == measured.before for measured in row.measures.values())


def test_students_of_stable_baselines3_are_deployed_in_as_many_environments_as_episodes(tmp_path):
    pytest.importorskip("stable_baselines3")
    import sb3_tasks

    path = tmp_path / "store.sqlite"
    compare(sb3_tasks.SAC, {"back": Fixed("back")}, n_students=1, store=path, execution=tiny.HERE)
    (row,) = deployed(path, sb3_tasks.beam, episodes=3).rows
    assert (row.deployed, row.episodes) == (1, 3)


def test_a_student_that_breaks_when_it_is_deployed_again_is_told_and_left_out(tmp_path, monkeypatch, caplog):
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("HOLD", "1")
    compare(tiny.fragile, {"none": Fixed("none")}, n_students=4, store=path, execution=tiny.HERE)
    monkeypatch.delenv("HOLD")
    (row,) = deployed(path, tiny.fragile, episodes=6).rows
    assert 0 < row.deployed < row.students == 4 and row.episodes == 6 * row.deployed
    assert "the ice broke" in caplog.text


def test_what_cannot_be_deployed_is_told_in_a_line(path, tmp_path):
    own = ("--task", "tiny:compiled", "--workers", 0)
    assert "'compiled-lake', which is not built in" in refused("deploy", path)
    assert "is not one of" in refused("deploy", path, "--backend", "box2d")
    assert "whole number from 1 to 10,000" in refused("deploy", path, *own, "--episodes", 0)
    assert "are named like 'compare/HR/000'" in refused("deploy", path, "compare/SR9", *own)
    assert "--task tiny:task is 'tiny-lake'" in refused("deploy", path, "--task", "tiny:task")
    assert "gone.sqlite" in refused("deploy", tmp_path / "gone.sqlite")
    Store(tmp_path / "empty.sqlite").close()
    assert "nobody to deploy" in refused("deploy", tmp_path / "empty.sqlite", *own)
    with pytest.raises(deploying.StoreError, match=r"definition: horizon = 40, this run has 41.*trained for"):
        deployed(path, dataclasses.replace(tiny.compiled, horizon=41))
    with pytest.raises(deploying.StoreError, match=r"code: success"):
        deployed(path, dataclasses.replace(tiny.compiled, success=lambda move: move.reward > 2))
    there = tmp_path / "elsewhere.sqlite"
    study = Study(task_elsewhere("arm", ["held"], n_units=1, n_initial=1, n_rounds=0), store=there)
    trial = study.ask()
    trial.next_intervention(Observation(0.5, violation=0.25))
    study.tell(trial, 1.0)
    assert "has no weights that could be deployed: all of its students are elsewhere" in refused("deploy", there)
