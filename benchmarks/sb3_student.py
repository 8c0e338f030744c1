"""Does the same student learn the same when Stable-Baselines3 trains it?

    python benchmarks/sb3_student.py [--students 6] [--units 11] [--curriculum FILE]

Two groups of students learn the paper's Frozen Lake under one curriculum policy: cisr's own, by `cisr.compare`, and
students of Stable-Baselines3's PPO on the Lagrangian reward r − λ·c. Both start from other seeds, so the groups are
compared and not the students: their success in deployment should differ by no more than seeds do.

The same on both sides: the task and its interventions, the network, all settings, interaction units of best-response
rounds with restarted environments, multipliers by exponentiated gradient after each round, a fresh optimiser at each
switch of the intervention, the time limit as a terminal state, and the rule that ends the deployment in M. Shared code:
the CMDP, the curriculum policy and the multipliers' step. Written anew on the Stable-Baselines3 side: the learner
(policy, rollouts, advantages, loss), the accounts of episodes, the loop over units and the deployment. What cannot be
made equal is said in `cisr.experiments.bench.sb3`.

A large p-value alone shows nothing with a handful of students: look at the interval of the difference as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from rich.console import Console
from rich.table import Table
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from cisr import (
    CisrError,
    CurriculumPolicy,
    Deployment,
    InducedCMDP,
    Observation,
    Store,
    Switching,
    Task,
    Threshold,
    Transcript,
    UnitLog,
    compare,
    get_task,
)
from cisr.cli.naming import parse_curricula
from cisr.core.callback import ProgressEvent
from cisr.core.constraints import violation
from cisr.core.seeding import check_seed, derive_seed, generator
from cisr.experiments.bench.sb3 import build_ppo
from cisr.experiments.comparison import summarise_group
from cisr.experiments.differences import Pair, Sample, differences
from cisr.experiments.statistics import Estimate
from cisr.students.kinds import student_of
from cisr.students.multipliers import exponentiated_gradient, multipliers, uniform_log_weights
from cisr.training import BatchProgress, Checkpoint, Execution, default_observe
from cisr.training.process import ONE_THREAD
from cisr.view.words import fixed, interval, missing, p_value, uncertain

FL_A = Switching(
    interventions=("SR1", "SR2", "HR"),
    thresholds=(
        Threshold(min_return=2.1027, max_violation=0.05295),
        Threshold(min_return=-0.0582, max_violation=0.1597),
    ),
)
"""A curriculum that a teacher of the paper's authors found."""

OWN, SB3 = "cisr", "Stable-Baselines3"


def forget_optimiser(model: Any) -> None:
    """Knowledge transfer at a switch: the weights stay, the optimiser's moments start afresh."""
    policy = model.policy
    policy.optimizer = policy.optimizer_class(policy.parameters(), lr=model.lr_schedule(1.0), **policy.optimizer_kwargs)


def estimated(estimate: Estimate, digits: int) -> str:
    return f"{uncertain(estimate.mean, estimate.sem, digits)} {interval(estimate.low, estimate.high)}".rstrip()


def frozen_lake(n_units: int | None) -> Task:
    task = get_task("frozen-lake", "paper", "cnn")
    return task if n_units is None else task.with_training(n_units=n_units)


class Episode(NamedTuple):
    steps: int
    total_reward: float
    costs: np.ndarray  # (m,) sum of the constraint increments: the episode's constraint values
    success: bool
    failed: bool


class Lagrangian(gymnasium.Wrapper[Any, Any, Any, Any]):
    """M_i with the reward r − λ·c; keeps account of the episodes that have ended.

    The time limit is reported as terminal, because Stable-Baselines3 bootstraps the value at a truncation.
    """

    def __init__(self, env: InducedCMDP, weights: np.ndarray) -> None:
        super().__init__(env)
        self._weights = weights  # (m,) λ
        self._steps, self._total_reward, self._costs = 0, 0.0, np.zeros_like(self._weights)
        self.episodes: list[Episode] = []
        self.failures = 0
        self.rescues = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps, self._total_reward, self._costs = 0, 0.0, np.zeros_like(self._weights)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        failed, ended = info["cost"] > 0, terminated or truncated
        self._steps += 1
        self._total_reward += float(reward)
        increments = np.array(list(info["constraint_increments"].values()))
        self._costs += increments
        self.failures += failed
        self.rescues += info["intervention"] is not None
        if ended:
            self.episodes.append(Episode(self._steps, self._total_reward, self._costs, info["is_success"], failed))
        return observation, float(reward) - float(increments @ self._weights), ended, False, info


class Round(NamedTuple):
    """What the environments of one best-response round have seen."""

    episodes: list[Episode]
    failures: int
    rescues: int


