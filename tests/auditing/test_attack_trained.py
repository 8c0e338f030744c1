"""The attacker that is trained: on either backend it finds holes that random play does not."""

import numpy as np
import pytest
from holes import brink, sled

from cisr import Intervention, Population, Rewind, StudentConfig
from cisr.auditing.attack import falsify
from cisr.auditing.trained import (
    MOST_OF_MANY,
    N_UNITS,
    STEPS_OF_MANY,
    Scouted,
    hostile_reward,
    lead_by_distance,
    novelty_by_count,
    plan_training,
)
from cisr.core.task import Move, Transition
from cisr.tasks.frozen_lake import lake_task, near
from cisr.tasks.frozen_lake.lake import Lake


def test_a_trained_attacker_finds_what_random_play_does_not():
    found = falsify(sled(), "band", budget=40_000, n_workers=0, built_in=("random", "trained"))
    random, trained = found.attacks
    assert random.failures == random.rehearsal_failures == 0
    assert trained.rate > 0.2
    assert found.training.backend == "gymnasium" and found.training_failures > 0
    assert found.training.steps == pytest.approx(20_000, rel=0.05)
    assert found.steps == pytest.approx(40_000, rel=0.1)


def test_the_attacker_may_learn_on_the_compiled_twin_and_is_judged_on_gymnasium():
    lake = Lake(("SFFF", "FFFF", "FHFF", "FFFG"))
    task = lake_task(lake, horizon=30, training=brink().training)
    leaky = Intervention(name="leaky", trigger=near(lake, 0), reset=Rewind(1), tau=0.1)
    found = falsify(task, leaky, budget=64_000, n_workers=0, backend="compiled", built_in=("random", "trained"))
    random, trained = found.attacks
    assert found.training.backend == "compiled" and found.training.failures > 0
    assert trained.rate > random.rate + 0.05
    assert any("claims about that environment alone" in note for note in found.notes)
    random_search, trained_search = found.searches
    assert trained_search.failures / trained_search.episodes > random_search.failures / random_search.episodes + 0.05
    assert random_search.replayed == 0  # nobody knows what Gymnasium's lake would draw


def transition(state, failed=False, rescued=False):
    vector = np.array([state])
    move = Move(vector, np.array([-3.0]), np.array([failed]))
    return Transition(move, np.array([failed]), np.array([rescued]), vector, np.array([False]))


def test_failing_pays_more_than_a_whole_episode_of_hints():
    horizon = 50
    states = np.random.default_rng(0).normal(size=(100, 2))
    pay = hostile_reward(Scouted(states=states, rescued=states[:0], failures=0), horizon)
    failure, hint = pay(transition([0.0, 0.0], failed=True))[0], pay(transition([1e9, 1e9], rescued=True))[0]
    assert failure > 1.9 * horizon * hint > 0


def test_rare_states_are_novel_and_unseen_ones_most_of_all():
    novelty = novelty_by_count(np.array([[0]] * 8 + [[2]] * 3))
    np.testing.assert_allclose(novelty(np.array([[0], [2], [1], [99]])), [1 / 3, 1 / 2, 1, 1])


def test_students_are_led_to_where_random_play_was_rescued():
    lead = lead_by_distance(np.random.default_rng(0).normal(size=(100, 1)), rescued=np.array([[3.0]]))
    along = lead(np.array([[-3.0], [0.0], [2.0], [3.0]]))
    assert along[3] > along[2] > along[0] > along[1] and along.max() <= 1


@pytest.mark.parametrize("budget", [100, 2_000, 50_000, 1_000_000])
def test_training_keeps_within_its_budget(budget):
    n_students, config = plan_training(brink().with_training(student=StudentConfig()), budget, "gymnasium")
    steps = n_students * N_UNITS * config.steps_per_unit
    assert steps <= max(budget, N_UNITS * 8 * config.n_envs)
    assert budget < 1_000 or steps > 0.7 * budget
    assert config.multiplier_bound == 0


def test_a_population_attacks_with_its_base():
    student = Population(base=StudentConfig(n_envs=2), vary={"learning_rate": (1e-4, 1e-3)})
    assert plan_training(brink().with_training(student=student), 10_000, "gymnasium")[1].n_envs == 2


def test_where_steps_are_compiled_many_students_learn_for_long():
    task = brink().with_training(student=StudentConfig(n_steps=500))
    n_students, config = plan_training(task, 600 * STEPS_OF_MANY, "compiled")
    assert n_students == MOST_OF_MANY and config.n_steps > 400 and config.n_minibatches == 4
    assert plan_training(task, 600 * STEPS_OF_MANY, "gymnasium")[0] == 8


def test_an_attacker_of_none_is_under_no_intervention():
    task = brink()
    found = falsify(task, "none", budget=600, n_workers=0)
    assert found.intervention == "none" and [a.attacker for a in found.attacks] == ["random", "sticky", "trained"]
