"""The exact audit of real tasks: the paper's Frozen Lake, broken on purpose too, CliffWalking, and a large lake."""

import json
import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from cisr import Appearance, ConfigError, Intervention, Place, Rewind, Task, TaskError, ToStart, get_task
from cisr.auditing.exact import exact_audit
from cisr.auditing.verdict import learning_safety
from cisr.cmdp.finite import induce, judge, model_of
from cisr.tasks.frozen_lake import lake_task
from cisr.tasks.frozen_lake.lake import Lake
from cisr.view.audit_picture import audit_map

LAKE = get_task("frozen-lake")
SR1 = LAKE.intervention("SR1")
TILES = np.arange(100)[:, None]


@pytest.fixture(scope="module")
def audit():
    return exact_audit(LAKE)


def with_interventions(*interventions, task=LAKE, **changes):
    return replace(task, interventions=interventions, safe_evaluation=None, **changes)


def on(*tiles, n=100):
    zone = np.isin(np.arange(n), tiles)
    return lambda state: zone[state[..., 0]]


def test_all_of_the_lakes_interventions_are_certified_by_proposition_2(audit):
    assert [one.name for one in audit.interventions] == ["SR1", "SR2", "HR", "HA", "none"]
    for name in LAKE.intervention_names:
        assert audit[name].learning.status == "certified"
        assert audit[name].learning.by_proposition_2
        assert audit[name].learning.violations == ()
        assert audit[name].numbers.highest_failure_probability == 0.0


def test_only_hr_and_ha_give_eventual_safety_on_the_lake(audit):
    assert {name: audit[name].eventual.given for name in LAKE.intervention_names} == {
        "SR1": False,
        "SR2": False,
        "HR": True,
        "HA": True,
    }
    assert "τ_i + κ_i = 0.1 > κ = 0" in audit["SR1"].eventual.reason
    assert audit["HR"].numbers.first_trigger_bound == audit["HR"].numbers.proposition_1_bound == 0.0


def test_what_policies_can_earn_on_the_lake(audit):
    numbers = audit.numbers
    assert round(numbers.best_return, 3) == 5.726
    assert round(numbers.best_return_never_failing, 3) == 5.722
    assert round(numbers.best_success, 3) == 1.0
    assert numbers.best_success_never_failing <= numbers.best_success


def test_what_the_lakes_interventions_cost(audit):
    assert "E[rescues] ≤ T·τ_i" in audit["SR1"].numbers.limits
    for name in LAKE.intervention_names:
        numbers = audit[name].numbers
        assert numbers.price == pytest.approx(audit.numbers.best_return_never_failing - numbers.best_return)
    assert audit["SR1"].numbers.best_return > audit["SR2"].numbers.best_return > audit["HR"].numbers.best_return
    assert audit["HA"].numbers.price == pytest.approx(0.0, abs=1e-6)  # it forbids nothing but what may fail


def test_without_a_teacher_the_lake_is_refuted_for_information(audit):
    none = audit["none"]
    assert none.learning.status == "refuted" and not none.counts
    assert none.learning.offences[0].state == (10,)  # the only tile beside water that one step leads to
    assert none.learning.offences[0].action == 1 and none.learning.offences[0].probability == pytest.approx(0.8)
    assert [(step.state, step.action, step.landed, step.rescued) for step in none.learning.path] == [
        ((0,), 1, (10,), False)
    ]
    assert none.numbers.price == 0.0 and none.numbers.highest_failure_probability == pytest.approx(1.0)


def test_an_audit_survives_json(audit):
    back = json.loads(json.dumps(audit.to_json()))
    assert [one["name"] for one in back["interventions"]] == ["SR1", "SR2", "HR", "HA", "none"]
    assert back["interventions"][-1]["learning"]["offences"][0]["state"] == [10]
    assert back["numbers"]["best_return"] == pytest.approx(5.726, abs=1e-3)


def test_a_trigger_one_tile_too_small_is_refuted_on_that_tile():
    judged = judge(LAKE, model_of(LAKE))
    zone = np.flatnonzero(SR1.trigger(TILES))
    for tile in zone:
        smaller = replace(SR1, trigger=on(*zone[zone != tile]))
        verdict = learning_safety(induce(judged, smaller))
        assert {v.state for v in verdict.violations} == {(tile,)}
        if verdict.status == "refuted":
            assert {offence.state for offence in verdict.offences} == {(tile,)}
        else:  # other trigger tiles keep students away from this one
            assert verdict.reason.endswith("by reachability, although Proposition 2 does not apply.")


def test_a_reset_into_the_trigger_set_is_named_with_where_it_landed():
    broken = with_interventions(replace(SR1, name="broken", reset=Place(lambda state, history, u: np.array([10]))))
    learning = exact_audit(broken)["broken"].learning
    assert learning.status == "refuted"
    assert {v.landed for v in learning.violations} == {(10,)}
    assert learning.path[0].rescued and learning.path[0].landed == (10,)


