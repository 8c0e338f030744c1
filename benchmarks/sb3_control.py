"""Does a student learn continuous control as Stable-Baselines3's PPO does?

    python benchmarks/sb3_control.py [--env Pendulum-v1] [--steps 40960] [--students 10] [--settings JSON] [--json FILE]

Students of both kinds learn on a plain Gymnasium environment, without danger or interventions, for equal steps, with
equal settings, networks and running normalisation. They start from other seeds, so the groups are compared and not the
students: their mean returns, once deployed, should differ by no more than seeds do.

p is how often dealing all returns into two groups anew parts their means, or ranks, as far. The interval of the
difference of means has every shift of one group that such deals do not refuse at 5 %; it covers in 95 % of cases where
one learner's returns are distributed as the other's, but for a shift.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from cisr import MLP, Fixed, Store, StudentConfig, Task, Training, compare
from cisr.core.seeding import derive_seed
from cisr.experiments.bench.sb3 import build_ppo, normalised
from cisr.experiments.statistics import LEVEL, chance, rank_chance
from cisr.system.files import write_text
from cisr.training import Execution
from cisr.view.words import p_value

SETTINGS = StudentConfig(
    network=MLP(separate_value=True),
    n_envs=4,
    n_steps=256,
    n_minibatches=8,
    n_epochs=10,
    rounds_per_unit=1,
    gamma=0.9,
    learning_rate=1e-3,
    ent_coef=0.0,
    vf_coef=0.5,
    multiplier_bound=0.0,
    bootstrap_time_limit=True,
    normalize_observations=True,
    normalize_rewards=True,
)
EPISODES = 20
"""Of each student's deployment."""


def plain_task(env: str, config: StudentConfig, steps: int) -> Task:
    """An environment in which nothing is dangerous; all steps are one best response, as `learn` of the others is."""
    limit = gymnasium.make(env).spec.max_episode_steps  # type: ignore[union-attr]
    assert limit is not None
    updates = steps // (config.n_envs * config.n_steps)
    return Task(
        name=env.lower(),
        make_env=partial(gymnasium.make, env),
        read_state=lambda env: np.zeros(1),
        place=lambda env, state: None,
        danger=lambda move: move.state[..., 0] > 0,
        success=lambda move: move.state[..., 0] > 0,
        interventions=(),
        horizon=limit,
        training=Training(
            n_units=1,
            deployment_steps=EPISODES * limit,
            student=dataclasses.replace(config, updates_per_round=updates),
        ),
    )


def own_returns(task: Task, n_students: int, seed: int) -> list[float]:
    with Store(None) as store:
        taught = compare(
            task,
            {"plain": Fixed("none")},
            n_students=n_students,
            store=store,
            seed=seed,
            execution=Execution(backend="gymnasium", n_workers=1),
        ).transcripts["plain"]
    return [t.deployment.mean_return for t in taught if t.deployment is not None]


def sb3_return(env: str, config: StudentConfig, steps: int, seed: int) -> float:
    def environments(name: str) -> Any:
        envs = DummyVecEnv([partial(gymnasium.make, env) for _ in range(config.n_envs)])
        envs.seed(derive_seed(seed, name) % 2**31)
        return normalised(config, envs)

    model = build_ppo(config, environments("training"), seed % 2**31)
    model.learn(steps)
    alone = environments("deployment")
    if isinstance(alone, VecNormalize):
        alone.training, alone.norm_reward = False, False
        alone.obs_rms = model.get_vec_normalize_env().obs_rms
    mean, _ = evaluate_policy(model, alone, EPISODES, deterministic=config.deterministic, warn=False)
    return float(mean)


def interval(a: list[float], b: list[float]) -> tuple[float, float]:
    """Of mean(a) − mean(b): how far a may be shifted before both groups are told apart by their means."""

    def limit(sign: int) -> float:
        inside = float(np.mean(a) - np.mean(b))
        outside = inside + sign * 2 * (np.ptp(a) + np.ptp(b) + 1e-9)  # shifted so far, no value is among the others
        for _ in range(30):
            shift = (inside + outside) / 2
            p = chance([value - shift for value in a], b)
            assert p is not None
            inside, outside = (shift, outside) if p > LEVEL else (inside, shift)
        return inside

    return limit(-1), limit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Pendulum-v1", help="an environment of Gymnasium (default: Pendulum-v1)")
    parser.add_argument("--steps", type=int, default=40_960, help="steps that each student learns for")
    parser.add_argument("--students", type=int, default=10, help="students of each kind (default: 10)")
    parser.add_argument("--settings", type=json.loads, default={}, help="fields of StudentConfig to change, as JSON")
    parser.add_argument("--seed", type=int, default=0, help="root of all randomness (default: 0)")
    parser.add_argument("--json", type=Path, help="where to keep the returns and the settings")
    given = parser.parse_args()

    config = StudentConfig.from_json({**SETTINGS.to_json(), **given.settings})
    steps = given.steps // (config.n_envs * config.n_steps) * config.n_envs * config.n_steps
    began = time.perf_counter()
    own = own_returns(plain_task(given.env, config, steps), given.students, given.seed)
    between = time.perf_counter()
    theirs = [sb3_return(given.env, config, steps, derive_seed(given.seed, f"sb3/{k}")) for k in range(given.students)]
    ended = time.perf_counter()
    print(f"{given.env}, {steps:,} steps, final mean return of each student")
    for side, returns, seconds in (("cisr", own, between - began), ("SB3", theirs, ended - between)):
        each = " ".join(f"{value:.0f}" for value in sorted(returns))
        print(f"{side:5} {np.mean(returns):8.1f} ± {np.std(returns, ddof=1):.1f} (sd) in {seconds:4.0f} s: {each}")
    difference, (low, high) = float(np.mean(own) - np.mean(theirs)), interval(own, theirs)
    by_means, by_ranks = chance(own, theirs), rank_chance(own, theirs)
    print(f"difference {difference:.1f} [{low:.1f}, {high:.1f}]")
    print(f"p by means {p_value(by_means)}, by ranks {p_value(by_ranks)}")
    if given.json:
        found = {
            "env": given.env,
            "steps": steps,
            "seed": given.seed,
            "settings": config.to_json(),
            "returns": {"cisr": own, "sb3": theirs},
            "difference": {"mean": difference, "low": low, "high": high},
            "p": {"means": by_means, "ranks": by_ranks},
        }
        write_text(given.json, json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
