"""The whole audit, as Python and as a command: verdicts, exit codes, files and what stores keep."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import tiny

from cisr import Intervention, Place, Rewind, Store, Study, ToStart, get_task
from cisr.auditing import audit, quick_audit
from cisr.auditing.report import keep_quick_audit
from cisr.cli import main
from cisr.core.errors import ConfigError
from cisr.view.audit import in_one_line
from cisr.view.page import safety_section
from cisr.view.words import verdict_in_words

TASK = get_task("frozen-lake")
ZONE = TASK.intervention("SR1").triggered(np.arange(100)[:, None])


def having(*interventions):
    return dataclasses.replace(TASK, interventions=interventions, safe_evaluation=None)


def gap(state):
    """SR1's trigger but for the tile above the uppermost lake."""
    return ZONE[state[..., 0]] & (state[..., 0] != 10)


def by_chance(state):
    return np.random.default_rng().random(np.shape(state)[:-1]) < 0.5


def into_the_zone(state, history, u):
    return np.full_like(state, np.flatnonzero(ZONE)[0])


wide_task = having(
    Intervention(name="wide", trigger=lambda s: ZONE[s[..., 0]] | (s[..., 0] == 0), reset=ToStart(), tau=0.1)
)
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
        "HA": "certified",
        "none": "refuted",
    }
    assert [v["name"] for v in told["interventions"] if v["eventual"]["given"]] == ["HR", "HA", "none"]
    assert not told["refuted"] and not told["broken_promises"]
    assert (tmp_path / "map.png").exists()
    assert "5.726" in (printed := capfd.readouterr().out) and "5.722" in printed


def test_eventual_safety_is_said_of_interventions_alone():
    said = {verdict.name: verdict_in_words(verdict.to_json())[-1] for verdict in audit(TASK, ["HR", "SR1"]).verdicts}
    assert said["HR"].startswith("given") and said["SR1"].startswith("not given") and said["none"] == "–"


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
    hidden = dataclasses.replace(gap_task, model=None, make_env=opaque_env, jax_env=None, training=tiny.task.training)
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


def test_a_quick_audit_is_kept_in_the_store_and_made_once(tmp_path, monkeypatch):
    with Store(tmp_path / "s.sqlite") as store:
        first = keep_quick_audit(tiny.task, store)
        assert {v["name"]: v["status"] for v in first["interventions"]}["SR2"] == "certified"
        monkeypatch.setattr("cisr.auditing.report.play_apart", None)
        assert keep_quick_audit(tiny.task, store) == first  # not asked again
        assert store.audit() == first
        monkeypatch.undo()
        assert keep_quick_audit(tiny.explosive, store) != first  # another task
    assert in_one_line(first) == "Learning safety: SR1, SR2, HR certified, no policy can fail."


def beside(env, state):
    """The tile to the right of the one asked for."""
    return TASK.place(env, np.minimum(state + 1, 99))


def test_a_wrong_place_is_certified_neither_by_a_whole_nor_by_a_quick_audit(tmp_path):
    misplaced = dataclasses.replace(TASK, place=beside)
    for report in (audit(misplaced), quick_audit(misplaced)):
        assert report.refuted and report.exact is None
        assert {verdict.status for verdict in report.verdicts if verdict.counts} == {"not audited"}
        assert not any(verdict.eventual.given for verdict in report.verdicts)
    with Store(tmp_path / "s.sqlite") as store:
        told = in_one_line(keep_quick_audit(misplaced, store))
    assert told.startswith("Learning safety: SR1, SR2, HR, HA not audited. Broken promise: place: led elsewhere")


def test_a_start_in_the_trigger_set_is_shown(tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    assert exit_code("audit", "test_report:wide_task", "--out", tmp_path) == 1
    printed = capfd.readouterr().out
    assert "Broken promise: trigger 'rescues' of 'wide': holds where an episode starts, in state [0.]" in printed
    assert "certified" not in printed


def test_where_promises_cannot_be_checked_the_line_and_the_page_say_so():
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from cisr import get_task; from cisr.auditing import quick_audit; from cisr.view.audit import in_one_line\n"
        "print(in_one_line(quick_audit(get_task('frozen-lake')).to_json()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.endswith("can fail. The promises of the task's code were not checked.\n"), done.stderr


def test_the_page_shows_broken_promises_and_audits_of_old_stores_as_not_checked():
    told = quick_audit(dataclasses.replace(TASK, place=beside)).to_json()
    assert "Broken promise: place: led elsewhere" in safety_section(told)
    assert "were not checked" in safety_section({"interventions": told["interventions"]})


@pytest.mark.parametrize("hidden", [False, True])
def test_an_intervention_shorter_than_the_task_gives_no_eventual_safety(hidden):
    short = having(dataclasses.replace(TASK.intervention("HR"), horizon=50))
    if hidden:
        short = dataclasses.replace(short, model=None, make_env=opaque_env, jax_env=None)
    eventual = quick_audit(short)["HR"].eventual
    assert not eventual.given and eventual.failure_bound is None
    assert "Episodes last 50 steps here and 201 in the task" in eventual.reason


def test_play_that_starts_in_danger_is_refuted():
    drowned = dataclasses.replace(TASK, model=None, make_env=drowning_env, jax_env=None, horizon=30)
    verdict = quick_audit(drowned)["HR"]
    assert verdict.status == "refuted"
    assert all(
        attack.failures == attack.episodes == attack.steps - attack.rehearsals
        for attack in verdict.falsification.attacks
    )


def drowning_env(**options):
    """Episodes begin in the water, from where stepping on would be no failure."""
    import gymnasium

    class Drowning(gymnasium.Wrapper):
        def reset(self, **options):
            _, info = self.env.reset(**options)
            self.unwrapped.s = 20
            return TASK.place(self, np.array([20])), info

        def step(self, action):
            return TASK.place(self, np.array([0])), 0.0, False, False, {}

    return Drowning(TASK.make_env(**options))


def test_an_audit_in_the_store_does_not_disturb_a_study(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        keep_quick_audit(tiny.task, store)
        Study(
            tiny.task, teaching=tiny.teaching(n_initial=1, n_rounds=0, class_size=1), store=store, execution=tiny.HERE
        ).run()
        assert store.audit() and set(store.findings()) == {"study"}


def test_what_is_only_played_a_little_is_said_to_be_so():
    hidden = dataclasses.replace(TASK, model=None, make_env=opaque_env, jax_env=None, horizon=30)
    told = quick_audit(hidden).to_json()
    assert {v["status"] for v in told["interventions"] if v["counts"]} == {"not refuted"}
    assert "not certified, no failure seen in a little random play" in in_one_line(told)


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
