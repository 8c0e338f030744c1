import os
from dataclasses import replace

import numpy as np
import pytest
import tiny

from cisr import (
    CisrError,
    ConfigError,
    Execution,
    NobodyFinished,
    Observation,
    Population,
    Store,
    Study,
    random_teacher,
)
from cisr.experiments.search import search_space
from cisr.experiments.study import TrialProgress
from cisr.experiments.trials import scored, summarise
from cisr.training import Transcript, UnitLog, default_observe
from cisr.training.lessons import observed_by


def transcript(return_, error=None):
    from cisr.training import Deployment

    deployment = Deployment(
        under="none", steps=1, episodes=1, mean_return=return_, score=return_, failures=0, rescues=0, outcomes={}
    )
    return Transcript(
        name="s",
        curriculum={},
        config=tiny.student,
        seed=0,
        units=(),
        deployment=None if error else deployment,
        error=error,
    )


def score(t):
    return t.deployment.score


def test_a_class_is_summed_up_by_mean_and_standard_error():
    assert summarise([transcript(1.0), transcript(3.0)], score) == (2.0, 1.0)
    assert summarise([transcript(1.0)], score) == (1.0, None)


def test_students_that_broke_count_as_the_worst_and_a_class_of_them_has_no_score():
    assert summarise([transcript(3.0), transcript(0.0, error="broke")], score, worst=1.0) == (2.0, 1.0)
    assert summarise([transcript(0.0, error="broke")], score, worst=1.0) == (None, None)


def test_the_search_space_has_3k_plus_1_parameters():
    assert len(search_space(tiny.task).parameters) == 3 * 2 + 1


def test_what_score_and_observe_write_into_a_record_stays_with_them():
    def writing(student):
        student.curriculum.clear()
        student.deployment.outcomes["success"] = 99.0
        return student.deployment.score

    def forgetting(unit):
        unit.deployment.outcomes.clear()
        return default_observe(unit)

    kept = replace(transcript(1.0), curriculum={"kind": "fixed"})
    assert scored(writing, kept) == 1.0 and kept.curriculum and not kept.deployment.outcomes
    unit = UnitLog(**dict.fromkeys(UnitLog.__annotations__, 0) | {"deployment": transcript(2.0).deployment})
    unit.deployment.outcomes["success"] = 0.5
    assert observed_by(forgetting, unit) == Observation() and unit.deployment.outcomes == {"success": 0.5}


def test_a_study_tries_its_policies_and_returns_the_best_with_no_failures_in_training():
    study = Study(tiny.task, seed=3, execution=tiny.HERE)
    heard = []
    result = study.run(lambda event: heard.extend([event.number] if isinstance(event, TrialProgress) else []))
    assert heard == [0, 1, 2, 3, 4]
    assert len(result.transcripts) == 10
    assert all(r.told and r.score is not None and r.sem is not None for r in result.trials)
    assert result.training_failures == 0
    assert set(result.best_policy.interventions) <= {"SR1", "SR2", "HR"}


def test_what_the_teacher_sees_and_wants_can_be_replaced():
    def never_ready(unit):
        return Observation(mean_return=-1e9, violation=1e9)

    def likes_rescues(t):
        return float(t.rescues)

    study = Study(
        tiny.task,
        teaching=tiny.teaching(n_rounds=0),
        seed=3,
        observe=never_ready,
        score=likes_rescues,
        execution=tiny.HERE,
    )
    result = study.run()
    for r, (one, two) in zip(
        result.trials, zip(result.transcripts[::2], result.transcripts[1::2], strict=True), strict=True
    ):
        assert r.score == (one.rescues + two.rescues) / 2
        after_first = {unit.intervention for unit in one.units[1:]}
        assert after_first == {one.units[0].intervention}


def test_a_study_out_of_memory_keeps_its_units_and_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    def greedy(unit):
        return default_observe(unit) if unit.unit < 2 or "GREEDY" not in os.environ else np.zeros(10**17)

    def study(store=None, batch=None):
        one, execution = tiny.teaching(n_initial=1, n_rounds=0), Execution(n_workers=0, batch=batch)
        return Study(tiny.compiled, teaching=one, observe=greedy, store=store, execution=execution)

    monkeypatch.setenv("GREEDY", "yes")
    with pytest.raises(CisrError, match=r"^Out of memory with 1 student in a batch .*: fewer n_envs or n_steps"):
        study(store=tmp_path / "s", batch=1).run()
    monkeypatch.delenv("GREEDY")
    with Store(tmp_path / "s") as store:
        assert {(len(t.units), t.error) for t in store.transcripts()} == {(2, None), (0, None)}
    assert study(store=tmp_path / "s").run().transcripts == study(batch=1).run().transcripts


def test_students_can_be_drawn_from_a_population():
    population = Population(base=tiny.student, vary={"learning_rate": (1e-4, 1e-2), "n_epochs": [1, 2]})
    task = tiny.task.with_training(student=population)
    study = Study(task, teaching=tiny.teaching(n_rounds=0), execution=tiny.HERE)
    configs = [t.config for t in study.run().transcripts]
    assert len({c.learning_rate for c in configs}) == len(configs)
    assert {c.n_epochs for c in configs} == {1, 2}


def test_evaluation_in_m0_punishes_rescues_and_never_fails():
    result = Study(tiny.task, teaching=tiny.teaching(n_rounds=0), evaluate_safely=True, execution=tiny.HERE).run()
    penalty = -2 * tiny.task.horizon * tiny.task.max_reward
    for t in result.transcripts:
        assert t.deployment.under == "HR"
        assert t.deployment.failures == 0
        assert penalty <= t.deployment.score < 0


def test_random_search_is_a_teacher_too():
    teaching = tiny.teaching(n_initial=1, n_rounds=2, class_size=1)
    result = Study(tiny.task, teacher=random_teacher, teaching=teaching, execution=tiny.HERE).run()
    assert [r.model for r in result.trials] == [{}, {}, {}]


def test_a_study_whose_students_all_fail_says_so():
    with Store(None) as store:
        study = Study(tiny.explosive, teaching=tiny.teaching(n_initial=1, n_rounds=0), store=store, execution=tiny.HERE)
        with pytest.raises(NobodyFinished, match=r"None of 2 .*lost its licence \(tiny.py:\d+ in step"):
            study.run()
        (past,) = store.trials("study")
        assert past.told and past.score is None
        assert all("the simulator lost its licence" in t.error for t in store.transcripts())


@pytest.mark.parametrize(
    "wrong",
    [{"n_rounds": -1}, {"n_initial": 0}, {"class_size": 0}, {"at_once": 0}],
)
def test_wrong_numbers_are_refused(wrong):
    with pytest.raises(ConfigError, match=str(next(iter(wrong.values())))):
        tiny.teaching(**wrong)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"evaluate_safely": "M7"}])
def test_wrong_settings_of_a_study_are_refused(wrong):
    with pytest.raises(ConfigError, match=str(next(iter(wrong.values())))):
        Study(tiny.task, **wrong)
