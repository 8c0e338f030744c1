"""JAX environments: a task's environment as pure functions of arrays, for whole cohorts in one program.

Functions are named and called as gymnax's, with uniforms `u` drawn beforehand in the place of a key. They take any
leading batch shape (...), so a cohort is one call; states and `params` are pytrees of arrays. Triggers, resets,
`danger` and `success` are the task's own: they see `state_vector(state)`, as the Gymnasium task shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cisr.core.intervention import Array
from cisr.core.task import Move

if TYPE_CHECKING:
    from cisr.students.distributions import Distribution
    from cisr.students.networks import ObservationSpec

State = Any
"""A pytree of arrays with leading shape (...)."""
EnvParams = Any
"""A pytree of arrays: what differs between maps or terrains of one shape."""


class JaxEnv(Protocol):
    """A compiled environment."""

    @property
    def observation(self) -> ObservationSpec: ...
    @property
    def n_actions(self) -> int | Distribution:
        """How many actions there are, numbered from 0; or, where they are vectors, what they are drawn from
        (`cisr.students.distributions.Gaussian` for a Box, `Categoricals` for several choices at once)."""

    @property
    def table(self) -> np.ndarray | None:
        """All distinct observations (n, ...) where there are finitely many; `get_obs` then gives numbers into it."""

    @property
    def n_reset_uniforms(self) -> int: ...
    @property
    def n_step_uniforms(self) -> int: ...
    @property
    def params(self) -> EnvParams: ...

    def reset_env(self, u: Array, params: EnvParams) -> State:
        """Where an episode begins, from uniforms (..., n_reset_uniforms). Where they are −1 none begins, and nobody
        looks at the answer: an environment whose beginnings cost much may leave them out."""

    def step_env(self, u: Array, state: State, action: Array, params: EnvParams) -> Move:
        """One move, from uniforms (..., n_step_uniforms); `state` is the environment's own."""

    def state_vector(self, state: State) -> Array:
        """The state vector (..., d) that triggers and resets see."""

    def set_state(self, state: State, vector: Array) -> State:
        """The state with the environment put to a vector."""

    def get_obs(self, state: State, params: EnvParams) -> Array:
        """Observations (..., *shape), or numbers (...) into `table`."""
