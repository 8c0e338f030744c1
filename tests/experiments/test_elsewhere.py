"""Students elsewhere: asked for, told of, and never lost or counted twice."""

import dataclasses
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
from kills import ENVIRONMENT
from stores import cells

from cisr import (
    ComparisonElsewhere,
    ConfigError,
    Fixed,
    Observation,
    RandomSearch,
    Schedule,
    Store,
    StoreError,
    Study,
    task_elsewhere,
)
from cisr.cli import main
from cisr.core.errors import NobodyFinished
from cisr.store.provenance import describe
from cisr.tasks.elsewhere import task_of_store
from cisr.view.contents import read
from cisr.view.page import write_page

ARM = task_elsewhere("arm", ["held", "slow"], n_units=3, n_initial=2, n_rounds=2)
RIG = Path(__file__).parent.parent.parent / "examples" / "08_rig.py"


@pytest.fixture
def study(tmp_path):
    return Study(ARM, store=tmp_path / "arm.sqlite")


def train(trial, mean_return=1.0):
    """A student without a mind: every unit goes alike."""
    met, observed = [], None
    while (name := trial.next_intervention(observed)) is not None:
        met.append(name)
        observed = Observation(mean_return, violation=0.0)
    return met


def test_a_study_is_run_by_asking_and_telling(study):
    tried = []
    while (trial := study.ask()) is not None:
        met = train(trial)
        assert len(met) == 3
        study.tell(trial, 2.0 if met[0] == "slow" else 1.0)
        tried.append(met)
    assert tried[:2] == [["held"] * 3, ["slow"] * 3]
    result = study.result()
    assert result.best_policy.interventions_used[0] == "slow"
    assert [trial.told for trial in result.trials] == [True] * 4
    assert all(len(student.units) == 3 for student in result.transcripts)


def test_two_rigs_get_different_work_and_each_its_own_again(study):
    a, b, nobody, again = study.ask("a"), study.ask("b"), study.ask(), study.ask()
    assert None in (nobody, again)  # ranges are found from the first two, so the third waits until these are told
    assert a.name != b.name
    assert a.next_intervention(Observation(1.0, 0.0)) == "held"
    assert (study.ask("a").name, study.ask("a").unit) == (a.name, 2)
    assert (study.ask("b").name, study.ask("b").unit) == (b.name, 1)


def test_a_trial_that_was_handed_out_is_not_forgotten_when_somebody_asks_for_another_task(study):
    """Its rig trains it, though nothing has been observed yet."""
    trial = study.ask("a")
    other = task_elsewhere("arm", ["held", "slow", "fast"], n_units=3, n_initial=3, n_rounds=2)
    with pytest.raises(StoreError, match=r"give another store\.$"):
        Study(other, store=study._store).ask("b")
    with pytest.raises(StoreError, match=r"give another store\.$"):
        Study(ARM, seed=1, store=study._store).ask("b")
    assert study.ask("a").name == trial.name


def test_a_rig_has_a_name_or_none(study):
    with pytest.raises(ConfigError, match="The name of a rig is ' ': give it a name, or none at all"):
        study.ask(" ")


def test_a_trial_is_found_again_by_its_name(study):
    first = study.ask()
    first.next_intervention(Observation(1.0, 0.0))
    found = study.trial(first.name)
    assert (found.unit, found.intervention) == (2, first.intervention)


def test_students_of_a_class_are_handed_out_one_by_one_and_scored_together(tmp_path):
    study = Study(ARM, teaching=dataclasses.replace(ARM.training.teaching, class_size=2), store=tmp_path / "a.sqlite")
    a, b = study.ask(), study.ask()
    assert [a.name, b.name] == ["study/000/00", "study/000/01"]
    for trial, score in ((b, 1.0), (a, 3.0)):
        train(trial)
        study.tell(trial, score)
    with Store(tmp_path / "a.sqlite", read_only=True) as store:
        assert (store.trials("study")[0].score, store.trials("study")[0].sem) == (2.0, 1.0)


def test_an_answer_that_was_lost_is_given_again_and_a_unit_counts_once(study):
    trial = study.ask()
    trial.enter(1, {"mean_return": 1.0, "violation": 0.0, "failures": 2})
    trial.enter(1, {"mean_return": 1.0, "violation": 0.0, "failures": 2})
    assert trial.unit == 2
    with pytest.raises(ConfigError, match="observed already: unit 2, under held, is next"):
        trial.enter(1, {"mean_return": 1.5, "violation": 0.0})
    with pytest.raises(ConfigError, match="cannot be observed yet"):
        trial.enter(3, {"mean_return": 1.5, "violation": 0.0})


