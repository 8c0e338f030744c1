"""Failures under an intervention that an audit certified: the certificate is withdrawn wherever it is shown."""

import json
import logging
import os
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import tiny

from cisr import (
    MLP,
    Deployment,
    Execution,
    Fixed,
    Intervention,
    Rewind,
    Store,
    StudentConfig,
    Study,
    Switching,
    Task,
    Threshold,
    ToStart,
    Training,
    Transcript,
    UnitLog,
    compare,
)
from cisr.auditing.report import keep_quick_audit
from cisr.cli import main
from cisr.core.model import FiniteModel
from cisr.experiments.withdrawal import held_against, withdrawn
from cisr.view.audit import in_one_line
from cisr.view.contents import contents_of
from cisr.view.page import page

STUDENT = StudentConfig(network=MLP(hidden=(4,)), n_envs=2, n_steps=16, n_minibatches=2, n_epochs=1)


class Pond(gymnasium.Env):
    """From the bank (0) to thin ice (1) and open water (2). Once it thaws, which no audit sees, all is water."""

    action_space, observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self.x, {}

    def step(self, action):
        self.x = 2 if action and "THAW" in os.environ else min(self.x + int(action), 2)
        return self.x, float(action), False, False, {}


def pond_model():
    pairs = [(s, a) for s in range(3) for a in (0, 1)]
    source, action = np.array(pairs).T
    return FiniteModel(
        states=np.arange(3)[:, None],
        n_actions=2,
        source=source,
        action=action,
        probability=np.ones(6),
        target=np.minimum(source + action, 2),
        reward=action.astype(float),
        terminated=np.zeros(6, bool),
        start=np.array([1.0, 0.0, 0.0]),
    )


def place(env, state):
    env.unwrapped.x = int(state[0])
    return env.unwrapped.x


pond = Task(
    name="pond",
    make_env=lambda **options: Pond(),
    danger=lambda move: move.state[..., 0] == 2,
    success=lambda move: ~move.terminated,
    interventions=(
        Intervention(name="rope", trigger=lambda s: s[..., 0] == 1, reset=Rewind(), tau=0.0),
        Intervention(name="fence", trigger=lambda s: s[..., 0] == 1, reset=ToStart(), tau=0.0),
        Intervention(name="sign", trigger=lambda s: s[..., 0] == 2, reset=Rewind(), tau=0.0),
    ),
    horizon=10,
    read_state=lambda env: np.array([env.unwrapped.x]),
    place=place,
    model=pond_model,
    training=Training(student=STUDENT, n_units=2, deployment_steps=20),
)


@pytest.fixture(scope="module")
def audit():
    with Store(None) as store:
        kept = keep_quick_audit(pond, store)
    assert {v["name"]: v["status"] for v in kept["interventions"] if v["counts"]} == {
        "rope": "certified",
        "fence": "certified",
        "sign": "refuted",
    }
    return kept


