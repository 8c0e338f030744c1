"""Does a teacher find over students of Stable-Baselines3 what it finds over ours?

    python benchmarks/sb3_teacher.py [--rounds 30] [--label optimized] [--students 8]
                                     [--store runs/sb3-teacher.sqlite] [--json FILE]

On Frozen Lake at the quick scale a teacher of one switch is trained over PPO students of Stable-Baselines3, and what it
found is compared with SR1, SR2 and no teacher on new ones, of another seed. PPO has the settings of our small
explorers, but for what makes it learn the lake with fewer updates, which are slow in torch: longer rollouts
of 16 environments, 3 epochs, a larger learning rate. Stop it at any moment and run the same again: it goes on. With
more rounds the search goes on, too; what it finds then needs a label of its own in the comparison.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from cisr import Execution, Fixed, SB3Student, StudentConfig, Study, Teaching, compare, get_task, save_policy
from cisr.experiments.study import TrialProgress
from cisr.view.words import in_words, interval, uncertain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--label", default="optimized")
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("runs/sb3-teacher.sqlite"))
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()

    task = get_task("frozen-lake", "quick").with_training(deployment_steps=4_000)
    ours = task.training.student
    assert isinstance(ours, StudentConfig)
    like = dataclasses.replace(ours, n_envs=16, n_steps=64, updates_per_round=4)
    student = SB3Student.like(like, "PPO", n_epochs=3, learning_rate=3e-3)
    execution = Execution(n_workers=options.workers)
    teaching = Teaching(n_switches=1, n_initial=len(task.choices), n_rounds=options.rounds, at_once=3)
    study = Study(task, student=student, teaching=teaching, store=options.store, execution=execution)
    found = study.run(lambda event: print(event, flush=True) if isinstance(event, TrialProgress) else None)
    print(in_words(found.best_policy.to_json()), flush=True)
    save_policy(found.best_policy, options.store.with_suffix(".json"))
    curricula = {options.label: found.best_policy, "SR1": Fixed("SR1"), "SR2": Fixed("SR2"), "none": Fixed("none")}
    comparison = compare(
        task, curricula, student=student, n_students=options.students, store=options.store, execution=execution, seed=1
    )
    for row in comparison.rows:
        success, failures = (uncertain(of.mean, of.sem, 3) for of in (row.success, row.training_failures))
        within = interval(row.success.low, row.success.high)
        print(f"{row.curriculum}: success {success} {within}, failures in training {failures}")
    for difference in comparison.differences:
        print(difference)
    if options.json is not None:
        searched = {"policy": found.best_policy.to_json(), "training_failures": found.training_failures}
        options.json.write_text(json.dumps({"study": searched, **comparison.to_json()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
