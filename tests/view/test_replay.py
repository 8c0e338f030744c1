"""Episodes that can be stepped through."""

import json
import re
from dataclasses import replace
from html import unescape

import tiny

from cisr import Fixed, Store, compare
from cisr.experiments.replaying import Replay, Wanted, replays
from cisr.experiments.trajectories import Trajectory
from cisr.store.load_student import stored_student
from cisr.view.contents import contents_of
from cisr.view.replay import as_webp, player


def test_an_episode_has_a_moment_for_each_step_and_one_more_for_each_rescue(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        compare(tiny.task, {"SR1": Fixed("SR1")}, n_students=1, store=store, execution=tiny.HERE)
        name = "compare/SR1/000"
        wanted = [Wanted(name, stored_student(store, name), under, 0, 0) for under in ("SR1", "none")]
        contents = contents_of(store, "store")
    taught, alone = replays(tiny.task, wanted, as_webp)
    for episode in (taught, alone):
        own = [moment for moment in episode.moments if not moment.rescued]
        assert [moment.step for moment in own] == list(range(episode.steps + 1))
        assert own[-1].total == episode.total and all(m.picture.startswith(b"RIFF") for m in episode.moments)
    before, after = next((a, b) for a, b in zip(taught.moments, taught.moments[1:], strict=False) if b.rescued)
    assert before.step == after.step and before.state != after.state  # put back from where it was about to be
    assert not any(moment.rescued for moment in alone.moments)
    assert alone.failed == (alone.outcome in tiny.task.dangers)
    rescues = sum(moment.rescued for moment in taught.moments)
    assert player(contents, taught).count('class="rescue"') == rescues > 0
    elsewhere = replace(contents, settings={k: v for k, v in contents.settings.items() if k != "floor plan"})
    assert '<img src="data:image/webp;base64,' in player(elsewhere, taught)


def test_an_episode_that_was_kept_for_pictures_can_be_stepped_through():
    kept = Trajectory(
        flights=(((0.0, 0.0), (1.0, 0.0)), ((0.5, 1.0), (0.5, 2.0), (0.5, 3.0))),
        outcome="success",
        failed=False,
        total=4.0,
        steps=6,
    )
    moments = Replay.of("one", "Narrow", kept).moments
    assert [moment.state for moment in moments] == [point for flight in kept.flights for point in flight]
    assert [moment.step for moment in moments] == [0, 2, 2, 4, 6]
    assert [moment.rescued for moment in moments] == [False, False, True, False, False]


def test_a_player_says_how_the_episode_ended_and_holds_nothing_that_is_markup(tmp_path):
    Store(tmp_path / "store.sqlite").close()
    with Store(tmp_path / "store.sqlite", read_only=True) as store:
        contents = contents_of(store, "store")
    plot = {"axes": ["x", "y"], "limits": [[-1, 1], [0, 2]], "lines": {}, "interventions": {}}
    kept = Trajectory(flights=(((0.0, 0.0), (9.0, 1.0)),), outcome="</p><script>", failed=True, total=-2.0, steps=1)
    text = player(replace(contents, settings={"state plot": plot}), Replay.of("<b>", "none", kept))
    assert "<script>" not in text and "<b>" not in text
    episode = json.loads(unescape(re.search('data-episode="([^"]*)"', text)[1]))
    assert episode["end"] == "</p><script> after 1 step, return −2.0" and episode["failed"]
    (start, end) = episode["points"]
    assert end[0] - start[0] < 400 and end[1] < start[1]  # kept within the picture
