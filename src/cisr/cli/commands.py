"""The commands of `cisr`, and where each of them is."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

EARLIER_OPTIONS = {"lane": "backend", "lanes": "backends"}
"""What options were called before 0.2; to be forgotten with the next release."""


class Where(NamedTuple):
    module: str
    summary: str
    """For the list of commands; the command itself says more."""


COMMANDS = {
    "tasks": Where("cisr.cli.listing", "List tasks, their interventions and their kinds of students."),
    "audit": Where("cisr.cli.auditing", "Say what safety each intervention really gives."),
    "train": Where("cisr.cli.training", "Train a teacher, or go on with a study that was stopped."),
    "compare": Where("cisr.cli.comparing", "Compare how fresh students end up under each curriculum."),
    "reproduce": Where("cisr.cli.reproducing", "Reproduce the paper's table and figure."),
    "report": Where("cisr.cli.reporting", "Write the HTML report on a store."),
    "deploy": Where("cisr.cli.deploying", "Deploy the students of a store once more, on any backend."),
    "export": Where("cisr.cli.exporting", "Write what other programs read: tables, logs, students as policies."),
    "watch": Where("cisr.cli.watching", "Show stores on a page that follows a run while it goes on."),
    "check": Where("cisr.cli.reporting", "Say whether a store is whole."),
    "ask": Where("cisr.cli.rigs", "Ask for a student to train elsewhere, on a robot or in another program."),
    "next": Where("cisr.cli.rigs", "Say how a unit of a student elsewhere went, and hear what comes next."),
    "tell": Where("cisr.cli.rigs", "Tell how a student elsewhere did."),
    "bench": Where("cisr.cli.measuring", "Measure how fast students learn on each backend."),
}


class Commands(Mapping[str, Any]):
    """Commands by name. The module of a command is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        module = importlib.import_module(COMMANDS[name].module)
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        one.command(name)(getattr(module, name))
        return typer.main.get_command(one)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """Lists its commands without importing any."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, where.summary) for name, where in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup,
    help="Safe reinforcement learning by curriculum induction: students that stay safe while they learn.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"token_normalize_func": lambda name: EARLIER_OPTIONS.get(name, name)},
)


@app.callback()
def options(debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False) -> None:
    """Every command takes --help."""
