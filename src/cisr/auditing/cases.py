"""What functions are asked about: everything that a finite model has, else what random play met."""

from __future__ import annotations

import numpy as np

from cisr.auditing.functions import Cases
from cisr.auditing.trials import Trials
from cisr.cmdp.induced import NOWHERE, Induced
from cisr.core.intervention import Intervention, Place
from cisr.core.moves import Move
from cisr.core.seeding import generator


def states_and_moves(trials: Trials) -> tuple[np.ndarray, Move]:
    """States (n, d), and moves."""
    if (model := trials.model) is None:
        return trials.moves.state, trials.moves
    return model.states, Move(model.states[model.target], model.reward, model.terminated, model.action)


def deeds(trials: Trials) -> Cases:
    """States (n, d) with actions (n, ...)."""
    if (model := trials.model) is None:
        return trials.acted
    source, action = (pairs.ravel() for pairs in np.indices((model.n_states, model.n_actions)))
    return model.states[source], action


def rescues(trials: Trials, intervention: Intervention, reset: Place) -> Cases | None:
    """States (n, d) in the trigger set, histories (n, h, d) and uniforms; None where nobody is ever placed."""
    if trials.model is not None and not (world := trials.worlds[intervention.name]).unmodelled:
        return _of_model(world)
    met = list(trials.triggered(intervention, reset.n_history))
    if not met:
        return None
    states, histories = map(np.array, zip(*met, strict=True))
    return states, histories, generator(trials.seed, "uniforms").random((len(met), reset.n_uniforms))


def _of_model(world: Induced) -> Cases | None:
    placed, model = world.put != NOWHERE, world.model
    pairs = np.unique(np.stack([model.source[placed], model.target[placed]], axis=1), axis=0)  # (n, 2)
    return (model.states[pairs[:, 1]], model.states[pairs[:, :1]], np.empty((len(pairs), 0))) if len(pairs) else None
