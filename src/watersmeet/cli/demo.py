"""`watersmeet demo`: the join of three routers, live for a while, then checked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from watersmeet.cli.demonstration.demo import Demo
from watersmeet.cli.demonstration.show_demo import show_demo
from watersmeet.cli.options import DEFAULT_MASTER
from watersmeet.cli.spark_session import spark_session
from watersmeet.cli.terminal.messages import tell, tell_error, waiting
from watersmeet.cli.terminal.spark_log import temporary_log
from watersmeet.cli.terminal.stop_signals import catch_stop
from watersmeet.errors import WatersmeetError


def demo_command(
    seconds: Annotated[int, typer.Option(min=1, help="How long packets come in.")] = 20,
    rate: Annotated[int, typer.Option(min=1, help="Packets a second at each router.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed gives other packets.")] = 1,
) -> None:
    """Join the packets of three routers live for a while, and check the answers with another system."""
    log = temporary_log()
    try:
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="watersmeet-demo-"))
            with waiting("starting Spark"):
                session = stack.enter_context(spark_session(DEFAULT_MASTER, {}, log))
            stop = stack.enter_context(catch_stop())
            holds = show_demo(
                Demo(seconds, rate, seed), session, Path(folder), Console(), until=lambda: bool(stop)
            )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except WatersmeetError as error:
        tell_error(f"{error}\nSpark's own messages are in {log}")
        raise typer.Exit(1) from None
    if stop:
        tell("stopped before the end: there is nothing to check")
    raise typer.Exit(stop.exit_code if stop else 0 if holds else 1)
