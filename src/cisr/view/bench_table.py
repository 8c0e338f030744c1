"""What a benchmark has measured, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from cisr.experiments.bench.throughput import BASELINES, Throughput
from cisr.view.terminal import plain_table


def throughput_table(found: Throughput) -> Table:
    baselines = [backend for backend in found.rates if backend in BASELINES]
    numbers = ("steps/s", *(f"times {baseline}" for baseline in baselines))
    table = plain_table("Median over turns [lowest, highest]", ["backend"], numbers)
    for backend, rates in found.rates.items():
        ratios = [found.ratios.get(f"{backend}/{baseline}") for baseline in baselines]
        table.add_row(backend, _spread(rates, ",.0f"), *("–" if r is None else _spread(r, ".2f") for r in ratios))
    return table


def what_is_compared(found: Throughput) -> str:
    """The work, who did it where, and what one side had that the others lacked."""
    sizes = ", ".join(f"{backend} {size}" for backend, size in found.batches.items())
    table = (
        " The compiled backend runs the network once for each of this task's finitely many observations, the others "
        "once for each sample: its ratio does not carry over to tasks with other observations."
    )
    plain = (
        " sb3-plain steps the task's own environment, without any intervention." if "sb3-plain" in found.rates else ""
    )
    return (
        f"The same student of {found.task} ({found.scale} scale) under {found.intervention}: environment steps per "
        f"second, with rollouts and updates, without compilation and warm-up; {found.cores} single-threaded processes, "
        f"compiled backend on {found.device}; students in a batch: {sizes}."
        f"{plain}{table if found.tabulated else ''}"
    )


def _spread(numbers: Sequence[float], form: str) -> str:
    return f"{median(numbers):{form}} [{min(numbers):{form}}, {max(numbers):{form}}]"
