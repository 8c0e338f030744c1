"""A film of deployed students: one cell for each curriculum, all on one clock, with the outcome written at the end.

A curriculum is shown by its median student by return in deployment: neither its best nor its luckiest. All students
fly the same episodes. A GIF needs nothing but what cisr brings; an MP4 needs the program `ffmpeg`.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from cisr.core.errors import ConfigError, described
from cisr.core.libraries import GYMNASIUM
from cisr.core.task import Task
from cisr.experiments.comparison import median_student
from cisr.experiments.playing import PlayedStep, by_student, episode_seed, play
from cisr.store import Store
from cisr.store.load_student import StoredStudent, stored_student
from cisr.students.kinds import Actor
from cisr.system.files import writing
from cisr.training import STEP_TIMEOUT, Transcript
from cisr.training.apart import play_apart
from cisr.view.plots import DANGER
from cisr.view.words import end_in_words

if GYMNASIUM:
    import gymnasium
    from gymnasium.error import DependencyNotInstalled

SUFFIXES = (".gif", ".mp4")
CELL_WIDTH, CAPTION = 320, 40
FRAMES_PER_SECOND = 25
MOST_FRAMES = 300
"""Of one episode; longer ones are shown faster."""
PAUSE = 1.5
"""Seconds that the end of an episode is shown."""
INK, FAINT, PAPER, GOOD, BAD = "#1a1a1a", "#777777", "#ffffff", "#00694e", DANGER


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a cell shows at one moment."""

    picture: Image.Image
    step: int
    last: PlayedStep


class Star(NamedTuple):
    """Who is filmed."""

    label: str
    name: str
    student: StoredStudent


class Scene(NamedTuple):
    """A student's episode, that can be played again and again."""

    task: Task
    student: Actor
    seed: int
    number: int
    under: str

    def steps(self, env: gymnasium.Env[Any, Any]) -> Iterator[PlayedStep]:
        seed = episode_seed(self.seed, self.number)
        act = by_student(copy.copy(self.student), seed)  # a copy, that draws as if for the first time
        return play(self.task, act, env, under=self.under, seed=seed)

    def frames(self, every: int) -> Iterator[Frame]:
        """A frame every so many steps and one at the end."""
        env = filmed(self.task)
        for number, step in enumerate(self.steps(env)):
            if number % every == 0 or step.outcome is not None:
                drawn: Any = env.render()
                picture = Image.fromarray(np.asarray(drawn, np.uint8))
                height = round(picture.height * CELL_WIDTH / picture.width)
                yield Frame(picture=picture.resize((CELL_WIDTH, height)), step=number, last=step)
        env.close()


def check_film(path: Path, task: Task, *, n_workers: int | None = None, step_timeout: float = STEP_TIMEOUT) -> None:
    """Complain before hours of training about a film that could not be made after them."""
    check_kind_of_film(path)
    play_apart(_try, task, n_workers=n_workers, step_timeout=step_timeout)


def check_kind_of_film(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"The film {path} would be of no known kind: give a name that ends in .gif or .mp4.")
    if path.suffix.lower() == ".mp4" and shutil.which("ffmpeg") is None:
        raise ConfigError(
            f"The film {path} needs the program ffmpeg, which is not on the PATH: install it, or give a .gif."
        )


def _try(task: Task, tell: object) -> None:
    filmed(task).close()


def film(
    store: Store,
    task: Task,
    groups: Mapping[str, Sequence[Transcript]],
    path: Path,
    *,
    n_episodes: int = 2,
    seed: int = 0,
    under: str = "none",
    n_workers: int | None = None,
    step_timeout: float = STEP_TIMEOUT,
) -> None:
    """Film the median student of each curriculum for so many episodes, into a GIF or an MP4 by the file's suffix.

    It is made in a process of its own, unless `n_workers` is 0.
    """
    check_kind_of_film(path)
    stars = {label: star for label, group in groups.items() if (star := median_student(group)) is not None}
    if not stars:
        raise ConfigError("No student has finished: there is nobody to film.")
    cast = [Star(label, name, stored_student(store, name)) for label, name in stars.items()]
    with writing(path) as aside:
        play_apart(_shoot, task, cast, aside, n_episodes, seed, under, n_workers=n_workers, step_timeout=step_timeout)


