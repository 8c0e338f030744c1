"""Gymnasium's spaces as one student has them: what it sees, and what it draws its actions from."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from cisr.students.distributions import Categorical, Categoricals, Distribution, Gaussian
from cisr.students.networks import ObservationSpec

Space = gymnasium.Space[Any]


def seen_as(space: Space) -> ObservationSpec | None:
    """None for a space of several parts, or of no numbers."""
    if isinstance(space, spaces.Discrete):
        return ObservationSpec(shape=(), n_values=int(space.n), start=int(space.start))
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        # One-dimensional bytes are no image: they are what they are, a memory's content for instance.
        image = space.dtype == np.uint8 and len(space.shape) > 1
        return ObservationSpec(shape=space.shape, image=image)
    return None


def acted_by(space: Space) -> Distribution | None:
    """None for a space that students cannot act in."""
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = (tuple(each.ravel().tolist()) for each in (space.nvec, space.start))
        return Categoricals(counts, starts, space.shape)
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return Categoricals((2,) * size, (0,) * size, space.shape)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.low.size:
        return Gaussian(tuple(space.low.ravel().tolist()), tuple(space.high.ravel().tolist()), space.shape)
    return None