@pytest.fixture
def thawing(tmp_path, monkeypatch):
    """A store with the audit of the pond, which then thaws."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        keep_quick_audit(pond, store)
    monkeypatch.setenv("THAW", "1")
    return path


def unit(number, under, failures=0, **changes):
    fields = {"steps": 10, "episodes": 1, "mean_return": 0.0, "success": 0.0, "violation": 0.0, "rescues": 0}
    fields |= {"failures": failures, "multipliers": ()}
    return UnitLog(unit=number, intervention=under, **(fields | changes))


def deployed(under, failures):
    fields = {"steps": 10, "episodes": 1, "mean_return": 0.0, "score": 0.0, "rescues": 0, "outcomes": {}}
    return Deployment(under=under, failures=failures, **fields)


def student(*units, policy=None, **changes):
    curriculum = (policy or Fixed("rope")).to_json()
    return Transcript(name="compare/x/000", curriculum=curriculum, config=STUDENT, seed=7, units=units, **changes)


def statuses(audit, *students):
    return {v["name"]: v["status"] for v in held_against(audit, students)["interventions"] if v["counts"]}


# What withdraws a certificate


def test_failures_in_a_unit_withdraw_the_certificate_of_that_units_intervention_alone(audit):
    mixed = student(unit(1, "sign", 4), unit(2, "none", 3), unit(3, "fence", 5), unit(4, "rope"))
    assert statuses(audit, mixed) == {"rope": "certified", "fence": "withdrawn", "sign": "refuted"}
    (one,) = withdrawn(audit, [student(unit(1, "rope")), mixed])
    assert (one.intervention, one.failures, one.students, one.when) == ("fence", 5, 1, "in unit 3")
    assert "CERTIFICATE WITHDRAWN: the audit certified fence, and 1 student had 5 failures under it" in str(one)
    assert "compare/x/000 (seed 7) in unit 3" in str(one) and "departs from the model" in str(one)


def test_eventual_safety_goes_with_the_certificate(audit):
    def given(shown):
        return {v["name"]: v["eventual"]["given"] for v in shown["interventions"]}["rope"]

    assert given(audit) and not given(held_against(audit, [student(unit(1, "rope", 1))]))


def test_what_happens_without_an_intervention_withdraws_nothing(audit):
    alone = student(unit(1, "none", 9, deployment=deployed("none", 3)), deployment=deployed("none", 8))
    assert "withdrawn" not in statuses(audit, alone).values()
    assert held_against(audit, [alone])["withdrawn"] == []


def test_failures_in_m0_withdraw_the_certificate_of_m0(audit):
    tried = student(unit(1, "none", evaluation=deployed("rope", 2)), policy=Fixed("none"))
    (one,) = withdrawn(audit, [tried])
    assert (one.intervention, one.when) == ("rope", "when tried out after unit 1")
    (one,) = withdrawn(audit, [student(unit(1, "none"), deployment=deployed("fence", 2))])
    assert (one.intervention, one.when) == ("fence", "when deployed")


def test_failures_of_a_unit_that_an_error_ended_count_under_what_its_curriculum_says(audit):
    taught = Switching(interventions=("rope", "fence"), thresholds=(Threshold(min_return=1.0, max_violation=1.0),))
    on = student(unit(1, "rope", mean_return=2.0), policy=taught, error="it broke", failures_when_broken=3)
    assert statuses(audit, on) == {"rope": "certified", "fence": "withdrawn", "sign": "refuted"}
    stays = replace(on, units=(unit(1, "rope", mean_return=0.5),))
    assert statuses(audit, stays)["rope"] == "withdrawn"


def test_without_an_audit_nothing_is_withdrawn(audit):
    assert held_against(None, [student(unit(1, "rope", 1))]) == {}
    assert withdrawn(None, [student(unit(1, "rope", 1))]) == ()


# Where it is shown


def test_a_comparison_says_so_in_python_json_and_report(thawing, caplog):
    with Store(thawing) as store, caplog.at_level(logging.WARNING):
        found = compare(pond, {"rope": Fixed("rope")}, n_students=2, store=store, execution=tiny.HERE)
        contents = contents_of(store, "s.sqlite")
    (one,) = found.withdrawn
    assert one.failures == sum(t.training_failures for t in found.transcripts["rope"]) > 0
    assert found.to_json()["withdrawn"][0]["said"] == str(one)
    assert str(one) in caplog.messages
    assert "certified" not in in_one_line(contents.audit).replace("fence certified", "").replace("though certified", "")
    written = page(contents)
    assert written.index("CERTIFICATE WITHDRAWN") < written.index("<h2>Comparison</h2>")
    assert "✗ withdrawn" in written


def test_commands_end_with_the_withdrawal_and_begin_with_it_next_time(thawing, monkeypatch, tmp_path, capfd):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    kept = ["--store", str(thawing), "--workers", "0", "--batch", "2", "--json", str(tmp_path / "told.json")]

    def run(*words):
        with pytest.raises(SystemExit, match="0"):
            main([*words, *kept])
        return capfd.readouterr().out, json.loads((tmp_path / "told.json").read_text())

    search = ["--rounds", "1", "--initial", "1", "--students", "1"]
    printed, told = run("train", "test_withdrawal:pond", *search)
    assert "Learning safety: rope, fence certified" in printed  # as the audit has it, before the first student
    after = printed.partition("Failures in training")[2]
    assert "CERTIFICATE WITHDRAWN" in after and {one["intervention"] for one in told["withdrawn"]} <= {"rope", "fence"}
    printed, told = run("compare", "test_withdrawal:pond", "rope", "fence", "--students", "1")
    assert "WITHDRAWN, students failed though certified" in printed.partition("Tried")[0]
    assert printed.count("CERTIFICATE WITHDRAWN") == len(told["withdrawn"]) == 2


def test_a_study_says_so_in_python(thawing):
    teaching = replace(pond.training.teaching, n_initial=1, n_rounds=0, class_size=1, interventions=("rope",))
    with Store(thawing) as store:
        found = Study(pond, teaching=teaching, store=store, execution=Execution(n_workers=0)).run()
    assert [one.intervention for one in found.withdrawn] == ["rope"]
    assert found.withdrawn[0].failures == found.training_failures > 0


def test_an_honest_comparison_withdraws_nothing(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        found = compare(pond, {"rope": Fixed("rope")}, n_students=1, store=store, audited=True, execution=tiny.HERE)
        assert store.audit() is not None
    assert found.withdrawn == () and found.rows[0].training_failures.mean == 0