def test_a_reset_into_the_water_is_named_although_water_does_not_trigger():
    broken = with_interventions(replace(SR1, name="broken", reset=Place(lambda state, history, u: np.array([20]))))
    learning = exact_audit(broken)["broken"].learning
    assert learning.status == "refuted"
    assert {(v.kind, v.landed) for v in learning.violations} == {("resets into the trigger set", (20,))}


def test_a_reset_that_leaves_the_model_is_an_error_that_names_the_state():
    broken = with_interventions(replace(SR1, name="broken", reset=Place(lambda state, history, u: np.array([100]))))
    with pytest.raises(TaskError, match=r"reset of 'broken' answered \[100\] for state \[10\] entered from \[0\]"):
        exact_audit(broken)


def test_a_reset_that_a_graph_cannot_follow_is_left_to_falsification():
    def back(state, history, u):
        return history[..., 0, :]

    learning = exact_audit(with_interventions(replace(SR1, name="far", reset=Place(back, n_history=2))))["far"].learning
    assert (learning.status, learning.by_proposition_2) == ("undecided", None)
    assert learning.reason.startswith("Not decided exactly: its reset looks at the last 2 states")
    random = replace(SR1, name="random", reset=Place(back, n_uniforms=1))
    assert exact_audit(with_interventions(random))["random"].learning.status == "undecided"


def test_a_failure_before_any_rescue_refutes_also_what_a_graph_cannot_follow():
    blind = replace(SR1, name="blind", trigger=on(99), reset=Place(lambda state, history, u: state, n_uniforms=1))
    assert exact_audit(with_interventions(blind))["blind"].learning.status == "refuted"


def test_a_start_in_the_trigger_set_breaks_proposition_2():
    zone = np.flatnonzero(SR1.trigger(TILES))
    learning = exact_audit(with_interventions(replace(SR1, name="wide", trigger=on(0, *zone))))["wide"].learning
    assert learning.status == "certified" and not learning.by_proposition_2
    assert ("starts in the trigger set", (0,)) in {(v.kind, v.state) for v in learning.violations}


def corridor(steps, horizon, own_horizon):
    """Water after so many steps to the right, under an intervention that never helps."""
    lake = Lake(("S" + "F" * (steps - 1) + "H", "F" * steps + "G"))
    idle = replace(SR1, name="idle", trigger=lambda state: state[..., 0] < 0, tau=0.0, horizon=own_horizon)
    return lake_task(lake, interventions=(idle,), safe_evaluation=None, horizon=horizon)


def test_an_intervention_that_lasts_longer_than_the_task_is_searched_to_its_own_end():
    idle = exact_audit(corridor(19, horizon=10, own_horizon=100))["idle"]
    assert idle.learning.status == "refuted" and len(idle.learning.path) == 18
    assert idle.eventual.given and idle.numbers is None
    short = exact_audit(corridor(19, horizon=10, own_horizon=None))["idle"]
    assert short.learning.reason.startswith("No policy can fail within 10 steps")


def test_an_intervention_that_ends_before_the_task_gives_no_eventual_safety():
    """Whoever walks right for 10 steps keeps all tolerances, and falls after 19."""
    idle = exact_audit(corridor(19, horizon=100, own_horizon=10))["idle"]
    assert idle.learning.status == "certified" and "within 10 steps" in idle.learning.reason
    assert not idle.eventual.given and idle.eventual.failure_bound is None
    assert json.loads(json.dumps(idle.to_json()))["eventual"]["failure_bound"] is None


def test_an_environment_that_cuts_episodes_off_cuts_those_of_the_intervention_too():
    task = corridor(19, horizon=30, own_horizon=100)
    model = task.model()
    limited = exact_audit(replace(task, model=lambda: replace(model, time_limit=15)))
    assert limited["idle"].learning.reason.startswith("No policy can fail within 15 steps")
    assert limited["idle"].eventual.given and limited["idle"].numbers is not None


def test_a_start_in_the_water_is_refuted_and_drawn(tmp_path):
    model = LAKE.model()
    start = 0.75 * model.start
    start[20] = 0.25
    drowned = replace(LAKE, model=lambda: replace(model, start=start))
    audit = exact_audit(drowned)
    assert {one.learning.status for one in audit.interventions} == {"refuted"}
    assert audit["HR"].learning.reason == "Episodes start in danger: in state [20] with probability 0.25."
    assert audit["HR"].learning.offences == () and not audit["HR"].learning.by_proposition_2
    audit_map(drowned, audit, tmp_path / "drowned.png")


