"""A result belongs to exactly the code and settings that made it."""

import dataclasses

import numpy as np
import pytest
import tiny

from cisr import ConfigError, Fixed, Store, StoreError, StudentConfig, Study, compare, explorer, random_teacher
from cisr.cli.naming import parse_curricula
from cisr.curricula import save_policy
from cisr.store.provenance import describe_student
from cisr.training.new_students import student_config

SR1 = {"SR1": Fixed("SR1")}


def lake(width=1.0, name="tiny-lake"):
    """The tiny lake with a trigger that fires where a table says more than `width` is left."""
    sr1 = tiny.task.intervention("SR1")
    changed = dataclasses.replace(sr1, trigger=lambda state: sr1.trigger(state) & np.asarray(width <= 1.0))
    return dataclasses.replace(tiny.task, name=name, interventions=(changed, *tiny.task.interventions[1:]))


def test_results_of_an_edited_task_are_not_shown_as_those_of_the_new_one(tmp_path):
    store = tmp_path / "s.sqlite"
    safe = compare(lake(1.0), SR1, n_students=1, store=store, execution=tiny.HERE)
    assert safe.transcripts["SR1"][0].training_failures == 0
    with pytest.raises(StoreError) as refused:
        compare(lake(2.0), SR1, n_students=1, store=store, execution=tiny.HERE)
    assert str(refused.value) == (
        f"The store {store} was made with code: trigger 'rescues' of 'SR1': width = 1.0, this run has 2.0: give "
        "another store, or set its old results aside with --fresh."
    )
    with Store(store) as kept:  # nothing was lost
        assert kept.transcripts() == list(safe.transcripts["SR1"])


def test_fresh_sets_the_old_results_aside_and_deletes_nothing(tmp_path, caplog):
    store = tmp_path / "s.sqlite"
    old = compare(lake(1.0), SR1, n_students=1, store=store, execution=tiny.HERE)
    new = compare(lake(2.0), SR1, n_students=1, store=store, fresh=True, execution=tiny.HERE)
    assert new.transcripts["SR1"][0].training_failures > 0
    aside = tmp_path / "s-aside-1.sqlite"
    assert f"set aside in {aside}" in caplog.text
    with Store(aside) as kept:
        assert kept.transcripts() == list(old.transcripts["SR1"])
        assert kept.weights("compare/SR1/000")
    with Store(store) as kept:
        assert kept.transcripts() == list(new.transcripts["SR1"])
    again = compare(lake(1.0), SR1, n_students=1, store=aside, execution=tiny.HERE)  # it is a store like any other
    assert again.transcripts == old.transcripts


def test_fresh_touches_what_goes_by_its_name_alone(tmp_path):
    store = tmp_path / "s.sqlite"
    first = compare(tiny.task, SR1, n_students=1, store=store, name="first", execution=tiny.HERE)
    compare(tiny.task, SR1, n_students=1, store=store, name="second", execution=tiny.HERE)
    compare(tiny.task, SR1, n_students=1, store=store, name="second", seed=5, fresh=True, execution=tiny.HERE)
    with Store(store) as kept:
        assert kept.transcript("first/SR1/000") == first.transcripts["SR1"][0]
        assert kept.runs()["second"]["seed"] == 5
    with Store(tmp_path / "s-aside-1.sqlite") as kept:
        assert kept.runs()["second"]["seed"] == 0
        assert len(kept.transcripts()) == 2


