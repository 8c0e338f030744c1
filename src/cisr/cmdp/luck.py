"""Equal luck: episodes that are to be compared are given the same random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def global_randomness(seed: int) -> Iterator[None]:
    """The generators of the whole process from a seed, and back as they were afterwards."""
    kept, kept_numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(kept)
        np.random.set_state(kept_numpy)


@contextmanager
def equal_luck(things: Iterable[Any], seed: int) -> Iterator[None]:
    """The same for the random generators among these things, too."""
    found = [thing for thing in things if isinstance(thing, _KINDS)]
    states = [_state(thing) for thing in found]
    for thing in found:
        if isinstance(thing, random.Random | np.random.RandomState):
            thing.seed(seed)
        else:
            bits = _bits(thing)
            bits.state = type(bits)(seed).state
    try:
        with global_randomness(seed):
            yield
    finally:
        for thing, state in zip(found, states, strict=True):
            _set_state(thing, state)


_KINDS = (random.Random, np.random.RandomState, np.random.Generator, np.random.BitGenerator)


def _bits(thing: Any) -> Any:
    return thing.bit_generator if isinstance(thing, np.random.Generator) else thing


def _state(thing: Any) -> Any:
    if isinstance(thing, random.SystemRandom):
        return None
    if isinstance(thing, random.Random):
        return thing.getstate()
    return thing.get_state() if isinstance(thing, np.random.RandomState) else _bits(thing).state


def _set_state(thing: Any, state: Any) -> None:
    if isinstance(thing, random.SystemRandom):
        return
    if isinstance(thing, random.Random):
        thing.setstate(state)
    elif isinstance(thing, np.random.RandomState):
        thing.set_state(state)
    else:
        _bits(thing).state = state
