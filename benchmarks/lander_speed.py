"""How long does the compiled lander take to compile, and how fast do students learn on it, on one core or one GPU?

    python benchmarks/lander_speed.py [--device cpu|gpu] [--students N] [--updates N] [--plain]

A unit has so many updates here. The second one is timed, and then a rollout and an update apart. `--plain` is without
kernels, as plain XLA. On a CPU times are those of the processor, so that others who use the machine do not count; on a
GPU they are the clock's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cisr.students.kinds import student_of
from cisr.tasks import get_task
from cisr.training.process import ONE_THREAD
from cisr.training.worker import tell_xla

INTERVENTIONS = ("Narrow", "Wide", "none")
"""That students are under, in turn."""


def measure(device: str, n_students: int, n_updates: int, plain: bool) -> dict[str, Any]:
    task = get_task("lunar-lander", student="two-layer")
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device == "cpu":
        os.environ.update(ONE_THREAD, JAX_PLATFORMS="cpu")
        tell_xla(task.training.xla_flags)
    import jax  # after all that it is told

    from cisr.cmdp.compiled import Rules
    from cisr.students.program import stack_hyperparameters
    from cisr.training.cohort import Cohort

    def timed(function: Callable[..., Any], *given: Any) -> tuple[Any, float]:
        started = clock()
        result = jax.block_until_ready(function(*given))  # type: ignore[no-untyped-call]
        return result, clock() - started

    config = dataclasses.replace(student_of(task), updates_per_round=n_updates, rounds_per_unit=1)
    cohort = Cohort(task, config.shape)
    if plain:
        cohort.__dict__["kernels"] = None
    seeds = np.arange(n_students, dtype=np.uint32)
    each = [cohort.cmdp.rules(task.intervention(INTERVENTIONS[k % len(INTERVENTIONS)])) for k in range(n_students)]
    rules = Rules(*(np.stack(column) for column in zip(*each, strict=True)))
    hypers = stack_hyperparameters([config] * n_students, 1, task.training.n_units)
    learners = cohort.program.new(seeds)
    _, kernels = timed(lambda: cohort.kernels and None)
    (learners, _), first = timed(cohort.unit, learners, rules, hypers, seeds)
    (learners, _), second = timed(cohort.unit, learners, rules, hypers, seeds + 1)
    keys = cohort._keys(seeds)
    start = cohort._starts(keys, config.n_envs)
    roll = cohort._rollouts if cohort.on_host else jax.jit(cohort._rollouts)
    (_, _, rollout), _ = timed(roll, learners, rules, hypers, start, keys)
    _, rolling = timed(roll, learners, rules, hypers, start, keys)
    timed(cohort._learn, learners, rollout, hypers, keys)
    _, learning = timed(cohort._learn, learners, rollout, hypers, keys)
    return {
        "device": jax.devices()[0].device_kind,
        "kernels": cohort.kernels is not None,
        "students": n_students,
        "environments of each": config.n_envs,
        "seconds to write and compile kernels": round(kernels, 1),
        "seconds to compile all else": round(first - second, 1),
        "student-steps per second": round(n_students * config.n_envs * config.n_steps * n_updates / second),
        "milliseconds of a rollout": round(rolling * 1e3, 1),
        "milliseconds of an update": round(learning * 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--students", type=int, default=10)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    text = json.dumps(measure(chosen.device, chosen.students, chosen.updates, chosen.plain), indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