def test_back_x_can_be_audited_by_name():
    audit = exact_audit(LAKE, ["Back-6"])
    assert [one.name for one in audit.interventions] == ["Back-6", "none"]
    assert audit["Back-6"].learning.by_proposition_2


def test_tolerances_that_nobody_can_meet_are_reported():
    """The start touches water on its only way: whoever acts is rescued."""
    strict = Intervention(name="strict", trigger=on(1, n=3), reset=ToStart(), tau=0.0)
    task = lake_task(Lake(("S", "F", "G")), interventions=(strict,), safe_evaluation=None, horizon=20)
    numbers = exact_audit(task)["strict"].numbers
    assert numbers.best_return is not None  # pushing against the wall meets nobody
    always = replace(task, interventions=(replace(strict, trigger=lambda state: state[..., 0] >= 0),))
    numbers = exact_audit(always)["strict"].numbers
    assert numbers.best_return is None and numbers.price is None and numbers.first_trigger_bound is None
    assert numbers.note == "No policy meets the tolerances."


def cliff(start):
    def make_env(**options):
        env = gymnasium.make("CliffWalking-v1", **options)
        env.unwrapped.initial_state_distrib = np.eye(48)[start]
        return env

    beside = on(*range(25, 35), 36, n=48)
    return Task(
        name="cliff-walking",
        make_env=make_env,
        danger=lambda move: move.reward == -100,
        success=lambda move: move.terminated,
        interventions=(
            Intervention(name="one back", trigger=beside, reset=Rewind(1), tau=0.1),
            Intervention(name="five back", trigger=beside, reset=Rewind(5), tau=0.0),
        ),
        horizon=100,
    )


def test_cliff_walking_is_audited_by_its_own_table():
    audit = exact_audit(cliff(start=24))
    for name in ("one back", "five back"):
        assert audit[name].learning.by_proposition_2
    assert audit["five back"].numbers is None
    # From tile 24 along the cliff and down to the goal 12 steps; one row higher, where nothing triggers, 14.
    assert audit.numbers.best_return == audit.numbers.best_return_never_failing == -12.0
    assert audit["one back"].numbers.best_return == pytest.approx(-14.0)
    assert audit["none"].learning.status == "refuted"


def test_a_start_beside_the_cliff_is_refuted_at_once():
    learning = exact_audit(cliff(start=36))["one back"].learning
    assert learning.status == "refuted" and learning.path == ()
    assert (learning.offences[0].state, learning.offences[0].action) == ((36,), 1)
    assert ("starts in the trigger set", (36,)) in {(v.kind, v.state) for v in learning.violations}


def test_a_lake_of_ten_thousand_tiles_gets_verdicts_and_a_line_instead_of_numbers():
    rows = ["S" + "F" * 99, *(["F" * 49 + "H" + "F" * 50] * 30), *(["F" * 100] * 68), "F" * 99 + "G"]
    audit = exact_audit(lake_task(Lake(tuple(rows))))
    assert [one.learning.status for one in audit.interventions] == ["certified"] * 3 + ["refuted"]
    assert audit.numbers is None and all(one.numbers is None for one in audit.interventions)
    assert audit.numbers_note.startswith("No exact numbers: 10,000 states are more than 1,000")


def test_a_task_without_a_model_is_a_clear_error():
    pole = replace(cliff(24), make_env=lambda: gymnasium.make("CartPole-v1"))
    with pytest.raises(ConfigError, match="Task 'cliff-walking' has no transition model"):
        exact_audit(pole)
    with pytest.raises(ConfigError, match="has no intervention 'SR9'"):
        exact_audit(LAKE, ["SR9"])
    with pytest.raises(ConfigError, match="give a list or tuple of names"):
        exact_audit(LAKE, "SR1")


def test_the_map_shows_what_is_broken(audit, tmp_path):
    audit_map(LAKE, audit, tmp_path / "lake.png")
    zone = np.flatnonzero(SR1.trigger(TILES))
    broken = with_interventions(
        replace(SR1, name="too small", trigger=on(*zone[1:])),
        replace(SR1, name="wide", trigger=on(0, *zone), reset=Place(lambda state, history, u: np.array([0]))),
    )
    audit_map(broken, exact_audit(broken), tmp_path / "broken.png")
    for name in ("lake.png", "broken.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="only of a grid world"):
        audit_map(replace(LAKE, appearance=Appearance()), audit, tmp_path / "none.png")


def test_the_lake_is_audited_without_gymnasium_and_jax():
    program = (
        "import sys; sys.modules['gymnasium'] = sys.modules['jax'] = None\n"
        "from cisr import get_task; from cisr.auditing.exact import exact_audit\n"
        "print(exact_audit(get_task('frozen-lake'))['HR'].learning.status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "certified\n", done.stderr
