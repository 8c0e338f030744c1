"""Falsification: what frozen attackers are said to have done, and how far the bound may be trusted."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from holes import BRINK_HORIZON, STUDENT, brink, brink_failure, sled
from scipy.stats import binom

from cisr import Intervention, Place, Rewind, get_task
from cisr.auditing.attack import falsify
from cisr.auditing.falsification import upper_bound
from cisr.core.errors import ConfigError, TaskError
from cisr.tasks.frozen_lake.lake import PAPER_MAP, Lake


def attack(task, name, **settings):
    return falsify(task, name, n_workers=0, **{"built_in": ("random",), **settings})


def test_the_bound_without_failures_is_in_closed_form():
    assert upper_bound(0, 50, 0.95) == pytest.approx(1 - 0.05 ** (1 / 50))


def test_the_bound_leaves_just_the_stated_doubt():
    p = upper_bound(3, 40, 0.9)
    assert binom.cdf(3, 40, p) == pytest.approx(0.1)


def test_nothing_is_ruled_out_where_every_episode_failed():
    assert upper_bound(7, 7, 0.95) == 1.0


def test_the_hole_is_found_at_its_known_rate():
    found = attack(brink(), "rail", budget=20_000)
    (random,) = found.attacks
    assert found.refuted and found.verdict.startswith("refuted: random play failed in")
    true = brink_failure()
    assert random.rate == pytest.approx(true, abs=3 * np.sqrt(true / random.episodes))
    assert random.upper_bound > random.rate
    assert {example.episode.danger for example in found.counterexamples} == {"over the edge"}


def test_the_bound_covers_the_true_rate_as_often_as_it_says():
    task, true = brink(missed=0.08), brink_failure(missed=0.08)
    found = [attack(task, "rail", budget=50 * BRINK_HORIZON, seed=seed) for seed in range(120)]
    misses = sum(result.upper_bound < true for result in found)
    assert 0 < misses <= binom.ppf(0.999, 120, 0.05), "some must miss, or the bound is idle"
    rates = [attack.rate for result in found for attack in result.attacks]
    assert np.mean(rates) == pytest.approx(true, abs=0.015)


def test_without_a_failure_the_result_is_a_bound_for_these_attackers_and_no_more():
    found = attack(brink(missed=0.0), "rail", budget=4_000, built_in=("random", "sticky"), confidence=0.9)
    assert not found.refuted and not found.counterexamples
    for one in found.attacks:
        assert one.upper_bound == pytest.approx(1 - (0.1 / 2) ** (1 / one.episodes))
    assert found.verdict == (
        f"not refuted: at most {found.upper_bound:.2g} failures per episode of these attackers (random, sticky), "
        f"with confidence 0.9"
    )
    assert not {"guarantee", "certified"} & set(str(found.to_json()).split())


def test_rehearsals_are_not_judged_but_their_failures_refute():
    found = attack(brink(missed=0.1), "rail", budget=400)
    (random,) = found.attacks
    assert random.rehearsals and random.rehearsal_failures
    unlucky = replace(random, failures=0)
    assert unlucky.failed and "rehearsals" in replace(found, attacks=(unlucky,)).verdict


def test_short_episodes_make_many_of_them():
    """Rehearsals tell that episodes under the broken rail end long before the horizon."""
    endless = replace(brink(missed=0.1), horizon=500)
    (random,) = attack(endless, "rail", budget=50_000).attacks
    assert random.episodes > 3 * 50_000 / 500
    assert random.steps < 1.5 * 50_000


def test_a_trigger_one_tile_too_small_is_refuted():
    zone = Lake(PAPER_MAP).near_lakes(1)
    zone[10] = False  # above a lake, next to the start
    lake = get_task("frozen-lake", "quick")
    broken = Intervention(name="leaky", trigger=lambda s: zone[s[..., 0]], reset=Rewind(1), tau=0.1)
    assert attack(lake, broken, budget=8_000).refuted
    assert not attack(lake, "SR1", budget=4_000).refuted


def test_a_scripted_attacker_sees_where_rescues_put_the_student():
    seen = []

    def step_over_when_on_the_brink(state):
        seen.append(float(state[0]))
        return int(state[0] >= 0.9)

    found = attack(brink(), "rail", budget=2_000, built_in=(), attackers={"patient": step_over_when_on_the_brink})
    assert found.attacks[0].attacker == "patient" and found.refuted
    assert not any(0.9 <= x < 0.98 for x in seen), "the rail brings the student back to 0.5 before it acts again"


def test_the_same_seed_finds_the_same_failures():
    one, same, other = (attack(brink(), "rail", budget=1_000, seed=seed).to_json() for seed in (3, 3, 4))
    assert one == same != other


def test_progress_is_told_in_steps():
    told = []
    found = attack(brink(), "rail", budget=500, callback=told.append)
    assert sum(event.steps for event in told) == found.steps
    assert {(event.intervention, event.attacker) for event in told} == {("rail", "random")}


def test_continuous_actions_can_be_played_and_learned():
    class Push(type(sled().make_env())):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(0.0, 2.0, (), np.float32)

    task = replace(sled(edge=0.5), make_env=lambda **options: Push())
    found = falsify(task, "band", budget=3_000, attackers={"haste": lambda state: 2.0})
    assert [attack.attacker for attack in found.attacks] == ["random", "sticky", "trained", "haste"]
    assert found.attacks[-1].failures and found.training is not None


def test_an_environment_that_breaks_is_named_with_the_seed():
    task = brink()
    broken = Intervention(name="broken", trigger=lambda s: s[..., 0] > -1, reset=Place(lambda *_: 1 / 0), tau=0.0)
    with pytest.raises(
        TaskError, match=r"reset of 'broken' raised ZeroDivisionError.* That was in step 1 of the episode with seed \d"
    ):
        attack(task, broken, budget=100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 4}, "budget is 4 steps: give at least 5, one episode of up to 5 steps"),
        ({"budget": 29, "built_in": ("random", "sticky", "trained")}, "give at least 30, .* and as much for training"),
        ({"confidence": 1.0}, "confidence is 1.0: give a number between 0 and 1"),
        ({"built_in": ("clever",)}, "no built-in attacker 'clever'"),
        ({"built_in": ()}, "no attacker"),
        ({"attackers": {"random": lambda state: 0}}, "scripted attacker is called 'random'"),
        ({"attackers": {"wild": lambda state: 7}}, "answered the action 7: give an element of Discrete"),
        ({"backend": "compiled"}, "has no JAX environment"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_input_is_one_clear_line(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        attack(brink(), "rail", **{"budget": 1_000, **settings})
    assert "\n" not in str(caught.value)


def test_an_unknown_intervention_is_one_clear_line():
    with pytest.raises(ConfigError, match="no intervention 'fence'"):
        attack(brink(), "fence")


def test_the_task_student_is_left_as_it_was():
    assert brink().training.student is STUDENT
