"""The commands by name; a command's module is loaded when it is called, so `--help` needs no Spark."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Command(NamedTuple):
    """A command, or a group of commands: where it is, and the first sentence of its help."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "run": Command(
        "run",
        "run_command",
        "Run a pipeline file and follow it; stop it with Ctrl-C, resume it with the same command.",
    ),
    "sites": Command(
        "sites.run_sites",
        "sites_command",
        "Run all sites of a pipeline file here, each with a Spark of its own; say what crossed each link.",
    ),
    "serve": Command(
        "serve",
        "serve_command",
        "Run many queries as one; submit and drop change them. Ctrl-C stops it, serve DIR resumes it.",
    ),
    "submit": Command(
        "queries",
        "submit_command",
        "Add queries to a shared dataflow; each sees the tuples that arrive from then on.",
    ),
    "drop": Command(
        "queries", "drop_command", "Remove queries from a shared dataflow, with whatever only they needed."
    ),
    "resume": Command(
        "queries",
        "resume_command",
        "Let queries that have failed go on; the answers that were due since are not made up for.",
    ),
    "list": Command("queries", "list_command", "Show the queries of a shared dataflow."),
    "tail": Command(
        "queries",
        "tail_command",
        "Print the answers of a query as they come, one JSON object per line, until Ctrl-C.",
    ),
    "explain": Command(
        "explain",
        "explain_command",
        "Show how a pipeline file would run: join graph, routing, stages, what is kept and for how long.",
    ),
    "state": Command(
        "state",
        "state_command",
        "Show what a query keeps: live tuples by input and bucket, their bytes, age and frequent values.",
    ),
    "analyze": Command(
        "analyze",
        "analyze_command",
        "Measure rates, sizes and values of the streams from a sample, for run and explain to plan by.",
    ),
    "size": Command(
        "size",
        "size_command",
        "Show the memory a pipeline's state needs for the answers you want; or the partitions.",
    ),
    "demo": Command(
        "demo",
        "demo_command",
        "Join the packets of three routers live for a while, and check the answers with another system.",
    ),
    "bench": Command(
        "bench", "bench_commands", "Benchmarks: speed, batch times and memory, with the answers compared too."
    ),
    "lab": Command(
        "lab", "lab_commands", "The papers' protocols over simulated networks: their figures, run anew."
    ),
}


def list_commands(app: typer.Typer) -> None:
    """Gives the app every command's name and summary."""
    for name, command in COMMANDS.items():
        app.command(name, help=command.summary)(_never_called)


def load_command(name: str) -> Any:
    """The command itself, from its module."""
    command = COMMANDS[name]
    found = getattr(import_module(f"watersmeet.cli.{command.module}"), command.attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        found = alone
    return typer.main.get_command(found)


class LazyGroup(TyperGroup):
    """Replaces a listed command by the command itself when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


def _never_called() -> None:
    raise AssertionError("a listed command is replaced before it is called")
