"""What Gymnasium's lander draws from a seed, as the uniforms that the compiled one takes."""

from __future__ import annotations

import numpy as np

TERRAIN, PUSH, ENGINES = 12, 2, 2
SENSORS = 2
"""Where these are noisy; they have a generator of their own, so any will do."""


def gymnasiums_draws(seed: int, n_steps: int, noisy: bool) -> tuple[np.ndarray, np.ndarray]:
    """Uniforms of a reset and of steps (n_steps, ...). A reset ends with a first step, in which no engine fires."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))  # as gymnasium.utils.seeding has it
    reset = rng.random(TERRAIN + PUSH)
    rng.random(ENGINES)
    steps = rng.random((n_steps, ENGINES))
    if noisy:
        reset = np.concatenate([reset, rng.random(SENSORS)])
        steps = np.concatenate([steps, rng.random((n_steps, SENSORS))], axis=1)
    return reset.astype(np.float32), steps.astype(np.float32)
