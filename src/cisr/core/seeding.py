"""Seeds from names: what a student draws depends on who it is, never on when it ran.

Every stream of randomness is named by a path such as `(root seed, "study", 3, "student", 0, "unit", 5)`.
"""

from __future__ import annotations

import hashlib

import numpy as np

from cisr.core.checks import check_whole

MAX_SEED = 2**31 - 1
"""Largest seed handed out: fits every generator in use, JAX's default 32-bit integers included."""


def derive_seed(root: int, *names: str | int) -> int:
    """A seed in [0, 2³¹) that is a fixed function of the root seed and the names."""
    digest = hashlib.blake2b(repr((int(root), *names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & MAX_SEED


def generator(root: int, *names: str | int) -> np.random.Generator:
    return np.random.default_rng(derive_seed(root, *names))


def check_seed(seed: int) -> int:
    return check_whole("The seed", seed, 0, MAX_SEED)
