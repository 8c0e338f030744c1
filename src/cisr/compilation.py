"""How JAX is set up wherever students are trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

SHORTEST_WORTH_KEEPING = 0.2
"""Seconds of compilation."""


def set_up_jax() -> None:
    """Full float32 products on every device, and compiled programs kept on disk, so that a second run starts at once.

    The cache is JAX's own, in the user's cache folder unless JAX has been told of another one. Accelerators would round
    the factors of float32 products to 10 bits by default: a few per cent faster, and no longer the same student.
    """
    import jax

    config: Any = jax.config
    config.update("jax_default_matmul_precision", "float32")
    if config.jax_compilation_cache_dir is None:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        config.update("jax_compilation_cache_dir", str(caches / "cisr" / "xla"))
        config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_WORTH_KEEPING)
