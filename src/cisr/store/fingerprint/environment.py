"""What a Gymnasium environment is, by content."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import gymnasium

from cisr.cmdp.answers import check_environment
from cisr.store.fingerprint.reader import Fingerprint, Reader


def fingerprint_of_environment(env: Any) -> Fingerprint:
    """The classes of an environment and its wrappers, how it was made, and the packages that they come from."""
    check_environment(env)
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
