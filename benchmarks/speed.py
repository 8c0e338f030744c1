"""How fast do students learn: cisr's Gymnasium lane against Stable-Baselines3 on the same work.

    python benchmarks/speed.py [--repetitions 3] [--seconds 20] [--json PATH]

The work is the paper's Frozen Lake student (the same network, rollouts, minibatches and epochs) under the intervention
SR1, one student in each of as many single-threaded processes as there are cores. Both sides step the same Gymnasium
environments. Steps per second, summed over processes, count rollouts and updates; starting processes, compilation and
warm-up are left out. The two sides take turns, because machines are noisy: the ratio is taken within each turn.

Not equal, to Stable-Baselines3's advantage: cisr runs its whole classroom (Lagrangian reward, multipliers, new
environments each unit, checkpoints on disk), the other side only `PPO.learn` on the plain environment. To its
disadvantage, by a few per cent of its time: `InducedCMDP` judges each environment on its own, where cisr judges a
student's environments together, and the value is evaluated once more where the time limit ends an episode.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from stable_baselines3.common.vec_env import DummyVecEnv

from cisr import Fixed, InducedCMDP, Store, get_task
from cisr.classroom import Batch, Batching, Checkpoint, Classroom, Enrolment, Event, Lesson, Progress
from cisr.seeding import derive_seed
from sb3_common import build_ppo, one_thread_per_process, student_of

TASK, INTERVENTION = "frozen-lake", "SR1"
ENDLESS = 1_000_000
"""Units of a student that is stopped by the clock."""

_start_line: Any = None
"""In a process of the Stable-Baselines3 side: the barrier where all wait until each has warmed up."""


def gymnasium_rate(n_processes: int, seconds: float, seed: int) -> float:
    """Steps per second of a classroom with one student for each worker, after the first unit of each."""
    task = replace(get_task(TASK, "paper"), n_units=ENDLESS)
    watch = _Stopwatch(n_processes, seconds)
    students = [
        Enrolment(name=f"student {k}", policy=Fixed(INTERVENTION), config=student_of(task), seed=derive_seed(seed, k))
        for k in range(n_processes)
    ]
    lesson = Lesson(task=task)
    with (
        Store(None) as store,
        Classroom(lesson, store, batching=Batching(n_processes, 1), n_workers=n_processes, listener=watch) as classroom,
    ):
        try:
            for transcript in classroom.teach(students):
                raise RuntimeError(f"A student ended before its time: {transcript.error}")
        except _TimeIsUp:
            pass
    return watch.rate()


class _TimeIsUp(Exception):  # noqa: N818
    """How the stopwatch ends a classroom."""


class _Stopwatch:
    """Listens to a classroom. Its time begins when every batch has finished a unit, so when all has been compiled."""

    def __init__(self, n_batches: int, seconds: float) -> None:
        self._seconds = seconds
        self._not_warm = n_batches
        self._began = float("inf")
        self._events: dict[str, list[tuple[float, int]]] = {}  # (time, steps since the event before), by batch

    def __call__(self, batch: Batch, event: Event) -> None:
        now = time.perf_counter()
        if isinstance(event, Checkpoint) and event.unit == 1:
            self._not_warm -= 1
            if not self._not_warm:
                self._began = now
        elif isinstance(event, Progress) and now >= self._began:
            self._events.setdefault(batch.name, []).append((now, event.steps))
            if now >= self._began + self._seconds:
                raise _TimeIsUp

    def rate(self) -> float:
        """Sum over batches of the steps between their first and last event, over the time between these."""
        return sum(
            sum(steps for _, steps in events[1:]) / (events[-1][0] - events[0][0]) for events in self._events.values()
        )


def sb3_rate(n_processes: int, seconds: float, seed: int) -> float:
    """Steps per second of `PPO.learn` in all processes together, after a first update of each."""
    context = get_context("spawn")
    barrier = context.Barrier(n_processes)
    with ProcessPoolExecutor(n_processes, mp_context=context, initializer=_meet_at, initargs=(barrier,)) as pool:
        jobs = [pool.submit(_learn_with_sb3, seconds, derive_seed(seed, k)) for k in range(n_processes)]
        return sum(job.result() for job in jobs)


def _meet_at(barrier: Any) -> None:
    global _start_line
    _start_line = barrier


def _learn_with_sb3(seconds: float, seed: int) -> float:
    task = get_task(TASK, "paper")
    config = student_of(task)
    one_update = config.n_envs * config.n_steps
    envs = DummyVecEnv([partial(InducedCMDP, task, INTERVENTION) for _ in range(config.n_envs)])
    model = build_ppo(config, envs, seed)
    model.learn(one_update)
    _start_line.wait()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        model.learn(one_update, reset_num_timesteps=False)
        steps += one_update
    return steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="turns of each side (default: 3)")
    parser.add_argument("--seconds", type=float, default=20.0, help="time measured in each turn (default: 20)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--seed", type=int, default=0, help="root of all randomness (default: 0)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the medians here")
    arguments = parser.parse_args()
    if min(arguments.repetitions, arguments.processes) < 1 or arguments.seconds <= 0:
        parser.error("give at least one repetition, one process and a time above 0")
    one_thread_per_process()

    sides: dict[str, Callable[[int, float, int], float]] = {"gymnasium": gymnasium_rate, "sb3": sb3_rate}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(arguments.repetitions):
        for side, measure in sides.items():
            rates[side].append(measure(arguments.processes, arguments.seconds, derive_seed(arguments.seed, turn)))
            line = f"turn {turn + 1} of {arguments.repetitions}: {side} {rates[side][-1]:,.0f} steps/s"
            print(line, file=sys.stderr, flush=True)
    ratios = [own / sb3 for own, sb3 in zip(rates["gymnasium"], rates["sb3"], strict=True)]

    print(f"{TASK}, {INTERVENTION}, {arguments.processes} single-threaded processes: median [lowest, highest]")
    for side, measured in rates.items():
        print(f"{side:16s} {median(measured):8,.0f} steps/s  [{min(measured):,.0f}, {max(measured):,.0f}]")
    print(f"{'gymnasium/sb3':16s} {median(ratios):8.2f}          [{min(ratios):.2f}, {max(ratios):.2f}]")
    if arguments.json is not None:
        results = {
            "task": TASK,
            "lanes": {side: median(measured) for side, measured in rates.items()},
            "ratios": {"gymnasium/sb3": median(ratios)},
        }
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
