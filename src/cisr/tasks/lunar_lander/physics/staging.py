"""Stages of a computation that a compiler must not melt into one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax

from cisr.core.intervention import Array

T = TypeVar("T")


def settled(tree: T) -> T:
    """The same, computed once, where XLA heeds barriers. On a CPU it drops them before it fuses, and would compute all
    that leads to a number anew for each number that it leads to, a thousandfold through a dozen stages: there it has to
    be told by `Training.xla_flags`."""
    same: T = jax.lax.optimization_barrier(tree)  # type: ignore[no-untyped-call]
    return same


def in_doubles() -> AbstractContextManager[Any]:
    """Within, numbers may be doubles."""
    doubles: AbstractContextManager[Any] = jax.enable_x64(True)
    return doubles


def rounded(product: Array) -> Array:
    """The same, rounded before it is multiplied again: XLA would make one of two constants in a row."""
    return product + 0.0 * product
