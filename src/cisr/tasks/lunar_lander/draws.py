"""What Gymnasium's lander draws from a seed, as the uniforms that the compiled one takes."""

from __future__ import annotations

import numpy as np

TERRAIN, PUSH, ENGINES = 12, 2, 2
SENSORS = 2
"""Where these are noisy; they have a generator of their own, so any will do."""


def gymnasiums_draws(seed: int, n_steps: int, noisy: bool) -> tuple[np.ndarray, np.ndarray]:
    """Uniforms of a reset and of steps (n_steps, ...). A reset ends with a first step, in which no engine fires."""
    rng = np.random.Generator(np.random.PCG64(seed))  # as gymnasium.utils.seeding has it
    first = TERRAIN + PUSH
    u = rng.random(first + ENGINES * (1 + n_steps)).astype(np.float32)  # all at once: audits ask this a million times
    reset, steps = u[:first], u[first + ENGINES :].reshape(n_steps, ENGINES)
    if noisy:
        more = rng.random((1 + n_steps, SENSORS)).astype(np.float32)
        reset, steps = np.concatenate([reset, more[0]]), np.concatenate([steps, more[1:]], axis=1)
    return reset, steps
