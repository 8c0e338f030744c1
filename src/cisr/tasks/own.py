"""Tasks of the user's own, by name: `package.module:attribute`, or `path/to/file.py:attribute`.

Modules are looked for in the current folder too, a file's neighbours in its folder. Both join Python's search path,
which worker processes have from this one, so that they find the same modules.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cisr.core.errors import CisrError, ConfigError, described
from cisr.core.task import Task


def load_task(name: str) -> Task:
    """The Task of that name, or the one that the function of that name returns."""
    where, _, attribute = name.partition(":")
    if not where or not attribute:
        missing = "no module" if not where else f"nothing in the module '{where}'"
        raise ConfigError(f"The task '{name}' names {missing}: give it as module:attribute or file.py:attribute.")
    found: Any = _module_of_file(where, name) if where.endswith(".py") else _module(where, name)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise ConfigError(f"Module '{where}' has no '{attribute}': check the name of your task.") from error
        except (CisrError, KeyboardInterrupt):
            raise
        except BaseException as error:  # a module may compute what it has
            raise ConfigError(f"'{name}' raised {described(error)}: give a cisr.Task.") from error
    if callable(found):
        found = _made_by(found, name)
    if not isinstance(found, Task):
        raise ConfigError(f"'{name}' is a {type(found).__name__}: name a cisr.Task, or a function that returns one.")
    return found


def _module(module: str, name: str) -> ModuleType:
    if not all(module.split(".")):
        raise ConfigError(f"'{module}' is no name of a module, in the task '{name}': give module:attribute.")
    _search_in(Path.cwd())
    return _imported(module, name)


def _module_of_file(path: str, name: str) -> ModuleType:
    file = Path(path).resolve()
    if not os.path.isfile(file):
        raise ConfigError(f"There is no file {path} for the task '{name}': check the path, seen from {Path.cwd()}.")
    _search_in(file.parent)
    module = _imported(file.stem, name)
    origin = getattr(module, "__file__", None)
    if origin is None or Path(origin).resolve() != file:
        raise ConfigError(
            f"The file {path} cannot be imported for the task '{name}': its name '{file.stem}' is that of another "
            f"module ({origin or 'built in'}); rename it."
        )
    return module


def _search_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


def _imported(module: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (CisrError, KeyboardInterrupt):
        raise
    except ImportError as error:
        raise ConfigError(f"Cannot import '{module}' for the task '{name}': {error}.") from error
    except BaseException as error:  # a module that leaves, or raises an error of its own, cannot be imported either
        raise ConfigError(f"Importing '{module}' raised {described(error)}: mend it for the task '{name}'.") from error


def _made_by(function: Any, name: str) -> Any:
    try:
        return function()
    except (CisrError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ConfigError(
            f"'{name}' raised {described(error)}: give a cisr.Task, or a function without arguments that returns one."
        ) from error
