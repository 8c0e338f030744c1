"""Compiled programs are kept on disk between runs, so that a second run starts at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

SHORTEST_WORTH_KEEPING = 0.2
"""Seconds of compilation."""


def keep_on_disk() -> None:
    """Use JAX's compilation cache in the user's cache folder, unless JAX has been told of another one."""
    import jax

    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        config.update("jax_compilation_cache_dir", str(caches / "cisr" / "xla"))
        config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST_WORTH_KEEPING)
