"""How long does the compiled lander take to compile, and how fast do students learn on it, on one core or one GPU?

    python benchmarks/lander_speed.py [--device cpu|gpu] [--students N] [--updates N]

The program is that of a whole unit, with so many of its updates. On a CPU times are those of the processor, so that
others who use the machine do not count; on a GPU they are the clock's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from cisr.students.kinds import student_of
from cisr.tasks import get_task
from cisr.training.process import ONE_THREAD
from cisr.training.worker import tell_xla

INTERVENTIONS = ("Narrow", "Wide", "none")
"""That students are under, in turn."""


def measure(device: str, n_students: int, n_updates: int) -> dict[str, Any]:
    task = get_task("lunar-lander", student="two-layer")
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device == "cpu":
        os.environ.update(ONE_THREAD, JAX_PLATFORMS="cpu")
        tell_xla(task.training.xla_flags)
    import jax  # after all that it is told

    from cisr.cmdp.compiled import Rules
    from cisr.students.program import stack_hyperparameters
    from cisr.training.cohort import Cohort

    config = dataclasses.replace(student_of(task), updates_per_round=n_updates, rounds_per_unit=1)
    cohort = Cohort(task, config.shape)
    seeds = np.arange(n_students, dtype=np.uint32)
    each = [cohort.cmdp.rules(task.intervention(INTERVENTIONS[k % len(INTERVENTIONS)])) for k in range(n_students)]
    rules = Rules(*(np.stack(column) for column in zip(*each, strict=True)))
    hypers = stack_hyperparameters([config] * n_students, 1, task.training.n_units)
    learners = cohort.program.new(seeds)
    began = clock()
    lowered = cohort.unit.lower(learners, rules, hypers, seeds)
    traced = clock()
    program = lowered.compile()
    compiled = clock()
    for _ in range(2):  # the second time counts
        started = clock()
        learners, _ = jax.block_until_ready(program(learners, rules, hypers, seeds))  # type: ignore[no-untyped-call]
        took = clock() - started
    return {
        "device": jax.devices()[0].device_kind,
        "students": n_students,
        "environments of each": config.n_envs,
        "seconds to trace": round(traced - began, 1),
        "seconds to compile": round(compiled - traced, 1),
        "student-steps per second": round(n_students * config.n_envs * config.n_steps * n_updates / took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--students", type=int, default=10)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    text = json.dumps(measure(chosen.device, chosen.students, chosen.updates), indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
