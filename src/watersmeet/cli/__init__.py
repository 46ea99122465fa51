"""The command line: arguments into calls, mistakes into one message, outcomes into an exit code.

Exit codes: 0 all went well, 1 a query failed while it ran, 2 a mistake in what was asked (SQL, options, the
machine), 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from watersmeet.cli.analyze import analyze_command
from watersmeet.cli.bench import bench_command
from watersmeet.cli.demo import demo_command
from watersmeet.cli.explain import explain_command
from watersmeet.cli.lab import lab_commands
from watersmeet.cli.queries import drop_command, list_command, submit_command, tail_command
from watersmeet.cli.run import run_command
from watersmeet.cli.serve import serve_command
from watersmeet.cli.size import size_command
from watersmeet.cli.terminal.messages import tell_error
from watersmeet.errors import WatersmeetError

app = typer.Typer(
    name="watersmeet",
    help="Continuous multi-way window joins over streams, written in SQL, run on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("run")(run_command)
app.command("serve")(serve_command)
app.command("submit")(submit_command)
app.command("drop")(drop_command)
app.command("list")(list_command)
app.command("tail")(tail_command)
app.command("explain")(explain_command)
app.command("analyze")(analyze_command)
app.command("size")(size_command)
app.command("demo")(demo_command)
app.command("bench")(bench_command)
app.add_typer(lab_commands, name="lab")


def _show_version(asked: bool) -> None:
    if asked:
        from watersmeet import __version__

        typer.echo(f"watersmeet {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Continuous multi-way window joins over streams, written in SQL, run on Spark."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits with its code."""
    try:
        app(arguments, prog_name="watersmeet")
    except WatersmeetError as error:
        tell_error(error)
        sys.exit(2)
