"""A worker process: teaches batches for a classroom, one at a time, on one thread.

Messages are length-prefixed pickles on standard input and output; they live in a pipe between two processes of one
program and are never stored. After a checkpoint the worker waits until the classroom has kept it. When the classroom
dies, standard input closes and the worker goes too, if its system has not ended it already (see `process.py`).
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import queue
import signal
import struct
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple, Protocol

import cloudpickle

from cisr.core.errors import CisrError, ConfigError, described, is_out_of_memory
from cisr.students.config import StudentConfig
from cisr.system.loading import loading
from cisr.training.records import Batch, Checkpoint, Event, TrainingSetup
from cisr.training.registrations import Registrations, registrations
from cisr.training.watch import NO_WATCH, SharedWatch, Watch

MOST_GROWTH = 2**28
"""Bytes by which a worker may grow after its first unit. Some simulators never give memory back: Box2D keeps 1.6 kB of
every world that Lunar Lander has reset. Then a new worker takes over, from the checkpoint."""

_LENGTH = struct.Struct("<Q")


class Stream(Protocol):
    def read(self, n: int, /) -> bytes: ...


class Job(NamedTuple):
    """A batch to be taught. On its way to a worker the setup stays behind: it is sent before, and only when it
    changes, so that what a worker has compiled for a setup serves all batches."""

    setup: TrainingSetup | None
    batch: Batch
    checkpoint: Checkpoint | None


class Kept(NamedTuple):
    """The classroom has kept the last checkpoint."""


class Ready(NamedTuple):
    """The worker has started."""


class Grown(NamedTuple):
    """The worker has grown too much and goes; another one is to take over."""


class Broken(NamedTuple):
    """The batch ended with an error that no single student is to blame for."""

    message: str
    users_fault: bool
    details: str


def broken_by(error: BaseException) -> Broken:
    """To be called while the error is handled."""
    return Broken(described(error), isinstance(error, CisrError), traceback.format_exc())


def resident_bytes() -> int:
    """Memory that this process takes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


class Channels(NamedTuple):
    """Where a process hears from the one that started it, and answers."""

    inbox: IO[bytes]
    outbox: IO[bytes]


def own_channels() -> Channels:
    """Standard input and output for messages alone. What environments ask finds nobody who answers, what they print
    goes to standard error, and the processes that they start hold neither: a message that they read would be lost, and
    nobody would hear of the end of this process while one of them lives."""
    inbox = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    outbox = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    unheard, unread = os.pipe()
    os.close(unheard)

    def leave_them() -> None:
        os.dup2(nowhere, inbox.fileno(), inheritable=False)
        os.dup2(unread, outbox.fileno(), inheritable=False)  # a copy of this process that goes on breaks off there

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=leave_them)
    return Channels(inbox, outbox)


def send(stream: IO[bytes], message: Any) -> None:
    """Task and policies may hold lambdas and things from __main__: cloudpickle carries those. Before a setup goes what
    its environments are registered as."""
    if isinstance(message, TrainingSetup):
        _write(stream, registrations())
    _write(stream, message)


def _write(stream: IO[bytes], message: Any) -> None:
    try:
        data = cloudpickle.dumps(message)
    except Exception as error:  # locks, open files, generators
        raise ConfigError(
            f"The task cannot be sent to a worker process: {described(error)}. Make what cannot be pickled inside "
            f"make_env, or train in this process: --workers 0."
        ) from error
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: Stream) -> Iterator[Any]:
    """Messages until the stream ends; one that cannot be read here is Broken."""
    for data in pickles(stream):
        message = loaded(data)
        if isinstance(message, Registrations):
            with loading():
                message.register()
        else:
            yield message


def pickles(stream: Stream) -> Iterator[bytes]:
    """The same messages, for somebody else to load."""
    while len(header := stream.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(header)
        data = stream.read(length)
        if len(data) < length:  # the sender died in the middle of a message
            return
        yield data


def loaded(data: bytes) -> Any:
    try:
        with loading():
            return pickle.loads(data)
    except CisrError as error:  # it says what to do
        return Broken(str(error), True, traceback.format_exc())
    except (Exception, SystemExit) as error:  # the user's own classes may do anything when they are loaded
        what = "What was sent to a worker process cannot be loaded there"
        said = f"{what}: {described(error)}. Mend it, or train in this process: --workers 0."
        return Broken(said, True, traceback.format_exc())


def events_of(job: Job, watch: Watch = NO_WATCH) -> Iterator[Event]:
    assert job.setup is not None
    try:
        backend = importlib.import_module(f"cisr.training.{job.setup.backend}")  # brings in jax: only workers need it
        yield from backend.train(job.setup, job.batch, job.checkpoint, watch)
    except Exception as error:
        if is_out_of_memory(error):  # no student is to blame, and none has failed
            raise CisrError(out_of_memory(job.batch, error)) from error
        raise
    finally:
        watch.rest()


def out_of_memory(batch: Batch, error: Exception) -> str:
    """What was asked, what happened, and how to mend it."""
    n, config = len(batch.students), batch.students[0].config
    shape = str(config)
    if isinstance(config, StudentConfig):
        shape = f"{type(config.network).__name__} networks, {config.n_envs} environments × {config.n_steps} steps each"
    said = textwrap.shorten(str(error) or type(error).__name__, 120, placeholder=" ...").rstrip(".")
    smaller = (
        f"make a new store with smaller batches: --store NEW --batch {n // 2}"
        if n > 1
        else "make a new store with smaller students: fewer n_envs or n_steps, or a smaller network"
    )
    return (
        f"Out of memory with {n} student{'s' * (n > 1)} in a batch ({shape}): {said}. "
        f"Finished units are kept. Free memory and run the same command again, or {smaller}."
    )


def tell_xla(flags: Sequence[str]) -> None:
    """Beside what it is told already. XLA listens once in a process, before JAX has found its devices."""
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()


def main(page: int) -> None:
    """`page` is the descriptor of the memory on which the classroom looks how long environments take."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the classroom decides when to stop
    watch = SharedWatch(page)
    inbox, outbox = own_channels()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(inbox, messages), daemon=True).start()
    tell(outbox, Ready())
    setup: TrainingSetup | Broken | None = None
    at_first: int | None = None  # bytes of memory after the first unit
    while True:
        message = messages.get()
        if isinstance(message, TrainingSetup | Broken):
            setup = message
            if isinstance(setup, TrainingSetup) and setup.backend == "compiled":
                tell_xla(setup.task.training.xla_flags)
            continue
        if isinstance(setup, Broken):
            tell(outbox, setup)
            continue
        try:
            for event in events_of(message._replace(setup=setup), watch):
                tell(outbox, event)
                if isinstance(event, Checkpoint):
                    messages.get()
                    at_first = at_first or resident_bytes()
                    if resident_bytes() - at_first > MOST_GROWTH:
                        tell(outbox, Grown())
                        os._exit(0)
        except BaseException as error:  # whatever it is, it is the user's: nobody else ends a worker by an error
            tell(outbox, broken_by(error))


def tell(outbox: IO[bytes], message: Any) -> None:
    """To the process that started this one, or go."""
    try:
        send(outbox, message)
    except OSError:  # there is nobody to hear it, or an environment has closed what is not its own
        os._exit(1)


def listen(stream: IO[bytes], messages: queue.SimpleQueue[Any]) -> None:
    """To the process that started this one, and go with it."""
    try:
        for message in receive(stream):
            messages.put(message)
    finally:
        os._exit(0)
