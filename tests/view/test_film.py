"""Films and drawn episodes of students that a store holds."""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
import tiny
from PIL import Image

from cisr import ConfigError, Store
from cisr.experiments.comparison import median_student
from cisr.view.film import check_film, film
from cisr.view.page import write_page


@pytest.fixture
def opened(flown):
    with Store(flown) as store:
        yield store, {label: store.transcripts(f"compare/{label}/") for label in ("LL-A", "none")}


def test_a_gif_shows_every_curriculum_until_all_have_ended(opened, tmp_path):
    store, groups = opened
    film(store, tiny.lander, groups, tmp_path / "f.gif", n_episodes=1)
    with Image.open(tmp_path / "f.gif") as picture:
        assert picture.n_frames > 10
        assert picture.size[0] > 2 * 320
        assert picture.info["duration"] == 40  # half of the simulator's 50 frames a second


needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


@needs_ffmpeg
def test_an_mp4_has_the_same_frames_as_the_gif(opened, tmp_path):
    store, groups = opened
    for name in ("f.gif", "f.mp4"):
        film(store, tiny.lander, groups, tmp_path / name, n_episodes=1)
    count = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"]
    counted = subprocess.run([*count, str(tmp_path / "f.mp4")], capture_output=True, text=True, check=True).stdout
    with Image.open(tmp_path / "f.gif") as picture:
        durations = [picture.seek(k) or picture.info["duration"] for k in range(picture.n_frames)]
    assert int(counted) == sum(durations) // 40  # a GIF shows equal frames once, and longer


@needs_ffmpeg
def test_what_ffmpeg_complains_of_is_passed_on(opened, tmp_path):
    store, groups = opened
    with pytest.raises(ConfigError, match=r"ffmpeg could not write .*No such file or directory"):
        film(store, tiny.lander, groups, tmp_path / "nowhere" / "f.mp4", n_episodes=1)


def test_without_ffmpeg_an_mp4_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs the program ffmpeg.*install it, or give a \.gif"):
        check_film(Path("f.mp4"), tiny.lander)


def test_other_suffixes_and_tasks_that_do_not_draw_are_refused():
    with pytest.raises(ConfigError, match=r"ends in \.gif or \.mp4"):
        check_film(Path("f.avi"), tiny.lander)
    blind = dataclasses.replace(tiny.lander, make_env=lambda: tiny.lander.make_env())
    with pytest.raises(ConfigError, match="does not draw itself"):
        check_film(Path("f.gif"), blind)


def test_the_lake_can_be_filmed_too(tmp_path):
    check_film(tmp_path / "f.gif", tiny.task)


def test_the_student_shown_is_the_one_in_the_middle(opened):
    _, groups = opened
    one = groups["none"][0]
    returns = {"a": 3.0, "b": -1.0, "c": 1.0}
    group = [
        dataclasses.replace(one, name=name, deployment=dataclasses.replace(one.deployment, mean_return=value))
        for name, value in returns.items()
    ]
    assert median_student(group) == "c"
    assert median_student([dataclasses.replace(one, deployment=None)]) is None


def test_the_page_draws_episodes_over_the_state_plot_and_names_the_students(flown, tmp_path):
    page = write_page(flown, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "lunar-lander (paper scale, two-layer students)" in page
    assert page.count("Episodes of students under") == 2 and "Where interventions act" in page
    assert "compare/LL-A/000: " in page
    assert "cisr compare lunar-lander --scale paper --student two-layer LL-A none --students 2" in page
    assert "LL-A.json" not in page


def test_every_constraint_has_its_multiplier_on_the_page(flown, tmp_path):
    page = write_page(flown, tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"Multiplier λ for {what}" in page for what in ("failures", "off the pad", "over the pad"))
