"""A Ray cluster of several nodes on this machine, whose nodes can be killed; in a process of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

OBJECT_STORE = 100 * 2**20
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "RAY_gcs_server_port_wait_time_s": "120"}
ATTEMPTS = 10
GONE_WITHIN = 60.0
"""Seconds that the processes of a node have to follow it, on a machine that may be busy."""


Made = TypeVar("Made")


class Nodes:
    """A head without processors, which claims to have some GPUs, and so many nodes with one processor each."""

    def __init__(self, n: int, gpus: int = 0) -> None:
        self._folder = tempfile.mkdtemp(prefix="ray")  # short: names of sockets must be
        self._mark = f"MARK={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(n), str(gpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, name: value, "RAY_TMPDIR": self._folder, **QUIET},
            start_new_session=True,
            text=True,
        )
        self.address = self._answer()
        self._headless = False

    def kill(self, number: int = 0) -> None:
        """The node that has been there for longest, or another."""
        self._do(f"kill {number}")

    def add(self) -> None:
        self._do("add")

    def kill_head(self) -> None:
        self._do("head")
        self._headless = True

    def workers(self) -> list[int]:
        """The worker processes of cisr that are on any of the nodes, living or not."""
        return [pid for pid, words in self._processes().items() if "cisr.training.worker" in words]

    def actors(self) -> list[int]:
        """The processes of Ray that have one of those each."""
        return [pid for pid, words in self._processes().items() if words.startswith("ray::Actor")]

    def without_workers(self) -> bool:
        """Whether there are none, within some time."""
        end = time.monotonic() + GONE_WITHIN
        while self.workers() and time.monotonic() < end:
            time.sleep(0.1)
        return not self.workers()

    def close(self) -> list[str]:
        """Returns what is left of it. Where the head was killed, Ray's own processes live on for as long as Ray likes:
        there only ours count."""
        self._process.communicate("end\n", timeout=60)
        end = time.monotonic() + GONE_WITHIN
        while self._left() and time.monotonic() < end:
            time.sleep(0.1)
        shutil.rmtree(self._folder, ignore_errors=True)
        left = self._left()
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def _left(self) -> list[str]:
        return [words for words in self._processes().values() if not self._headless or "cisr" in words]

    def _do(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():  # Ray prints, too
            if line.startswith("answer: "):
                return line.removeprefix("answer: ").strip()
        raise RuntimeError("the cluster has ended")

    def _processes(self) -> dict[int, str]:
        """All that descends from it, with their command lines: they have our mark in their environment."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    if self._mark.encode() in (folder / "environ").read_bytes():
                        found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    pass
        return found


def persistent(make: Callable[[], Made]) -> Made:
    """A node must have begun within 15 seconds, says Ray, which on a busy machine it may not have."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(Exception):
            return make()
    return make()


def main(n: int, gpus: int) -> None:
    from ray.cluster_utils import Cluster

    node = {"object_store_memory": OBJECT_STORE, "wait": False}
    head = {"num_cpus": 0, "num_gpus": gpus, "include_dashboard": False, "no_monitor": True}
    cluster = persistent(lambda: Cluster(initialize_head=True, head_node_args={**node, **head}))
    nodes: list[object] = []

    def add() -> None:
        nodes.append(persistent(lambda: cluster.add_node(num_cpus=1, **node)))

    for _ in range(n):
        add()
    print(f"answer: {cluster.address}", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                add()
            case ["kill", number]:
                cluster.remove_node(nodes.pop(int(number)), allow_graceful=False)
            case ["head"]:
                cluster.remove_node(cluster.head_node, allow_graceful=False)
            case ["end"]:
                break
        print("answer: done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
