"""Do the lander's kernels compute the same on a GPU as on a CPU, and how near is that to XLA's own program?

    python benchmarks/lander_kernels.py write rollouts.npz [--plain]   on a CPU: rollouts under all interventions
    python benchmarks/lander_kernels.py check rollouts.npz             on a GPU: the same rollouts once more

`--plain` writes what XLA's program makes of them, without kernels; then the differences are those of roundings, which
grow once a lander has touched the ground.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from cisr.students.kinds import student_of
from cisr.tasks import get_task
from cisr.training.worker import tell_xla

STUDENTS, ROLLOUTS = 14, 3
DECIDED = 30.0
"""By which the weights of policies are multiplied: new ones do everything equally often."""


def rollouts(plain: bool) -> list[Any]:
    """Each begins where the one before has ended."""
    import jax  # after all that it is told

    from cisr.cmdp.compiled import Rules
    from cisr.students.program import stack_hyperparameters
    from cisr.training.cohort import Cohort

    task = get_task("lunar-lander", student="two-layer")
    config = student_of(task)
    cohort = Cohort(task, config.shape)
    if plain:
        cohort.__dict__["kernels"] = None
    names = ["none", *(intervention.name for intervention in task.interventions)]
    seeds = np.arange(STUDENTS, dtype=np.uint32)
    each = [cohort.cmdp.rules(task.intervention(names[k % len(names)])) for k in range(STUDENTS)]
    rules = Rules(*(np.stack(column) for column in zip(*each, strict=True)))
    hypers = stack_hyperparameters([config] * STUDENTS, 1, task.training.n_units)
    learners = cohort.program.new(seeds)
    params = {name: w * DECIDED if name == "policy.weight" else w for name, w in learners.params.items()}
    learners, keys, found = learners._replace(params=params), cohort._keys(seeds), []
    experience = cohort._starts(keys, config.n_envs)
    roll = cohort._rollouts if cohort.on_host else jax.jit(cohort._rollouts)
    for number in range(ROLLOUTS):
        _, experience, rollout = roll(learners, rules, hypers, experience, cohort._fold(keys, np.int32(number)))
        found.append(rollout)
    return found


def write(path: Path, plain: bool) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    tell_xla(get_task("lunar-lander").training.xla_flags)
    kept = {f"{k}/{name}": a for k, r in enumerate(rollouts(plain)) for name, a in r._asdict().items()}
    np.savez_compressed(path, **{name: np.asarray(array) for name, array in kept.items()})  # type: ignore[arg-type]
    print(f"{ROLLOUTS} rollouts of {STUDENTS} students written to {path}")


def check(path: Path) -> None:
    told = dict(np.load(path))
    for number, rollout in enumerate(rollouts(plain=False)):
        seen, expected = np.asarray(rollout.observations), told[f"{number}/observations"]
        equal = {name: np.mean(np.asarray(a) == told[f"{number}/{name}"]) for name, a in rollout._asdict().items()}
        print(f"rollout {number}: equal", ", ".join(f"{name} {share:.2%}" for name, share in equal.items()))
        apart = (abs(seen - expected) > 1e-4).any(axis=-1)  # (S, T, E)
        within = ~apart.any(axis=1)
        print(f"  of {within.size} environments {within.sum()} stay within 1e-4 through all steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--plain", action="store_true")
    chosen = parser.parse_args()
    if chosen.what == "write":
        write(chosen.path, chosen.plain)
    else:
        check(chosen.path)


if __name__ == "__main__":
    main()
