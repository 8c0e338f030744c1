"""How near does the compiled lander come to Box2D?

    python benchmarks/lander_fidelity.py replay [--episodes N]     whole episodes from Gymnasium's own draws and actions
    python benchmarks/lander_fidelity.py steps [--episodes N]      single steps from Box2D's states near the ground
    python benchmarks/lander_fidelity.py rates --student STORE     outcomes of fixed policies, with and without rescues

What is measured is what ships: the kernel of this processor. `replay` compares states after the reset, in flight and on
the ground, and when episodes end. `steps` puts Box2D's own world, impulses included, into the compiled one before every
step. `rates` plays fresh episodes on both and asks whether their rates are equal within 3 percentage points: two
one-sided tests for each rate, Holm's correction over all. It keeps what it has played (`--kept`), and goes on from
there when it is run again: give another file after a change of the code.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic
from scipy import special, stats

from cisr.auditing.twin import Acts, Twin, given_actions
from cisr.cmdp.episodes import outcome_of
from cisr.cmdp.gymnasium import InducedCMDPs
from cisr.core.intervention import Array
from cisr.core.seeding import derive_seed, generator
from cisr.core.task import Task
from cisr.experiments.deploying import finished
from cisr.experiments.statistics import holm
from cisr.kernels.steps import StepKernel, step_kernels
from cisr.store import Store
from cisr.store.load_student import load_student
from cisr.students import networks, normalisation
from cisr.students.student import Student
from cisr.system.compilation import set_up_jax
from cisr.tasks import get_task
from cisr.tasks.lunar_lander.bodies import read_state
from cisr.tasks.lunar_lander.dump import read_world
from cisr.tasks.lunar_lander.environment import make_env
from cisr.tasks.lunar_lander.flight import ANGLE, HULL, LEFT_LEG, RIGHT_LEG, SPIN, VX, VY, X, Y
from cisr.tasks.lunar_lander.jax_env import LanderJaxEnv, LanderState, step_packed
from cisr.tasks.lunar_lander.physics.by_numpy import by_numpy
from cisr.tasks.lunar_lander.physics.constants import DT, SLEEP_SPEED, SLEEP_SPIN
from cisr.tasks.lunar_lander.physics.world import N_NUMBERS, World, pack, unpack

LONGEST = 700
MARGIN = 0.03
RANDOMNESS = (0.0, 0.3, 0.8, 1.0)
"""How often recorded episodes do something at random instead of what the heuristic says; in turn."""
AT_ONCE = 250
"""Episodes that are played together."""
PILOT, UNDECIDED, TIMES = 1_000, (0.1, 0.9), 3
"""So many compiled episodes, which count for nothing else, tell how many are played: rates between these two have such
standard errors that it takes so many times more to tell them from others 3 points away."""


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
    """Episodes side by side, from the same draws and actions, in the kernel."""
    recorded = [record(seed, worlds=False) for seed in range(episodes)]

    def draws(seed: int, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        u, _, steps = recorded[seed]
        return u[:14], _lasting([step.u for step in steps], n_steps)

    def each(part: Callable[[Recorded], Any]) -> np.ndarray:
        """Of all steps, (T, E, ...)."""
        return np.stack([_lasting([part(step) for step in steps], LONGEST) for _, _, steps in recorded], axis=1)

    task = dataclasses.replace(get_task("lunar-lander"), jax_draws=draws, horizon=LONGEST)
    twin = Twin(task, task.intervention("none"), given_actions, records=True)
    actions = each(lambda step: step.action)[None].astype(np.int32)
    played = twin.play((), actions, np.arange(episodes)[None])
    assert played.recorded is not None
    begin, _ = _written(twin._kernels)
    _, begun = begin((), (), np.stack([u[:14] for u, _, _ in recorded])[None, None])
    begun, starts = begun.visited.reshape(episodes, -1), np.stack([start for _, start, _ in recorded])

    mine, theirs = played.recorded.state[0], each(lambda step: step.state)  # (T, E, d)
    lengths, t = np.array([len(steps) for _, _, steps in recorded]), np.arange(LONGEST)[:, None]
    running = t < np.minimum(lengths, played.n_steps[0])  # (T, E) on both sides
    crashed, landed = each(lambda step: step.crashed), each(lambda step: step.asleep)[-1]
    touched = np.logical_or.accumulate((theirs[..., LEFT_LEG : RIGHT_LEG + 1] > 0).any(axis=-1) | crashed)
    aloft, low = running & ~touched & (t < 200), running & touched
    flight, bodies = _relative(mine, theirs)[aloft], abs(mine - theirs)[..., HULL:].max(axis=-1)
    flags = (mine[..., LEFT_LEG : RIGHT_LEG + 1] == theirs[..., LEFT_LEG : RIGHT_LEG + 1]).all(axis=-1)
    on_legs, late = low & ~crashed, abs(played.n_steps[0] - lengths)
    return {
        "episodes": episodes,
        "after the reset": float(_relative(begun, starts).max()),
        "of them with bodies equal to the last bit": int((begun == starts)[:, HULL:].all(axis=1).sum()),
        "200 steps of flight": float(flight.max()),
        "steps of flight": len(flight),
        "of them equal to the last bit": int((bodies[aloft] == 0).sum()),
        "steps after the first contact": int(low.sum()),
        "of them with equal flags": int(flags[low].sum()),
        "of them without a crash": int(on_legs.sum()),
        "equal to the last bit": int((bodies[on_legs] == 0).sum()),
        "within 1e-4": int((bodies[on_legs] <= 1e-4).sum()),
        "fell asleep": int(landed.sum()),
        "in the same step": int((late[landed] == 0).sum()),
        "within 2 steps": int((late[landed] <= 2).sum()),
        "crashed": int(crashed[-1].sum()),
        "crashed in the same step": int((late[crashed[-1]] == 0).sum()),
        "crashed within 2 steps": int((late[crashed[-1]] <= 2).sum()),
    }


def _lasting(rows: Sequence[Any], n: int) -> np.ndarray:
    """The first n of them, the last again and again where there are fewer."""
    return np.stack([rows[min(k, len(rows) - 1)] for k in range(n)])


def _written(kernels: list[StepKernel] | None) -> list[StepKernel]:
    if kernels is None:
        sys.exit("There is no kernel for this device: install llvmlite.")
    return kernels


def _relative(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Largest difference of each row, in units of the number where that is greater than 1."""
    apart: np.ndarray = (abs(mine - theirs) / np.maximum(1.0, abs(theirs))).max(axis=-1)
    return apart


