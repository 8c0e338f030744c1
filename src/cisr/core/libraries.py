"""Libraries that may be missing, and names whose modules are imported when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from cisr.core.errors import ConfigError


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def needed(module: str, called: str, extra: str) -> None:
    """Complain before any work where a library is missing."""
    if not installed(module):
        raise ConfigError(f"{called} is not installed: pip install 'cisr[{extra}]'.")


def late(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package some of whose names bring in heavy libraries; `homes` has the module of each."""

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(homes[name]), name)

    return imported


GYMNASIUM = installed("gymnasium")
"""Where it is, `import cisr` brings it in. Compiled students do without: what they come by imports it under `if`."""