class SB3Student:
    """One student from its first unit to its deployment; the loop of cisr's classroom around another learner."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self.seed = seed
        self.config = student_of(task)
        self.model: PPO | None = None
        self.log_weights = uniform_log_weights(len(task.constraints))

    @property
    def multipliers(self) -> np.ndarray:
        return np.asarray(multipliers(self.log_weights, self.config.multiplier_bound), float)  # type: ignore[arg-type]

    def learn(self, name: str, policy: CurriculumPolicy) -> Transcript:
        stage, observed, units = policy.first_stage, Observation(), list[UnitLog]()
        for unit in range(1, self.task.training.n_units + 1):
            stage = policy.next_stage(stage, observed, generator(self.seed, "curriculum", unit))
            intervention = policy.intervention(stage)
            if units and units[-1].intervention != intervention and self.model is not None:
                forget_optimiser(self.model)
            units.append(self._unit(unit, intervention))
            observed = default_observe(units[-1])
            report(SB3, name, units[-1], self.task.training.n_units)
        return Transcript(
            name=name,
            curriculum=policy.to_json(),
            config=self.config,
            seed=self.seed,
            units=tuple(units),
            deployment=self._deploy(),
        )

    def _unit(self, unit: int, intervention: str) -> UnitLog:
        began = time.perf_counter()
        rounds = [self._round(intervention, f"unit {unit} round {k}") for k in range(self.config.rounds_per_unit)]
        episodes = [episode for each in rounds for episode in each.episodes]
        return UnitLog(
            unit=unit,
            intervention=intervention,
            steps=self.config.steps_per_unit,
            episodes=len(episodes),
            mean_return=float(np.mean([e.total_reward for e in episodes])),
            success=float(np.mean([e.success for e in episodes])),
            violation=float(np.mean([violation(e.costs) for e in episodes])),
            rescues=sum(each.rescues for each in rounds),
            failures=sum(each.failures for each in rounds),
            multipliers=tuple(self.multipliers),
            seconds=time.perf_counter() - began,
        )

    def _round(self, intervention: str, name: str) -> Round:
        """PPO against fixed multipliers on new environments, then the multipliers move."""
        config = self.config
        envs = [Lagrangian(InducedCMDP(self.task, intervention), self.multipliers) for _ in range(config.n_envs)]
        row = DummyVecEnv([lambda env=env: env for env in envs])
        if self.model is None:
            self.model = build_ppo(config, row, derive_seed(self.seed, "weights"))
        else:
            self.model.set_env(row)
        row.seed(derive_seed(self.seed, name, "env"))
        self.model.learn(config.updates_per_round * config.n_envs * config.n_steps)
        row.close()
        episodes = [episode for env in envs for episode in env.episodes]
        violations = np.mean([episode.costs for episode in episodes], axis=0)
        self.log_weights = exponentiated_gradient(self.log_weights, violations, config.multiplier_rate)  # type: ignore[arg-type]
        return Round(episodes, sum(env.failures for env in envs), sum(env.rescues for env in envs))

    def _deploy(self) -> Deployment:
        """The policy in M until every episode begun within the budget of steps has ended."""
        assert self.model is not None
        n_envs = self.config.n_envs
        envs = [Lagrangian(InducedCMDP(self.task, "none"), np.zeros(len(self.task.constraints))) for _ in range(n_envs)]
        observations = [env.reset(seed=derive_seed(self.seed, "deployment", "env", k))[0] for k, env in enumerate(envs)]
        began = [0] * n_envs  # when the running episode began, in steps of its environment
        episodes: list[Episode] = []
        clock, budget = 0, -(-self.task.training.deployment_steps // n_envs)
        while min(began) < budget:
            clock += 1
            stacked = np.stack(observations)
            actions, _ = self.model.predict(stacked, deterministic=self.config.deterministic)
            for k, env in enumerate(envs):
                observations[k], _, ended, _, _ = env.step(actions[k])
                if ended:
                    episodes += env.episodes[-1:] if began[k] < budget else []
                    began[k] = clock
                    observations[k], _ = env.reset()
        for env in envs:
            env.close()
        success, failures = np.mean([e.success for e in episodes]), np.mean([e.failed for e in episodes])
        mean_return = float(np.mean([e.total_reward for e in episodes]))
        return Deployment(
            under="none",
            steps=sum(e.steps for e in episodes),
            episodes=len(episodes),
            mean_return=mean_return,
            score=mean_return,
            failures=sum(e.failed for e in episodes),
            rescues=0,
            outcomes={
                "success": float(success),
                "failure": float(failures),
                "timeout": float(1 - success - failures),
            },
        )


def train_sb3_student(n_units: int | None, policy: CurriculumPolicy, name: str, seed: int) -> Transcript:
    """In a process of its own; a task holds functions that do not travel between processes, so it is made here."""
    return SB3Student(frozen_lake(n_units), seed).learn(name, policy)


def train_sb3(n_units: int | None, policy: CurriculumPolicy, n_students: int, seed: int) -> list[Transcript]:
    """One single-threaded process for each student, as many at a time as there are cores."""
    names = [f"sb3/{k:03d}" for k in range(n_students)]
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), max_tasks_per_child=1)
    with pool:
        jobs = [pool.submit(train_sb3_student, n_units, policy, name, derive_seed(seed, name)) for name in names]
        return [job.result() for job in jobs]


def train_own(task: Task, label: str, policy: CurriculumPolicy, n_students: int, seed: int) -> list[Transcript]:
    def listen(heard: ProgressEvent) -> None:
        if isinstance(heard, BatchProgress) and isinstance(heard.event, Checkpoint):
            for student, record in zip(heard.batch.students, heard.event.records, strict=True):
                if record is not None:
                    report(OWN, student.name, record.log, task.training.n_units)

    with Store(None) as store:
        execution = Execution(backend="gymnasium")
        comparison = compare(
            task, {label: policy}, n_students=n_students, store=store, seed=seed, execution=execution, callback=listen
        )
    return list(comparison.transcripts[label])


def report(side: str, name: str, unit: UnitLog, n_units: int) -> None:
    """One line of progress."""
    line = (
        f"{side} {name}: unit {unit.unit} of {n_units} under {unit.intervention}, return {unit.mean_return:.2f}, "
        f"violation {unit.violation:.3f}, {unit.failures} failures, {(unit.steps or 0) / unit.seconds:,.0f} steps/s"
    )
    print(line, file=sys.stderr, flush=True)


def success_of(transcripts: Sequence[Transcript]) -> list[float]:
    return [s for t in transcripts if t.deployment is not None and (s := t.deployment.success) is not None]


def comparison_table(sides: dict[str, list[Transcript]], seconds: dict[str, float]) -> Table:
    table = Table(title="Mean ± standard error over students", title_justify="left")
    for column in ("students by", "success", "return", "training failures", "each one's success", "time"):
        table.add_column(column)
    for side, transcripts in sides.items():
        row = summarise_group(side, transcripts)
        table.add_row(
            side,
            estimated(row.success, 3),
            estimated(row.mean_return, 2),
            missing(estimated(row.training_failures, 1), row.unknown_failures),
            " ".join(f"{value:.3f}" for value in success_of(transcripts)),
            f"{seconds[side]:.0f} s",
        )
    return table


def verdict(own: list[float], sb3: list[float]) -> list[str]:
    """What the two groups' success says about a difference between them."""
    (found,) = differences([Pair("success", OWN, Sample.of(own), SB3, Sample.of(sb3))])
    return [
        f"Difference of success, {OWN} − {SB3}: {fixed(found.gain, 3, sign='+')}, "
        f"95 % {interval(found.low, found.high, sign='+')}",
        f"p by means {p_value(found.p_mean)}, by ranks {p_value(found.p_rank)}; told apart: {found.told_apart}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=6, help="students on each side (default: 6)")
    parser.add_argument("--units", type=int, help="interaction units for each student (default: the paper's 11)")
    parser.add_argument(
        "--curriculum",
        help="an intervention's name or a curriculum's JSON file (default: SR1 → SR2 → HR, from the paper's authors)",
    )
    parser.add_argument("--seed", type=int, default=0, help="root of all randomness (default: 0)")
    arguments = parser.parse_args()

    if arguments.students < 1:
        parser.error("give at least one student")
    try:
        check_seed(arguments.seed)
        task = frozen_lake(arguments.units)
        given = parse_curricula([arguments.curriculum], task) if arguments.curriculum else {"FL-A": FL_A}
        ((label, policy),) = given.items()
        for name in policy.interventions_used:
            task.intervention(name)
    except CisrError as error:
        parser.error(str(error))
    os.environ.update(ONE_THREAD, JAX_PLATFORMS="cpu")  # of processes that are started from here on, too

    sides: dict[str, list[Transcript]] = {}
    seconds: dict[str, float] = {}
    for side in (OWN, SB3):
        began = time.perf_counter()
        if side == OWN:
            sides[side] = train_own(task, label, policy, arguments.students, arguments.seed)
        else:
            sides[side] = train_sb3(arguments.units, policy, arguments.students, arguments.seed)
        seconds[side] = time.perf_counter() - began

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False)
    console.print(
        f"{task.name}, curriculum {label}, {task.training.n_units} units of {student_of(task).steps_per_unit:,} steps"
    )
    console.print(comparison_table(sides, seconds))
    for line in verdict(success_of(sides[OWN]), success_of(sides[SB3])):
        console.print(line, soft_wrap=True)
    for transcript in (t for transcripts in sides.values() for t in transcripts if t.error):
        console.print(f"Failed: {transcript.error}", soft_wrap=True)


if __name__ == "__main__":
    main()
