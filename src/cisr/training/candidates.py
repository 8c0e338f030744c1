"""The policies of its last units that a student may hand in: each is tried in M_0, and the best is kept so far.

The best is that of the highest mean return. The score of M_0 would not do: it charges so much for every rescue that a
student which stands still would win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cisr.students.networks import Params
from cisr.students.ppo import Learner
from cisr.training.records import Deployment

POLICY, RETURN = "candidate/", "candidate return"
"""What checkpoints call a batch's candidates, beside its learners."""


class Candidates(NamedTuple):
    """The best policy of each student so far."""

    params: Params  # stacked over S
    returns: np.ndarray  # (S,) mean return in M_0; −∞ for a student that has broken down before it was tried


def best_of(best: Candidates | None, learners: Learner, evaluations: Sequence[Deployment | None]) -> Candidates | None:
    """The candidates after one more unit, of equal ones the later; None where nobody has been tried yet."""
    if best is None and not any(evaluations):
        return None
    returns = np.array([-np.inf if tried is None else tried.mean_return for tried in evaluations])
    if best is None:
        return Candidates(learners.params, returns)
    better = returns >= best.returns

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return Candidates(
        params=jax.tree.map(choose, learners.params, best.params), returns=np.where(better, returns, best.returns)
    )


def to_arrays(best: Candidates | None) -> dict[str, np.ndarray]:
    """Named arrays, for a checkpoint."""
    if best is None:
        return {}
    return {RETURN: best.returns} | {POLICY + name: np.asarray(array) for name, array in best.params.items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Candidates | None:
    """The candidates of a checkpoint; None where it has none."""
    if RETURN not in arrays:
        return None
    params = {
        name.removeprefix(POLICY): jnp.asarray(array) for name, array in arrays.items() if name.startswith(POLICY)
    }
    return Candidates(params, arrays[RETURN])