def test_what_back_x_is_like_and_where_m0_is_belong_to_a_task(tmp_path):
    compare(tiny.task, {"Back-2": Fixed("Back-2")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    sr1, sr2, hr = tiny.task.interventions
    others = {
        "rewind_like": dataclasses.replace(tiny.task, interventions=(sr2, sr1, hr)),
        "safe_evaluation": dataclasses.replace(tiny.task, safe_evaluation="SR1"),
    }
    for named, other in others.items():
        with pytest.raises(StoreError, match=f"definition: {named} = "):
            compare(other, {"Back-2": Fixed("Back-2")}, n_students=1, store=tmp_path / "s", execution=tiny.HERE)


def test_a_task_that_says_nothing_of_its_students_has_explorers():
    task = tiny.task.with_training(student=None)
    ours = explorer(StudentConfig())
    assert student_config(task, 0, "anybody") == ours
    assert describe_student(task) == ours.to_json()


def test_students_that_are_deployed_in_another_way_are_other_students(tmp_path):
    compare(tiny.task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    greedy = tiny.task.with_training(student=dataclasses.replace(tiny.student, deterministic=True))
    with pytest.raises(StoreError, match="student settings: deterministic = false, this run has true"):
        compare(greedy, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)


def stop(event):
    raise KeyboardInterrupt


def test_what_was_begun_and_gave_no_result_is_forgotten_by_another_study(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        Study(tiny.task, store=tmp_path / "s", teacher=random_teacher, execution=tiny.HERE).run(stop)
    with Store(tmp_path / "s") as store:
        assert store.trials("study")
    one = tiny.teaching(n_initial=1, n_rounds=0)
    after, clean = (
        Study(tiny.task, teaching=one, store=store, seed=4, execution=tiny.HERE).run()
        for store in (tmp_path / "s", None)
    )
    assert after.trials[0].parameters == clean.trials[0].parameters


def test_fresh_forgets_what_gave_no_result_and_is_not_stopped_by_an_earlier_kill(tmp_path, monkeypatch):
    store = tmp_path / "s.sqlite"
    with pytest.raises(KeyboardInterrupt):
        compare(tiny.task, SR1, n_students=1, store=store, callback=stop, execution=tiny.HERE)
    compare(tiny.task, SR1, n_students=1, store=store, seed=3, fresh=True, execution=tiny.HERE)
    with monkeypatch.context() as patch:  # killed after the weights were linked
        patch.setattr("cisr.store.Database.copy_to", lambda *_: stop(None))
        with pytest.raises(KeyboardInterrupt):
            compare(tiny.task, SR1, n_students=1, store=store, seed=4, fresh=True, execution=tiny.HERE)
    compare(tiny.task, SR1, n_students=1, store=store, seed=4, fresh=True, execution=tiny.HERE)
    with Store(tmp_path / "s-aside-2.sqlite") as aside:
        assert aside.runs()["compare"]["seed"] == 3 and aside.weights("compare/SR1/000")


def test_a_name_with_a_slash_is_refused():
    with pytest.raises(ConfigError, match="give it a name without a slash"):
        compare(tiny.task, SR1, n_students=1, name="a/b", execution=tiny.HERE)


def test_an_environment_that_could_not_be_made_for_a_moment_does_not_lock_its_store(tmp_path):
    busy = tmp_path / "busy"
    busy.touch()

    def make_env(**options):
        if busy.exists():
            busy.unlink()
            raise OSError("busy")
        return tiny.task.make_env(**options)

    task = dataclasses.replace(tiny.task, make_env=make_env)
    compare(task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    (row,) = compare(task, SR1, n_students=2, store=tmp_path / "s", execution=tiny.HERE).rows
    assert row.finished == 2


def test_a_task_that_never_gave_a_result_may_be_mended(tmp_path):
    def broken(**options):
        raise OSError("no licence")

    with pytest.raises(Exception, match="no licence"):
        task = dataclasses.replace(tiny.task, make_env=broken)
        compare(task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    (row,) = compare(tiny.task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE).rows
    assert row.finished == 1


def study(path, **changes):
    numbers = {"n_initial": 2, "n_rounds": 0, "class_size": 1}
    teaching = tiny.teaching(**{name: changes.pop(name, usual) for name, usual in numbers.items()})
    return Study(tiny.task, teaching=teaching, store=path, execution=tiny.HERE, **changes).run()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"teacher": random_teacher}, "teacher: kind = TopTwo, this run has RandomSearch"),
        ({"class_size": 2}, "class size = 1, this run has 2"),
        ({"n_initial": 3}, "initial policies = 2, this run has 3"),
        ({"seed": 3}, "seed = 0, this run has 3"),
        ({"score": lambda t: -t.deployment.score}, "score"),
        ({"observe": lambda unit: None}, "observe"),
    ],
)
def test_what_defines_a_study_cannot_change_on_its_store(tmp_path, changes, named):
    study(tmp_path / "s")
    with pytest.raises(StoreError, match="was made with run study: ") as refused:
        study(tmp_path / "s", **changes)
    assert named in str(refused.value)


def test_the_search_ranges_belong_to_a_study_too(tmp_path):
    def searched(**ranges):
        teaching = tiny.teaching(n_initial=2, n_rounds=0, class_size=1, **ranges)
        Study(tiny.task, teaching=teaching, store=tmp_path / "s", execution=tiny.HERE).run()

    searched(return_range=(-0.5, 5.5), violation_range=(0.0, 1.0))
    with pytest.raises(StoreError, match=r"return_1: high = 5\.5, this run has 7\.0"):
        searched(return_range=(-0.5, 7.0), violation_range=(0.0, 1.0))
    with pytest.raises(StoreError, match="ranges found"):  # whatever they may turn out to be
        searched(return_range=(-0.5, 5.5), violation_range=None)


def test_a_study_may_grow_and_not_shrink(tmp_path):
    short, long = study(tmp_path / "s"), study(tmp_path / "s", n_rounds=1)
    assert long.trials[:2] == short.trials and len(long.trials) == 3
    with pytest.raises(StoreError, match="has tried 3 policies in 'study', this run has 2"):
        study(tmp_path / "s")


def test_a_store_from_before_code_was_known_is_read_but_not_added_to(tmp_path):
    compare(tiny.task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    with Store(tmp_path / "s") as store, store._db.transaction():
        store._db.remove("settings", {"name": "code"})
    with pytest.raises(StoreError, match="made before stores knew the code of their task"):
        compare(tiny.task, SR1, n_students=2, store=tmp_path / "s", execution=tiny.HERE)


def test_what_cannot_be_told_by_content_is_said_once_and_a_version_stands_for_it(tmp_path, caplog):
    import threading

    lock = threading.Lock()

    def success(move):
        with lock:
            return tiny.task.success(move)

    task = dataclasses.replace(tiny.task, success=success)
    compare(task, SR1, n_students=1, store=tmp_path / "s", execution=tiny.HERE)
    assert "changes cannot be told of success: lock" in caplog.text and "give the task a `version`" in caplog.text
    caplog.clear()
    versioned = dataclasses.replace(task, version=1)
    compare(versioned, SR1, n_students=1, store=tmp_path / "v", execution=tiny.HERE)
    assert "cannot be told" not in caplog.text
    with pytest.raises(StoreError, match="version = 1, this run has 2"):
        compare(dataclasses.replace(task, version=2), SR1, n_students=1, store=tmp_path / "v", execution=tiny.HERE)


def test_two_curricula_never_share_a_label(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, name in (("a", "HR"), ("b", "SR2"), (".", "SR2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        save_policy(Fixed(name), tmp_path / folder / "c.json")
    save_policy(Fixed("HR"), tmp_path / "SR1.json")

    def labels(*texts):
        return {label: policy.name for label, policy in parse_curricula(texts, tiny.task).items()}

    assert labels("SR1", "SR1.json") == {"SR1": "SR1", "SR1.json": "HR"}
    assert labels("SR1.json") == {"SR1.json": "HR"}  # whatever else it is, it is not SR1
    assert labels("a/c.json", "b/c.json") == {"a/c.json": "HR", "b/c.json": "SR2"}
    assert labels("a/c.json") == {"c": "HR"}
    assert labels("SR1", "SR1") == {"SR1": "SR1"}
    with pytest.raises(ConfigError, match="no curriculum 'd'"):
        labels("d")
