"""Where code comes from: the user's own is read, that of installed packages is known by name and version."""

from __future__ import annotations

import functools
import sys
import sysconfig
import types
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any


def origin(module: Any) -> str | None:
    """Where a module comes from: "" for Python's own, None for the user's, else the name of the installed package."""
    if not isinstance(module, str) or module in ("__main__", ""):
        return None
    if module == "cisr" or module.startswith("cisr."):
        return None if module.startswith("cisr.tasks.") else ""  # a store notes the version of cisr itself
    if module not in sys.modules:  # parts of compiled packages have names without being modules
        return origin(module.rpartition(".")[0])
    file = getattr(sys.modules[module], "__file__", None)
    if not isinstance(file, str):
        return "" if module.partition(".")[0] in sys.stdlib_module_names else None
    kind = _kind_of_file(file)
    return module.partition(".")[0] if kind == "installed" else kind


def is_own_function(value: Any) -> bool:
    """By its globals: decorators change `__module__`. Code that is run without a module counts as the user's."""
    if not isinstance(value, types.FunctionType) or is_member(value):
        return False
    home = sys.modules.get(str(value.__globals__.get("__name__")))
    return home is None or vars(home) is not value.__globals__ or origin(home.__name__) is None


def is_own_class(cls: type) -> bool:
    if cls.__module__ == "types":  # what `make_dataclass` made says so
        return not hasattr(types, cls.__name__)
    return origin(cls.__module__) is None


def is_member(value: Any) -> bool:
    """Whether an installed package has this very object under its name."""
    path = str(_quiet(value, "__qualname__") or "").split(".")
    for module in (_quiet(value, "__module__"), type(_quiet(value, "__self__")).__module__):
        if origin(module) is not None and module in sys.modules:
            for names in (path, [str(_quiet(value, "__name__"))]):
                if functools.reduce(_quiet, names, sys.modules[module]) is value:
                    return True
    return False


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        names = _distributions().get(package, [])
        return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names))) or "unknown"


def _quiet(value: Any, name: str) -> Any:
    """An attribute, or None; whatever happens on the way to it."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


@functools.cache
def _kind_of_file(file: str) -> str | None:
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return "installed"
    library = (Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
    return "" if any(path.is_relative_to(folder) for folder in library) else None


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()