def single_steps(episodes: int) -> dict[str, Any]:
    rows = [r for seed in range(episodes) for r in record(seed, worlds=True)[2] if r.before is not None]
    with by_numpy():
        worlds = np.stack([np.asarray(pack(r.before)) for r in rows if r.before is not None])
    actions, d = np.array([r.action for r in rows], np.int32), 2 * np.stack([r.u for r in rows]) - 1

    def step(shared: Any, state: LanderState, given: Any) -> Any:
        action, dispersion = given
        numbers, crashed, asleep = step_packed(state.world, action, dispersion)
        after = state._replace(world=numbers)
        return after, (env.state_vector(after), crashed, asleep)

    def like(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

    env = LanderJaxEnv()
    before = LanderState(worlds[None], np.zeros((1, len(rows)), np.float32), np.zeros((1, len(rows), 2), np.float32))
    example = LanderState(like(N_NUMBERS), like(), like(2)), (like(dtype=jnp.int32), like(2))
    (kernel,) = _written(step_kernels("The lander", (step, (), *example)))
    end, (vectors, crashes, sleeps) = kernel((), before, (actions[None, None], d[None, None]))
    after = unpack(end.world[0])
    mine, crashes, sleeps = vectors[0, 0], crashes[0, 0], sleeps[0, 0]
    theirs = np.stack([r.state for r in rows])
    crashed = np.array([r.crashed for r in rows])
    astride = (after.contacts.id_1 >= 0).all(axis=0).any(axis=0)[~crashed]
    error = abs(mine - theirs)[:, HULL:].max(axis=1)[~crashed]
    flags = (theirs[:, LEFT_LEG : RIGHT_LEG + 1] == mine[:, LEFT_LEG : RIGHT_LEG + 1]).all(axis=1)[~crashed]
    return {
        "steps": len(rows),
        "of them crashes": int(crashed.sum()),
        "compared": len(error),
        "within 1e-3": int((error <= 1e-3).sum()),
        "within 1e-4": int((error <= 1e-4).sum()),
        "equal to the last bit": int((error == 0).sum()),
        "median": float(np.median(error)),
        "a leg on two edges": int(astride.sum()),
        "of them within 1e-3": int((error[astride] <= 1e-3).sum()),
        "equal flags": int(flags.sum()),
        "other verdicts of a crash": int((crashes != crashed).sum()),
        "other verdicts of sleep": int((sleeps != np.array([r.asleep for r in rows])).sum()),
        "fell asleep": int(sum(r.asleep for r in rows)),
    }


class Policy(NamedTuple):
    """The same on both sides; `noise` are actions drawn at random."""

    name: str
    acts: Acts
    on_host: Callable[[np.ndarray, np.ndarray], np.ndarray]
    known: Any = ()


def fly(known: Any, seen: Array, noise: Array) -> Array:
    """Gymnasium's heuristic, in array code."""
    xp = seen.__array_namespace__()
    on_ground = (seen[..., LEFT_LEG] > 0) | (seen[..., RIGHT_LEG] > 0)
    target = xp.clip(0.5 * seen[..., X] + seen[..., VX], -0.4, 0.4)
    tilt = xp.where(on_ground, 0.0, 0.5 * (target - seen[..., ANGLE]) - seen[..., SPIN])
    climb = 0.5 * (0.55 * abs(seen[..., X]) - seen[..., Y]) - 0.5 * seen[..., VY]
    climb = xp.where(on_ground, -0.5 * seen[..., VY], climb)
    turn = xp.where(tilt < -0.05, 3, xp.where(tilt > 0.05, 1, 0))
    return xp.where((climb > abs(tilt)) & (climb > 0.05), 2, turn)


def policies(student: Student) -> list[Policy]:
    def learned(known: Any, seen: Array, noise: Array) -> Array:
        params, statistics = known
        numbers = normalisation.see(statistics, student.observation, seen)
        outputs = networks.apply(student.config.network, student.observation, params, jnp.asarray(numbers))
        return student.distribution.mode(outputs.policy)

    known = jax.tree.map(np.asarray, (student.params, student.statistics))
    weights = b"".join(array.tobytes() for array in jax.tree.leaves(known))
    return [
        Policy("heuristic", fly, partial(fly, ())),
        Policy(
            f"student {hashlib.sha256(weights).hexdigest()[:8]}",
            learned,
            lambda seen, noise: np.asarray(student.predict(seen, deterministic=True)),
            known,
        ),
        Policy("random", given_actions, partial(given_actions, ())),
    ]


class Tally(NamedTuple):
    """What episodes came to."""

    outcomes: dict[str, int]
    mean_steps: float
    mean_rescues: float


def _tally(task: Task, outcomes: np.ndarray, steps: np.ndarray, rescues: np.ndarray) -> Tally:
    counts = {name: int((outcomes == number).sum()) for number, name in enumerate(task.outcomes)}
    return Tally(counts, float(steps.mean()), float(rescues.mean()))


def on_gymnasium(task: Task, under: str, policy: Policy, seeds: np.ndarray) -> Tally:
    """Environment k plays episodes k, k + AT_ONCE, … and is left out then: all episodes count, however long."""
    n = min(AT_ONCE, len(seeds))
    cmdps = InducedCMDPs(task, task.intervention(under), [task.make_env() for _ in range(n)])
    left = [list(seeds[k::n][::-1].tolist()) for k in range(n)]
    seen = cmdps.seed([seeds_of_it.pop() for seeds_of_it in left])
    rng = generator(int(seeds[0]), "actions")
    playing, now = np.ones(n, bool), np.zeros((2, n), int)  # steps and rescues of the episodes under way
    found: list[tuple[int, int, int]] = []
    while playing.any():
        step = cmdps.step(policy.on_host(seen, rng.integers(4, size=n)))
        seen, over = cmdps.observations.copy(), step.terminated | step.truncated
        now += np.stack([playing, step.rescued & playing])
        came_to = outcome_of(step.outcomes)
        for k in np.flatnonzero(over & playing).tolist():
            found.append((int(came_to[k]), *now[:, k].tolist()))
            now[:, k] = 0
            if left[k]:
                seen[k] = cmdps.restart(k, left[k].pop())[0]
            else:
                playing[k] = False
                cmdps.leave_out(k)
    cmdps.close()
    return _tally(task, *np.array(found).T)


def compiled(twin: Twin, policy: Policy, seeds: np.ndarray) -> Tally:
    """The same in the kernel."""
    found = []
    known = jax.tree.map(lambda leaf: leaf[None], policy.known)
    for start in range(0, len(seeds), AT_ONCE):
        some = seeds[None, start : start + AT_ONCE]
        noise = generator(int(some[0, 0]), "actions").integers(4, size=(1, twin.horizon, some.size), dtype=np.int32)
        played = twin.play(known, noise, some)
        _written(twin._kernels)
        assert played.recorded is not None
        found.append([played.outcomes[0], played.n_steps[0], played.recorded.rescued[0].sum(axis=0)])
    return _tally(twin.task, *np.concatenate(found, axis=1))


def rates(episodes: int, names: Sequence[str], store: Path, kept: Path) -> dict[str, Any]:
    task = get_task("lunar-lander", student="two-layer")
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    played: dict[tuple[str, str, int], Any] = {(r["policy"], r["intervention"], r["asked for"]): r for r in known}
    pairs = []
    for policy in policies(_student(store, task)):
        for under in names:
            pair = played.get((policy.name, under, episodes))
            if pair is None:
                pair = {"policy": policy.name, "intervention": under, "asked for": episodes}
                pair |= _both(task, under, policy, episodes)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with kept.open("a") as file:
                    file.write(json.dumps(pair) + "\n")
            pairs.append(pair)
    rows = [
        {name: pair[name] for name in ("policy", "intervention", "episodes")}
        | {"outcome": outcome}
        | {side: pair[side]["outcomes"][outcome] for side in ("gymnasium", "compiled")}
        for pair in pairs
        for outcome in _possible(task, pair["intervention"])
    ]
    p_values = holm([equivalence(row["gymnasium"], row["compiled"], row["episodes"]) for row in rows])
    for row, p in zip(rows, p_values, strict=True):
        row["p"] = p
    return {
        "margin": MARGIN,
        "rates": len(rows),
        "largest difference": max(abs(row["gymnasium"] - row["compiled"]) / row["episodes"] for row in rows),
        "largest p": max(row["p"] for row in rows),
        "not shown to be equivalent": [row for row in rows if row["p"] > 0.05],
        "by rate": rows,
        "by policy and intervention": pairs,
    }


def _student(store: Path, task: Task) -> Student:
    """The first that has finished."""
    with Store(store, read_only=True) as opened:
        student = load_student(opened, task, next(iter(finished(opened))))
    assert isinstance(student, Student)
    return student


def _possible(task: Task, under: str) -> list[str]:
    """Outcomes that an episode may come to: a rescue only where it ends the episode, and nothing other at all."""
    ends = task.intervention(under).ends_episodes
    return [outcome for outcome in task.outcomes[:-1] if outcome != "rescue" or ends]


def _both(task: Task, under: str, policy: Policy, episodes: int) -> dict[str, Any]:
    def seeds(side: str, n: int) -> np.ndarray:
        return np.array([derive_seed(0, "fidelity", side, policy.name, under, k) for k in range(n)])

    twin = Twin(task, task.intervention(under), policy.acts, records=True)
    pilot = compiled(twin, policy, seeds("pilot", PILOT))
    undecided = any(UNDECIDED[0] < count / PILOT < UNDECIDED[1] for count in pilot.outcomes.values())
    n = episodes * TIMES if undecided else episodes
    found: dict[str, Any] = {"episodes": n}
    for side, play in (("gymnasium", partial(on_gymnasium, task, under)), ("compiled", partial(compiled, twin))):
        started = time.monotonic()
        tally = play(policy, seeds(side, n))
        if tally.outcomes[task.outcomes[-1]]:
            sys.exit(f"{policy.name} under {under} on {side}: episodes came to what was thought to be impossible.")
        found[side] = tally._asdict()
        seconds = time.monotonic() - started
        print(f"{policy.name}, {under}, {side}: {tally}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return found


def equivalence(a: int, b: int, n: int) -> float:
    """The larger p-value of two one-sided tests that the rates of two groups of n differ by the margin or more."""
    return max(_shown_less(a, b, n), _shown_less(b, a, n))


def _shown_less(a: int, b: int, n: int) -> float:
    """p-value of the hypothesis p_a − p_b ≥ margin, by Farrington and Manning's score test.

    Differences are measured in standard errors at the likeliest rates with p_a = p_b + margin, so that the error is not
    0 where an outcome never occurred. These rates solve, with s the margin and x, y the observed rates,

        2 p³ − (2 + x + y + 3 s) p² + (s² + s (2 x + 2) + x + y) p − x s (1 + s) = 0,  s ≤ p = p_a ≤ 1.
    """
    x, y, s = a / n, b / n, MARGIN
    cubic = [2, -(2 + x + y + 3 * s), s * s + s * (2 * x + 2) + x + y, -x * s * (1 + s)]
    roots = np.roots(cubic).real.clip(s, 1)
    p = min(roots, key=lambda p: -_log_likelihood(p, x) - _log_likelihood(p - s, y))
    error = np.sqrt((p * (1 - p) + (p - s) * (1 - p + s)) / n)
    return float(stats.norm.cdf((x - y - s) / error))


def _log_likelihood(p: float, rate: float) -> float:
    return float(special.xlogy(rate, p) + special.xlogy(1 - rate, 1 - p))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("replay", "steps", "rates"))
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--interventions", default="none,Narrow,Wide,Chimney,Funnel,Soft-Funnel,Hard-Funnel")
    parser.add_argument("--student", type=Path, help="a store; its first student is the third policy of `rates`")
    parser.add_argument("--kept", type=Path, default=Path("runs/fidelity-rates.jsonl"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    set_up_jax()
    if chosen.what == "rates":
        if chosen.student is None:
            parser.error("`rates` takes a trained student: --student STORE.")
        found = rates(chosen.episodes, chosen.interventions.split(","), chosen.student, chosen.kept)
    else:
        found = {"replay": replay, "steps": single_steps}[chosen.what](chosen.episodes)
    text = json.dumps(found, indent=1)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
