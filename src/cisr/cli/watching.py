"""`cisr watch`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from cisr.cli.console import interruptible, out
from cisr.store import Store
from cisr.store.place import real_path
from cisr.view.live.replays import Replays
from cisr.view.live.server import PORT, Server, server_on
from cisr.view.live.site import Site

StoresArgument = Annotated[
    Path, typer.Argument(metavar="STORE", help="A store that train or compare has made, or a folder of them.")
]
HostOption = Annotated[
    str,
    typer.Option(
        help="Where to listen. Anything but this machine itself needs the token in the address that is printed; it is "
        "not encrypted."
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help=f"(default: {PORT}, or one that is free)", show_default=False),
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", help="Your own task of the store, as module:attribute, to replay its students."),
]


def watch(
    store: StoresArgument = Path("runs"),
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    task: TaskOption = None,
    beside_a_run: Annotated[bool, typer.Option("--beside-a-run", hidden=True)] = False,
) -> None:
    """Show a store, or all of a folder, on a page that follows a run while it goes on: progress, curves, the teacher's
    search, errors, replays. It only reads. Ctrl-C ends it."""
    with interruptible("The page is gone; runs and stores are as they were."):
        server = _server(store, host, port, task)
        out.print(server.access.address, soft_wrap=True, highlight=False)
        sys.stdout.flush()
        if beside_a_run:
            threading.Thread(target=_end_with_the_run, daemon=True).start()
        with server:
            server.serve_forever()


def _server(store: Path, host: str, port: int | None, task: str | None) -> Server:
    if not os.path.isdir(store):  # False also for what can be no path
        store = real_path(store)
        Store(store, read_only=True).close()  # complains about what is none
    site = Site(store, Replays(task))
    return server_on(site, host, (PORT, 0) if port is None else (port,))


def _end_with_the_run() -> None:
    """The run holds the other end of standard input for as long as it lives."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)
