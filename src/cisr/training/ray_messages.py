"""What the main process and the one that speaks with a Ray cluster say to each other."""

from __future__ import annotations

from typing import NamedTuple

from cisr.training.ray_actor import Heard, Surroundings

# From the main process


class Connect(NamedTuple):
    address: str | None
    on_gpus: bool
    surroundings: Surroundings


class Start(NamedTuple):
    worker: int


class Tell(NamedTuple):
    worker: int
    data: bytes


class End(NamedTuple):
    worker: int


class Close(NamedTuple):
    pass


# To the main process


class Capacity(NamedTuple):
    """How many workers the cluster has room for, were it free."""

    workers: int


class FromWorker(NamedTuple):
    worker: int
    heard: Heard


class Gone(NamedTuple):
    """The actor is, and with it the worker: its machine was lost, or is out of reach."""

    worker: int
    reason: str


class Unconnected(NamedTuple):
    """There is no speaking with the cluster."""

    reason: str
