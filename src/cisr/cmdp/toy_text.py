"""The transition model that Gymnasium's toy-text environments show, in `env.unwrapped.P`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import ObservationWrapper, wrappers

from cisr.cmdp.saving import layers
from cisr.cmdp.time_limits import time_limit
from cisr.core.model import FiniteModel
from cisr.core.timed import Timed


def toy_text_model(env: Any) -> FiniteModel | None:
    """From P[state][action] = [(probability, next state, reward, terminated), …]; a state's vector is [number]."""
    table = getattr(env.unwrapped, "P", None)
    start = getattr(env.unwrapped, "initial_state_distrib", None)
    fickle = getattr(env.unwrapped, "fickle_passenger", False)  # Taxi's passengers change their mind beside the table
    if table is None or start is None or fickle or not _shows_its_core(env):
        return None
    moves = [(state, action, *move) for state, row in table.items() for action, moves in row.items() for move in moves]
    source, action, probability, target, reward, terminated = (np.array(column) for column in zip(*moves, strict=True))
    real = probability > 0
    return FiniteModel(
        states=np.arange(len(table))[:, None],
        n_actions=1 + int(action.max()),
        source=source[real],
        action=action[real],
        probability=probability[real].astype(float),
        target=target[real],
        reward=reward[real].astype(float),
        terminated=terminated[real].astype(bool),
        start=np.array(start, float),
        time_limit=time_limit(env),
    )


def _shows_its_core(env: Any) -> bool:
    """Whether the core's table speaks for all of it: wrappers that leave moves and rewards as they are, and `step` and
    `reset` of Gymnasium's own in each layer, neither overridden by a subclass nor replaced on the object."""
    transparent = (
        ObservationWrapper,
        wrappers.OrderEnforcing,
        wrappers.PassiveEnvChecker,
        wrappers.RecordEpisodeStatistics,
        wrappers.TimeLimit,
    )
    *around, core = layers(env)
    stock = all(_is_stock(layer, name) for layer in (*around, core) for name in ("step", "reset"))
    return stock and all(isinstance(layer, transparent) for layer in around)


def _is_stock(layer: Any, name: str) -> bool:
    """Whether a method is defined by a class of Gymnasium, in code of Gymnasium: `functools.wraps` lends names only."""
    cls = next(base for base in type(layer).__mro__ if name in vars(base))
    method = vars(cls)[name]
    where = getattr(method, "__globals__", {}).get("__name__", "")
    own = vars(layer).get(name)
    looked_at = isinstance(own, Timed) and own.function == method.__get__(layer)
    return (own is None or looked_at) and cls.__module__.startswith("gymnasium.") and where.startswith("gymnasium.")
