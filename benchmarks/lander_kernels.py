"""Do the lander's kernels compute on a GPU what XLA's program computes on a CPU, and how long does a launch take?

    python benchmarks/lander_kernels.py write steps.npz     on a CPU: flights to the ground, some of their steps
    python benchmarks/lander_kernels.py check steps.npz     on a GPU: the same steps once more

Differences are relative to numbers greater than 1, the largest of the 18 numbers of the three bodies.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cisr.tasks import get_task
from cisr.training.worker import tell_xla

LANDERS, STEPS, EVERY = 256, 700, 12
FALL = -1.5
"""Vertical speed at which the main engine fires, give or take."""
BODIES = 18
SIZES = (180, 1440, 15360)
LAUNCHES = 30


def write(path: Path) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    tell_xla(get_task("lunar-lander").training.xla_flags)
    import jax  # after all that it is told
    import jax.numpy as jnp

    from cisr.tasks.lunar_lander.jax_env import begin_packed, step_packed

    rng = np.random.default_rng(1)
    begin, step = jax.jit(begin_packed), jax.jit(step_packed)

    def beginnings() -> tuple[Any, Any]:
        return rng.random((LANDERS, 12), np.float32), 2 * rng.random((LANDERS, 2), np.float32) - 1

    first = beginnings()
    now = start = begin(*first)
    kept: list[tuple[Any, ...]] = []
    for k in range(STEPS):
        dispersion = 2 * rng.random((LANDERS, 2), np.float32) - 1
        angle, falling = np.asarray(now[:, 2]), np.asarray(now[:, 4])
        upright = np.where(angle > 0.05, 3, np.where(angle < -0.05, 1, 0))
        action = np.where(falling < FALL + rng.normal(0, 0.5, LANDERS), 2, upright)
        after, crashed, asleep = step(now, action, dispersion)
        if k % EVERY == 0:
            kept.append((now, action, dispersion, after, crashed, asleep))
        now = jnp.where((crashed | asleep)[:, None], begin(*beginnings()), after)
    names = ("before", "action", "dispersion", "after", "crashed", "asleep")
    columns: dict[str, Any] = {"terrain": first[0], "force": first[1], "start": np.asarray(start)}
    columns |= {name: np.concatenate(column) for name, column in zip(names, zip(*kept, strict=True), strict=True)}
    np.savez_compressed(path, **columns)
    print(f"{len(columns['action'])} steps")


def check(path: Path) -> None:
    import jax

    from cisr.tasks.lunar_lander.physics.kernel import begin_kernel, step_kernel
    from cisr.tasks.lunar_lander.physics.world import unpack

    told = dict(np.load(path))
    begun = np.asarray(begin_kernel(told["terrain"], told["force"])[0])
    print("beginnings: largest difference", abs(begun - told["start"]).max())
    given = told["before"], told["action"], told["dispersion"]
    step = jax.jit(step_kernel)
    began = time.perf_counter()
    program = step.lower(*given).compile()
    print(f"written and compiled in {time.perf_counter() - began:.1f} s")
    after, crashed, asleep = map(np.asarray, program(*given))
    expected = told["after"][:, :BODIES]
    apart = (abs(after[:, :BODIES] - expected) / np.maximum(1, abs(expected))).max(axis=-1)
    touching = np.asarray(unpack(told["after"]).contacts.id_1 >= 0).any(axis=(0, 1))
    for name, those in (("in flight", ~touching), ("on the ground", touching)):
        within = ", ".join(f"{(apart[those] < limit).mean():.2%} within {limit:g}" for limit in (1e-5, 1e-4, 1e-3))
        print(f"{name}: {those.sum()} steps, median {np.median(apart[those]):.0e}, {within}")
    for name, ours in (("crashed", crashed), ("asleep", asleep)):
        print(f"{name}: {told[name].sum()}, told otherwise {((ours > 0) != told[name]).sum()}")
    for n in SIZES:
        some = np.resize(np.random.default_rng(0).permutation(len(apart)), n)
        print(f"{n} landers: {_launch(jax, step, *(a[some] for a in given)) * 1e6:.0f} µs a step")


def _launch(jax: Any, step: Callable[..., Any], *arrays: Any) -> float:
    """Seconds of one launch."""
    there = [jax.device_put(array) for array in arrays]
    jax.block_until_ready(step(*there))
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        result = step(*there)
    jax.block_until_ready(result)
    return (time.perf_counter() - began) / LAUNCHES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("path", type=Path)
    chosen = parser.parse_args()
    (write if chosen.what == "write" else check)(chosen.path)


if __name__ == "__main__":
    main()
