"""Failures that are found in a JAX environment, and whether they are failures on Gymnasium's."""

import dataclasses
import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from gymnasium.utils import seeding
from holes import brink

from cisr import ConfigError, Intervention, Rewind
from cisr.auditing import report
from cisr.auditing import search as search_for
from cisr.auditing.attack import falsify
from cisr.auditing.counterexample import Candidate, Reciting, load
from cisr.auditing.play import Arena
from cisr.auditing.twin import Twin, distribution_of, drawn_actions, given_actions, held_actions
from cisr.cli import main
from cisr.core.callback import ignore
from cisr.students.distributions import Categorical, Categoricals, Gaussian
from cisr.students.networks import initialise
from cisr.students.student import Student
from cisr.tasks import get_task
from cisr.tasks.frozen_lake import lake_task, near
from cisr.tasks.frozen_lake.lake import Lake
from cisr.tasks.lunar_lander.draws import gymnasiums_draws
from cisr.view.counterexamples import keep_candidates

LAKE = Lake(("SFFF", "FFFF", "FHFF", "FFFG"))
LEAKY = Intervention(name="leaky", trigger=near(LAKE, 0), reset=Rewind(1), tau=0.1)


def lake():
    return lake_task(LAKE, horizon=30, training=brink().training)


def test_held_actions_last_from_one_step_to_all_of_them():
    actions = held_actions(Categorical(4), np.random.default_rng(0), 100, 400)
    assert actions.shape == (400, 100) and set(np.unique(actions)) == {0, 1, 2, 3}
    changes = (np.diff(actions, axis=1) != 0).sum(axis=1)
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


def fresh_student(k):
    env, config = lake().jax_env(), brink().training.student
    params = initialise(jax.random.key(k), config.network, env.observation, env.n_actions)
    return Student(config, env.observation, distribution_of(env), params)


def test_every_trained_attacker_plays_as_many_episodes_as_the_others():
    plan = {"attackers": ("trained",), "confidence": 0.95, "seed": 1, "playable": False, "callback": ignore}
    with_seven = {"budget": 40 * 30 + 29, "students": [fresh_student(k) for k in range(7)]}
    (search,) = search_for.search(lake(), LEAKY, **plan | with_seven)
    assert search.episodes == 7 * 5
    (search,) = search_for.search(lake(), LEAKY, **plan | with_seven | {"budget": 3 * 30})
    assert search.episodes == 3  # the best of them, where there are not enough for all


def test_numbers_do_not_depend_on_how_many_episodes_are_played_at_once_only_their_draws_do(monkeypatch):
    monkeypatch.setitem(search_for.AT_ONCE, "cpu", 32)
    plan = {"attackers": ("random",), "budget": 100 * 30, "confidence": 0.95, "seed": 1, "students": ()}
    (search,) = search_for.search(lake(), LEAKY, **plan, playable=False, callback=ignore)
    assert search.episodes == 100 and 0 < search.failures < 100 and search.steps <= 3_000


@pytest.mark.parametrize("name", ["another", "brink"])
def test_an_intervention_that_is_not_the_tasks_own_is_searched_as_it_is(name):
    never = Intervention(name=name, trigger=lambda state: state[..., 0] < -1, reset=Rewind(1), tau=0.1)
    both = {"left": never.trigger, "right": never.trigger}
    many = dataclasses.replace(never, trigger=both)
    for under in (never, many):
        twin = Twin(lake(), under, given_actions)
        actions = np.ones((1, twin.horizon, 50), np.int32)  # down, on thin ice
        played = twin.play((), actions, np.arange(50)[None])
        assert played.failed(lake()).any()


def written_in_place(state):
    doubled = state.copy()
    doubled[..., 0] *= 2
    return doubled[..., 0] == 18


@pytest.mark.parametrize("trigger", [lambda state: (np.arange(16) == 9)[state[..., 0]], written_in_place])
def test_functions_that_jax_cannot_trace_are_attacked_on_gymnasium_alone(trigger):
    under = dataclasses.replace(LEAKY, trigger=trigger)
    found = falsify(lake(), under, budget=1_000, n_workers=0, built_in=("random",))
    assert not found.searches and found.attacks[0].episodes > 10
    assert any("JAX cannot trace the functions of 'leaky'" in note for note in found.notes)
    with pytest.raises(ConfigError, match="use the gymnasium backend"):
        falsify(lake(), under, budget=1_000, n_workers=0, built_in=("random",), backend="compiled")


def test_scripts_are_not_searched_and_have_their_whole_share_of_steps_on_gymnasium():
    found = falsify(lake(), LEAKY, budget=6_000, n_workers=0, built_in=("random",), attackers={"down": lambda state: 1})
    assert [search.attacker for search in found.searches] == ["random"]
    steps = {attack.attacker: attack.steps for attack in found.attacks}
    assert steps["down"] > 2_500 > 2 * steps["random"]