def _shoot(task: Task, cast: Sequence[Star], path: Path, n_episodes: int, seed: int, under: str, tell: object) -> None:
    env = filmed(task)
    usual = env.metadata.get("render_fps", FRAMES_PER_SECOND)
    env.close()
    every = max(1, round(usual / FRAMES_PER_SECOND))
    students = [star.student.ready(task) for star in cast]
    labels = [(star.label, f"student {star.name.rpartition('/')[2]}") for star in cast]

    def frames() -> Iterator[Image.Image]:
        for number in range(n_episodes):
            scenes = [Scene(task, student, seed, number, under) for student in students]
            longest = max(sum(1 for _ in scene.steps(task.make_env())) for scene in scenes)
            cells = [scene.frames(max(every, math.ceil(longest / MOST_FRAMES))) for scene in scenes]
            latest = [next(cell) for cell in cells]
            moving = True
            while moving:
                yield compose(labels, latest, task)
                following = [next(cell, None) for cell in cells]
                moving = any(following)
                latest = [new or old for new, old in zip(following, latest, strict=True)]
            for _ in range(round(PAUSE * usual / every)):
                yield compose(labels, latest, task)

    write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
    write(frames(), path, usual / every)


def compose(labels: Sequence[tuple[str, str]], cells: Sequence[Frame], task: Task) -> Image.Image:
    """The cells side by side, each with its (curriculum, student) and how far it has come."""
    across = len(cells) if len(cells) <= 3 else math.ceil(math.sqrt(len(cells)))
    down = math.ceil(len(cells) / across)
    height = CAPTION + max(frame.picture.height for frame in cells)
    size = (across * (CELL_WIDTH + 8) + 8, down * (height + 8) + 8)
    whole = Image.new("RGB", (size[0] + size[0] % 2, size[1] + size[1] % 2), PAPER)  # films have even sides
    draw = ImageDraw.Draw(whole)
    for k, ((curriculum, student), frame) in enumerate(zip(labels, cells, strict=True)):
        x, y = 8 + k % across * (CELL_WIDTH + 8), 8 + k // across * (height + 8)
        heavy = _font(14, bold=True)
        draw.text((x, y), curriculum, fill=INK, font=heavy)
        draw.text((x + heavy.getlength(curriculum) + 8, y + 1), student, fill=FAINT, font=_font(12))
        said, ink = _said(frame, task)
        draw.text((x, y + 19), said, fill=ink, font=_font(13))
        whole.paste(frame.picture, (x, y + CAPTION))
        corner = (x + frame.picture.width, y + CAPTION + frame.picture.height)
        draw.rectangle((x - 1, y + CAPTION - 1, *corner), outline=FAINT)
    return whole


def _said(frame: Frame, task: Task) -> tuple[str, str]:
    outcome = frame.last.outcome
    ink = BAD if outcome in task.dangers else GOOD if outcome == "success" else INK
    return end_in_words(outcome, frame.step, frame.last.total), ink


def filmed(task: Task) -> gymnasium.Env[Any, Any]:
    """An environment that draws itself."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws into memory: no display is needed
    try:
        env = task.make_env(render_mode="rgb_array")
        env.reset(seed=0)
        env.render()
    except Exception as error:
        if GYMNASIUM and isinstance(error, DependencyNotInstalled):
            why = f"needs pygame to draw itself: install pygame-ce ({error})"
        else:
            why = f"does not draw itself as rgb_array: {described(error)}"
        raise ConfigError(f"Task '{task.name}' {why}.") from error
    return env


@cache
def _font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """The one that comes with matplotlib, so that films look the same everywhere."""
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / name), size)


def _write_gif(frames: Iterator[Image.Image], path: Path, rate: float) -> None:
    first = next(frames)
    first.save(path, save_all=True, append_images=frames, duration=round(1000 / rate), loop=0)


def _write_mp4(frames: Iterator[Image.Image], path: Path, rate: float) -> None:
    first = next(frames)
    words = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    words += ["-s", f"{first.width}x{first.height}", "-r", f"{rate:g}", "-i", "-", "-pix_fmt", "yuv420p", str(path)]
    program = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdin is not None and program.stderr is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, and says why below
        for frame in chain([first], frames):
            program.stdin.write(frame.tobytes())
    with contextlib.suppress(BrokenPipeError):
        program.stdin.close()
    said = program.stderr.read().decode(errors="replace").strip()
    program.stderr.close()
    if program.wait():
        raise ConfigError(f"ffmpeg could not make the film: {said}.")
