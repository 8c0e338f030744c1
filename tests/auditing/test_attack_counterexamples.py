"""Counterexamples: files that are played again, anywhere, and pictures of them."""

import json
import os
from dataclasses import replace
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from classics import cart_pole
from holes import brink, sled
from matplotlib.image import imread

from cisr import Intervention, Rewind, get_task
from cisr.auditing.attack import falsify
from cisr.auditing.counterexample import Counterexample, replay
from cisr.core.errors import ConfigError
from cisr.tasks.frozen_lake.lake import PAPER_MAP, Lake
from cisr.view.counterexamples import last_frames
from cisr.view.episode_picture import RESCUE, draw
from cisr.view.grids import TRIGGER
from cisr.view.plots import DANGER

ZONE = Lake(PAPER_MAP).near_lakes(1)
ZONE[10] = False
LEAKY = Intervention(name="leaky", trigger=lambda s: ZONE[s[..., 0]], reset=Rewind(1), tau=0.1)


@pytest.fixture(scope="module")
def example():
    """A fall over the edge after at least one rescue."""
    found = (falsify(brink(0.05), "rail", budget=400, built_in=("random",), seed=seed) for seed in range(99))
    return next(e for one in found for e in one.counterexamples if e.episode.rescues)


def saved(example, path, change=lambda fields: None):
    fields = example.to_json()
    change(fields)
    path.write_text(json.dumps(fields))
    return Counterexample.load(path)


def test_a_file_replays_exactly(example, tmp_path):
    example.save(tmp_path / "fall.json")
    again = Counterexample.load(tmp_path / "fall.json")
    assert again.to_json() == example.to_json()
    result = replay(brink(0.05), again)
    assert result and result.difference is None
    assert result.episode.danger == "over the edge"


def test_a_file_tells_the_whole_story(example):
    fields = example.to_json()
    assert (fields["format"], fields["version"]) == ("cisr counterexample", 1)
    assert fields["start"] == [0.5] and fields["danger"] == "over the edge"
    rescued = next(turn for turn in fields["turns"] if turn["rescued"])
    assert 0.9 <= rescued["state"][0] < 0.95 and rescued["put_to"] == [0.5]
    assert fields["turns"][-1]["state"] == [1.5] and fields["turns"][-1]["put_to"] is None


def tamper_state(fields):
    fields["turns"][1]["state"] = [0.123]


def tamper_action(fields):
    fields["turns"][-1]["action"] = 0


def tamper_seed(fields):
    fields["seed"] += 1


def tamper_length(fields):
    fields["turns"].append(fields["turns"][-1])


def tamper_danger(fields):
    fields["danger"] = "a bear"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (tamper_state, "step 2: state is"),
        (tamper_action, "state is"),
        (tamper_seed, "step 1: state is"),
        (tamper_length, "the episode ends after"),
        (tamper_danger, "the file says a bear"),
    ],
)
def test_a_tampered_file_is_reported_with_the_first_difference(example, tmp_path, change, where):
    result = replay(brink(0.05), saved(example, tmp_path / "fall.json", change))
    assert not result and where in result.difference


def test_a_mended_intervention_no_longer_fails(example):
    result = replay(brink(missed=0.0), example)
    assert not result and "rescued is True; the file says False" in result.difference


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Cannot read a counterexample from .*fall.json"),
        ("[1, 2]", "is no counterexample"),
        ('{"format": "cisr student 1"}', "its format is 'cisr student 1', expected 'cisr counterexample'"),
        ('{"format": "cisr counterexample", "version": 9}', "has version 9 of its format: this program reads 1"),
        ('{"format": "cisr counterexample", "version": 1, "turns": [{}]}', "is damaged: KeyError"),
        ('{"format": "cisr counterexample", "version": 1, "turns": []}', "is damaged: .*no turns"),
    ],
)
def test_an_unreadable_file_is_one_clear_line(tmp_path, text, message):
    path = tmp_path / "fall.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        Counterexample.load(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="Cannot read a counterexample"):
        Counterexample.load(tmp_path / "nowhere.json")