def test_what_a_rig_may_not_tell_gets_one_line(study):
    trial = study.ask()
    with pytest.raises(ConfigError, match="3 units: unit 1, under held, is next; its score comes last"):
        study.tell(trial, 1.0)
    with pytest.raises(ConfigError, match="observed under 'flying': it is to be trained under 'held'"):
        trial.next_intervention({"mean_return": 1.0, "violation": 0.0, "intervention": "flying"})
    with pytest.raises(ConfigError, match="mean_return of unit 1 is nan: give a finite number"):
        trial.next_intervention(Observation(math.nan, 0.0))
    with pytest.raises(ConfigError, match="give mean_return and violation"):
        trial.next_intervention({"return": 1.0})
    with pytest.raises(ConfigError, match="share of episodes, from 0 to 1"):
        trial.next_intervention({"mean_return": 1.0, "violation": 0.0, "success": 3})
    train(trial)
    with pytest.raises(ConfigError, match="has done its 3 units: tell its score"):
        trial.next_intervention(Observation(1.0, 0.0))
    with pytest.raises(ConfigError, match="is nan: give a finite number"):
        study.tell(trial, math.nan)
    with pytest.raises(ConfigError, match="no trial 'study/007/00'"):
        study.tell("study/007/00", 1.0)
    study.tell(trial, 1.0)
    with pytest.raises(ConfigError, match="told already: its score is 1"):
        study.tell(trial, 2.0)


def test_numbers_that_nobody_can_count_with_are_refused_and_the_largest_are_not(study):
    trial = study.ask()
    with pytest.raises(ConfigError, match=r"violation of unit 1 is 1e\+308: give a number from -1e\+100 to 1e\+100"):
        trial.next_intervention(Observation(0.0, 1e308))
    for sign in (1, -1, 1, -1):
        train(trial, sign * 10**100)  # a whole number beyond 64 bits
        with pytest.raises(ConfigError, match=r"score of trial '.*' is -1e\+308: give"):
            study.tell(trial, -1e308)
        study.tell(trial, sign * 10**100)
        trial = study.ask()
    assert study.result() is not None


def test_a_study_may_grow_but_not_forget_policies_that_were_handed_out(study):
    while (trial := study.ask("a")) is not None:
        train(trial)
        study.tell(trial, 1.0)
    fewer, more = (
        Study(task_elsewhere("arm", ["held", "slow"], n_units=3, n_initial=2, n_rounds=n), store=study._store)
        for n in (1, 3)
    )
    with pytest.raises(StoreError, match="tried 4 policies in 'study', this run has 3: give at least 2 rounds"):
        fewer.ask()
    assert more.ask("a").name == "study/004/00"
    with pytest.raises(StoreError, match="tried 5 policies"):
        study.ask()
    assert fewer.result() is study.result() is more.result() is None  # one is open


def test_a_fresh_study_sets_the_old_one_aside_once(study, tmp_path):
    study.ask("a").next_intervention(Observation(1.0, 0.0))
    fresh = Study(ARM, store=study._store, fresh=True)
    assert fresh.ask("a").unit == 1
    fresh.ask("a").next_intervention(Observation(2.0, 0.0))
    assert fresh.ask("a").unit == 2
    assert Study(ARM, store=tmp_path / "arm-aside-1.sqlite").ask("a").unit == 2


def test_a_store_is_never_given_a_policy_that_would_count_as_damage():
    with Store(None) as store, pytest.raises(ConfigError, match=r"'study' is to try is .*nan.*: give finite numbers"):
        store.propose("study", 0, {"a": math.nan}, {})


def test_a_student_that_was_given_up_has_an_error_and_no_score(study):
    trial = study.ask()
    study.tell(trial, None)
    with pytest.raises(ConfigError, match="told already: it was given up"):
        study.tell(trial, 1.0)
    with pytest.raises(ConfigError, match="Trial 'study/000/00' was given up: `ask` gives another"):
        trial.next_intervention(Observation(1.0, 0.0))
    with pytest.raises(ConfigError, match="was given up"):
        study.trial(trial.name)
    other = study.ask()
    assert other.name != trial.name
    train(other)
    study.tell(other, 1.0)
    with Store(study._store, read_only=True) as store:
        assert [t.score for t in store.trials("study")] == [None, 1.0]


@pytest.mark.parametrize("kind", ["study", "comparison"])
def test_where_all_were_given_up_whoever_asks_hears_so(kind, study):
    asked = study
    if kind == "comparison":
        asked = ComparisonElsewhere(ARM, {"slow": Fixed("slow")}, n_students=2, store=study._store)
    with pytest.raises(NobodyFinished, match=r"None of \d students finished.*given up by its rig.*another store"):
        for _ in range(9):
            asked.tell(asked.ask(), None)
    with pytest.raises(NobodyFinished):
        asked.result()


