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
from cisr.students.normalisation import Statistics
from cisr.students.ppo import Learner
from cisr.training.records import Deployment

POLICY, STATISTICS, RETURN = "candidate/", "candidate statistics/", "candidate return"
"""What checkpoints call a batch's candidates, beside its learners."""


class Candidates(NamedTuple):
    """The best policy of each student so far."""

    params: Params  # stacked over S
    statistics: Statistics  # by which it sees, likewise
    returns: np.ndarray  # (S,) mean return in M_0; −∞ for a student that has broken down before it was tried


def best_of(best: Candidates | None, learners: Learner, evaluations: Sequence[Deployment | None]) -> Candidates | None:
    """The candidates after one more unit, of equal ones the later; None where nobody has been tried yet."""
    if best is None and not any(evaluations):
        return None
    returns = np.array([-np.inf if tried is None else tried.mean_return for tried in evaluations])
    if best is None:
        return Candidates(learners.params, learners.statistics, returns)
    better = returns >= best.returns

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return Candidates(
        params=jax.tree.map(choose, learners.params, best.params),
        statistics=jax.tree.map(choose, learners.statistics, best.statistics),
        returns=np.where(better, returns, best.returns),
    )


def hand_in(learners: Learner, best: Candidates) -> Learner:
    """The learners with their best policies."""
    return learners._replace(params=best.params, statistics=best.statistics)


def to_arrays(best: Candidates | None) -> dict[str, np.ndarray]:
    """Named arrays, for a checkpoint."""
    if best is None:
        return {}
    arrays = {RETURN: best.returns}
    for prefix, part in ((POLICY, best.params), (STATISTICS, best.statistics)):
        arrays |= {prefix + name: np.asarray(array) for name, array in part.items()}
    return arrays


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Candidates | None:
    """The candidates of a checkpoint; None where it has none."""
    if RETURN not in arrays:
        return None

    def part(prefix: str) -> dict[str, jax.Array]:
        return {
            name.removeprefix(prefix): jnp.asarray(array) for name, array in arrays.items() if name.startswith(prefix)
        }

    return Candidates(part(POLICY), part(STATISTICS), arrays[RETURN])
