"""How near does the compiled lander come to Box2D?

    python benchmarks/lander_fidelity.py replay [--episodes N]     whole episodes from Gymnasium's own draws and actions
    python benchmarks/lander_fidelity.py steps [--episodes N]      single steps from Box2D's states near the ground
    python benchmarks/lander_fidelity.py rates [--episodes N]      outcomes of fixed policies, with and without rescues

`replay` compares states after the reset, in flight and on the ground, and when episodes end. `steps` puts Box2D's own
world, impulses included, into the compiled one before every step. `rates` plays fresh episodes on both and asks whether
their rates are equal within 3 percentage points: two one-sided tests for each rate, Holm's correction over all.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic
from scipy import stats

from cisr.cmdp.compiled import CompiledCMDP
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.seeding import derive_seed
from cisr.experiments.statistics import holm
from cisr.system.compilation import set_up_jax
from cisr.tasks import get_task
from cisr.tasks.lunar_lander.bodies import read_state
from cisr.tasks.lunar_lander.dump import read_world
from cisr.tasks.lunar_lander.environment import make_env
from cisr.tasks.lunar_lander.flight import ANGLE, LEFT_LEG, RIGHT_LEG, SPIN, VX, VY, X, Y
from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.constants import DT, SLEEP_SPEED, SLEEP_SPIN
from cisr.tasks.lunar_lander.physics.launch import fire
from cisr.tasks.lunar_lander.physics.step import origin, step_world
from cisr.tasks.lunar_lander.physics.world import World, pack, unpack
from cisr.training.worker import tell_xla

LONGEST = 700
MARGIN = 0.03
RANDOMNESS = (0.0, 0.3, 0.8, 1.0)
"""How often recorded episodes do something at random instead of what the heuristic says; in turn."""


class Draws:
    """In the place of Gymnasium's generator: what it drew, as uniforms, of as many bits as JAX draws."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.drawn: list[np.ndarray] = []

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        u = np.floor(self._rng.random(size) * 2**23) / 2**23
        self.drawn.append(np.atleast_1d(u))
        return low + (high - low) * u

    def take(self) -> np.ndarray:
        drawn, self.drawn = np.concatenate(self.drawn), []
        return drawn.astype(np.float32)


class Recorded(NamedTuple):
    """A step of Gymnasium's: its world before, if anything was near the ground, and its state after."""

    before: World | None
    action: int
    u: np.ndarray
    state: np.ndarray
    reward: float
    crashed: bool
    asleep: bool


def record(seed: int, worlds: bool) -> tuple[np.ndarray, np.ndarray, list[Recorded]]:
    """One episode: uniforms of the reset, the state after it, and its steps."""
    game: Any = make_env(0.0)
    game.reset(seed=seed)
    game._np_random = draws = Draws(seed)
    observation, _ = game.reset()
    u, state, steps = draws.take(), read_state(game), []
    rng, still = np.random.default_rng(derive_seed(seed, "actions")), np.zeros(3, np.float32)
    for _ in range(LONGEST):
        acts = rng.random() >= RANDOMNESS[seed % len(RANDOMNESS)]
        action = int(rng.integers(4))
        if acts:
            action = int(heuristic(game, observation))  # type: ignore[no-untyped-call]
        near = worlds and len(game.world.contacts) > 0
        before = read_world(game, still) if near else None
        observation, reward, terminated, _, _ = game.step(action)
        after = read_state(game)
        bodies = after[8:].reshape(3, 6)
        fast = (np.square(bodies[:, 3:5]).sum(1) > SLEEP_SPEED**2) | (np.square(bodies[:, 5]) > SLEEP_SPIN**2)
        still = np.where(fast, 0.0, still + np.float32(DT)).astype(np.float32)
        asleep = not game.lander.awake
        steps.append(Recorded(before, action, draws.take(), after, float(reward), game.game_over, asleep))
        if terminated:
            break
    game.close()
    return u, state, steps


