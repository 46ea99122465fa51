"""The command line: arguments into calls, mistakes into one message, outcomes into an exit code.

Exit codes: 0 all went well, 1 what was run has failed, 2 a mistake in the request (SQL, options, the
machine), 3 some queries have failed and others have not, 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from watersmeet.cli.lazy_commands import LazyGroup, list_commands
from watersmeet.cli.terminal.messages import tell_error
from watersmeet.errors import WatersmeetError

__all__ = ["app", "main"]

app = typer.Typer(
    name="watersmeet",
    cls=LazyGroup,
    help="Continuous multi-way window joins over streams, written in SQL, run on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
list_commands(app)


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
