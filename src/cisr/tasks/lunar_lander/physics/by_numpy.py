"""The same source computed by NumPy, operation by operation: nothing to compile, for tests and looking inside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np


@contextmanager
def by_numpy() -> Iterator[None]:
    """Within, the modules of `physics` work on NumPy's arrays, with Python's own loops."""
    package = __name__.rpartition(".")[0]
    modules = [
        module for name, module in list(sys.modules.items()) if name.startswith(package + ".") and name != __name__
    ]
    instead = {"jax": _JAX, "jnp": _JNP}
    kept = [(module, name, vars(module)[name]) for module in modules for name in instead if name in vars(module)]
    try:
        for module, name, _ in kept:
            setattr(module, name, instead[name])
        with np.errstate(all="ignore"):  # both sides of a choice are computed
            yield
    finally:
        for module, name, own in kept:
            setattr(module, name, own)


def _fori_loop(start: int, stop: int, step: Callable[[int, Any], Any], state: Any) -> Any:
    for k in range(start, stop):
        state = step(k, state)
    return state


def _while_loop(goes_on: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    while goes_on(state):
        state = step(state)
    return state


def _cond(condition: Any, one: Callable[..., Any], other: Callable[..., Any], *given: Any) -> Any:
    return one(*given) if condition else other(*given)


def _switch(number: Any, branches: Any, *given: Any) -> Any:
    return branches[int(number)](*given)


def _where(condition: Any, one: Any, other: Any) -> Any:
    """In single precision, as JAX has it also where both are Python's numbers."""
    chosen = np.where(condition, one, other)
    doubles = any(getattr(given, "dtype", None) == np.float64 for given in (one, other))
    return chosen.astype(np.float32) if chosen.dtype == np.float64 and not doubles else chosen


_JNP = SimpleNamespace(**vars(np) | {"where": _where})
_JAX = SimpleNamespace(
    enable_x64=nullcontext,
    tree=jax.tree,
    lax=SimpleNamespace(
        fori_loop=_fori_loop,
        while_loop=_while_loop,
        cond=_cond,
        switch=_switch,
        optimization_barrier=lambda tree: tree,
    ),
)