def test_a_counterexample_of_another_task_is_refused(example):
    with pytest.raises(ConfigError, match="one of task 'brink': the task given is 'sled'"):
        replay(sled(), example)


def test_an_environment_that_is_no_function_of_its_seed_is_noted():
    luck = np.random.default_rng(0)

    def unruly(**options):
        env = brink().make_env()
        reset = env.reset
        env.reset = lambda **how: reset(seed=int(luck.integers(1000)))
        return env

    found = falsify(replace(brink(0.1), make_env=unruly), "rail", budget=300, built_in=("random",))
    assert found.refuted and "a replay differs" in found.notes[0]


def colours(path):
    return {tuple(pixel) for pixel in np.round(imread(path)[..., :3].reshape(-1, 3) * 255).astype(int)}


def test_pictures_show_rescues_and_the_failure(example, tmp_path):
    lake = get_task("frozen-lake", "quick")
    fall = falsify(lake, LEAKY, budget=8_000, built_in=("random",)).counterexamples[0]
    draw(lake, fall, tmp_path / "lake.png", LEAKY)
    draw(brink(0.05), example, tmp_path / "brink.png")
    failure, rescue, trigger_set = (tuple(bytes.fromhex(colour[1:])) for colour in (DANGER, RESCUE, TRIGGER))
    assert {failure, trigger_set} <= colours(tmp_path / "lake.png")
    assert {failure, rescue} <= colours(tmp_path / "brink.png")


def test_the_environment_own_last_frame_is_shown_beside_its_states(tmp_path):
    thin = Intervention(name="thin", trigger=lambda s: abs(s[..., 2]) > 0.2, reset=Rewind(5), tau=0.1)
    fall = falsify(cart_pole, thin, budget=1_000, built_in=("sticky",)).counterexamples[0]
    task = replace(cart_pole, interventions=(thin,))
    (frame,), missing = last_frames(task, [fall])
    assert missing is None
    draw(task, fall, tmp_path / "pole.png", frame=frame)
    height, width, _ = imread(tmp_path / "pole.png").shape
    assert width > 2 * height and (0xCA, 0x98, 0x65) in colours(tmp_path / "pole.png"), "the pole's own colour"


class Crashing(gymnasium.Wrapper):
    """Its renderer takes the whole process with it."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def render(self):
        os.abort()


def test_a_renderer_that_crashes_leaves_the_picture_without_its_frame(tmp_path):
    thin = Intervention(name="thin [/] one", trigger=lambda s: abs(s[..., 2]) > 0.2, reset=Rewind(5), tau=0.1)
    crashing = replace(
        cart_pole, make_env=lambda **options: Crashing(cart_pole.make_env(**options)), interventions=(thin,)
    )
    found = falsify(crashing, thin, budget=1_000, built_in=("sticky",))
    frames = last_frames(crashing, found.counterexamples[:2])
    assert frames.pictures == (None, None)
    assert frames.missing.endswith("ended the process in which it was played (signal 6)")
    draw(crashing, found.counterexamples[0], tmp_path / "pole.png")
    assert (tmp_path / "pole.png").exists()


def test_attackers_that_do_not_fit_the_action_space_are_named():
    def in_parts(**options):
        env = cart_pole.make_env(**options)
        env.action_space = gymnasium.spaces.Dict(push=env.action_space)
        return env

    with pytest.raises(ConfigError, match="attackers random, sticky do not fit the action space Dict"):
        falsify(replace(cart_pole, make_env=in_parts), "none", budget=2_000)
    with pytest.raises(ConfigError, match=r"The attacker 'hard' answered the action 7: give an element of Discrete"):
        falsify(cart_pole, "none", budget=2_000, attackers={"hard": lambda state: 7}, built_in=())
