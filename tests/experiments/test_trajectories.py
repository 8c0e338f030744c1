"""Episodes as lines: what is played, where rescues cut them, and that the store keeps them once."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest
import tiny
from matplotlib.figure import Figure

from cisr import Fixed, Store, compare
from cisr.cmdp.wrapper import InducedCMDP
from cisr.core.errors import ConfigError
from cisr.experiments.playing import (
    MOST_POINTS,
    N_EPISODES,
    at_random,
    play,
    trajectory,
)
from cisr.experiments.trajectories import Trajectory
from cisr.view.figures import paint, rescues_figure
from cisr.view.plots import Dot
from cisr.view.state_plot import GROUND, episodes_plot

TASK = tiny.lander
pytestmark = pytest.mark.usefixtures("box2d")


def idle(observation):
    return 0


def test_an_episode_is_the_one_that_the_environment_plays():
    env = InducedCMDP(TASK, "Wide")
    env.reset(seed=5)
    total, steps, ended = 0.0, 0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(0)
        total, steps, ended = total + reward, steps + 1, terminated or truncated
    moments = list(play(TASK, idle, TASK.make_env(), under="Wide", seed=5))
    assert len(moments) == steps + 1
    assert moments[-1].total == pytest.approx(total)
    np.testing.assert_allclose(moments[-1].after[:8], observation, atol=1e-6)
    assert moments[-1].outcome in TASK.outcomes and all(moment.outcome is None for moment in moments[:-1])


def test_a_rescue_cuts_the_line_from_the_trigger_to_where_it_leads():
    intervention = TASK.intervention("Narrow")
    moments = list(play(TASK, idle, TASK.make_env(), under="Narrow", seed=2))
    rescued = [moment for moment in moments if moment.rescued and moment.outcome is None]
    drawn = trajectory(TASK, idle, under="Narrow", seed=2)
    assert len(drawn.rescues) == len(rescued) == len(drawn.flights) - 1 > 0
    for moment, (at, to) in zip(rescued, drawn.rescues, strict=True):
        assert intervention.triggered(moment.state)
        np.testing.assert_allclose(at, moment.state[:2], atol=1e-4)
        np.testing.assert_allclose(to, intervention.reset.fn(moment.state, None, None)[:2], atol=1e-4)


def test_long_episodes_are_thinned_and_keep_their_ends():
    task = dataclasses.replace(tiny.task, read_state=lambda env: np.array([env.unwrapped.s, 0]))
    corridor = dataclasses.replace(task, interventions=(), safe_evaluation=None, horizon=3000)
    still = 3  # up, from the top row; slips lead sideways and back
    drawn = trajectory(dataclasses.replace(corridor, danger=lambda move: move.reward > 9), lambda o: still, seed=1)
    moments = list(play(corridor, lambda o: still, corridor.make_env(), seed=1))
    assert len(drawn.flights[0]) <= MOST_POINTS + 1
    assert drawn.flights[0][0] == (0.0, 0.0) and drawn.flights[-1][-1][0] == moments[-1].state[0]


def test_episodes_survive_json():
    drawn = trajectory(TASK, at_random(TASK, 1), under="Wide", seed=1)
    assert Trajectory.from_json(json.loads(json.dumps(dataclasses.asdict(drawn)))) == drawn


def test_a_crash_is_a_failure_and_a_timeout_is_none():
    assert trajectory(TASK, idle, seed=5).failed
    short = dataclasses.replace(TASK, horizon=5)
    assert (trajectory(short, idle, seed=5).outcome, trajectory(short, idle, seed=5).failed) == ("timeout", False)


def test_a_comparison_keeps_episodes_of_its_students_and_plays_nothing_twice(flown, monkeypatch):
    with Store(flown) as store:
        first = store.trajectories()
        names = [t.name for t in store.transcripts()]
        assert {name: len(episodes) for name, episodes in first.items()} == dict.fromkeys(names, N_EPISODES)
        monkeypatch.setattr("cisr.experiments.playing.episodes", None)
        compare(TASK, {"none": Fixed("none")}, n_students=2, store=store, execution=tiny.HERE)
        assert store.trajectories() == first


def test_a_task_without_a_state_plot_keeps_no_episodes():
    with Store(None) as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        assert store.trajectories() == {}


def test_the_state_plots_lines_are_where_the_triggers_begin():
    for intervention in TASK.interventions:
        for line in TASK.appearance.state_plot["interventions"][intervention.name]["trigger"]:
            for (x1, y1), (x2, y2) in pairwise(line[1:]):
                middle, out = np.array([(x1 + x2) / 2, (y1 + y2) / 2]), np.array([np.sign(x1), -1.0])
                for side, expected in ((1, True), (-1, False)):
                    state = np.concatenate([middle + side * 0.01 * out, np.zeros(24)])
                    assert intervention.triggered(state) == expected


def test_the_mark_at_an_episodes_end_has_a_shape_for_each_outcome_and_the_episodes_colour():
    known = {"steps": 1, "total": 0.0, "flights": (((0.0, 1.0), (0.1, 0.9)),)}
    outcomes = (("success", False), ("timeout", False), ("rescue", False), ("crash", True))
    episodes = [
        (f"{k}", f"#00000{k}", Trajectory(outcome=outcome, failed=failed, **known))
        for k, (outcome, failed) in enumerate(outcomes)
    ]
    plot = episodes_plot("Wide", TASK.appearance.state_plot, {"Wide": "#111111"}, episodes)
    ends = [mark for mark in plot.marks if isinstance(mark, Dot)]
    looks = [(end.label, end.hollow, end.crossed) for end in ends]
    assert looks == [
        ("success", False, False),
        ("other end", True, False),
        ("other end", True, False),
        ("failure", False, True),
    ]
    assert [end.colour for end in ends[:3]] == ["#000000", "#000001", "#000002"]
    axes = Figure().subplots()
    paint(axes, plot)
    keys = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    assert {keys["success"].get_color(), keys["other end"].get_color()} == {GROUND}


def test_the_figure_of_rescues_is_drawn(tmp_path):
    rescues_figure(TASK, tmp_path / "f.png", tmp_path / "f.pdf", act=idle, n_episodes=1)
    assert (tmp_path / "f.png").stat().st_size > 10_000 and (tmp_path / "f.pdf").exists()
    with pytest.raises(ConfigError, match="has no state plot"):
        rescues_figure(tiny.task, tmp_path / "g.png")
