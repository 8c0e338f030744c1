"""The process that speaks with a Ray cluster: starts actors there, and passes on what is said to them and by them.

It is a process of its own, because Ray ends its driver where the head node is lost, and handles signals and prints as
it likes. The main process is left in peace, and says in one line what has happened.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import OutOfMemoryError

from cisr.core.errors import described
from cisr.training.ray_actor import Actor, Died, Heard, Refused
from cisr.training.ray_messages import Capacity, Close, Connect, End, FromWorker, Gone, Start, Tell, Unconnected
from cisr.training.worker import listen, own_channels, tell

OBJECT_STORE = 200 * 2**20
"""Bytes of shared memory on a cluster of our own, for checkpoints on their way; what is larger goes by the disk."""
COUNT_EVERY = 1.0
"""Seconds between looks at how many processors the cluster has."""
PATIENCE = 10.0
"""Seconds that a cluster has to answer at all."""
FAREWELL = 5.0
"""Seconds that actors have to end their worker processes when all is over."""


def main(page: int) -> None:
    inbox, outbox = own_channels()
    _be_silent()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(inbox, messages), daemon=True).start()
    connect: Connect = messages.get()
    try:
        cluster = _Cluster(connect, messages)
    except BaseException as error:
        tell(outbox, Unconnected(described(error).partition("\n")[0]))
        os._exit(1)
    threading.Thread(target=cluster.count, args=(messages,), daemon=True).start()
    while not isinstance(message := messages.get(), Close):
        match message:
            case Start(worker):
                cluster.start(worker)
            case Tell(worker, data):
                cluster.tell(worker, data)
            case End(worker):
                cluster.end(worker)
            case FromWorker(worker, heard):
                tell(outbox, message)
                cluster.heard(worker, heard)
            case Gone(worker):
                cluster.forget(worker)
                tell(outbox, message)
            case _Ended(actor):
                cluster.kill(actor)
            case Capacity():
                tell(outbox, message)
    cluster.close()
    os._exit(0)


class _Ended(NamedTuple):
    """Of this actor, the worker process is."""

    actor: Any


class _Cluster:
    """Actors by number. What is heard of them joins the messages: Ray's own thread, which hears it, must not wait."""

    def __init__(self, connect: Connect, messages: queue.SimpleQueue[Any]) -> None:
        self._messages = messages
        self._actors: dict[int, Any] = {}
        self._resource = "GPU" if connect.on_gpus else "CPU"
        _join_cluster(connect.address)
        self._surroundings = ray.put(connect.surroundings)
        self._new = ray.remote(
            num_cpus=0 if connect.on_gpus else 1,
            num_gpus=1 if connect.on_gpus else 0,
            max_restarts=0,  # a batch is placed anew from its checkpoint, not repeated by Ray
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            concurrency_groups={"hearing": 1, "telling": 1, "ending": 1},
        )(Actor)

    def count(self, messages: queue.SimpleQueue[Any]) -> None:
        """In a thread: without its head node a cluster does not answer."""
        last = None
        while True:
            found = int(ray.cluster_resources().get(self._resource, 0))
            if found != last:
                messages.put(Capacity(found))
            last = found
            time.sleep(COUNT_EVERY)

    def start(self, worker: int) -> None:
        self._actors[worker] = self._new.remote(self._surroundings)
        self._hear(worker)

    def tell(self, worker: int, data: bytes) -> None:
        if worker in self._actors:
            self._actors[worker].tell.options(concurrency_group="telling").remote(data)

    def heard(self, worker: int, heard: Heard) -> None:
        if isinstance(heard, Died | Refused):
            self.forget(worker)
        else:
            self._hear(worker)

    def end(self, worker: int) -> Any:
        """Its worker process first, with all that it has started, then the actor."""
        if (actor := self._actors.pop(worker, None)) is None:
            return None
        ended = actor.end.options(concurrency_group="ending").remote()
        ended.future().add_done_callback(lambda _: self._messages.put(_Ended(actor)))
        return ended

    def kill(self, actor: Any) -> None:
        ray.kill(actor)

    def forget(self, worker: int) -> None:
        """One that is out of reach must not go on, or keep its place."""
        if (actor := self._actors.pop(worker, None)) is not None:
            self.kill(actor)

    def close(self) -> None:
        ended = [self.end(worker) for worker in list(self._actors)]
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=FAREWELL)
        ray.shutdown()

    def _hear(self, worker: int) -> None:
        if worker not in self._actors:
            return
        answer = self._actors[worker].hear.options(concurrency_group="hearing").remote().future()

        def pass_on(done: Any) -> None:
            error = done.exception()
            self._messages.put(FromWorker(worker, done.result()) if error is None else _gone(worker, error))

        answer.add_done_callback(pass_on)


def _join_cluster(address: str | None) -> None:
    """The cluster at an address. Without one: that which RAY_ADDRESS names or which this machine belongs to, and where
    there is none, one on this machine that ends with this process."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    named = address or os.environ.get("RAY_ADDRESS")
    if named is None:
        try:
            _reach(_last_cluster())
            ray.init(address="auto", **quiet)
            return
        except OSError:
            address = "local"
    else:
        _reach(_last_cluster() if named == "auto" else named)
    if address == "local":
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so); as our worker processes have it
        quiet |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
    ray.init(address=address, **quiet)


def _last_cluster() -> str:
    """The address that Ray has noted down on this machine, be that cluster still there or not."""
    note = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir()), "ray", "ray_current_cluster")
    return note.read_text().strip() if note.is_file() else ""


def _reach(address: str) -> None:
    """Complain at once where nobody listens: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), PATIENCE).close()


def _gone(worker: int, error: BaseException) -> FromWorker | Gone:
    """Whatever Ray says of an actor that does not answer. Where it could not even begin, no other will."""
    said = str(error)
    if isinstance(error, OutOfMemoryError):  # Ray ends actors, as systems end processes
        return FromWorker(worker, Died("signal 9"))
    if "No module named 'cisr" in said:
        return FromWorker(
            worker, Refused("cisr is not installed on a machine of the Ray cluster: pip install 'cisr[ray]' on all.")
        )
    return Gone(worker, f"{type(error).__name__}: {said.partition(chr(10))[0]}")


def _be_silent() -> None:
    """Ray's libraries print pages where a node is lost. What matters is said by messages; the rest is in Ray's logs."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
