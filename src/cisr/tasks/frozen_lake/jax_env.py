"""Frozen Lake as pure functions: the transition table of Gymnasium's `FrozenLake-v1`, looked up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cisr.core.intervention import Array
from cisr.core.task import Move
from cisr.students.networks import ObservationSpec
from cisr.tasks.frozen_lake.lake import WAYS, Lake


class LakeParams(NamedTuple):
    """All that one map has of its own."""

    destinations: Array  # (tiles, actions, 3) after a slip to one side, as intended, to the other side
    cumulative: Array  # (3,) probabilities of these, added up
    rewards: Array  # (tiles,) for moving onto a tile
    terminal: Array  # (tiles,) bool
    start: Array  # () tile


@dataclass(frozen=True)
class LakeJaxEnv:
    """A state is the tile's number, (...)."""

    lake: Lake
    n_actions: int = 4
    n_reset_uniforms: int = 0
    n_step_uniforms: int = 1

    @property
    def observation(self) -> ObservationSpec:
        return ObservationSpec(self.lake.images.shape[1:])

    @property
    def table(self) -> np.ndarray:
        return self.lake.images

    @cached_property
    def params(self) -> LakeParams:
        lake = self.lake
        return LakeParams(
            destinations=lake.destinations.astype(np.int32),
            cumulative=np.cumsum(WAYS).astype(np.float32),
            rewards=lake.rewards.astype(np.float32),
            terminal=lake.terminal,
            start=np.int32(np.flatnonzero(lake.where("S"))[0]),
        )

    def reset_env(self, u: Array, params: LakeParams) -> Array:
        return jnp.broadcast_to(params.start, u.shape[:-1])

    def step_env(self, u: Array, state: Array, action: Array, params: LakeParams) -> Move:
        slip = jnp.sum(u >= params.cumulative[:-1], axis=-1)  # which of the three directions
        moved = params.destinations[state, action, slip]
        return Move(state=moved, reward=params.rewards[moved], terminated=params.terminal[moved])

    def state_vector(self, state: Array) -> Array:
        return state[..., None]

    def set_state(self, state: Array, vector: Array) -> Array:
        return vector[..., 0]

    def get_obs(self, state: Array, params: LakeParams) -> Array:
        return state
