"""How fast Stable-Baselines3 learns, in processes of its own."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any

from cisr.core.errors import CisrError
from cisr.core.seeding import derive_seed
from cisr.experiments.bench.work import Ready, Work
from cisr.training.process import start_process
from cisr.training.registrations import registrations
from cisr.training.worker import Broken, receive, send


def sb3_rate(work: Work, n_processes: int) -> float:
    """Steps per second of `PPO.learn` in all processes together, after a first update of each."""
    processes = [start_process("cisr.experiments.bench.sb3", JAX_PLATFORMS="cpu") for _ in range(n_processes)]
    try:
        for k, process in enumerate(processes):
            _tell(process, registrations())
            _tell(process, work._replace(seed=derive_seed(work.seed, k)))
        for process in processes:
            _hear(process)
        for process in processes:
            _tell(process, Ready())
        return float(sum(_hear(process) for process in processes))
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _tell(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has died: `_hear` says so
        send(process.stdin, message)


def _hear(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    message = next(receive(process.stdout), Broken("its process died", False, ""))
    if isinstance(message, Broken):
        raise CisrError(f"Stable-Baselines3 cannot be measured: {message.message}")
    return message
