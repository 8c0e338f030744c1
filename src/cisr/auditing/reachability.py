"""Which states a student can stand in under an intervention, and the shortest way there.

Any policy: an edge is a move of positive probability, so what this search does not reach no policy can reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cisr.cmdp.induced import NOWHERE, Induced

UNREACHED = -1


@dataclass(frozen=True, eq=False)
class Reach:
    """Breadth-first search of M_i from its start states."""

    depth: np.ndarray  # (n,) fewest steps after which the student can stand there; UNREACHED
    parent: np.ndarray  # (n,) number of the move that leads there on a shortest path; UNREACHED

    def path(self, induced: Induced, state: int) -> list[int]:
        """Numbers of the moves of a shortest path from a start state."""
        moves: list[int] = []
        while self.parent[state] != UNREACHED:
            moves.append(int(self.parent[state]))
            state = int(induced.model.source[moves[-1]])
        return moves[::-1]


def explore(induced: Induced) -> Reach:
    """Where students of M_i can act: states reached with a step of the horizon left, so after at most T − 1."""
    model = induced.model
    depth = np.where(induced.judged.starts, 0, UNREACHED)
    chance = model.start.copy()  # (n,) of the shortest path found; the likeliest one is kept
    parent = np.full(model.n_states, UNREACHED)
    goes_on = induced.lands != NOWHERE
    for steps in range(1, induced.judged.horizon):
        moves = np.flatnonzero(goes_on & (depth[model.source] == steps - 1))
        moves = moves[depth[induced.lands[moves]] == UNREACHED]
        if len(moves) == 0:
            break
        reaches = chance[model.source[moves]] * model.probability[moves]
        moves = moves[np.argsort(reaches, kind="stable")]
        lands = induced.lands[moves]
        parent[lands] = moves  # of several moves to a state the last, likeliest one stays
        chance[lands] = np.sort(reaches)
        depth[lands] = steps
    return Reach(depth=depth, parent=parent)


def succeeds(induced: Induced) -> bool:
    """Whether some policy comes to a success in M_i, however rarely. A time limit ends an episode as well, so where
    getting to the horizon is a success, states are followed to it."""
    model, judged = induced.model, induced.judged
    good = judged.succeeded & ~induced.failed & ~induced.driven
    ends = good & judged.over
    goes_on = induced.lands != NOWHERE
    stands = judged.starts
    for _ in range(judged.horizon - 1):
        moves = stands[model.source]
        if (ends & moves).any():
            return True
        reached = np.zeros(model.n_states, bool)
        reached[induced.lands[goes_on & moves]] = True
        if (reached == stands).all():
            break
        stands = reached
    return bool((good & stands[model.source] & (judged.over | goes_on)).any())


def failing_moves(induced: Induced, reach: Reach) -> np.ndarray:
    """Numbers of the failures that can happen in M_i, the soonest first, of these the likeliest."""
    model = induced.model
    once = ~induced.driven | (model.action == 0)  # a drive does the same whatever the student's action
    moves = np.flatnonzero(induced.failed & once & (reach.depth[model.source] != UNREACHED))
    return moves[np.lexsort((-model.probability[moves], reach.depth[model.source[moves]]))]
