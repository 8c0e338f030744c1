"""Compiled twins: a task's environment as pure functions of arrays, for whole cohorts in one program.

Everything random comes in as uniforms drawn beforehand. Functions take any leading batch shape (...), so a cohort is
one call; states and parameters are pytrees of arrays. Triggers, resets, `danger` and `success` are the task's own: they
see `vector(state)`, the same state vector that the Gymnasium task shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cisr.core.intervention import Array

if TYPE_CHECKING:
    from cisr.students.networks import ObservationSpec

State = Any
"""A pytree of arrays with leading shape (...)."""
Parameters = Any
"""A pytree of arrays: what differs between maps or terrains of one shape."""


class Outcome(NamedTuple):
    """What one move led to, before any rescue."""

    state: State
    reward: Array  # (...)
    terminated: Array  # (...)


class Twin(Protocol):
    """A compiled environment."""

    @property
    def observation(self) -> ObservationSpec: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def table(self) -> np.ndarray | None:
        """All distinct observations (n, ...) where there are finitely many; `observe` then gives numbers into it."""

    @property
    def n_reset_uniforms(self) -> int: ...
    @property
    def n_step_uniforms(self) -> int: ...
    @property
    def parameters(self) -> Parameters: ...

    def reset(self, parameters: Parameters, u: Array) -> State:
        """Where an episode begins, from uniforms (..., n_reset_uniforms)."""

    def step(self, parameters: Parameters, state: State, action: Array, u: Array) -> Outcome:
        """One move, from uniforms (..., n_step_uniforms)."""

    def vector(self, state: State) -> Array:
        """The state vector (..., d) that triggers and resets see."""

    def place(self, state: State, vector: Array) -> State:
        """The state with the environment put to a vector."""

    def observe(self, parameters: Parameters, state: State) -> Array:
        """Observations (..., *shape), or numbers (...) into `table`."""
