"""Failures that are found in a JAX environment, and whether they are failures on Gymnasium's."""

import json

import numpy as np
import pytest
from holes import brink

from cisr import ConfigError, Intervention, Rewind
from cisr.auditing import report
from cisr.auditing.attack import falsify
from cisr.auditing.counterexample import Candidate, Reciting, load
from cisr.auditing.play import Arena
from cisr.auditing.twin import Twin, drawn_actions, given_actions, held_actions
from cisr.core.callback import ignore
from cisr.students.distributions import Categorical, Categoricals, Gaussian
from cisr.tasks import get_task
from cisr.tasks.frozen_lake import lake_task, near
from cisr.tasks.frozen_lake.lake import Lake

LAKE = Lake(("SFFF", "FFFF", "FHFF", "FFFG"))
LEAKY = Intervention(name="leaky", trigger=near(LAKE, 0), reset=Rewind(1), tau=0.1)


def lake():
    return lake_task(LAKE, horizon=30, training=brink().training)


def test_held_actions_last_from_one_step_to_all_of_them():
    actions = held_actions(Categorical(4), np.random.default_rng(0), 100, 400)
    assert actions.shape == (100, 400) and set(np.unique(actions)) == {0, 1, 2, 3}
    changes = (np.diff(actions, axis=0) != 0).sum(axis=0)
    assert changes.min() == 0 and changes.max() > 10


@pytest.mark.parametrize(
    ("distribution", "shape"),
    [
        (Categorical(3, start=1), ()),
        (Categoricals((2, 5), (0, 0), (2,)), (2,)),
        (Gaussian((-1.0, -np.inf), (2.0, np.inf), (2,)), (2,)),
    ],
)
def test_actions_are_drawn_from_the_whole_space(distribution, shape):
    drawn = drawn_actions(distribution, np.random.default_rng(0), (500, 2))
    assert drawn.shape == (500, 2, *shape)
    if isinstance(distribution, Gaussian):
        assert -1 <= drawn[..., 0].min() < -0.9 and 1.9 < drawn[..., 0].max() <= 2 and drawn[..., 1].std() > 0.5
    elif isinstance(distribution, Categorical):
        assert set(np.unique(drawn)) == {1, 2, 3}
    else:
        assert set(np.unique(drawn[..., 0])) == {0, 1} and set(np.unique(drawn[..., 1])) == set(range(5))


def test_failures_of_the_jax_environment_are_claims_about_it_where_nobody_knows_what_gymnasiums_draws():
    found = falsify(lake(), LEAKY, budget=6_000, n_workers=0, backend="compiled", built_in=("random", "sticky"))
    random, sticky = found.searches
    assert random.episodes == 6_000 // 2 // 30 and 0 < random.failures < random.episodes
    assert random.failures / random.episodes < random.upper_bound < 1
    assert random.replayed == sticky.replayed == 0 and not found.candidates
    told = found.to_json()["searches"][0]
    assert told["failures"] == random.failures and json.dumps(told)


def test_a_search_is_the_same_for_the_same_seed_and_another_for_another():
    def failures(seed):
        found = falsify(lake(), LEAKY, budget=3_000, n_workers=0, backend="compiled", built_in=("random",), seed=seed)
        return found.searches[0].failures, found.searches[0].steps

    assert failures(1) == failures(1) != failures(2)


@pytest.fixture(scope="module")
def lander():
    pytest.importorskip("Box2D", reason="Lunar Lander needs Box2D: pip install 'cisr[lander]'")
    return get_task("lunar-lander", "quick", "two-layer")


@pytest.fixture(scope="module")
def found(lander):
    return falsify(lander, "Wide", budget=40_000, n_workers=0, backend="compiled", built_in=("sticky",))


def test_an_episode_of_the_compiled_lander_is_that_of_gymnasiums_seed(lander):
    under = lander.intervention("Wide")
    twin = Twin(lander, under, given_actions, records=True)
    seeds, rng = np.array([[3, 14, 15]]), np.random.default_rng(9)
    played = twin.play((), held_actions(twin.distribution, rng, twin.horizon, 3)[None], seeds)
    for k in range(3):
        with Arena(lander, under) as arena:
            episode = arena.play(Reciting(played.actions_of(0, k)), int(seeds[0, k]))
        first = np.array([step.state for step in episode.steps[:10]])
        assert np.allclose(played.recorded.state[0, :10, k], first, atol=1e-5)


def test_failures_of_the_compiled_lander_are_confirmed_by_box2d(lander, found):
    (search,) = found.searches
    assert search.failures > 3 and search.steps <= 40_000
    assert search.replayed == min(search.failures, 200) and search.confirmed > 0.7 * search.replayed
    assert found.refuted and len(search.counterexamples) == 3
    assert all(example.episode.danger is not None for example in search.counterexamples)


def test_where_gymnasium_has_no_lander_candidates_are_kept_and_confirmed_elsewhere(lander, tmp_path):

    attack = {"budget": 40_000, "built_in": ("sticky",), "n_workers": 0}
    verdict = report._verdict(lander, "Wide", None, attack, False, ignore)
    assert verdict.status == "not audited" and "kept to be played on Gymnasium's" in verdict.reason
    candidates = verdict.falsification.candidates
    assert candidates and not verdict.falsification.attacks
    candidates[0].save(tmp_path / "one.json")
    again = load(tmp_path / "one.json")
    assert again == candidates[0]
    confirmed = [candidate.played(lander) is not None for candidate in candidates[:10]]
    assert np.mean(confirmed) > 0.7


def test_a_candidate_that_is_damaged_or_of_another_task_gets_its_line(lander, tmp_path):
    whole = Candidate(
        task="lunar-lander", scale="quick", intervention="Wide", attacker="a", danger="crash", seed=1, actions=(0, 1)
    )
    for wrong in ({"actions": []}, {"danger": 3}, {"seed": "x"}, {"version": 9}, {"actions": 7}):
        (tmp_path / "it.json").write_text(json.dumps(whole.to_json() | wrong))
        with pytest.raises(ConfigError):
            load(tmp_path / "it.json")
    with pytest.raises(ConfigError, match="is one of task 'lunar-lander'"):
        whole.played(lake())