def replay(episodes: int) -> dict[str, Any]:
    """Episodes side by side, from the same draws and actions."""
    env = LanderJaxEnv()
    recorded = [record(seed, worlds=False) for seed in range(episodes)]
    vector = jax.jit(env.state_vector)
    state = jax.jit(env.reset_env)(np.stack([u[:14] for u, _, _ in recorded]), ())
    apart = _relative(np.asarray(vector(state)), np.stack([start for _, start, _ in recorded]))
    found: dict[str, Any] = {"episodes": episodes, "after the reset": float(apart.max())}
    lengths = np.array([len(steps) for _, _, steps in recorded])
    step = jax.jit(lambda u, s, a: env.step_env(u, s, a, ())[:3])
    in_flight, flight = np.ones(episodes, bool), []
    ends = np.full(episodes, -1)
    flags, flagged = 0, 0
    for t in range(LONGEST):
        rows = [steps[min(t, len(steps) - 1)] for _, _, steps in recorded]
        state, _, ended = step(np.stack([r.u for r in rows]), state, np.array([r.action for r in rows]))
        mine, theirs = np.asarray(vector(state)), np.stack([r.state for r in rows])
        running = t < lengths
        in_flight &= running & ~theirs[:, LEFT_LEG : RIGHT_LEG + 1].any(1) & ~np.array([r.crashed for r in rows])
        if t < 200 and in_flight.any():
            flight.append(_relative(mine, theirs)[in_flight].max())
        same = (mine[:, 6:8] == theirs[:, 6:8]).all(1)
        flags, flagged = flags + int(same[running & ~in_flight].sum()), flagged + int((running & ~in_flight).sum())
        now = np.asarray(ended) & (ends < 0)
        ends[now] = t + 1
        if not (running | (ends < 0)).any():
            break
    landed = np.array([steps[-1].asleep for _, _, steps in recorded])
    crashed = np.array([steps[-1].crashed for _, _, steps in recorded])
    late = np.where(ends < 0, LONGEST, ends) - lengths
    found["200 steps of flight"] = float(max(flight))
    found["steps near the ground with equal flags"] = [flags, flagged]
    found["fell asleep within 2 steps"] = [int((abs(late[landed]) <= 2).sum()), int(landed.sum())]
    found["crashed within 2 steps"] = [int((abs(late[crashed]) <= 2).sum()), int(crashed.sum())]
    return found