def test_without_intervention_failures_are_counted_and_not_played_again(lander):
    found = falsify(lander, "none", budget=40_000, n_workers=0, backend="compiled", built_in=("random",))
    assert found.searches[0].failures and not found.searches[0].replayed and not found.candidates


def test_what_is_drawn_ahead_comes_in_order_and_ends_with_who_asked():
    asked = []

    def make(k):
        asked.append(k)
        if k == 3:
            raise ValueError("no")
        return k

    assert [*search_for._ahead(make, 3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        [*search_for._ahead(make, 9)]
    assert max(asked) == 3


def test_uniforms_of_a_lander_are_those_of_gymnasiums_generator():
    rng, _ = seeding.np_random(7)
    reset, steps = gymnasiums_draws(7, 5, noisy=False)
    first = rng.uniform(size=16)
    assert np.array_equal(reset, first[:14].astype(np.float32))
    assert np.array_equal(steps.ravel(), rng.uniform(size=10).astype(np.float32))
    noisy_reset, noisy_steps = gymnasiums_draws(7, 5, noisy=True)
    assert noisy_reset.shape == (16,) and noisy_steps.shape == (5, 4)
    assert np.array_equal(noisy_reset[:14], reset) and np.array_equal(noisy_steps[:, :2], steps)


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
    held = held_actions(twin.distribution, rng, twin.horizon, 3)
    played = twin.play((), held[None].swapaxes(1, 2), seeds)
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
    wrongs = ({"actions": []}, {"actions": 7}, {"danger": 3}, {"version": 9})
    for wrong in (*wrongs, {"seed": "x"}, {"seed": 2**31}, {"seed": True}, {"seed": float("nan")}):
        (tmp_path / "it.json").write_text(json.dumps(whole.to_json() | wrong))
        with pytest.raises(ConfigError, match=r"it\.json"):
            load(tmp_path / "it.json")
    for wrong in (10**30, float("nan"), float("inf"), -1, 4, 1.5, "0", [0], None, {}):
        (tmp_path / "it.json").write_text(json.dumps(whole.to_json() | {"actions": [wrong]}))
        with pytest.raises(ConfigError, match="from seed 1 answered the action"):
            load(tmp_path / "it.json").played(lander)
    with pytest.raises(ConfigError, match="is one of task 'lunar-lander'"):
        whole.played(lake())


def test_a_folder_of_candidates_is_played_in_one_go(lander, tmp_path, monkeypatch, capsys):
    attack = {"budget": 40_000, "built_in": ("sticky",), "n_workers": 0}
    verdict = report._verdict(lander, "Wide", None, attack, False, ignore)
    audited = report.AuditReport(
        task="lunar-lander", scale="quick", verdicts=(verdict,), exact=None, broken=(), promises_checked=False
    )
    monkeypatch.chdir(tmp_path)
    assert keep_candidates(audited, tmp_path / "kept") > 5
    for path in sorted((tmp_path / "kept").iterdir())[6:]:
        path.unlink()
    command = ["audit", "lunar-lander", "--scale", "quick", "--replay", "kept", "--workers", "0", "--json", "it.json"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    counts = json.loads((tmp_path / "it.json").read_text())
    assert ended.value.code == 1 and counts["candidates"] == 6 and 3 <= counts["confirmed"] <= 6
    assert len([*(tmp_path / "runs" / "audit-lunar-lander").glob("*-confirmed.json")]) == counts["confirmed"]
    assert "Candidates from a JAX environment" in capsys.readouterr().out
    shutil.copytree("kept", "again")
    with pytest.raises(SystemExit):
        main([*command, "--replay", "again"])
    twice = json.loads((tmp_path / "it.json").read_text())
    assert twice["candidates"] == 12 and twice["confirmed"] == 2 * counts["confirmed"]
    assert len([*(tmp_path / "runs" / "audit-lunar-lander").glob("*-confirmed*.json")]) == twice["confirmed"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["audit", "lunar-lander", "--scale", "quick", "--replay", "empty"])
    assert ended.value.code == 2


def test_a_search_needs_no_gymnasium():
    """On machines that have a GPU and nothing else."""
    code = """if True:
        import sys
        sys.modules["gymnasium"] = None
        import importlib.util as util
        find = util.find_spec
        util.find_spec = lambda name, *more: None if name in ("gymnasium", "Box2D") else find(name, *more)
        from cisr.auditing.attack import falsify
        from cisr.tasks import get_task
        task = get_task("frozen-lake", "quick")
        found = falsify(task, "SR1", budget=5_000, n_workers=0, backend="compiled", playable=False)
        print([search.attacker for search in found.searches], found.verdict)
    """
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("['random', 'sticky', 'trained'] not attacked on Gymnasium's environment; no failure in")