def test_what_nobody_told_is_unknown_and_never_zero(study):
    trial = study.ask()
    trial.next_intervention({"mean_return": 1.0, "violation": 0.0, "failures": 0, "steps": 50})
    train(trial)
    study.tell(trial, 1.0, success=0.5)
    page = write_page(study._store).read_text()
    (student,) = read(study._store).students
    assert [unit.failures for unit in student.units] == [0, None, None]
    assert student.training_failures is None
    assert (student.deployment.success, student.deployment.failures) == (0.5, None)
    assert "– failures in training in – steps" in page


def test_students_here_and_elsewhere_do_not_share_a_study(study):
    trial = study.ask()
    train(trial)
    with pytest.raises(StoreError, match="was made with"):
        Study(tiny.task, store=study._store, execution=tiny.HERE).run()


def test_students_elsewhere_need_a_store():
    with pytest.raises(ConfigError, match="give the path of a file"):
        Study(ARM).ask()


@pytest.mark.parametrize("task", [ARM, tiny.task])
def test_a_store_says_enough_to_go_on_asking(task, tmp_path):
    study = Study(task, store=tmp_path / "a.sqlite")
    study.ask().next_intervention(Observation(1.0, 0.0))
    with Store(tmp_path / "a.sqlite", read_only=True) as store:
        settings = store.settings()
    again = task_of_store(settings, settings["elsewhere"]["study"]["teaching"])
    assert describe(again) == describe(task)
    assert Study(again, store=tmp_path / "a.sqlite").ask().name == "study/000/01" if task is tiny.task else True


def test_curricula_are_compared_on_students_elsewhere(tmp_path):
    path, curricula = tmp_path / "a.sqlite", {"slow": Fixed("slow"), "none": Fixed("none")}
    asked = ComparisonElsewhere(ARM, curricula, n_students=2, store=path)
    names = []
    while (trial := asked.ask(rig="arm")) is not None:
        names.append(trial.name)
        met = train(trial)
        asked.tell(trial, 1.0, success=0.9 if met[0] == "slow" else 0.1, failures=0, episodes=10)
    assert names == ["compare/slow/000", "compare/none/000", "compare/slow/001", "compare/none/001"]
    rows = {row.curriculum: row for row in asked.result().rows}
    assert (rows["slow"].success.mean, rows["none"].success.mean) == (0.9, 0.1)
    assert (rows["slow"].training_failures.mean, rows["slow"].unknown_failures) == (None, 2)
    assert "Comparison" in write_page(path).read_text()
    with pytest.raises(ConfigError, match="no intervention 'flying'"):
        ComparisonElsewhere(ARM, {"up": Fixed("flying")}, store=path)


def test_a_comparison_that_rigs_share_may_grow_but_none_takes_from_the_others(tmp_path):
    def asked(n_students, **curricula):
        policies = {label: Fixed(name) for label, name in curricula.items()}
        return ComparisonElsewhere(ARM, policies, n_students=n_students, store=tmp_path / "a.sqlite").ask()

    assert asked(2, slow="slow", held="held").name == "compare/slow/000"
    for fewer in ({"slow": "slow"}, {"slow": "slow", "held": "none"}):
        with pytest.raises(
            StoreError, match="compares held, slow in 'compare', this run lacks held as they were: give"
        ):
            asked(2, **fewer)
    with pytest.raises(StoreError, match="2 students for each curriculum in 'compare', this run has 1: give at least"):
        asked(1, slow="slow", held="held")
    assert asked(3, none="none", slow="slow", held="held").name == "compare/none/000"


def told(capsys, *words, said=None):
    """What a command answers to what it is told, in JSON or in bytes."""
    heard = said if isinstance(said, bytes) else json.dumps(said).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(heard), encoding="utf-8"))
        with pytest.raises(SystemExit) as end:
            main([*map(str, words)])
    out, err = capsys.readouterr()
    return json.loads(out) if not end.value.code else err.strip()


