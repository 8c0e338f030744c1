"""The whole audit, as Python and as a command: verdicts, exit codes, files and what stores keep."""

import dataclasses
import json

import numpy as np
import pytest
import tiny

from cisr import Intervention, Place, Rewind, Store, Study, get_task
from cisr.audit import audit, quick_audit
from cisr.audit.report import AUDIT, keep_quick_audit
from cisr.audit.show import in_one_line
from cisr.cli import main
from cisr.errors import ConfigError

TASK = get_task("frozen-lake")
ZONE = TASK.intervention("SR1").triggered(np.arange(100)[:, None])


def having(*interventions):
    return dataclasses.replace(TASK, interventions=interventions, safe_evaluation=None, rewind_like=None)


def gap(state):
    """SR1's trigger but for the tile above the uppermost lake."""
    return ZONE[state[..., 0]] & (state[..., 0] != 10)


def by_chance(state):
    return np.random.default_rng().random(np.shape(state)[:-1]) < 0.5


def into_the_zone(state, history, u):
    return np.full_like(state, np.flatnonzero(ZONE)[0])


gap_task = having(Intervention(name="gap", trigger=gap, reset=Rewind(), tau=0.1))


def exit_code(*words) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return stop.value.code


def test_the_papers_lake_is_certified(tmp_path, capfd):
    assert exit_code("audit", "frozen-lake", "--out", tmp_path, "--json", tmp_path / "audit.json") == 0
    told = json.loads((tmp_path / "audit.json").read_text())
    assert {v["name"]: v["status"] for v in told["interventions"]} == {
        "SR1": "certified",
        "SR2": "certified",
        "HR": "certified",
        "none": "refuted",
    }
    assert [v["name"] for v in told["interventions"] if v["eventual"]["given"]] == ["HR", "none"]
    assert not told["refuted"] and not told["broken_promises"]
    assert (tmp_path / "map.png").exists()
    assert "5.726" in (printed := capfd.readouterr().out) and "5.722" in printed


def test_one_intervention_can_be_audited_alone():
    assert [verdict.name for verdict in audit(TASK, ["HR"]).verdicts] == ["HR", "none"]


def test_a_trigger_one_tile_too_small_is_refuted_with_the_tile_and_exit_code_1(tmp_path, monkeypatch, capfd):
    report = audit(gap_task)
    assert report["gap"].status == "refuted"
    assert "[10]" in report["gap"].reason
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    assert exit_code("audit", "test_report:gap_task", "--out", tmp_path) == 1
    assert "refuted" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("intervention", "broken"),
    [
        (Intervention(name="dice", trigger=by_chance, reset=Rewind(), tau=0.1), "trigger 'rescues' of 'dice'"),
        (
            Intervention(name="in", trigger=TASK.intervention("SR1").trigger, reset=Place(into_the_zone), tau=0.1),
            "reset of 'in'",
        ),
    ],
)
def test_a_broken_promise_refutes_whatever_the_graph_says(intervention, broken):
    report = audit(having(intervention))
    assert report.refuted
    assert any(promise.what == broken for promise in report.broken), report.broken


def test_without_a_model_interventions_are_attacked_and_counterexamples_replayed(tmp_path, monkeypatch, capfd):
    hidden = dataclasses.replace(gap_task, model=None, make_env=opaque_env, twin=None, student=tiny.student)
    report = audit(hidden, budget=6_000)
    assert report.exact is None
    assert report["gap"].status == "refuted" and report["gap"].falsification is not None
    assert report.counterexamples
    path = tmp_path / "fall.json"
    report.counterexamples[0].save(path)
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    assert exit_code("audit", "test_report:gap_task", "--replay", path, "--out", tmp_path) == 0
    assert "the same, step by step" in capfd.readouterr().out
    assert (tmp_path / "fall-replay.png").exists()


def opaque_env(**options):
    """The lake behind a wrapper that no table can be trusted through."""
    import gymnasium

    class Opaque(gymnasium.Wrapper):
        pass

    return Opaque(TASK.make_env(**options))


def test_a_quick_audit_is_kept_in_the_store_and_made_once(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        first = keep_quick_audit(tiny.task, store)
        assert {v["name"]: v["status"] for v in first["interventions"]}["SR2"] == "certified"
        assert keep_quick_audit(tiny.explosive, store) == first  # not asked again
        assert store.findings()[AUDIT] == first
    assert in_one_line(first["interventions"]) == ("Learning safety: SR1, SR2, HR certified, no policy can fail.")


def test_an_audit_in_the_store_does_not_disturb_a_study(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        keep_quick_audit(tiny.task, store)
        Study(tiny.task, store=store, n_initial=1, n_rounds=0, class_size=1, n_workers=0).run()
        assert set(store.findings()) == {AUDIT, "study"}


def test_what_is_only_played_a_little_is_said_to_be_so():
    hidden = dataclasses.replace(TASK, model=None, make_env=opaque_env, twin=None, horizon=30)
    verdicts = [verdict.to_json() for verdict in quick_audit(hidden).verdicts]
    assert {v["status"] for v in verdicts if v["counts"]} == {"not refuted"}
    assert "not certified, no failure seen in a little random play" in in_one_line(verdicts)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: audit(TASK, ["SR9"]), "no intervention 'SR9'"),
        (lambda: audit(TASK, "SR1"), "give a list"),
        (lambda: audit(TASK, confidence=1.0), "between 0 and 1"),
    ],
)
def test_wrong_questions_get_one_line(call, complaint):
    with pytest.raises(ConfigError, match=complaint):
        call()
