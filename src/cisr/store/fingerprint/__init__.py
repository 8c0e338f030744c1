"""What a piece of a task is, by content: the code of a function and all that it reads.

A store belongs to the code that made its results, so it must notice when a trigger, a constant or a helper changes.
`fingerprint(value)` is a flat dictionary from what was looked at to a short text:

    {"code": "9f3c…", "limit": "0.5", "near().code": "77aa…", "near().tiles": "bool (100,) 1b2c…"}

`code` is a digest of the syntax tree, so comments, docstrings, annotations, formatting and line numbers do not matter;
where there is no source (or it was edited after it was loaded) the bytecode stands in. Functions of the user's own
modules are followed through globals, closures, defaults, attributes, bound objects and imports inside functions.
Objects are their class and their state. Installed packages are not followed: `packages` has their versions. What cannot
be read is listed in `unknown`. Names that are looked up while a function runs (`getattr(module, name)`) are not seen.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from cisr.store.fingerprint.reader import Fingerprint, Reader

__all__ = ["Fingerprint", "fingerprint", "fingerprint_of_environment"]


def fingerprint(value: Any) -> Fingerprint:
    """What `value` is, by content; see the module."""
    return Reader().result({"": value})


def fingerprint_of_environment(env: Any) -> Fingerprint:
    """The classes of an environment and its wrappers, how it was made, and the packages that they come from."""
    import gymnasium

    reader = Reader()
    layers: dict[str, Any] = {}
    spec = None
    with reader.guarded("spec"):
        spec = env.spec  # of the outermost: wrappers add to it
    while True:
        for base in type(env).__mro__[:-1]:
            reader.package_of_imports(base.__module__)
        layers[f"{len(layers)} {type(env).__name__}"] = type(env)
        if env is env.unwrapped:
            break
        env = env.env
    if spec is not None:
        layers |= {"made with": {"id": spec.id, **spec.kwargs}, "steps": spec.max_episode_steps}
        with reader.guarded("made by"):
            layers["made by"] = _entry_point(spec.entry_point)
        registered = gymnasium.registry.get(spec.id)
        for k, wrapper in enumerate(
            (*spec.additional_wrappers, *(registered.additional_wrappers if registered else ()))
        ):
            layers[f"{wrapper.name} {k}"] = wrapper.kwargs
    return reader.result(layers)


def _entry_point(where: Any) -> Any:
    """What an environment or a wrapper is registered with: `module:attribute`, or a callable."""
    if not isinstance(where, str):
        return where
    module, _, path = where.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))
