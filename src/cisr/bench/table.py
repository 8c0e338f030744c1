"""What a benchmark has measured, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from cisr.bench import Throughput


def throughput_table(found: Throughput) -> Table:
    table = Table(title="Median over turns \\[lowest, highest]", title_justify="left")
    for column in ("lane", "steps/s", "times sb3"):
        table.add_column(column, justify="left" if column == "lane" else "right")
    for lane, rates in found.rates.items():
        ratios = found.ratios.get(f"{lane}/sb3")
        table.add_row(lane, _spread(rates, ",.0f"), "–" if ratios is None else _spread(ratios, ".2f"))
    return table


def what_is_compared(found: Throughput) -> str:
    """The work, who did it where, and what one side had that the others lacked."""
    sizes = ", ".join(f"{lane} {size}" for lane, size in found.batches.items())
    table = (
        " The compiled lane runs the network once for each of this task's finitely many observations, the others once "
        "for each sample: its ratio does not carry over to tasks with other observations."
    )
    return (
        f"The same student of {found.task} ({found.scale} scale) under {found.intervention}: environment steps per "
        f"second, with rollouts and updates, without compilation and warm-up; {found.cores} single-threaded processes, "
        f"compiled lane on {found.device}; students in a batch: {sizes}."
        f"{table if found.tabulated else ''}"
    )


def _spread(numbers: Sequence[float], form: str) -> str:
    """The brackets are escaped, as rich would read them as markup."""
    return f"{median(numbers):{form}} \\[{min(numbers):{form}}, {max(numbers):{form}}]"