def _relative(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Largest difference of each row, in units of the number where that is greater than 1."""
    apart: np.ndarray = (abs(mine - theirs) / np.maximum(1.0, abs(theirs))).max(axis=1)
    return apart


def single_steps(episodes: int) -> dict[str, Any]:
    rows = [r for seed in range(episodes) for r in record(seed, worlds=True)[2] if r.before is not None]
    with by_numpy():  # nothing to compile
        world = unpack(np.stack([np.asarray(pack(r.before)) for r in rows if r.before is not None]))
        d = 2 * np.stack([r.u for r in rows]) - 1
        hull = fire(world.hull, np.array([r.action for r in rows]), (d[:, 0], d[:, 1]))
        after, crashes, sleeps = step_world(world._replace(hull=hull))
        x, y = origin(after.hull)
    mine = np.stack([*after.hull._replace(x=x, y=y), *(p[0] for p in after.legs), *(p[1] for p in after.legs)], axis=-1)
    theirs = np.stack([r.state for r in rows])
    crashed = np.array([r.crashed for r in rows])
    astride = (after.contacts.id_1 >= 0).all(axis=0).any(axis=0)[~crashed]
    error = abs(mine - theirs[:, 8:]).max(axis=1)[~crashed]
    flags = (theirs[:, 6:8] == after.on_ground.T).all(axis=1)[~crashed]
    return {
        "steps": len(rows),
        "of them crashes": int(crashed.sum()),
        "compared": len(error),
        "within 1e-3": int((error <= 1e-3).sum()),
        "within 1e-4": int((error <= 1e-4).sum()),
        "median": float(np.median(error)),
        "a leg on two edges": int(astride.sum()),
        "of them within 1e-3": int((error[astride] <= 1e-3).sum()),
        "equal flags": int(flags.sum()),
        "other verdicts of a crash": int((crashes != crashed).sum()),
        "other verdicts of sleep": int((sleeps != np.array([r.asleep for r in rows])).sum()),
        "fell asleep": int(sum(r.asleep for r in rows)),
    }


def fly(seen: Any, u: Any) -> Any:
    """Gymnasium's heuristic, in array code."""
    xp = seen.__array_namespace__()
    on_ground = (seen[..., LEFT_LEG] > 0) | (seen[..., RIGHT_LEG] > 0)
    target = xp.clip(0.5 * seen[..., X] + seen[..., VX], -0.4, 0.4)
    tilt = xp.where(on_ground, 0.0, 0.5 * (target - seen[..., ANGLE]) - seen[..., SPIN])
    climb = 0.5 * (0.55 * abs(seen[..., X]) - seen[..., Y]) - 0.5 * seen[..., VY]
    climb = xp.where(on_ground, -0.5 * seen[..., VY], climb)
    turn = xp.where(tilt < -0.05, 3, xp.where(tilt > 0.05, 1, 0))
    return xp.where((climb > abs(tilt)) & (climb > 0.05), 2, turn)


def wander(seen: Any, u: Any) -> Any:
    """At random."""
    return (u * 4).astype("int32")


POLICIES = {"heuristic": fly, "random": wander}


def outcomes_of_gymnasium(task: Any, name: str, policy: Any, episodes: int) -> np.ndarray:
    cmdps = InducedCMDPs(task, task.intervention(name), [task.make_env() for _ in range(episodes)])
    seen = cmdps.seed([derive_seed(0, "fidelity", name, k) for k in range(episodes)])
    rng, result = np.random.default_rng(1), np.full(episodes, -1)
    while (result < 0).any():
        step = cmdps.step(policy(seen, rng.random(episodes)))
        seen = cmdps.observations
        for k in np.flatnonzero((step.terminated | step.truncated) & (result < 0)):
            result[k] = _first(step.outcomes[k])
            cmdps.leave_out(int(k))
    return result


def _first(holds: np.ndarray) -> int:
    """The first outcome that holds; the last always does."""
    return int(np.argmax([*holds, True]))


def outcomes_compiled(task: Any, compiled: Programs, name: str, policy: Any, episodes: int) -> np.ndarray:
    env = compiled.cmdp.jax_env
    rules, rng = compiled.cmdp.rules(task.intervention(name)), np.random.default_rng(derive_seed(2, name))
    envs = compiled.start(rng.random((episodes, env.n_reset_uniforms), np.float32))
    result = np.full(episodes, -1)
    while (result < 0).any():
        actions = np.asarray(policy(np.asarray(compiled.look(envs.state)), rng.random(episodes)), np.int32)
        u = rng.random((episodes, env.n_step_uniforms), np.float32)
        envs, over, holds = compiled.step(rules, envs, actions, u)
        for k in np.flatnonzero(np.asarray(over) & (result < 0)):
            result[k] = _first(np.asarray(holds)[k])
    return result


class Programs(NamedTuple):
    """Compiled once for all interventions and policies."""

    cmdp: CompiledCMDP
    start: Any
    look: Any
    step: Any


def programs(task: Any) -> Programs:
    env = LanderJaxEnv()
    cmdp = CompiledCMDP(task, env, task.interventions)

    def step(rules: Any, envs: Any, actions: Any, u: Any) -> Any:
        after, stepped = cmdp.step((), rules, envs, actions, u, jnp.zeros((len(actions), 0)))
        return after, stepped.terminated | stepped.truncated, stepped.outcomes

    look = jax.jit(lambda state: env.get_obs(state, ()))
    return Programs(cmdp, jax.jit(partial(cmdp.start, ())), look, jax.jit(step))


def rates(episodes: int, names: list[str]) -> dict[str, Any]:
    task = get_task("lunar-lander")
    compiled = programs(task)
    rows: list[dict[str, Any]] = []
    for policy in POLICIES:
        for name in names:
            box2d = outcomes_of_gymnasium(task, name, POLICIES[policy], episodes)
            mine = outcomes_compiled(task, compiled, name, POLICIES[policy], episodes)
            print(policy, name, file=sys.stderr, flush=True)
            for number, outcome in enumerate(task.outcomes):
                a, b = float((box2d == number).mean()), float((mine == number).mean())
                rows.append({"policy": policy, "intervention": name, "outcome": outcome, "gymnasium": a, "compiled": b})
    for row, p in zip(rows, holm([_equivalence(r["gymnasium"], r["compiled"], episodes) for r in rows]), strict=True):
        row["p"] = p
    return {"episodes": episodes, "margin": MARGIN, "rates": rows}


def _equivalence(a: float, b: float, n: int) -> float:
    """The larger p-value of two one-sided tests that two rates differ by the margin or more (Agresti and Caffo's
    adjusted standard error, which is never 0)."""
    p, q = ((rate * n + 1) / (n + 2) for rate in (a, b))
    error = np.sqrt((p * (1 - p) + q * (1 - q)) / (n + 2))
    return float(max(stats.norm.sf((MARGIN - (a - b)) / error), stats.norm.sf((MARGIN + (a - b)) / error)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("replay", "steps", "rates"))
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--interventions", default="none,Narrow,Wide,Chimney,Funnel")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    tell_xla(get_task("lunar-lander").training.xla_flags)  # as workers that train students do
    set_up_jax()
    if chosen.what == "rates":
        found = rates(chosen.episodes, chosen.interventions.split(","))
    else:
        found = {"replay": replay, "steps": single_steps}[chosen.what](chosen.episodes)
    text = json.dumps(found, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