def test_the_command_line_compares_and_searches_in_json(capsys, tmp_path):
    path = tmp_path / "a.sqlite"
    new = ("--task", "arm", "--interventions", "held,slow", "--units", 1)
    assert "make it with `cisr ask" in told(capsys, "ask", path)
    first = told(capsys, "ask", path, *new, "--initial", 2, "--rounds", 0, "--rig", "a")
    assert first == {"trial": "study/000/00", "unit": 1, "units": 1, "intervention": "held", "anew": False}
    assert told(capsys, "ask", path, "--rig", "a") == first
    for option, value in (("--units", 5), ("--seed", 0), ("--scale", "quick")):
        assert f"{option} is {value!r}: it goes with --task" in told(capsys, "ask", path, option, value)
    assert "no scale, leave it out" in told(capsys, "ask", path, *new, "--scale", "quick")
    assert "--rounds is 3: --compare" in told(capsys, "ask", path, *new, "--compare", "slow", "--rounds", 3)
    assert "students is 0: give" in told(capsys, "ask", path, "--compare", "slow", "--students", 0)
    assert "more than 1,000,000 characters" in told(capsys, "next", path, said={"trial": "x" * 1_000_000})
    seen = {"trial": first["trial"], "unit": 1, "observed": {"mean_return": 1, "violation": 0}}
    done = told(capsys, "next", path, said=seen)
    assert (done["unit"], done["intervention"]) == (None, None)
    assert told(capsys, "next", path, said=seen) == done
    assert "give a finite number" in told(capsys, "tell", path, said={"trial": first["trial"], "score": math.nan})
    assert not told(capsys, "tell", path, said={"trial": first["trial"], "score": 2})["finished"]
    assert "told already" in told(capsys, "tell", path, said={"trial": first["trial"], "score": 2})
    assert 'give {"trial", "score"' in told(capsys, "tell", path, said=None)
    other = told(capsys, "ask", path, "--compare", "slow", "--students", 1)
    assert other["trial"] == "compare/slow/000"
    told(capsys, "next", path, said=seen | {"trial": other["trial"]})
    answer = told(capsys, "tell", path, said={"trial": other["trial"], "score": 2, "success": 1})
    assert answer["finished"] and answer["rows"][0]["success"]["mean"] == 1


def test_what_cannot_be_written_as_text_gets_one_line(capsys, tmp_path):
    path, half = tmp_path / "a.sqlite", os.fsdecode(b"a\xff")
    for new in (("arm", f"{half},b"), (half, "a,b")):
        answer = told(capsys, "ask", path, "--task", new[0], "--interventions", new[1])
        assert r"'a\udcff'" in answer and "in UTF-8" in answer
    told(capsys, "ask", path, "--task", "arm", "--interventions", "a,b")
    for command, more in (("next", {}), ("tell", {"score": 1})):
        answer = told(capsys, command, path, said={"trial": half, **more})
        assert r"The name of a trial is 'a\udcff': give a text in UTF-8" in answer
        assert "Standard input is no JSON ('utf-8' codec" in told(capsys, command, path, said=b'{"trial": "\xff"}')
        assert "The name of a trial is 3: give a text" in told(capsys, command, path, said={"trial": 3, **more})
    with pytest.raises(ConfigError, match=r"The label of a curriculum is .*: give a text in UTF-8"):
        ComparisonElsewhere(ARM, {half: Fixed("slow")}, store=path)
    with pytest.raises(ConfigError, match=r"interventions are .*: give names in UTF-8"):
        Schedule((half,))


def test_commands_do_not_contradict_a_study_that_observes_or_searches_in_its_own_way(capsys, tmp_path):
    """They know only the store."""
    path = tmp_path / "a.sqlite"
    own = Study(ARM, store=path, observe=lambda unit: Observation(-unit.mean_return, 0.0))
    trial = own.ask()
    assert "has 'study' with another observe than is used here: go on" in told(
        capsys, "next", path, said={"trial": trial.name}
    )
    train(trial)
    assert "has 'study' with another observe than is used here: go on" in told(
        capsys, "tell", path, said={"trial": trial.name, "score": 1}
    )
    own.tell(trial, 1.0)
    other = Study(ARM, store=path, name="random", teacher=lambda space, seed: RandomSearch(space, seed=seed))
    train(trial := other.ask())
    assert "has 'random' with another teacher than" in told(
        capsys, "tell", path, said={"trial": trial.name, "score": 1}
    )
    other.tell(trial, 1.0)


def run_rig(folder):
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = ENVIRONMENT | {"PATH": commands}
    return subprocess.Popen([sys.executable, RIG], cwd=folder, env=env, start_new_session=True)


def test_a_rig_that_is_killed_again_and_again_leaves_the_same_store(tmp_path):
    """The example's own process and the commands that it calls, at random moments."""
    for folder in ("calm", "killed"):
        (tmp_path / folder / "runs").mkdir(parents=True)
    assert run_rig(tmp_path / "calm").wait() == 0
    moments = random.Random(0)
    for _ in range(6):
        rig = run_rig(tmp_path / "killed")
        time.sleep(moments.uniform(0.3, 3.0))
        os.killpg(rig.pid, signal.SIGKILL)
        rig.wait()
    assert run_rig(tmp_path / "killed").wait() == 0
    assert cells(tmp_path / "killed" / "runs" / "quay.sqlite") == cells(tmp_path / "calm" / "runs" / "quay.sqlite")
