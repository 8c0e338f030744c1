"""How JAX is set up wherever students are trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax

from cisr.core.errors import ConfigError

SHORTEST_WORTH_KEEPING = 0.2
"""Seconds of compilation."""
OLDEST_JAX = (0, 10)


def accelerator_bytes() -> int | None:
    """Memory of the accelerator that JAX uses; None on a CPU. Complains if JAX is too old or cannot have its device."""
    if tuple(int(part) for part in jax.__version__.split(".")[:2]) < OLDEST_JAX:
        oldest = ".".join(map(str, OLDEST_JAX))
        raise ConfigError(f"JAX is {jax.__version__}, cisr needs {oldest} or newer: pip install --upgrade jax.")
    try:
        device: Any = jax.devices()[0]
    except (RuntimeError, AssertionError) as error:  # JAX asserts where it knows no such device at all
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise ConfigError(
            f"JAX cannot use the device asked for (JAX_PLATFORMS={asked}): "
            f"unset JAX_PLATFORMS to use the CPU, or install JAX for your accelerator: pip install 'cisr[cuda13]'."
        ) from error
    return None if device.platform == "cpu" else int((device.memory_stats() or {}).get("bytes_limit", 2**34))


def cache_folder(what: str) -> Path:
    """Where what was compiled is kept for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cisr" / what


def set_up_jax() -> None:
    """Full float32 products on every device, and compiled programs kept on disk, so that a second run starts at once.

    The cache is JAX's own, in the user's cache folder unless JAX has been told of another one. Accelerators would round
    the factors of float32 products to 10 bits by default: a few per cent faster, and no longer the same student.
    """
    config: Any = jax.config
    config.update("jax_default_matmul_precision", "float32")
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(cache_folder("xla")))
        config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_WORTH_KEEPING)
